/* chat_template_run: one run of a template: its values, and what every step of it needs.
 *
 * Owns:     nothing; the struct, its pieces and its digits are chat_template_eval's.
 * Thread:   that of the run.
 * Cost:     a charge is an addition; a piece may grow the list.
 * Not here: instructions (chat_template_eval), filters (chat_filter).
 */
#pragma once

#include "engine/text/chat_template_code.h"
#include "engine/text/chat_template_types.h"

enum {
    EVAL_STACK = 2 * LIMIT_TEMPLATE_DEPTH + 2, /* operands that operators and brackets can hold */
    EVAL_STEP_BYTES = 256,                     /* bytes touched that count as one step */
    EVAL_SPEND_STEPS = 1024,                   /* steps between two calls of turns_spend */
};

enum eval_kind {
    EVAL_UNDEFINED,
    EVAL_NONE,
    EVAL_BOOL,
    EVAL_INTEGER,
    EVAL_STRING,
    EVAL_MESSAGES, /* the list of all messages */
    EVAL_MESSAGE,
};

struct eval_value {
    enum eval_kind kind;
    uint32_t count; /* string: pieces */
    union {
        int64_t integer; /* bool, integer, index of a message */
        size_t first;    /* string: its first piece */
    };
};

struct eval_piece {
    struct slice text;
    bool is_own; /* the template's */
};

struct eval_loop {
    uint32_t variable;
    uint32_t index;
    uint32_t count;
    /* Values of the variables before the loop. As in Jinja, what a round sets ends with it. */
    struct eval_value saved[LIMIT_TEMPLATE_NAMES];
};

struct eval {
    const struct chat_template_program *program;
    const struct chat_template_args *args;
    struct buffer *out;
    struct tokenizer_span *spans;
    size_t span_capacity;
    size_t span_count;
    uint64_t steps;
    uint64_t spent;                        /* of these, given to turns_spend */
    const struct chat_template_code *code; /* the current instruction */
    struct eval_piece *pieces;
    size_t piece_count;
    size_t piece_capacity;
    char *numbers; /* [LIMIT_TEMPLATE_NUMBER_BYTES] digits that pieces point to; never moves */
    size_t number_bytes;
    uint32_t value_count;
    struct eval_value values[EVAL_STACK];
    struct eval_value variables[LIMIT_TEMPLATE_NAMES];
    uint32_t loop_count;
    struct eval_loop loops[LIMIT_TEMPLATE_DEPTH];
};

/* `text` is a constant or the template's, never a message's: it may be shown to a client. */
enum status chat_template_run_fail(const struct eval *eval, int source_line, enum status status,
                                   const char *text);
#define EVAL_FAIL(eval, status, ...)                                                               \
    return chat_template_run_fail((eval), __LINE__, (status), __VA_ARGS__)

/* Counts one step, and one more for each EVAL_STEP_BYTES of `bytes`. LIMIT beyond the bound. */
enum status chat_template_run_charge(struct eval *eval, size_t bytes);
/* Appends a piece to the list. NO_MEMORY. */
enum status chat_template_run_add_piece(struct eval *eval, struct eval_piece piece);
/* Makes a string of one piece, or of none when it is empty. NO_MEMORY. */
enum status chat_template_run_string(struct eval *eval, struct slice text, bool is_own,
                                     struct eval_value *out);
/* Bytes of a string. */
size_t chat_template_run_length(const struct eval *eval, struct eval_value string);
/* Turns a value into the string that is printed or joined: strings stay, other
 * kinds become text. */
enum status chat_template_run_to_string(struct eval *eval, struct eval_value value,
                                        struct eval_value *out);

static inline struct eval_value eval_integer(int64_t integer)
{
    return (struct eval_value){.kind = EVAL_INTEGER, .integer = integer};
}
