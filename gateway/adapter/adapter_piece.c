#include "gateway/adapter/adapter_piece.h"

#include <string.h>

#include "config/base/limits_upstream.h"

static enum status read_logprob(const json_t *value, float *out)
{
    if (!json_is_number(value))
        FAIL(STATUS_PROTOCOL, "a log-probability of the engine is no number");
    const double number = json_number_value(value);
    *out = number < -9999 ? -9999.0F : (float)number;
    return STATUS_OK;
}

/* Copies "bytes" into the storage; they say what "token" cannot: parts of characters. */
static enum status read_numbers(struct adapter_piece *piece, const json_t *numbers,
                                struct slice *out)
{
    const size_t count = json_array_size(numbers);
    char *to = piece->storage + piece->used;
    if (count > sizeof piece->storage - piece->used)
        FAIL(STATUS_PROTOCOL, "a token of the engine is too long");
    for (size_t i = 0; i < count; i++) {
        const json_t *number = json_array_get(numbers, i);
        const json_int_t value = json_is_integer(number) ? json_integer_value(number) : -1;
        if (value < 0 || value > UINT8_MAX)
            FAIL(STATUS_PROTOCOL, "a byte of the engine is no byte");
        to[i] = (char)(unsigned char)value;
    }
    piece->used += count;
    *out = (struct slice){to, count};
    return STATUS_OK;
}

/* Reads {"token":…,"bytes":…,"logprob":…}. */
static enum status read_entry(struct adapter_piece *piece, const json_t *entry, struct slice *bytes,
                              float *logprob)
{
    const json_t *token = json_object_get(entry, "token");
    const json_t *numbers = json_object_get(entry, "bytes");
    if (!json_is_string(token))
        FAIL(STATUS_PROTOCOL, "a token of the engine is no text");
    *bytes = (struct slice){json_string_value(token), json_string_length(token)};
    if (json_is_array(numbers))
        TRY(read_numbers(piece, numbers, bytes));
    return read_logprob(json_object_get(entry, "logprob"), logprob);
}

static enum status read_chat(struct adapter_piece *piece, const json_t *entry)
{
    const json_t *tops = json_object_get(entry, "top_logprobs");
    piece->has_logprob = true;
    TRY(read_entry(piece, entry, &piece->bytes, &piece->logprob));
    for (size_t i = 0; i < json_array_size(tops) && piece->top_count < LIMIT_LOGPROBS; i++) {
        TRY(read_entry(piece, json_array_get(tops, i), &piece->top[piece->top_count].bytes,
                       &piece->top[piece->top_count].logprob));
        piece->top_count++;
    }
    return STATUS_OK;
}

/* Reads place `at` of the parallel arrays. */
static enum status read_text(struct adapter_piece *piece, const struct adapter_pieces *from)
{
    const json_t *token = json_array_get(from->tokens, from->at);
    const char *name;
    json_t *value;
    if (!json_is_string(token))
        FAIL(STATUS_PROTOCOL, "a token of the engine is no text");
    piece->has_logprob = true;
    piece->bytes = (struct slice){json_string_value(token), json_string_length(token)};
    TRY(read_logprob(json_array_get(from->logprobs, from->at), &piece->logprob));
    json_t *tops = json_array_get(from->tops, from->at);
    json_object_foreach(tops, name, value)
    {
        if (piece->top_count == LIMIT_LOGPROBS)
            break;
        piece->top[piece->top_count].bytes = slice_of(name);
        TRY(read_logprob(value, &piece->top[piece->top_count].logprob));
        piece->top_count++;
    }
    return STATUS_OK;
}

enum status adapter_pieces_find(struct adapter_pieces *out, const json_t *choice)
{
    const json_t *logprobs = json_object_get(choice, "logprobs");
    *out = (struct adapter_pieces){.chat = json_object_get(logprobs, "content"),
                                   .tokens = json_object_get(logprobs, "tokens"),
                                   .logprobs = json_object_get(logprobs, "token_logprobs"),
                                   .tops = json_object_get(logprobs, "top_logprobs"),
                                   .ids = json_object_get(choice, "token_ids")};
    const size_t entries =
        json_is_array(out->chat) ? json_array_size(out->chat) : json_array_size(out->tokens);
    const size_t ids = json_array_size(out->ids);
    if (entries > 0 && ids > 0 && entries != ids)
        FAIL(STATUS_PROTOCOL, "the engine's token ids and log-probabilities do not match");
    out->count = entries > 0 ? entries : ids;
    if (out->count > LIMIT_UPSTREAM_EVENT_TOKENS)
        FAIL(STATUS_PROTOCOL, "the engine tells more than %d tokens in one event",
             LIMIT_UPSTREAM_EVENT_TOKENS);
    return STATUS_OK;
}

enum status adapter_pieces_next(struct adapter_pieces *pieces, struct adapter_piece *out)
{
    ASSERT(pieces->at < pieces->count);
    out->has_id = out->has_logprob = false;
    out->id = 0;
    out->logprob = 0;
    out->bytes = (struct slice){0};
    out->top_count = 0;
    out->used = 0;
    const json_t *id = json_array_get(pieces->ids, pieces->at);
    if (id != NULL) {
        const json_int_t number = json_is_integer(id) ? json_integer_value(id) : -1;
        if (number < 0 || number > INT32_MAX)
            FAIL(STATUS_PROTOCOL, "a token id of the engine is none");
        out->has_id = true;
        out->id = (uint32_t)number;
    }
    if (pieces->at < json_array_size(pieces->chat))
        TRY(read_chat(out, json_array_get(pieces->chat, pieces->at)));
    else if (pieces->at < json_array_size(pieces->tokens))
        TRY(read_text(out, pieces));
    pieces->at++;
    return STATUS_OK;
}
