/* chat_template_types: the values that a chat template is rendered with.
 *
 * Owns:     nothing.
 * Thread:   any.
 * Cost:     –
 * Not here: rendering (chat_template), running a program (chat_template_eval).
 */
#pragma once

#include "config/base/slice.h"
#include "engine/text/tokenizer.h"

struct chat_message {
    struct slice role;
    struct slice content;
};

struct chat_template_args {
    const struct chat_message *messages;
    size_t message_count;
    bool add_generation_prompt;
    struct slice bos_token;
    struct slice eos_token;
};
