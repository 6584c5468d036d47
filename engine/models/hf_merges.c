#include "engine/models/hf_merges.h"

#include <stdio.h>

#include "config/base/hash.h"
#include "config/base/limits.h"
#include "config/base/limits_files.h"
#include "config/base/mem.h"
#include "config/base/utf8.h"
#include "engine/models/vocab.h"

enum { MERGES_FILLER_BYTES = 16 };

/* Ids by texts: open addressing, at most half full; a slot has an id + 1. */
struct hf_merges_index {
    uint32_t mask;
    uint32_t slots[];
};

static uint32_t *index_slot(const struct hf_merges *merges, struct slice text)
{
    struct hf_merges_index *index = merges->index;
    uint32_t at = (uint32_t)hash_bytes(hash_process_key(), text.bytes, text.length) & index->mask;
    while (index->slots[at] != 0 && !slice_equals(merges->tokens[index->slots[at] - 1], text))
        at = (at + 1) & index->mask;
    return &index->slots[at];
}

bool hf_merges_find(const struct hf_merges *merges, struct slice text, uint32_t *out)
{
    const uint32_t found = *index_slot(merges, text);
    if (found != 0)
        *out = found - 1;
    return found != 0;
}

/* --- tokens --- */

static enum status open_token(struct hf_merges *merges, struct slice text,
                              const struct json_read_value *value, uint32_t *out)
{
    int64_t id;
    if (!json_read_integer(value, &id) || id < 0)
        FAIL(STATUS_CORRUPT, "tokenizer.json: a token has no id");
    /* Each byte of a token may be written as a character of two bytes. */
    if (text.length > 2 * LIMIT_TOKEN_BYTES)
        FAIL(STATUS_LIMIT, "tokenizer.json: token %lld has %zu bytes, the limit is %d",
             (long long)id, text.length, 2 * LIMIT_TOKEN_BYTES);
    if (id >= merges->size)
        FAIL(STATUS_CORRUPT, "tokenizer.json: token %lld, but config.json says %u tokens",
             (long long)id, merges->size);
    *out = (uint32_t)id;
    if (merges->tokens[id].bytes != NULL && !slice_equals(merges->tokens[id], text))
        FAIL(STATUS_CORRUPT, "tokenizer.json: two tokens have the id %lld", (long long)id);
    merges->tokens[id] = text;
    uint32_t *slot = index_slot(merges, text);
    if (*slot != 0 && *slot - 1 != id)
        FAIL(STATUS_CORRUPT, "tokenizer.json: tokens %u and %lld have the same text", *slot - 1,
             (long long)id);
    *slot = (uint32_t)id + 1;
    return STATUS_OK;
}

/* Whether characters that are no token become tokens of their bytes, as in SentencePiece. */
static bool open_has_bytes(const struct json_read *json, uint32_t model)
{
    const struct json_read_value *fallback = json_read_member(json, model, "byte_fallback");
    return fallback != NULL && fallback->kind == JSON_READ_TRUE;
}

static bool open_is_byte(struct slice text)
{
    return text.length == 6 && memcmp(text.bytes, "<0x", 3) == 0 && text.bytes[5] == '>';
}

static enum status open_vocab(struct hf_merges *merges, const struct json_read *json,
                              uint32_t model)
{
    const struct json_read_value *vocab = json_read_member(json, model, "vocab");
    const struct json_read_value *unknown = json_read_member(json, model, "unk_token");
    const bool has_bytes = open_has_bytes(json, model);
    uint32_t id;
    if (vocab == NULL || vocab->kind != JSON_READ_OBJECT)
        FAIL(STATUS_CORRUPT, "tokenizer.json: the model has no object vocab");
    uint32_t at = (uint32_t)(vocab - json->values) + 1;
    for (uint32_t i = 0; i < vocab->count; i++, at = json->values[at + 1].next) {
        const struct slice text = json_read_text(&json->values[at]);
        TRY(open_token(merges, text, &json->values[at + 1], &id));
        merges->kinds[id] = has_bytes && open_is_byte(text) ? VOCAB_BYTE : VOCAB_NORMAL;
    }
    if (unknown != NULL && unknown->kind == JSON_READ_STRING &&
        hf_merges_find(merges, json_read_text(unknown), &id))
        merges->kinds[id] = VOCAB_UNKNOWN;
    return STATUS_OK;
}

/* Flags that change where a token is found in a text. */
static enum status open_flags(const struct json_read *json, uint32_t at, struct slice text)
{
    static const char *const flags[] = {"single_word", "lstrip", "rstrip"};
    for (size_t i = 0; i < sizeof flags / sizeof flags[0]; i++) {
        const struct json_read_value *flag = json_read_member(json, at, flags[i]);
        if (flag != NULL && flag->kind == JSON_READ_TRUE)
            FAIL(STATUS_UNSUPPORTED,
                 "tokenizer.json: added token '%.*s' has %s, which is not "
                 "supported",
                 (int)(text.length < 64 ? text.length : 64), text.bytes, flags[i]);
    }
    return STATUS_OK;
}

static enum status open_added(struct hf_merges *merges, const struct json_read *json,
                              uint32_t added, bool has_bytes)
{
    if (json->values[added].kind != JSON_READ_ARRAY)
        FAIL(STATUS_CORRUPT, "tokenizer.json: added_tokens is no list");
    uint32_t at = added + 1;
    for (uint32_t i = 0; i < json->values[added].count; i++, at = json->values[at].next) {
        const struct json_read_value *content = json_read_member(json, at, "content");
        const struct json_read_value *special = json_read_member(json, at, "special");
        uint32_t id;
        if (content == NULL || content->kind != JSON_READ_STRING || content->length == 0)
            FAIL(STATUS_CORRUPT, "tokenizer.json: an added token has no content");
        const struct slice text = json_read_text(content);
        TRY(open_flags(json, at, text));
        TRY(open_token(merges, text, json_read_member(json, at, "id"), &id));
        const bool is_special = special != NULL && special->kind == JSON_READ_TRUE;
        if (merges->kinds[id] == VOCAB_UNKNOWN)
            continue; /* text becomes it where nothing else fits */
        /* Gemma's runs of U+2581: the library looks for them before it writes a blank so, hence
         * merges make those of blanks. */
        if (!is_special && has_bytes && merges->kinds[id] == VOCAB_NORMAL &&
            memmem(text.bytes, text.length, "\xe2\x96\x81", 3) != NULL)
            continue;
        merges->kinds[id] = is_special ? VOCAB_CONTROL : VOCAB_USER_DEFINED;
    }
    return STATUS_OK;
}

/* Rows of the embeddings beyond the tokens. */
static enum status open_fillers(struct hf_merges *merges)
{
    for (uint32_t id = 0; id < merges->size; id++) {
        char *text = merges->fillers + (size_t)id * MERGES_FILLER_BYTES;
        uint32_t other;
        if (merges->tokens[id].bytes != NULL)
            continue;
        snprintf(text, MERGES_FILLER_BYTES, "[PAD%u]", id);
        if (hf_merges_find(merges, slice_of(text), &other))
            FAIL(STATUS_CORRUPT, "tokenizer.json: there is no token %u, and %s is token %u", id,
                 text, other);
        merges->tokens[id] = slice_of(text);
        merges->kinds[id] = VOCAB_UNUSED;
    }
    return STATUS_OK;
}

static enum status open_all(struct hf_merges *merges, const struct json_read *json, uint32_t model,
                            uint32_t added)
{
    uint32_t slots = 4;
    while (slots < 2 * merges->size)
        slots *= 2;
    merges->tokens = mem_zalloc(merges->size, sizeof *merges->tokens);
    merges->kinds = mem_zalloc(merges->size, sizeof *merges->kinds);
    merges->fillers = mem_zalloc(merges->size, MERGES_FILLER_BYTES);
    merges->index = mem_zalloc(1, sizeof *merges->index + slots * sizeof *merges->index->slots);
    if (merges->tokens == NULL || merges->kinds == NULL || merges->fillers == NULL ||
        merges->index == NULL)
        FAIL(STATUS_NO_MEMORY, "tokenizer.json: no memory for %u tokens", merges->size);
    merges->index->mask = slots - 1;
    TRY(open_vocab(merges, json, model));
    if (added != 0)
        TRY(open_added(merges, json, added, open_has_bytes(json, model)));
    return open_fillers(merges);
}

enum status hf_merges_open(struct hf_merges *out, const struct json_read *json, uint32_t model,
                           uint32_t added, uint32_t size)
{
    *out = (struct hf_merges){.size = size};
    if (size < 1 || size > LIMIT_VOCAB)
        FAIL(STATUS_CORRUPT, "config.json: a vocabulary of %u tokens; 1 to %d are possible", size,
             LIMIT_VOCAB);
    const enum status status = open_all(out, json, model, added);
    if (status != STATUS_OK)
        hf_merges_close(out);
    return status;
}

void hf_merges_close(struct hf_merges *merges)
{
    mem_free(merges->tokens);
    mem_free(merges->kinds);
    mem_free(merges->fillers);
    mem_free(merges->index);
    *merges = (struct hf_merges){0};
}

/* --- merges --- */

/* The merges of the model, from the first one on. */
struct merges_cursor {
    const struct json_read *json;
    uint32_t at;
    uint32_t index;
    uint32_t count;
};

static enum status cursor_begin(struct merges_cursor *cursor, const struct json_read *json,
                                uint32_t model)
{
    const struct json_read_value *list = json_read_member(json, model, "merges");
    if (list == NULL || list->kind != JSON_READ_ARRAY)
        FAIL(STATUS_CORRUPT, "tokenizer.json: the model has no list merges");
    if (list->count > LIMIT_TOKENIZER_MERGES)
        FAIL(STATUS_LIMIT, "tokenizer.json: %u merges, the limit is %d", list->count,
             LIMIT_TOKENIZER_MERGES);
    *cursor = (struct merges_cursor){json, (uint32_t)(list - json->values) + 1, 0, list->count};
    return STATUS_OK;
}

/* Takes the next merge, "left right" or ["left", "right"]. */
static enum status cursor_take(struct merges_cursor *cursor, struct slice parts[static 2])
{
    const struct json_read_value *merge = &cursor->json->values[cursor->at];
    if (merge->kind == JSON_READ_STRING) {
        const char *blank = memchr(merge->bytes, ' ', merge->length);
        const size_t left = blank != NULL ? (size_t)(blank - merge->bytes) : 0;
        parts[0] = (struct slice){merge->bytes, left};
        parts[1] = (struct slice){merge->bytes + left + 1, merge->length - left - (left > 0)};
    } else if (merge->kind == JSON_READ_ARRAY && merge->count == 2 &&
               merge[1].kind == JSON_READ_STRING && merge[2].kind == JSON_READ_STRING) {
        parts[0] = json_read_text(merge + 1);
        parts[1] = json_read_text(merge + 2);
    } else {
        parts[0] = parts[1] = (struct slice){"", 0};
    }
    if (parts[0].length == 0 || parts[1].length == 0)
        FAIL(STATUS_CORRUPT, "tokenizer.json: merge %u is not of two parts", cursor->index);
    cursor->at = merge->next;
    cursor->index++;
    return STATUS_OK;
}

static void write_tokens(const struct hf_merges *merges, struct gguf_keys *keys)
{
    gguf_keys_strings(keys, "tokenizer.ggml.tokens", merges->size);
    for (uint32_t id = 0; id < merges->size; id++)
        gguf_keys_add_string(keys, merges->tokens[id]);
    gguf_keys_i32s(keys, "tokenizer.ggml.token_type", merges->kinds, merges->size);
}

enum status hf_merges_write_bytes(const struct hf_merges *merges, const struct json_read *json,
                                  uint32_t model, struct gguf_keys *keys)
{
    struct merges_cursor cursor;
    struct buffer row;
    enum status status = STATUS_OK;
    TRY(cursor_begin(&cursor, json, model));
    write_tokens(merges, keys);
    gguf_keys_strings(keys, "tokenizer.ggml.merges", cursor.count);
    buffer_init(&row, 4 * LIMIT_TOKEN_BYTES);
    while (cursor.index < cursor.count) {
        struct slice parts[2];
        TRY_OUT(cursor_take(&cursor, parts));
        buffer_clear(&row);
        buffer_append_slice(&row, parts[0]);
        buffer_append_char(&row, ' ');
        buffer_append_slice(&row, parts[1]);
        if (row.status != STATUS_OK)
            FAIL_OUT(STATUS_CORRUPT, "tokenizer.json: merge %u is too long", cursor.index - 1);
        gguf_keys_add_string(keys, buffer_slice(&row));
    }
out:
    buffer_deinit(&row);
    return status;
}

/* --- pieces --- */

/* While scores are made. */
struct pieces {
    const struct hf_merges *merges;
    float *scores;   /* [size] */
    uint32_t *found; /* [size] merges of the piece */
};

static bool pieces_is_normal(const struct pieces *pieces, struct slice text, uint32_t *id)
{
    return hf_merges_find(pieces->merges, text, id) && pieces->merges->kinds[*id] == VOCAB_NORMAL;
}

static enum status pieces_refuse(struct slice piece, const char *what)
{
    FAIL(STATUS_UNSUPPORTED, "tokenizer.json: the merges of piece '%.*s' %s",
         (int)(piece.length < 64 ? piece.length : 64), piece.bytes, what);
}

/* Gives each piece a score by the rank of its merges: the first ones have the highest. */
static enum status pieces_rank(const struct pieces *pieces, struct merges_cursor *cursor)
{
    char joined[2 * LIMIT_TOKEN_BYTES];
    uint32_t last = pieces->merges->size;
    uint32_t rank = 0;
    while (cursor->index < cursor->count) {
        struct slice parts[2];
        uint32_t ids[3];
        TRY(cursor_take(cursor, parts));
        const size_t length = parts[0].length + parts[1].length;
        if (parts[0].length > LIMIT_TOKEN_BYTES || parts[1].length > LIMIT_TOKEN_BYTES)
            FAIL(STATUS_CORRUPT, "tokenizer.json: merge %u is too long", cursor->index - 1);
        memcpy(joined, parts[0].bytes, parts[0].length);
        memcpy(joined + parts[0].length, parts[1].bytes, parts[1].length);
        const struct slice piece = {joined, length};
        if (!hf_merges_find(pieces->merges, parts[0], &ids[0]) ||
            !hf_merges_find(pieces->merges, parts[1], &ids[1]) ||
            !hf_merges_find(pieces->merges, piece, &ids[2]))
            FAIL(STATUS_CORRUPT, "tokenizer.json: merge %u names a token that there is not",
                 cursor->index - 1);
        /* Added tokens are matched before merges, and text never becomes a control token. */
        if (pieces->merges->kinds[ids[0]] != VOCAB_NORMAL ||
            pieces->merges->kinds[ids[1]] != VOCAB_NORMAL ||
            pieces->merges->kinds[ids[2]] != VOCAB_NORMAL)
            continue;
        if (ids[2] != last && pieces->found[ids[2]] > 0)
            return pieces_refuse(piece, "do not follow each other");
        if (ids[2] != last)
            pieces->scores[ids[2]] = -(float)++rank;
        pieces->found[ids[2]]++;
        last = ids[2];
    }
    return STATUS_OK;
}

/* Each way to divide the piece must be a merge: SentencePiece knows no others. */
static enum status pieces_check(const struct pieces *pieces, uint32_t id)
{
    const struct slice piece = pieces->merges->tokens[id];
    uint32_t ways = 0;
    uint32_t other;
    for (size_t at = 0; at < piece.length;) {
        const size_t run = utf8_sequence_length(piece.bytes + at, piece.length - at);
        if (run == 0)
            FAIL(STATUS_CORRUPT, "tokenizer.json: token %u is not UTF-8", id);
        if (run < piece.length &&
            !pieces_is_normal(pieces, (struct slice){piece.bytes + at, run}, &other))
            return pieces_refuse(piece, "need a character that is no piece");
        at += run;
        if (at < piece.length && pieces_is_normal(pieces, (struct slice){piece.bytes, at}, &other))
            ways += pieces_is_normal(pieces, (struct slice){piece.bytes + at, piece.length - at},
                                     &other);
    }
    if (ways != pieces->found[id])
        return pieces_refuse(piece, "are not all ways to divide it");
    return STATUS_OK;
}

static enum status pieces_make(const struct pieces *pieces, struct merges_cursor *cursor)
{
    TRY(pieces_rank(pieces, cursor));
    for (uint32_t id = 0; id < pieces->merges->size; id++)
        if (pieces->merges->kinds[id] == VOCAB_NORMAL)
            TRY(pieces_check(pieces, id));
    return STATUS_OK;
}

enum status hf_merges_write_pieces(const struct hf_merges *merges, const struct json_read *json,
                                   uint32_t model, struct gguf_keys *keys)
{
    struct merges_cursor cursor;
    enum status status = STATUS_OK;
    TRY(cursor_begin(&cursor, json, model));
    const struct pieces pieces = {merges, mem_zalloc(merges->size, sizeof(float)),
                                  mem_zalloc(merges->size, sizeof(uint32_t))};
    if (pieces.scores == NULL || pieces.found == NULL)
        FAIL_OUT(STATUS_NO_MEMORY, "tokenizer.json: no memory for %u scores", merges->size);
    TRY_OUT(pieces_make(&pieces, &cursor));
    write_tokens(merges, keys);
    gguf_keys_f32s(keys, "tokenizer.ggml.scores", pieces.scores, merges->size);
out:
    mem_free(pieces.scores);
    mem_free(pieces.found);
    return status;
}
