/* chat_template_types: the values that a chat template is rendered with, and what comes of it.
 *
 * Owns:     nothing; chat_template_text_free frees a text.
 * Thread:   any.
 * Cost:     –
 * Not here: rendering (chat_template), running a program (chat_template_eval).
 */
#pragma once

#include "config/base/clock.h"
#include "config/base/slice.h"
#include "engine/text/tokenizer.h"

struct chat_message {
    struct slice role;
    struct slice content;
    struct slice json; /* the whole message as a JSON object, in place of the other two, or empty */
};

/* How a template wants the content of a message that is text. */
enum chat_template_content {
    CHAT_TEMPLATE_CONTENT_STRING, /* parts are joined with a newline */
    CHAT_TEMPLATE_CONTENT_ANY,    /* as the client sent it */
    CHAT_TEMPLATE_CONTENT_PARTS,  /* a string becomes a list of one part */
};

/* All of it is a client's text, but for the two tokens. */
struct chat_template_args {
    const struct chat_message *messages;
    size_t message_count;
    enum chat_template_content content;
    bool needs_content; /* a message whose content is null gets an empty text in its place */
    bool add_generation_prompt;
    struct slice tools;     /* JSON, or empty: none */
    struct slice documents; /* JSON, or empty: none */
    struct slice values;    /* a JSON object of more variables (chat_template_kwargs), or empty */
    struct slice bos_token;
    struct slice eos_token;
    const struct clock *clock; /* for dates; NULL: the system's */
};

/* A rendered text. The spans are the template's own bytes, in rising order and joined where they
 * touch: control tokens may be matched only there. */
struct chat_template_text {
    struct buffer bytes;
    struct tokenizer_span *spans;
    size_t span_count;
};
