/* chat_template_probe: finds out what a template takes, by rendering small chats.
 *
 * Owns:     nothing.
 * Thread:   one, at start.
 * Cost:     eight renders.
 * Not here: rendering (chat_template).
 */
#pragma once

#include "engine/text/chat_template.h"

struct chat_template_takes {
    enum chat_template_content content;
    bool needs_content;  /* a message without content must have an empty text */
    bool tools;          /* the name of a tool is in the text */
    bool ignores_system; /* a system message is taken without a fault, and is not in the text */
};

/* A chat that the template refuses counts as one that it does not take. */
void chat_template_probe(const struct chat_template *chat_template, struct slice bos_token,
                         struct slice eos_token, struct chat_template_takes *out);
