#include "engine/text/chat_template_run.h"

#include <stdio.h>

#include "config/base/mem.h"
#include "config/base/turns.h"

enum status chat_template_run_fail(const struct eval *eval, int source_line, enum status status,
                                   const char *text)
{
    return status_fail(status, __FILE__, source_line, NULL, "chat template, line %u: %s",
                       eval->code->line, text);
}

enum status chat_template_run_charge(struct eval *eval, size_t bytes)
{
    eval->steps += 1 + bytes / EVAL_STEP_BYTES;
    if (eval->steps > LIMIT_TEMPLATE_STEPS)
        EVAL_FAIL(eval, STATUS_LIMIT, "too many steps");
    if (eval->steps - eval->spent >= EVAL_SPEND_STEPS) { /* a step takes about as long as a byte */
        turns_spend((size_t)(eval->steps - eval->spent));
        eval->spent = eval->steps;
    }
    return STATUS_OK;
}

enum status chat_template_run_add_piece(struct eval *eval, struct eval_piece piece)
{
    if (eval->piece_count == eval->piece_capacity) {
        size_t capacity = eval->piece_capacity == 0 ? 256 : eval->piece_capacity * 2;
        struct eval_piece *pieces = mem_realloc(eval->pieces, capacity * sizeof(*pieces));
        if (pieces == NULL)
            EVAL_FAIL(eval, STATUS_NO_MEMORY, "out of memory");
        eval->pieces = pieces;
        eval->piece_capacity = capacity;
    }
    eval->pieces[eval->piece_count++] = piece;
    return STATUS_OK;
}

enum status chat_template_run_string(struct eval *eval, struct slice text, bool is_own,
                                     struct eval_value *out)
{
    *out = (struct eval_value){.kind = EVAL_STRING, .first = eval->piece_count};
    if (text.length == 0)
        return STATUS_OK;
    out->count = 1;
    return chat_template_run_add_piece(eval, (struct eval_piece){text, is_own});
}

size_t chat_template_run_length(const struct eval *eval, struct eval_value string)
{
    size_t length = 0;
    for (uint32_t i = 0; i < string.count; i++)
        length += eval->pieces[string.first + i].text.length;
    return length;
}

enum status chat_template_run_to_string(struct eval *eval, struct eval_value value,
                                        struct eval_value *out)
{
    switch (value.kind) {
    case EVAL_STRING:
        *out = value;
        return STATUS_OK;
    case EVAL_UNDEFINED:
        return chat_template_run_string(eval, (struct slice){NULL, 0}, true, out);
    case EVAL_NONE:
        return chat_template_run_string(eval, SLICE("None"), true, out);
    case EVAL_BOOL:
        return chat_template_run_string(eval, value.integer != 0 ? SLICE("True") : SLICE("False"),
                                        true, out);
    case EVAL_INTEGER:
        break;
    default:
        EVAL_FAIL(eval, STATUS_INVALID, "a list or a message has no text");
    }
    if (eval->numbers == NULL)
        eval->numbers = mem_alloc(LIMIT_TEMPLATE_NUMBER_BYTES);
    if (eval->numbers == NULL)
        EVAL_FAIL(eval, STATUS_NO_MEMORY, "out of memory");
    size_t left = LIMIT_TEMPLATE_NUMBER_BYTES - eval->number_bytes;
    char *digits = eval->numbers + eval->number_bytes;
    int length = snprintf(digits, left, "%lld", (long long)value.integer);
    if (length < 0 || (size_t)length >= left)
        EVAL_FAIL(eval, STATUS_LIMIT, "too many numbers are turned into text");
    eval->number_bytes += (size_t)length;
    return chat_template_run_string(eval, (struct slice){digits, (size_t)length}, true, out);
}
