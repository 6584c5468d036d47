#include "engine/text/tokenizer_spm.h"

#include <math.h>
#include <stdlib.h>

#include "config/base/limits.h"
#include "config/base/mem.h"
#include "config/base/turns.h"
#include "config/base/utf8.h"
#include "engine/text/tokenizer_index.h"

/* A symbol is what merges work on: a piece, by its id, or a character that is no piece but part of
 * one, by a number from the vocabulary's size on, or SPM_STRANGE, which merges with nothing. */
enum { SPM_STRANGE = UINT32_MAX - 1 };

/* Code points are looked up by their upper and their lower bits. */
enum { SPM_PAGE = 256, SPM_PAGES = 0x110000 / SPM_PAGE };

struct spm_character {
    uint32_t symbol;  /* SPM_STRANGE when no piece has the character */
    bool joins_blank; /* a piece has it before a blank */
};

/* The two symbols that an unused piece is divided into. */
struct spm_division {
    uint32_t id;
    uint32_t left;
    uint32_t right;
};

struct tokenizer_spm {
    const struct vocab *vocab;
    struct spm_character *pages[SPM_PAGES]; /* NULL where all are strange */
    uint32_t symbol_count;
    struct tokenizer_bpe_table merges;
    bool *is_made; /* [vocab] */
    struct spm_division *divisions;
    size_t division_count;
    uint32_t unknown; /* VOCAB_NONE when text must not become it */
    uint32_t byte_ids[256];
    bool has_bytes;
    size_t token_bytes_max;
};

/* --- making one --- */

static enum status create_refuse(const struct gguf *gguf)
{
    static const char *const keys[] = {"tokenizer.ggml.remove_extra_whitespaces",
                                       "tokenizer.ggml.treat_whitespace_as_suffix"};
    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
        bool is_set = false;
        if (gguf_has(gguf, keys[i]))
            TRY(gguf_get_bool(gguf, keys[i], &is_set));
        if (is_set)
            FAIL(STATUS_UNSUPPORTED, "%s is not supported", keys[i]);
    }
    if (gguf_has(gguf, "tokenizer.ggml.precompiled_charsmap"))
        FAIL(STATUS_UNSUPPORTED, "tokenizer.ggml.precompiled_charsmap is not supported");
    return STATUS_OK;
}

/* Reads what stands for characters that are no piece. */
static enum status create_fallback(struct tokenizer_spm *spm, const struct gguf *gguf)
{
    const struct vocab *vocab = spm->vocab;
    spm->unknown = VOCAB_NONE;
    for (int byte = 0; byte < 256; byte++)
        spm->byte_ids[byte] = VOCAB_NONE;
    for (uint32_t id = 0; id < vocab_size(vocab); id++) {
        struct slice bytes = vocab_bytes(vocab, id);
        if (vocab_kind(vocab, id) == VOCAB_BYTE)
            spm->byte_ids[(unsigned char)bytes.bytes[0]] = id;
        if (vocab_kind(vocab, id) == VOCAB_UNKNOWN && spm->unknown == VOCAB_NONE)
            spm->unknown = id;
        if (bytes.length > spm->token_bytes_max)
            spm->token_bytes_max = bytes.length;
    }
    spm->has_bytes = true;
    for (int byte = 0; byte < 256; byte++)
        spm->has_bytes &= spm->byte_ids[byte] != VOCAB_NONE;
    /* An unknown token that is a control token is not used: text must never become one. */
    static const char key[] = "tokenizer.ggml.unknown_token_id";
    uint32_t id;
    if (gguf_has(gguf, key)) {
        TRY(gguf_get_u32(gguf, key, &id));
        /* vocab_create has checked the id */
        spm->unknown = vocab_kind(vocab, id) != VOCAB_CONTROL ? id : VOCAB_NONE;
    }
    if (!spm->has_bytes && spm->unknown == VOCAB_NONE)
        FAIL(STATUS_CORRUPT, "the vocabulary has neither all byte tokens nor an unknown token");
    return STATUS_OK;
}

static struct spm_character create_look_up(const struct tokenizer_spm *spm, uint32_t point)
{
    const struct spm_character *page = spm->pages[point / SPM_PAGE];
    return page != NULL ? page[point % SPM_PAGE] : (struct spm_character){SPM_STRANGE, false};
}

/* Gives the character of a piece its symbol. */
static enum status create_character(struct tokenizer_spm *spm, const struct tokenizer_index *index,
                                    struct slice character, bool joins_blank)
{
    uint32_t point = utf8_decode(character.bytes, character.length);
    struct spm_character **page = &spm->pages[point / SPM_PAGE];
    if (*page == NULL) {
        *page = mem_alloc(SPM_PAGE * sizeof(**page));
        if (*page == NULL)
            FAIL(STATUS_NO_MEMORY, "no memory for the tokenizer");
        for (int i = 0; i < SPM_PAGE; i++)
            (*page)[i] = (struct spm_character){SPM_STRANGE, false};
    }
    struct spm_character *slot = &(*page)[point % SPM_PAGE];
    slot->joins_blank |= joins_blank;
    if (slot->symbol != SPM_STRANGE)
        return STATUS_OK;
    slot->symbol = tokenizer_index_find(index, character);
    if (slot->symbol == VOCAB_NONE)
        slot->symbol = spm->symbol_count++;
    return STATUS_OK;
}

static size_t create_run(struct slice piece, size_t at)
{
    size_t run = utf8_sequence_length(piece.bytes + at, piece.length - at);
    ASSERT(run > 0); /* vocab_create has checked the piece */
    return run;
}

static bool create_is_piece(const struct tokenizer_spm *spm, uint32_t id)
{
    enum vocab_kind kind = vocab_kind(spm->vocab, id);
    return kind == VOCAB_NORMAL || kind == VOCAB_UNUSED;
}

static enum status create_characters(struct tokenizer_spm *spm, const struct tokenizer_index *index)
{
    for (uint32_t id = 0; id < vocab_size(spm->vocab); id++) {
        struct slice piece = vocab_bytes(spm->vocab, id);
        if (!create_is_piece(spm, id))
            continue;
        for (size_t at = 0; at < piece.length;) {
            size_t run = create_run(piece, at);
            bool joins_blank = at + run < piece.length && piece.bytes[at + run] == ' ';
            struct slice character = {piece.bytes + at, run};
            TRY(create_character(spm, index, character, joins_blank));
            at += run;
        }
    }
    return STATUS_OK;
}

/* A way to make a piece of two symbols. */
struct create_way {
    uint32_t left;
    uint32_t right;
    uint32_t merged;
};

/* Returns the symbol of a text, which is a piece or one character; VOCAB_NONE for any other. */
static uint32_t create_symbol(const struct tokenizer_spm *spm, const struct tokenizer_index *index,
                              struct slice text)
{
    if (create_run(text, 0) == text.length)
        return create_look_up(spm, utf8_decode(text.bytes, text.length)).symbol;
    return tokenizer_index_find(index, text);
}

/* Collects each way to divide the piece into two symbols. */
static void create_ways(const struct tokenizer_spm *spm, const struct tokenizer_index *index,
                        uint32_t id, struct buffer *ways)
{
    struct slice piece = vocab_bytes(spm->vocab, id);
    /* Of pieces with the same bytes the first one counts. */
    if (!create_is_piece(spm, id) || tokenizer_index_find(index, piece) != id)
        return;
    for (size_t at = create_run(piece, 0); at < piece.length; at += create_run(piece, at)) {
        struct slice head = {piece.bytes, at};
        struct slice tail = {piece.bytes + at, piece.length - at};
        struct create_way way = {.merged = id};
        way.left = create_symbol(spm, index, head);
        if (way.left == VOCAB_NONE)
            continue;
        way.right = create_symbol(spm, index, tail);
        if (way.right != VOCAB_NONE)
            buffer_append(ways, &way, sizeof(way));
    }
}

/* Ranks are in the order of falling scores; equal scores have equal ranks. A float's bits order
 * like an integer once those of negative numbers are inverted. */
static uint32_t create_rank(float score)
{
    uint32_t bits;
    score = score == 0 ? 0 : score; /* minus zero equals zero */
    memcpy(&bits, &score, sizeof(bits));
    return (bits & 0x80000000u) != 0 ? bits : ~(bits | 0x80000000u);
}

static enum status create_scores(const struct tokenizer_spm *spm, const struct gguf *gguf,
                                 uint32_t *ranks)
{
    static const char key[] = "tokenizer.ggml.scores";
    struct gguf_array scores;
    TRY(gguf_get_array(gguf, key, &scores));
    if (scores.count != vocab_size(spm->vocab))
        FAIL(STATUS_CORRUPT, "%s has %llu entries for %u tokens", key,
             (unsigned long long)scores.count, vocab_size(spm->vocab));
    for (uint32_t id = 0; id < vocab_size(spm->vocab); id++) {
        float score;
        TRY(gguf_array_next_f32(&scores, &score));
        if (isnan(score))
            FAIL(STATUS_CORRUPT, "%s: the score of token %u is not a number", key, id);
        ranks[id] = create_rank(score);
    }
    return STATUS_OK;
}

static enum status create_division(struct tokenizer_spm *spm, const struct create_way *way)
{
    struct spm_division *last =
        spm->division_count > 0 ? &spm->divisions[spm->division_count - 1] : NULL;
    /* SentencePiece takes the way that it came upon last, anywhere in the text. */
    if (last != NULL && last->id == way->merged)
        FAIL(STATUS_UNSUPPORTED, "the unused token %u can be divided in two ways", way->merged);
    struct spm_division *divisions =
        mem_realloc(spm->divisions, (spm->division_count + 1) * sizeof(*divisions));
    if (divisions == NULL)
        FAIL(STATUS_NO_MEMORY, "no memory for the tokenizer");
    spm->divisions = divisions;
    divisions[spm->division_count++] = (struct spm_division){way->merged, way->left, way->right};
    return STATUS_OK;
}

static enum status create_merges(struct tokenizer_spm *spm, const uint32_t *ranks,
                                 const struct buffer *ways)
{
    size_t count = ways->length / sizeof(struct create_way);
    TRY(tokenizer_bpe_table_init(&spm->merges, count));
    for (size_t i = 0; i < count; i++) {
        struct create_way way;
        memcpy(&way, ways->bytes + i * sizeof(way), sizeof(way));
        /* No two ways have the same symbols, because together these are the piece's bytes. */
        TRY(tokenizer_bpe_table_add(&spm->merges, way.left, way.right, ranks[way.merged],
                                    way.merged));
        spm->is_made[way.merged] = true;
        if (vocab_kind(spm->vocab, way.merged) == VOCAB_UNUSED)
            TRY(create_division(spm, &way));
    }
    return STATUS_OK;
}

static enum status create_pieces(struct tokenizer_spm *spm, const struct gguf *gguf)
{
    enum status status = STATUS_OK;
    struct tokenizer_index index = {0};
    struct buffer ways;
    uint32_t size = vocab_size(spm->vocab);
    uint32_t *ranks = mem_zalloc(size, sizeof(*ranks));
    buffer_init(&ways, sizeof(struct create_way) * (size_t)LIMIT_SPM_MERGES);
    spm->is_made = mem_zalloc(size, sizeof(*spm->is_made));
    if (ranks == NULL || spm->is_made == NULL)
        FAIL_OUT(STATUS_NO_MEMORY, "no memory for the tokenizer");
    TRY_OUT(create_scores(spm, gguf, ranks));
    TRY_OUT(tokenizer_index_init(&index, spm->vocab, true));
    spm->symbol_count = size;
    TRY_OUT(create_characters(spm, &index));
    for (uint32_t id = 0; id < size; id++)
        create_ways(spm, &index, id, &ways);
    if (ways.status == STATUS_LIMIT)
        FAIL_OUT(STATUS_CORRUPT, "the vocabulary has more than %d merges", LIMIT_SPM_MERGES);
    TRY_OUT(ways.status);
    TRY_OUT(create_merges(spm, ranks, &ways));
out:
    tokenizer_index_deinit(&index);
    buffer_deinit(&ways);
    mem_free(ranks);
    return status;
}

enum status tokenizer_spm_create(struct tokenizer_spm **out, const struct vocab *vocab,
                                 const struct gguf *gguf)
{
    enum status status = STATUS_OK;
    *out = NULL;
    struct tokenizer_spm *spm = mem_zalloc(1, sizeof(*spm));
    if (spm == NULL)
        FAIL(STATUS_NO_MEMORY, "no memory for the tokenizer");
    spm->vocab = vocab;
    TRY_OUT(create_refuse(gguf));
    TRY_OUT(create_fallback(spm, gguf));
    TRY_OUT(create_pieces(spm, gguf));
    *out = spm;
    spm = NULL;
out:
    tokenizer_spm_destroy(spm);
    return status;
}

void tokenizer_spm_destroy(struct tokenizer_spm *spm)
{
    if (spm == NULL)
        return;
    for (int i = 0; i < SPM_PAGES; i++)
        mem_free(spm->pages[i]);
    tokenizer_bpe_table_deinit(&spm->merges);
    mem_free(spm->is_made);
    mem_free(spm->divisions);
    mem_free(spm);
}

bool tokenizer_spm_makes(const struct tokenizer_spm *spm, uint32_t id)
{
    struct slice bytes = vocab_bytes(spm->vocab, id);
    bool is_character = utf8_sequence_length(bytes.bytes, bytes.length) == bytes.length;
    bool is_unknown = id == spm->unknown && !spm->has_bytes;
    return spm->is_made[id] || is_unknown || (is_character && create_is_piece(spm, id));
}

bool tokenizer_spm_has_bytes(const struct tokenizer_spm *spm)
{
    return spm->has_bytes;
}

/* --- encoding --- */

void tokenizer_spm_work_init(struct tokenizer_spm_work *work, size_t text_length)
{
    *work = (struct tokenizer_spm_work){0};
    tokenizer_cache_init(&work->cache, text_length);
    tokenizer_bpe_scratch_init(&work->scratch);
}

void tokenizer_spm_work_deinit(struct tokenizer_spm_work *work)
{
    tokenizer_bpe_scratch_deinit(&work->scratch);
    tokenizer_cache_deinit(&work->cache);
    mem_free(work->symbols);
    work->symbols = NULL;
}

static enum status encode_reserve(struct tokenizer_spm_work *work, size_t count)
{
    if (count <= work->capacity)
        return STATUS_OK;
    size_t capacity = work->capacity < 64 ? 64 : work->capacity + work->capacity / 2;
    uint32_t *symbols = mem_realloc(work->symbols, capacity * sizeof(*symbols));
    if (symbols == NULL)
        FAIL(STATUS_NO_MEMORY, "no memory to split a text into tokens");
    work->symbols = symbols;
    work->capacity = capacity;
    return STATUS_OK;
}

/* The ids of one text, and where the part at work begins in it. */
struct encode_output {
    const struct tokenizer_spm *spm;
    struct tokenizer_spm_work *work;
    struct slice text;
    uint32_t *ids;
    size_t capacity;
    size_t *count;
};

static enum status encode_over(const struct encode_output *output)
{
    FAIL(STATUS_LIMIT, "more than %zu tokens", output->capacity);
}

static enum status encode_id(struct encode_output *output, uint32_t id)
{
    if (*output->count == output->capacity)
        return encode_over(output);
    output->ids[(*output->count)++] = id;
    output->work->is_behind_unknown = false;
    return STATUS_OK;
}

/* Encodes one character that is no piece. A run of such characters is one unknown token. */
static enum status encode_strange(struct encode_output *output, struct slice character)
{
    const struct tokenizer_spm *spm = output->spm;
    if (spm->has_bytes) {
        for (size_t i = 0; i < character.length; i++)
            TRY(encode_id(output, spm->byte_ids[(unsigned char)character.bytes[i]]));
        return STATUS_OK;
    }
    if (spm->unknown == VOCAB_NONE || output->work->is_behind_unknown)
        return STATUS_OK;
    TRY(encode_id(output, spm->unknown));
    output->work->is_behind_unknown = true;
    return STATUS_OK;
}

static const struct spm_division *encode_division(const struct tokenizer_spm *spm, uint32_t id)
{
    size_t low = 0;
    size_t high = spm->division_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (spm->divisions[middle].id < id)
            low = middle + 1;
        else
            high = middle;
    }
    return low < spm->division_count && spm->divisions[low].id == id ? &spm->divisions[low] : NULL;
}

/* Emits one symbol, which begins at `*at`. An unused piece is divided again, until no part is an
 * unused piece that merges made. */
static enum status encode_symbol(struct encode_output *output, uint32_t symbol, size_t *at)
{
    const struct tokenizer_spm *spm = output->spm;
    uint32_t stack[LIMIT_TOKEN_BYTES]; /* parts to the right; each is at least one byte */
    uint32_t depth = 0;
    for (;;) {
        const struct spm_division *division =
            spm->division_count > 0 ? encode_division(spm, symbol) : NULL;
        if (division != NULL) {
            ASSERT(depth < LIMIT_TOKEN_BYTES);
            stack[depth++] = division->right;
            symbol = division->left;
            continue;
        }
        if (symbol < vocab_size(spm->vocab)) {
            TRY(encode_id(output, symbol));
            *at += vocab_bytes(spm->vocab, symbol).length;
        } else {
            struct slice text = output->text;
            size_t run =
                *at < text.length ? utf8_sequence_length(text.bytes + *at, text.length - *at) : 0;
            bool is_blank = *at >= text.length || text.bytes[*at] == ' ';
            struct slice character = {text.bytes + (is_blank ? 0 : *at), run > 0 ? run : 1};
            TRY(encode_strange(output, is_blank ? SLICE("\xe2\x96\x81") : character));
            *at += character.length;
        }
        if (depth == 0)
            return STATUS_OK;
        symbol = stack[--depth];
    }
}

/* Merges the part [begin, end) of the text, whose symbols are in `work`. It begins one byte before
 * the text (SIZE_MAX) when a blank was put there. */
static enum status encode_part(struct encode_output *output, size_t begin, size_t end, size_t count)
{
    struct tokenizer_spm_work *work = output->work;
    const struct tokenizer_spm *spm = output->spm;
    /* An unknown token depends on what is before it. */
    bool may_keep = spm->has_bytes && begin != SIZE_MAX;
    struct slice part = {output->text.bytes + (may_keep ? begin : 0), may_keep ? end - begin : 0};
    const struct tokenizer_cache_slot *slot = tokenizer_cache_find(&work->cache, part);
    size_t first = *output->count;
    if (slot != NULL) {
        turns_spend(part.length);
        for (size_t i = 0; i < slot->count; i++)
            TRY(encode_id(output, slot->ids[i]));
        return STATUS_OK;
    }
    /* No token is longer than token_bytes_max, so a part that cannot fit is not merged. */
    if (spm->has_bytes && count / spm->token_bytes_max > output->capacity - first)
        return encode_over(output);
    TRY(tokenizer_bpe_merge(&spm->merges, &work->scratch, work->symbols, &count));
    for (size_t i = 0; i < count; i++)
        TRY(encode_symbol(output, work->symbols[i], &begin));
    tokenizer_cache_keep(&work->cache, part, output->ids + first, *output->count - first);
    return STATUS_OK;
}

/* Returns the character at `at`; `*run` is its length, or 1 where the text is not UTF-8. */
static struct spm_character encode_character(const struct tokenizer_spm *spm, struct slice text,
                                             size_t at, size_t *run)
{
    unsigned char byte = (unsigned char)text.bytes[at];
    *run = 1;
    if (byte < 0x80)
        return create_look_up(spm, byte);
    size_t length = utf8_sequence_length(text.bytes + at, text.length - at);
    if (length == 0)
        return (struct spm_character){SPM_STRANGE, false};
    *run = length;
    return create_look_up(spm, utf8_decode(text.bytes + at, length));
}

enum status tokenizer_spm_encode(const struct tokenizer_spm *spm, struct tokenizer_spm_work *work,
                                 struct slice text, uint32_t *ids, size_t capacity, size_t *count)
{
    struct encode_output output = {spm, work, text, ids, capacity, count};
    size_t begin = 0; /* of the part */
    size_t symbols = 0;
    bool may_cut = false; /* a blank that comes now begins a part */
    work->is_behind_unknown = false;
    if (text.length == 0)
        return STATUS_OK;
    TRY(encode_reserve(work, 2));
    if (vocab_adds_blank(spm->vocab)) {
        work->symbols[symbols++] = create_look_up(spm, ' ').symbol;
        begin = SIZE_MAX;
    }
    for (size_t at = 0; at < text.length;) {
        size_t run;
        struct spm_character character = encode_character(spm, text, at, &run);
        bool is_blank = text.bytes[at] == ' ';
        if (is_blank && may_cut) {
            TRY(encode_part(&output, begin, at, symbols));
            begin = at;
            symbols = 0;
        }
        if (symbols == work->capacity)
            TRY(encode_reserve(work, symbols + 1));
        work->symbols[symbols++] = character.symbol;
        may_cut = !is_blank && !character.joins_blank;
        at += run;
    }
    return encode_part(&output, begin, text.length, symbols);
}
