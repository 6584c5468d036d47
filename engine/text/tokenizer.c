#include "engine/text/tokenizer.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#include <stdlib.h>

#include "config/base/hash.h"
#include "config/base/limits.h"
#include "config/base/mem.h"
#include "config/base/turns.h"
#include "config/base/utf8.h"
#include "engine/text/tokenizer_bpe.h"

/* The largest number of backtracks in one match. The patterns of presplits.def need a handful for
 * any text. A pattern that needs more fails instead of taking long. */
enum { TOKENIZER_MATCH_LIMIT = 1000 };

/* Bytes searched for special tokens between two calls of turns_spend. The search costs a sixteenth
 * of merging. */
enum { ENCODE_LOOK_BYTES = 4096 };

static const struct tokenizer_presplit {
    const char *name;
    const char *pattern;
} TOKENIZER_PRESPLITS[] = {
#define PRESPLIT(name, pattern) {name, pattern},
#include "engine/text/presplits.def"
#undef PRESPLIT
};
enum { TOKENIZER_PRESPLIT_COUNT = sizeof(TOKENIZER_PRESPLITS) / sizeof(TOKENIZER_PRESPLITS[0]) };

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
    pcre2_general_context *memory;
    pcre2_match_context *limits;
    pcre2_code *presplit;
    struct tokenizer_bpe_table merges;
    struct tokenizer_specials specials;
    uint32_t byte_ids[256]; /* VOCAB_NONE where the model has no token for the byte */
    size_t token_bytes_max;
    uint32_t longest[256]; /* the bytes of the longest token that begins with this byte */
};

/* --- making one --- */

static void *create_allocate(size_t bytes, void *context)
{
    (void)context;
    return mem_alloc(bytes);
}

static void create_free(void *memory, void *context)
{
    (void)context;
    mem_free(memory);
}

static enum status create_presplit(struct tokenizer *tokenizer, const struct gguf *gguf)
{
    struct slice name;
    TRY(gguf_get_string(gguf, "tokenizer.ggml.pre", &name));
    const char *pattern = NULL;
    for (int i = 0; i < TOKENIZER_PRESPLIT_COUNT; i++) {
        if (slice_is(name, TOKENIZER_PRESPLITS[i].name))
            pattern = TOKENIZER_PRESPLITS[i].pattern;
    }
    if (pattern == NULL)
        FAIL(STATUS_UNSUPPORTED, "tokenizer pre-split '%.*s' is not supported",
             (int)(name.length < 64 ? name.length : 64), name.bytes);
    tokenizer->memory = pcre2_general_context_create(create_allocate, create_free, NULL);
    if (tokenizer->memory == NULL)
        FAIL(STATUS_NO_MEMORY, "no memory for the tokenizer");
    tokenizer->limits = pcre2_match_context_create(tokenizer->memory);
    pcre2_compile_context *options = pcre2_compile_context_create(tokenizer->memory);
    if (tokenizer->limits == NULL || options == NULL) {
        pcre2_compile_context_free(options);
        FAIL(STATUS_NO_MEMORY, "no memory for the tokenizer");
    }
    pcre2_set_match_limit(tokenizer->limits, TOKENIZER_MATCH_LIMIT);
    int error;
    PCRE2_SIZE offset;
    tokenizer->presplit =
        pcre2_compile((PCRE2_SPTR)pattern, PCRE2_ZERO_TERMINATED,
                      PCRE2_UTF | PCRE2_NEVER_BACKSLASH_C, &error, &offset, options);
    pcre2_compile_context_free(options);
    if (tokenizer->presplit == NULL) {
        /* The patterns are constants that compile: only memory can be missing. */
        ASSERT(error == PCRE2_ERROR_HEAP_FAILED);
        FAIL(STATUS_NO_MEMORY, "no memory for the tokenizer");
    }
    /* If the system gives no executable memory, PCRE2's interpreter does the same, slower. */
    (void)pcre2_jit_compile(tokenizer->presplit, PCRE2_JIT_COMPLETE);
    return STATUS_OK;
}

/* Maps bytes to the id of a normal token while the merges are read. */
struct create_index {
    const struct vocab *vocab;
    uint32_t *slots; /* id + 1; 0 = free; at most half full */
    size_t mask;
};

static uint32_t *create_index_slot(const struct create_index *index, struct slice bytes)
{
    size_t at = hash_bytes(hash_process_key(), bytes.bytes, bytes.length) & index->mask;
    while (index->slots[at] != 0 &&
           !slice_equals(vocab_bytes(index->vocab, index->slots[at] - 1), bytes))
        at = (at + 1) & index->mask;
    return &index->slots[at];
}

static enum status create_index_fill(struct create_index *index, const struct vocab *vocab)
{
    index->vocab = vocab;
    index->mask = 1;
    while (index->mask + 1 < 2 * (size_t)vocab_size(vocab))
        index->mask = index->mask * 2 + 1;
    index->slots = mem_zalloc(index->mask + 1, sizeof(*index->slots));
    if (index->slots == NULL)
        FAIL(STATUS_NO_MEMORY, "no memory for the tokenizer");
    for (uint32_t id = 0; id < vocab_size(vocab); id++) {
        /* The alphabet maps one to one, so different normal tokens have different bytes. */
        if (vocab_kind(vocab, id) == VOCAB_NORMAL)
            *create_index_slot(index, vocab_bytes(vocab, id)) = id + 1;
    }
    return STATUS_OK;
}

/* Reads one row "left right" of the merges, in the file's alphabet. */
static enum status create_merge(struct tokenizer *tokenizer, const struct create_index *index,
                                struct slice row, uint32_t rank)
{
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
    uint32_t left_id = *create_index_slot(index, (struct slice){bytes, left});
    uint32_t right_id = *create_index_slot(index, (struct slice){bytes + left, right});
    uint32_t merged_id = *create_index_slot(index, (struct slice){bytes, left + right});
    if (left_id == 0 || right_id == 0 || merged_id == 0)
        FAIL(STATUS_CORRUPT, "merge %u names a token that the vocabulary does not have", rank);
    enum status status =
        tokenizer_bpe_table_add(&tokenizer->merges, left_id - 1, right_id - 1, rank, merged_id - 1);
    if (status == STATUS_EXISTS)
        FAIL(STATUS_CORRUPT, "merge %u appears twice", rank);
    return status;
}

static enum status create_merges(struct tokenizer *tokenizer, const struct gguf *gguf)
{
    enum status status = STATUS_OK;
    struct create_index index = {0};
    struct gguf_array rows;
    TRY(gguf_get_array(gguf, "tokenizer.ggml.merges", &rows));
    if (rows.count > LIMIT_GGUF_ARRAY_ELEMENTS)
        FAIL(STATUS_CORRUPT, "more than %d merges", LIMIT_GGUF_ARRAY_ELEMENTS);
    TRY_OUT(create_index_fill(&index, tokenizer->vocab));
    TRY_OUT(tokenizer_bpe_table_init(&tokenizer->merges, (size_t)rows.count));
    for (uint32_t rank = 0; rank < rows.count; rank++) {
        struct slice row;
        TRY_OUT(gguf_array_next_string(&rows, &row));
        TRY_OUT(create_merge(tokenizer, &index, row, rank));
    }
    for (int byte = 0; byte < 256; byte++) {
        char c = (char)byte;
        uint32_t id = *create_index_slot(&index, (struct slice){&c, 1});
        tokenizer->byte_ids[byte] = id != 0 ? id - 1 : VOCAB_NONE;
    }
out:
    mem_free(index.slots);
    return status;
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
    bool adds_blank = false;
    if (gguf_has(gguf, "tokenizer.ggml.add_space_prefix"))
        TRY_OUT(gguf_get_bool(gguf, "tokenizer.ggml.add_space_prefix", &adds_blank));
    if (adds_blank)
        FAIL_OUT(STATUS_UNSUPPORTED, "tokenizer.ggml.add_space_prefix is not supported");
    TRY_OUT(create_presplit(tokenizer, gguf));
    TRY_OUT(create_merges(tokenizer, gguf));
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
    pcre2_code_free(tokenizer->presplit);
    pcre2_match_context_free(tokenizer->limits);
    pcre2_general_context_free(tokenizer->memory);
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

/* Counts the fewest tokens that can cover the text if each is as long as the longest token with its
 * first byte. It always takes the token that reaches furthest. Bytes without a token are
 * skipped. */
size_t tokenizer_fewest(const struct tokenizer *tokenizer, struct slice text)
{
    size_t fewest = 0;
    size_t kept = 0;    /* bytes so far that have a token */
    size_t covered = 0; /* of these, covered by `fewest` tokens */
    size_t reach = 0;
    for (size_t i = 0; i < text.length; i++) {
        unsigned char byte = (unsigned char)text.bytes[i];
        if (kept + tokenizer->longest[byte] > reach)
            reach = kept + tokenizer->longest[byte];
        if (tokenizer->byte_ids[byte] == VOCAB_NONE)
            continue;
        if (kept == covered) {
            fewest++;
            covered = reach;
        }
        kept++;
    }
    return fewest;
}

/* --- encoding --- */

struct tokenizer_encoding {
    const struct tokenizer *tokenizer;
    pcre2_match_data *match;
    struct tokenizer_bpe_scratch scratch;
    uint32_t *symbols; /* the tokens of one piece, [symbol_capacity] */
    size_t symbol_capacity;
    uint32_t *ids; /* the caller's, [capacity] */
    size_t capacity;
    size_t count;
    uint64_t steps; /* bytes examined, matches and pieces so far, for tests of the cost */
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

/* Encodes one piece by merging. A byte for which the model has no token is skipped before merging,
 * as the reference implementation of byte-level BPE does without an unknown token. The file's
 * unknown token is not used, because it is often a control token, which text must never become. */
static enum status encode_piece(struct tokenizer_encoding *encoding, const char *bytes,
                                size_t length)
{
    const struct tokenizer *tokenizer = encoding->tokenizer;
    encoding->steps += 1 + length;
    TRY(encode_reserve(encoding, length));
    size_t count = 0;
    for (size_t i = 0; i < length; i++) {
        uint32_t id = tokenizer->byte_ids[(unsigned char)bytes[i]];
        if (id != VOCAB_NONE)
            encoding->symbols[count++] = id;
    }
    /* No token is longer than token_bytes_max, so a piece that cannot fit is not merged. */
    if (count / tokenizer->token_bytes_max > encoding->capacity - encoding->count)
        return encode_over(encoding);
    TRY(tokenizer_bpe_merge(&tokenizer->merges, &encoding->scratch, encoding->symbols, &count));
    if (count > encoding->capacity - encoding->count)
        return encode_over(encoding);
    if (count > 0)
        memcpy(encoding->ids + encoding->count, encoding->symbols, count * sizeof(*encoding->ids));
    encoding->count += count;
    return STATUS_OK;
}

/* Finds one match at or after `offset`; `*end` is 0 when there is none. */
static enum status encode_match(struct tokenizer_encoding *encoding, struct slice text,
                                size_t offset, size_t *start, size_t *end)
{
    const struct tokenizer *tokenizer = encoding->tokenizer;
    int rc = pcre2_match(tokenizer->presplit, (PCRE2_SPTR)text.bytes, text.length, offset,
                         PCRE2_NO_UTF_CHECK, encoding->match, tokenizer->limits);
    *end = 0;
    encoding->steps++;
    if (rc == PCRE2_ERROR_NOMATCH)
        return STATUS_OK;
    if (rc == PCRE2_ERROR_NOMEMORY)
        FAIL(STATUS_NO_MEMORY, "no memory to split %zu bytes into pieces", text.length);
    if (rc < 0)
        FAIL(STATUS_LIMIT, "the text cannot be split into pieces (%d)", rc);
    const PCRE2_SIZE *range = pcre2_get_ovector_pointer(encoding->match);
    ASSERT(range[1] > range[0]);
    *start = range[0];
    *end = range[1];
    return STATUS_OK;
}

/* Encodes valid UTF-8 without specials. PCRE2 does not check that it is valid, because a check at
 * each match would be quadratic. */
static enum status encode_valid(struct tokenizer_encoding *encoding, struct slice text)
{
    size_t offset = 0;
    while (offset < text.length) {
        size_t start;
        size_t end;
        TRY(encode_match(encoding, text, offset, &start, &end));
        if (end == 0)
            start = end = text.length;
        if (start > offset)
            TRY(encode_piece(encoding, text.bytes + offset, start - offset));
        if (end > start)
            TRY(encode_piece(encoding, text.bytes + start, end - start));
        offset = end;
    }
    return STATUS_OK;
}

/* Encodes text without specials. Parts of valid UTF-8 are split into pieces. Each run of other
 * bytes is one piece. */
static enum status encode_run(struct tokenizer_encoding *encoding, struct slice text)
{
    size_t at = 0;
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
            TRY(encode_piece(encoding, text.bytes + good, bad - good));
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

static enum status encode_begin(struct tokenizer_encoding *encoding,
                                const struct tokenizer *tokenizer)
{
    encoding->tokenizer = tokenizer;
    tokenizer_bpe_scratch_init(&encoding->scratch);
    encoding->match = pcre2_match_data_create(1, tokenizer->memory);
    if (encoding->match == NULL)
        FAIL(STATUS_NO_MEMORY, "no memory to encode a text");
    return STATUS_OK;
}

static void encode_end(struct tokenizer_encoding *encoding)
{
    pcre2_match_data_free(encoding->match);
    tokenizer_bpe_scratch_deinit(&encoding->scratch);
    mem_free(encoding->symbols);
}

enum status tokenizer_encode(const struct tokenizer *tokenizer, struct slice text,
                             const struct tokenizer_span *spans, size_t span_count, uint32_t *ids,
                             size_t capacity, size_t *count)
{
    encode_check_spans(text, spans, span_count);
    struct tokenizer_encoding encoding = {.ids = ids, .capacity = capacity};
    enum status status = encode_begin(&encoding, tokenizer);
    if (status == STATUS_OK)
        status = encode_text(&encoding, text, spans, span_count);
    *count = status == STATUS_OK ? encoding.count : 0;
    encode_end(&encoding);
    return status;
}
