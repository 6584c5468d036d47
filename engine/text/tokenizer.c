#include "engine/text/tokenizer.h"

#include <stdlib.h>

#include "config/base/limits.h"
#include "config/base/mem.h"
#include "config/base/turns.h"
#include "config/base/utf8.h"
#include "engine/text/tokenizer_bpe.h"
#include "engine/text/tokenizer_cache.h"
#include "engine/text/tokenizer_index.h"
#include "engine/text/tokenizer_nfc.h"
#include "engine/text/tokenizer_presplit.h"
#include "engine/text/tokenizer_spm.h"
#include "engine/text/tokenizer_wordpiece.h"

/* Bytes searched for special tokens between two calls of turns_spend. The search costs a sixteenth
 * of merging. */
enum { ENCODE_LOOK_BYTES = 4096 };

/* Tokens that are matched in text before it is split, sorted by their bytes; those whose first byte
 * is b are at [first[b], first[b + 1]). */
struct tokenizer_specials {
    struct tokenizer_special {
        struct slice bytes;
        uint32_t id;
        bool is_control;
    } * items;
    uint32_t count;
    uint32_t first[257];
};

struct tokenizer {
    const struct vocab *vocab;
    /* At most one of these two; byte-level BPE has neither, but the three behind them. */
    struct tokenizer_spm *spm;
    struct tokenizer_wordpiece *words;
    struct tokenizer_presplit *presplit;
    struct tokenizer_bpe_table merges;
    struct tokenizer_index index;
    bool ignores_merges;
    bool is_nfc;
    struct tokenizer_specials specials;
    uint32_t byte_ids[256]; /* VOCAB_NONE where the model has no token for the byte */
    size_t token_bytes_max;
    uint32_t longest[256]; /* the bytes of the longest token that begins with this byte */
};

/* --- making one --- */

/* Reads one row "left right" of the merges, in the file's alphabet. */
static enum status create_merge(struct tokenizer *tokenizer, struct slice row, uint32_t rank)
{
    const struct tokenizer_index *index = &tokenizer->index;
    char bytes[2 * LIMIT_TOKEN_BYTES];
    size_t left;
    size_t right;
    const char *blank = memchr(row.bytes, ' ', row.length);
    if (blank == NULL)
        FAIL(STATUS_CORRUPT, "merge %u is not of two parts", rank);
    size_t split = (size_t)(blank - row.bytes);
    struct slice parts[2] = {{row.bytes, split}, {blank + 1, row.length - split - 1}};
    if (!vocab_decode(parts[0], bytes, LIMIT_TOKEN_BYTES, &left) ||
        !vocab_decode(parts[1], bytes + left, LIMIT_TOKEN_BYTES, &right) || left == 0 || right == 0)
        FAIL(STATUS_CORRUPT, "merge %u is not of two parts in the byte alphabet", rank);
    uint32_t left_id = tokenizer_index_find(index, (struct slice){bytes, left});
    uint32_t right_id = tokenizer_index_find(index, (struct slice){bytes + left, right});
    uint32_t merged_id = tokenizer_index_find(index, (struct slice){bytes, left + right});
    if (left_id == VOCAB_NONE || right_id == VOCAB_NONE || merged_id == VOCAB_NONE)
        FAIL(STATUS_CORRUPT, "merge %u names a token that the vocabulary does not have", rank);
    enum status status =
        tokenizer_bpe_table_add(&tokenizer->merges, left_id, right_id, rank, merged_id);
    if (status == STATUS_EXISTS)
        FAIL(STATUS_CORRUPT, "merge %u appears twice", rank);
    return status;
}

static enum status create_merges(struct tokenizer *tokenizer, const struct gguf *gguf)
{
    struct gguf_array rows;
    TRY(gguf_get_array(gguf, "tokenizer.ggml.merges", &rows));
    if (rows.count > LIMIT_GGUF_ARRAY_ELEMENTS)
        FAIL(STATUS_CORRUPT, "more than %d merges", LIMIT_GGUF_ARRAY_ELEMENTS);
    TRY(tokenizer_bpe_table_init(&tokenizer->merges, (size_t)rows.count));
    for (uint32_t rank = 0; rank < rows.count; rank++) {
        struct slice row;
        TRY(gguf_array_next_string(&rows, &row));
        TRY(create_merge(tokenizer, row, rank));
    }
    return STATUS_OK;
}

static enum status create_bytes(struct tokenizer *tokenizer, const struct gguf *gguf)
{
    struct slice name;
    TRY(gguf_get_string(gguf, "tokenizer.ggml.pre", &name));
    TRY(tokenizer_presplit_create(&tokenizer->presplit, name));
    tokenizer->ignores_merges = tokenizer_presplit_ignores_merges(tokenizer->presplit);
    tokenizer->is_nfc = tokenizer_presplit_is_nfc(tokenizer->presplit);
    /* The alphabet maps one to one, so different normal tokens have different bytes. */
    TRY(tokenizer_index_init(&tokenizer->index, tokenizer->vocab, false));
    TRY(create_merges(tokenizer, gguf));
    for (int byte = 0; byte < 256; byte++) {
        char c = (char)byte;
        tokenizer->byte_ids[byte] = tokenizer_index_find(&tokenizer->index, (struct slice){&c, 1});
    }
    if (!tokenizer->ignores_merges)
        tokenizer_index_deinit(&tokenizer->index);
    return STATUS_OK;
}

static int create_special_order(const void *left, const void *right)
{
    const struct tokenizer_special *a = left;
    const struct tokenizer_special *b = right;
    size_t shorter = a->bytes.length < b->bytes.length ? a->bytes.length : b->bytes.length;
    int order = memcmp(a->bytes.bytes, b->bytes.bytes, shorter);
    if (order != 0)
        return order;
    return a->bytes.length < b->bytes.length ? -1 : a->bytes.length > b->bytes.length;
}

static bool create_is_special(enum vocab_kind kind)
{
    return kind == VOCAB_CONTROL || kind == VOCAB_USER_DEFINED;
}

static void create_order(struct tokenizer_specials *specials)
{
    qsort(specials->items, specials->count, sizeof(*specials->items), create_special_order);
    uint32_t at = 0;
    for (uint32_t byte = 0; byte < 256; byte++) {
        specials->first[byte] = at;
        while (at < specials->count && (unsigned char)specials->items[at].bytes.bytes[0] == byte)
            at++;
    }
    specials->first[256] = at;
}

static enum status create_specials(struct tokenizer *tokenizer)
{
    struct tokenizer_specials *specials = &tokenizer->specials;
    const struct vocab *vocab = tokenizer->vocab;
    uint32_t count = 0;
    for (uint32_t id = 0; id < vocab_size(vocab); id++) {
        size_t length = vocab_bytes(vocab, id).length;
        if (length > tokenizer->token_bytes_max)
            tokenizer->token_bytes_max = length;
        uint32_t *longest = &tokenizer->longest[(unsigned char)vocab_bytes(vocab, id).bytes[0]];
        *longest = length > *longest ? (uint32_t)length : *longest;
        if (vocab_kind(vocab, id) == VOCAB_BYTE) {
            unsigned char byte = (unsigned char)vocab_bytes(vocab, id).bytes[0];
            if (tokenizer->byte_ids[byte] == VOCAB_NONE)
                tokenizer->byte_ids[byte] = id;
        }
        count += create_is_special(vocab_kind(vocab, id));
    }
    specials->items = mem_alloc((count + 1) * sizeof(*specials->items));
    if (specials->items == NULL)
        FAIL(STATUS_NO_MEMORY, "no memory for the tokenizer");
    for (uint32_t id = 0; id < vocab_size(vocab); id++) {
        enum vocab_kind kind = vocab_kind(vocab, id);
        if (create_is_special(kind))
            specials->items[specials->count++] =
                (struct tokenizer_special){vocab_bytes(vocab, id), id, kind == VOCAB_CONTROL};
    }
    create_order(specials);
    return STATUS_OK;
}

enum status tokenizer_create(struct tokenizer **out, const struct vocab *vocab,
                             const struct gguf *gguf)
{
    enum status status = STATUS_OK;
    *out = NULL;
    struct tokenizer *tokenizer = mem_zalloc(1, sizeof(*tokenizer));
    if (tokenizer == NULL)
        FAIL(STATUS_NO_MEMORY, "no memory for the tokenizer");
    tokenizer->vocab = vocab;
    for (int byte = 0; byte < 256; byte++)
        tokenizer->byte_ids[byte] = VOCAB_NONE;
    if (vocab_model(vocab) == VOCAB_MODEL_PIECES)
        TRY_OUT(tokenizer_spm_create(&tokenizer->spm, vocab, gguf));
    else if (vocab_model(vocab) == VOCAB_MODEL_WORDS)
        TRY_OUT(tokenizer_wordpiece_create(&tokenizer->words, vocab, gguf));
    else
        TRY_OUT(create_bytes(tokenizer, gguf));
    TRY_OUT(create_specials(tokenizer));
    *out = tokenizer;
    tokenizer = NULL;
out:
    tokenizer_destroy(tokenizer);
    return status;
}

void tokenizer_destroy(struct tokenizer *tokenizer)
{
    if (tokenizer == NULL)
        return;
    tokenizer_spm_destroy(tokenizer->spm);
    tokenizer_wordpiece_destroy(tokenizer->words);
    tokenizer_presplit_destroy(tokenizer->presplit);
    tokenizer_index_deinit(&tokenizer->index);
    tokenizer_bpe_table_deinit(&tokenizer->merges);
    mem_free(tokenizer->specials.items);
    mem_free(tokenizer);
}

/* --- marks --- */

static bool mark_is_plain(unsigned char c)
{
    return c >= 0x80 || (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') ||
           (c >= 'A' && c <= 'Z') || c == ' ' || (c >= '\t' && c <= '\r');
}

/* Public models write marks as <…> and […]. A user-defined mark may be any text with a character
 * that is not plain, except a single character, which text needs. */
static bool mark_has_form(struct slice text, enum vocab_kind kind)
{
    if (text.length < 3)
        return false;
    char first = text.bytes[0];
    char last = text.bytes[text.length - 1];
    if ((first == '<' && last == '>') || (first == '[' && last == ']'))
        return true;
    bool has_sign = false;
    for (size_t i = 0; i < text.length; i++)
        has_sign |= !mark_is_plain((unsigned char)text.bytes[i]);
    return kind == VOCAB_USER_DEFINED && has_sign;
}

/* Whether a token begins or ends a text. Such a token is a mark in any form, except a normal token,
 * which must look like a mark. */
static bool mark_is_edge(const struct vocab *vocab, uint32_t id)
{
    return id == vocab_bos(vocab) || id == vocab_eos(vocab) || vocab_is_end(vocab, id);
}

static bool mark_is_one(const struct vocab *vocab, uint32_t id,
                        bool (*writes)(const void *context, struct slice text), const void *context)
{
    enum vocab_kind kind = vocab_kind(vocab, id);
    struct slice text = vocab_bytes(vocab, id);
    if (kind == VOCAB_CONTROL || kind == VOCAB_BYTE)
        return false; /* control tokens are matched only in spans anyway, and a byte is no mark */
    bool has_form = mark_has_form(text, kind);
    if (mark_is_edge(vocab, id) && (kind != VOCAB_NORMAL || has_form))
        return true;
    return has_form && writes(context, text);
}

static bool mark_is_made(const struct tokenizer *tokenizer, uint32_t id)
{
    if (tokenizer->spm != NULL)
        return tokenizer_spm_makes(tokenizer->spm, id);
    if (tokenizer->words != NULL)
        return vocab_kind(tokenizer->vocab, id) == VOCAB_NORMAL;
    /* A piece that is a token may be taken whole. */
    if (tokenizer->ignores_merges && vocab_kind(tokenizer->vocab, id) == VOCAB_NORMAL)
        return true;
    for (size_t i = 0; i <= tokenizer->merges.mask; i++) {
        const struct tokenizer_bpe_merge *merge = &tokenizer->merges.slots[i];
        if (merge->rank != TOKENIZER_BPE_NONE && merge->merged == id)
            return true;
    }
    return false;
}

/* Adds a mark to the list of specials if it is not there yet. `*room` is the capacity of the
 * list. */
static enum status mark_add(struct tokenizer *tokenizer, uint32_t id, uint32_t *room)
{
    struct tokenizer_specials *specials = &tokenizer->specials;
    struct slice text = vocab_bytes(tokenizer->vocab, id);
    if (mark_is_made(tokenizer, id))
        FAIL(STATUS_CORRUPT,
             "the chat template writes token %u, '%.*s', as a mark, but merges make it from plain "
             "text: a message could write it, too",
             id, (int)(text.length < 64 ? text.length : 64), text.bytes);
    if (specials->count >= *room) {
        uint32_t more = 2 * specials->count + 8;
        struct tokenizer_special *items = mem_realloc(specials->items, more * sizeof(*items));
        if (items == NULL)
            FAIL(STATUS_NO_MEMORY, "no memory for the tokenizer");
        specials->items = items;
        *room = more;
    }
    specials->items[specials->count++] = (struct tokenizer_special){text, id, true};
    return STATUS_OK;
}

enum status tokenizer_take_marks(struct tokenizer *tokenizer,
                                 bool (*writes)(const void *context, struct slice text),
                                 const void *context)
{
    const struct vocab *vocab = tokenizer->vocab;
    struct tokenizer_specials *specials = &tokenizer->specials;
    for (uint32_t i = 0; i < specials->count; i++) {
        struct tokenizer_special *special = &specials->items[i];
        special->is_control |= mark_is_one(vocab, special->id, writes, context);
    }
    uint32_t room = specials->count;
    for (uint32_t id = 0; id < vocab_size(vocab); id++) {
        if (!create_is_special(vocab_kind(vocab, id)) && mark_is_one(vocab, id, writes, context))
            TRY(mark_add(tokenizer, id, &room));
    }
    create_order(specials);
    return STATUS_OK;
}

bool tokenizer_is_mark(const struct tokenizer *tokenizer, uint32_t id)
{
    const struct tokenizer_specials *specials = &tokenizer->specials;
    for (uint32_t i = 0; i < specials->count; i++) {
        if (specials->items[i].id == id)
            return specials->items[i].is_control;
    }
    return false;
}

/* --- bounds of the number of ids --- */

/* Whether U+2581 is at `at`: SentencePiece writes a blank so, and takes both for the same. */
static bool encode_is_blank_mark(struct slice text, size_t at)
{
    return text.length - at >= 3 && memcmp(text.bytes + at, "\xe2\x96\x81", 3) == 0;
}

/* Whether a character may be another one in normal form: it is a mark or has other forms, which
 * nothing below U+0300 has, or the next character may be a mark. */
static bool fewest_may_change(struct slice text, size_t at, size_t end)
{
    static const unsigned char lead = 0xcc; /* of U+0300 */
    return (unsigned char)text.bytes[at] >= lead ||
           (end < text.length && (unsigned char)text.bytes[end] >= lead);
}

/* Counts the fewest tokens that can cover the text if each is as long as the longest token with its
 * first byte. It always takes the token that reaches furthest. Bytes without a token are
 * skipped, and characters that may change before they are merged. */
static size_t fewest_bytes(const struct tokenizer *tokenizer, struct slice text)
{
    size_t fewest = 0;
    size_t kept = 0;    /* bytes so far that have a token */
    size_t covered = 0; /* of these, covered by `fewest` tokens */
    size_t reach = 0;
    size_t end = 0; /* of the character */
    bool may_change = false;
    for (size_t i = 0; i < text.length; i++) {
        unsigned char byte = (unsigned char)text.bytes[i];
        if (tokenizer->is_nfc && i == end) {
            do {
                end++;
            } while (end < text.length && ((unsigned char)text.bytes[end] & 0xc0) == 0x80);
            may_change = fewest_may_change(text, i, end);
        }
        size_t longest = may_change ? tokenizer->token_bytes_max : tokenizer->longest[byte];
        if (kept + longest > reach)
            reach = kept + longest;
        if (may_change || tokenizer->byte_ids[byte] == VOCAB_NONE)
            continue;
        if (kept == covered) {
            fewest++;
            covered = reach;
        }
        kept++;
    }
    return fewest;
}

/* Pieces may begin with a blank that the text does not have, so only their greatest length counts.
 * A U+2581 in the text is one byte in a piece. */
static size_t fewest_pieces(const struct tokenizer *tokenizer, struct slice text)
{
    size_t bytes = 0;
    if (!tokenizer_spm_has_bytes(tokenizer->spm))
        return 0; /* one unknown token stands for any text */
    for (size_t i = 0; i < text.length; bytes++)
        i += encode_is_blank_mark(text, i) ? 3 : 1;
    return bytes / tokenizer->token_bytes_max;
}

size_t tokenizer_fewest(const struct tokenizer *tokenizer, struct slice text)
{
    if (tokenizer->words != NULL)
        return 0; /* one unknown token stands for a word of any length */
    return tokenizer->spm != NULL ? fewest_pieces(tokenizer, text) : fewest_bytes(tokenizer, text);
}

size_t tokenizer_most(const struct tokenizer *tokenizer, struct slice text)
{
    if (tokenizer->is_nfc)
        return TOKENIZER_NFC_GROWTH * text.length;
    if (tokenizer->words != NULL)
        return TOKENIZER_WORDPIECE_GROWTH * text.length;
    return vocab_adds_blank(tokenizer->vocab) ? 2 * text.length : text.length;
}

/* --- encoding --- */

struct tokenizer_encoding {
    const struct tokenizer *tokenizer;
    struct tokenizer_presplit_cut *cut; /* NULL for pieces */
    struct tokenizer_bpe_scratch scratch;
    struct tokenizer_cache cache;
    struct tokenizer_nfc nfc;
    struct tokenizer_spm_work spm;
    struct buffer plain;          /* the text with blanks for U+2581, if it has any */
    struct tokenizer_span *spans; /* of `plain` */
    uint32_t *symbols;            /* the tokens of one piece, [symbol_capacity] */
    size_t symbol_capacity;
    uint32_t *ids; /* the caller's, [capacity] */
    size_t capacity;
    size_t count;
    uint64_t steps; /* bytes examined and pieces so far, for tests of the cost */
};

static enum status encode_over(const struct tokenizer_encoding *encoding)
{
    FAIL(STATUS_LIMIT, "more than %zu tokens", encoding->capacity);
}

static enum status encode_id(struct tokenizer_encoding *encoding, uint32_t id)
{
    if (encoding->count == encoding->capacity)
        return encode_over(encoding);
    encoding->ids[encoding->count++] = id;
    return STATUS_OK;
}

static enum status encode_reserve(struct tokenizer_encoding *encoding, size_t count)
{
    if (count <= encoding->symbol_capacity)
        return STATUS_OK;
    size_t capacity = encoding->symbol_capacity < 64 ? 64 : encoding->symbol_capacity;
    while (capacity < count)
        capacity += capacity / 2;
    mem_free(encoding->symbols);
    encoding->symbol_capacity = 0;
    encoding->symbols = mem_alloc(capacity * sizeof(*encoding->symbols));
    if (encoding->symbols == NULL)
        FAIL(STATUS_NO_MEMORY, "no memory to split %zu bytes into tokens", count);
    encoding->symbol_capacity = capacity;
    return STATUS_OK;
}

static enum status encode_ids(struct tokenizer_encoding *encoding, const uint32_t *ids,
                              size_t count)
{
    if (count > encoding->capacity - encoding->count)
        return encode_over(encoding);
    if (count > 0)
        memcpy(encoding->ids + encoding->count, ids, count * sizeof(*ids));
    encoding->count += count;
    return STATUS_OK;
}

/* Encodes one piece by merging. A byte for which the model has no token is skipped before merging,
 * as the reference implementation of byte-level BPE does without an unknown token. The file's
 * unknown token is not used, because it is often a control token, which text must never become. */
static enum status encode_merge(struct tokenizer_encoding *encoding, struct slice piece,
                                size_t *count)
{
    const struct tokenizer *tokenizer = encoding->tokenizer;
    TRY(encode_reserve(encoding, piece.length));
    *count = 0;
    for (size_t i = 0; i < piece.length; i++) {
        uint32_t id = tokenizer->byte_ids[(unsigned char)piece.bytes[i]];
        if (id != VOCAB_NONE)
            encoding->symbols[(*count)++] = id;
    }
    /* No token is longer than token_bytes_max, so a piece that cannot fit is not merged. */
    if (*count / tokenizer->token_bytes_max > encoding->capacity - encoding->count)
        return encode_over(encoding);
    return tokenizer_bpe_merge(&tokenizer->merges, &encoding->scratch, encoding->symbols, count);
}

static enum status encode_piece(struct tokenizer_encoding *encoding, struct slice piece)
{
    const struct tokenizer *tokenizer = encoding->tokenizer;
    encoding->steps += 1 + piece.length;
    const struct tokenizer_cache_slot *slot = tokenizer_cache_find(&encoding->cache, piece);
    if (slot != NULL) {
        turns_spend(piece.length);
        return encode_ids(encoding, slot->ids, slot->count);
    }
    if (tokenizer->ignores_merges) {
        uint32_t id = tokenizer_index_find(&tokenizer->index, piece);
        if (id != VOCAB_NONE) {
            turns_spend(piece.length);
            tokenizer_cache_keep(&encoding->cache, piece, &id, 1);
            return encode_id(encoding, id);
        }
    }
    size_t count;
    TRY(encode_merge(encoding, piece, &count));
    tokenizer_cache_keep(&encoding->cache, piece, encoding->symbols, count);
    return encode_ids(encoding, encoding->symbols, count);
}

/* Encodes valid UTF-8 without specials. */
static enum status encode_valid(struct tokenizer_encoding *encoding, struct slice text)
{
    struct slice piece;
    if (encoding->tokenizer->is_nfc)
        TRY(tokenizer_nfc_apply(&encoding->nfc, text, &text));
    tokenizer_presplit_start(encoding->cut, text);
    TRY(tokenizer_presplit_next(encoding->cut, &piece));
    while (piece.length > 0) {
        TRY(encode_piece(encoding, piece));
        TRY(tokenizer_presplit_next(encoding->cut, &piece));
    }
    return STATUS_OK;
}

/* Encodes text without specials. Parts of valid UTF-8 are split into pieces. Each run of other
 * bytes is one piece. */
static enum status encode_run(struct tokenizer_encoding *encoding, struct slice text)
{
    size_t at = 0;
    if (encoding->tokenizer->spm != NULL)
        return tokenizer_spm_encode(encoding->tokenizer->spm, &encoding->spm, text, encoding->ids,
                                    encoding->capacity, &encoding->count);
    if (encoding->tokenizer->words != NULL)
        return tokenizer_wordpiece_encode(encoding->tokenizer->words, text, encoding->ids,
                                          encoding->capacity, &encoding->count);
    while (at < text.length) {
        size_t good = at;
        for (size_t run = 1; run > 0 && good < text.length; good += run)
            run = utf8_sequence_length(text.bytes + good, text.length - good);
        if (good > at)
            TRY(encode_valid(encoding, (struct slice){text.bytes + at, good - at}));
        size_t bad = good;
        while (bad < text.length && utf8_sequence_length(text.bytes + bad, text.length - bad) == 0)
            bad++;
        if (bad > good)
            TRY(encode_piece(encoding, (struct slice){text.bytes + good, bad - good}));
        at = bad;
    }
    return STATUS_OK;
}

/* Finds the first of items[low … high) whose byte at `depth` is at least `byte`. All of them are
 * longer than `depth` and agree before it. */
static uint32_t encode_narrow(const struct tokenizer_specials *specials, uint32_t low,
                              uint32_t high, size_t depth, unsigned int byte)
{
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if ((unsigned char)specials->items[middle].bytes.bytes[depth] < byte)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Finds the longest special at `at` that is allowed there; NULL when there is none. User-defined
 * ones are allowed anywhere, control ones only up to `control_end` (equal to `at` when none is
 * allowed). The sorted list is walked like a tree: the items in [low, high) agree so far. */
static const struct tokenizer_special *encode_special(struct tokenizer_encoding *encoding,
                                                      struct slice text, size_t at,
                                                      size_t control_end)
{
    const struct tokenizer_specials *specials = &encoding->tokenizer->specials;
    unsigned int byte = (unsigned char)text.bytes[at];
    uint32_t low = specials->first[byte];
    uint32_t high = specials->first[byte + 1];
    const struct tokenizer_special *best = NULL;
    encoding->steps++;
    for (size_t depth = 1; low < high; depth++) {
        const struct tokenizer_special *shortest = &specials->items[low];
        if (shortest->bytes.length == depth) {
            if (!shortest->is_control || at + depth <= control_end)
                best = shortest;
            low++;
        }
        if (at + depth >= text.length)
            break;
        byte = (unsigned char)text.bytes[at + depth];
        low = encode_narrow(specials, low, high, depth, byte);
        high = encode_narrow(specials, low, high, depth, byte + 1);
        encoding->steps++;
    }
    return best;
}

/* Whether a match that begins outside of a span reaches into a span, over the beginning of a
 * control token there. That token is the template's, and content must not hide it. */
static bool encode_swallows(struct tokenizer_encoding *encoding, struct slice text, size_t at,
                            size_t end, const struct tokenizer_span *span)
{
    size_t span_end = span->offset + span->length;
    for (size_t i = span->offset > at ? span->offset : at + 1; i < end && i < span_end; i++) {
        const struct tokenizer_special *special = encode_special(encoding, text, i, span_end);
        if (special != NULL && special->is_control)
            return true;
    }
    return false;
}

static enum status encode_text(struct tokenizer_encoding *encoding, struct slice text,
                               const struct tokenizer_span *spans, size_t span_count)
{
    size_t done = 0; /* everything before it is encoded */
    size_t span = 0;
    for (size_t at = 0; at < text.length;) {
        while (span < span_count && spans[span].offset + spans[span].length <= at)
            span++;
        bool is_inside = span < span_count && spans[span].offset <= at;
        size_t control_end = is_inside ? spans[span].offset + spans[span].length : at;
        const struct tokenizer_special *special = encode_special(encoding, text, at, control_end);
        if (special != NULL && !special->is_control && !is_inside && span < span_count &&
            encode_swallows(encoding, text, at, at + special->bytes.length, &spans[span]))
            special = NULL;
        if (special == NULL) {
            if (++at % ENCODE_LOOK_BYTES == 0)
                turns_spend(ENCODE_LOOK_BYTES / 16);
            continue;
        }
        TRY(encode_run(encoding, (struct slice){text.bytes + done, at - done}));
        TRY(encode_id(encoding, special->id));
        at += special->bytes.length;
        done = at;
    }
    if (done == text.length)
        return STATUS_OK;
    return encode_run(encoding, (struct slice){text.bytes + done, text.length - done});
}

static void encode_check_spans(struct slice text, const struct tokenizer_span *spans,
                               size_t span_count)
{
    size_t end = 0;
    for (size_t i = 0; i < span_count; i++) {
        ASSERT(spans[i].offset >= end);
        ASSERT(spans[i].offset <= text.length);
        ASSERT(spans[i].length <= text.length - spans[i].offset);
        end = spans[i].offset + spans[i].length;
    }
}

/* Puts a blank in place of each U+2581, and moves the spans along. */
static enum status encode_plain(struct tokenizer_encoding *encoding, struct slice *text,
                                const struct tokenizer_span **spans, size_t span_count)
{
    size_t first = 0;
    while (first < text->length && !encode_is_blank_mark(*text, first))
        first++;
    if (first == text->length)
        return STATUS_OK;
    if (span_count > 0)
        encoding->spans = mem_alloc(span_count * sizeof(*encoding->spans));
    if (span_count > 0 && encoding->spans == NULL)
        FAIL(STATUS_NO_MEMORY, "no memory to encode a text");
    size_t begun = 0; /* spans of which the beginning was passed */
    size_t ended = 0;
    for (size_t at = 0;;) {
        for (; begun < span_count && (*spans)[begun].offset <= at; begun++)
            encoding->spans[begun].offset = encoding->plain.length;
        for (; ended < begun && (*spans)[ended].offset + (*spans)[ended].length <= at; ended++)
            encoding->spans[ended].length = encoding->plain.length - encoding->spans[ended].offset;
        if (at == text->length)
            break;
        bool is_mark = encode_is_blank_mark(*text, at);
        buffer_append(&encoding->plain, is_mark ? " " : text->bytes + at, 1);
        at += is_mark ? 3 : 1;
    }
    *text = buffer_slice(&encoding->plain);
    *spans = encoding->spans;
    return encoding->plain.status;
}

static enum status encode_begin(struct tokenizer_encoding *encoding,
                                const struct tokenizer *tokenizer, size_t text_length)
{
    bool has_pieces = tokenizer->spm != NULL;
    bool has_bytes = !has_pieces && tokenizer->words == NULL;
    encoding->tokenizer = tokenizer;
    tokenizer_bpe_scratch_init(&encoding->scratch);
    tokenizer_nfc_init(&encoding->nfc);
    tokenizer_spm_work_init(&encoding->spm, has_pieces ? text_length : 0);
    tokenizer_cache_init(&encoding->cache, has_bytes ? text_length : 0);
    buffer_init(&encoding->plain, SIZE_MAX / 2);
    if (!has_bytes)
        return STATUS_OK;
    return tokenizer_presplit_begin(&encoding->cut, tokenizer->presplit);
}

static void encode_end(struct tokenizer_encoding *encoding)
{
    tokenizer_presplit_end(encoding->cut);
    tokenizer_bpe_scratch_deinit(&encoding->scratch);
    tokenizer_nfc_deinit(&encoding->nfc);
    tokenizer_spm_work_deinit(&encoding->spm);
    tokenizer_cache_deinit(&encoding->cache);
    buffer_deinit(&encoding->plain);
    mem_free(encoding->spans);
    mem_free(encoding->symbols);
}

/* Encodes one text into the ids of `encoding`. */
static enum status encode_whole(struct tokenizer_encoding *encoding, struct slice text,
                                const struct tokenizer_span *spans, size_t span_count,
                                size_t *count)
{
    enum status status = STATUS_OK;
    if (encoding->tokenizer->spm != NULL)
        status = encode_plain(encoding, &text, &spans, span_count);
    if (status == STATUS_OK)
        status = encode_text(encoding, text, spans, span_count);
    *count = status == STATUS_OK ? encoding->count : 0;
    return status;
}

enum status tokenizer_encode(const struct tokenizer *tokenizer, struct slice text,
                             const struct tokenizer_span *spans, size_t span_count, uint32_t *ids,
                             size_t capacity, size_t *count)
{
    *count = 0;
    encode_check_spans(text, spans, span_count);
    struct tokenizer_encoding encoding = {.ids = ids, .capacity = capacity};
    enum status status = encode_begin(&encoding, tokenizer, text.length);
    if (status == STATUS_OK)
        status = encode_whole(&encoding, text, spans, span_count, count);
    encode_end(&encoding);
    return status;
}

/* --- many texts --- */

struct tokenizer_work {
    struct tokenizer_encoding encoding;
};

enum status tokenizer_work_create(struct tokenizer_work **out, const struct tokenizer *tokenizer)
{
    *out = NULL;
    struct tokenizer_work *work = mem_zalloc(1, sizeof(*work));
    if (work == NULL)
        FAIL(STATUS_NO_MEMORY, "no memory to encode texts");
    enum status status = encode_begin(&work->encoding, tokenizer, 0);
    if (status != STATUS_OK) {
        tokenizer_work_destroy(work);
        return status;
    }
    *out = work;
    return STATUS_OK;
}

void tokenizer_work_destroy(struct tokenizer_work *work)
{
    if (work != NULL)
        encode_end(&work->encoding);
    mem_free(work);
}

enum status tokenizer_work_encode(struct tokenizer_work *work, struct slice text, uint32_t *ids,
                                  size_t capacity, size_t *count)
{
    struct tokenizer_encoding *encoding = &work->encoding;
    encoding->ids = ids;
    encoding->capacity = capacity;
    encoding->count = 0;
    buffer_clear(&encoding->plain);
    return encode_whole(encoding, text, NULL, 0, count);
}
