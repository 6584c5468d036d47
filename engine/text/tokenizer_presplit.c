#include "engine/text/tokenizer_presplit.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "config/base/limits.h"
#include "config/base/mem.h"

struct tokenizer_presplit_row {
    const char *name;
    const char *pattern;
    const char *parts; /* NULL when the first pattern cuts everything */
    bool ignores_merges;
    bool nfc;
};

static const struct tokenizer_presplit_row TOKENIZER_PRESPLIT_ROWS[] = {
#define PRESPLIT(row_name, ...) {.name = (row_name), __VA_ARGS__},
#include "engine/text/presplits.def"
#undef PRESPLIT
};
enum {
    TOKENIZER_PRESPLIT_COUNT = sizeof(TOKENIZER_PRESPLIT_ROWS) / sizeof(TOKENIZER_PRESPLIT_ROWS[0])
};

struct tokenizer_presplit {
    const struct tokenizer_presplit_row *row;
    pcre2_general_context *memory;
    pcre2_code *pattern;
    pcre2_code *parts; /* NULL when the row has none */
};

/* One pattern's way through one text. */
struct cut_walk {
    const pcre2_code *code;
    struct slice text;
    size_t at;    /* all before it was returned */
    size_t start; /* the match found last, which is at `at` or behind it */
    size_t end;
};

struct tokenizer_presplit_cut {
    const struct tokenizer_presplit *presplit;
    pcre2_match_data *match;
    pcre2_match_context *limits;
    struct cut_walk pieces;
    struct cut_walk parts; /* of the piece returned last by `pieces` */
    uint64_t steps;
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

static enum status create_code(const struct tokenizer_presplit *presplit, const char *pattern,
                               pcre2_code **out)
{
    pcre2_compile_context *options = pcre2_compile_context_create(presplit->memory);
    if (options == NULL)
        FAIL(STATUS_NO_MEMORY, "no memory for the tokenizer");
    int error;
    PCRE2_SIZE offset;
    *out = pcre2_compile((PCRE2_SPTR)pattern, PCRE2_ZERO_TERMINATED,
                         PCRE2_UTF | PCRE2_NEVER_BACKSLASH_C, &error, &offset, options);
    pcre2_compile_context_free(options);
    if (*out == NULL) {
        /* The patterns are constants that compile: only memory can be missing. */
        ASSERT(error == PCRE2_ERROR_HEAP_FAILED);
        FAIL(STATUS_NO_MEMORY, "no memory for the tokenizer");
    }
    /* If the system gives no executable memory, PCRE2's interpreter does the same, slower. */
    (void)pcre2_jit_compile(*out, PCRE2_JIT_COMPLETE);
    return STATUS_OK;
}

enum status tokenizer_presplit_create(struct tokenizer_presplit **out, struct slice name)
{
    enum status status = STATUS_OK;
    const struct tokenizer_presplit_row *row = NULL;
    *out = NULL;
    for (int i = 0; i < TOKENIZER_PRESPLIT_COUNT; i++) {
        if (slice_is(name, TOKENIZER_PRESPLIT_ROWS[i].name))
            row = &TOKENIZER_PRESPLIT_ROWS[i];
    }
    if (row == NULL)
        FAIL(STATUS_UNSUPPORTED, "tokenizer pre-split '%.*s' is not supported",
             (int)(name.length < 64 ? name.length : 64), name.bytes);
    struct tokenizer_presplit *presplit = mem_zalloc(1, sizeof(*presplit));
    if (presplit == NULL)
        FAIL(STATUS_NO_MEMORY, "no memory for the tokenizer");
    presplit->row = row;
    presplit->memory = pcre2_general_context_create(create_allocate, create_free, NULL);
    if (presplit->memory == NULL)
        FAIL_OUT(STATUS_NO_MEMORY, "no memory for the tokenizer");
    TRY_OUT(create_code(presplit, row->pattern, &presplit->pattern));
    if (row->parts != NULL)
        TRY_OUT(create_code(presplit, row->parts, &presplit->parts));
    *out = presplit;
    presplit = NULL;
out:
    tokenizer_presplit_destroy(presplit);
    return status;
}

void tokenizer_presplit_destroy(struct tokenizer_presplit *presplit)
{
    if (presplit == NULL)
        return;
    pcre2_code_free(presplit->pattern);
    pcre2_code_free(presplit->parts);
    pcre2_general_context_free(presplit->memory);
    mem_free(presplit);
}

bool tokenizer_presplit_ignores_merges(const struct tokenizer_presplit *presplit)
{
    return presplit->row->ignores_merges;
}

bool tokenizer_presplit_is_nfc(const struct tokenizer_presplit *presplit)
{
    return presplit->row->nfc;
}

/* --- cutting --- */

enum status tokenizer_presplit_begin(struct tokenizer_presplit_cut **out,
                                     const struct tokenizer_presplit *presplit)
{
    *out = NULL;
    struct tokenizer_presplit_cut *cut = mem_zalloc(1, sizeof(*cut));
    if (cut == NULL)
        FAIL(STATUS_NO_MEMORY, "no memory to encode a text");
    cut->presplit = presplit;
    cut->match = pcre2_match_data_create(1, presplit->memory);
    cut->limits = pcre2_match_context_create(presplit->memory);
    if (cut->match == NULL || cut->limits == NULL) {
        tokenizer_presplit_end(cut);
        FAIL(STATUS_NO_MEMORY, "no memory to encode a text");
    }
    *out = cut;
    return STATUS_OK;
}

void tokenizer_presplit_end(struct tokenizer_presplit_cut *cut)
{
    if (cut == NULL)
        return;
    pcre2_match_data_free(cut->match);
    pcre2_match_context_free(cut->limits);
    mem_free(cut);
}

void tokenizer_presplit_start(struct tokenizer_presplit_cut *cut, struct slice text)
{
    cut->pieces = (struct cut_walk){.code = cut->presplit->pattern, .text = text};
    cut->parts = (struct cut_walk){.code = cut->presplit->parts};
}

uint64_t tokenizer_presplit_steps(const struct tokenizer_presplit_cut *cut)
{
    return cut->steps;
}

/* Finds the match at or behind `at`, or sets one behind the text's last byte. */
static enum status walk_match(struct tokenizer_presplit_cut *cut, struct cut_walk *walk)
{
    size_t left = walk->text.length - walk->at;
    size_t limit = left < (UINT32_MAX - LIMIT_PRESPLIT_BACKTRACKS) / 4
                       ? LIMIT_PRESPLIT_BACKTRACKS + 4 * left
                       : UINT32_MAX;
    (void)pcre2_set_match_limit(cut->limits, (uint32_t)limit);
    int rc = pcre2_match(walk->code, (PCRE2_SPTR)walk->text.bytes, walk->text.length, walk->at,
                         PCRE2_NO_UTF_CHECK, cut->match, cut->limits);
    cut->steps++;
    walk->start = walk->end = walk->text.length;
    if (rc == PCRE2_ERROR_NOMATCH)
        return STATUS_OK;
    if (rc == PCRE2_ERROR_NOMEMORY)
        FAIL(STATUS_NO_MEMORY, "no memory to split %zu bytes into pieces", walk->text.length);
    if (rc < 0)
        FAIL(STATUS_LIMIT, "the text cannot be split into pieces (%d)", rc);
    const PCRE2_SIZE *range = pcre2_get_ovector_pointer(cut->match);
    ASSERT(range[1] > range[0]);
    walk->start = range[0];
    walk->end = range[1];
    return STATUS_OK;
}

/* Returns the text up to the next match, or that match when nothing is before it. */
static enum status walk_next(struct tokenizer_presplit_cut *cut, struct cut_walk *walk,
                             struct slice *piece)
{
    if (walk->at == walk->text.length) {
        *piece = (struct slice){0};
        return STATUS_OK;
    }
    if (walk->at >= walk->end)
        TRY(walk_match(cut, walk));
    size_t end = walk->at < walk->start ? walk->start : walk->end;
    *piece = (struct slice){walk->text.bytes + walk->at, end - walk->at};
    walk->at = end;
    return STATUS_OK;
}

/* Whether the second pattern may match in a piece: rows promise that it does not match ASCII
 * without digits. */
static bool next_has_parts(struct slice piece)
{
    for (size_t i = 0; i < piece.length; i++) {
        unsigned char c = (unsigned char)piece.bytes[i];
        if (c >= 0x80 || (c >= '0' && c <= '9'))
            return true;
    }
    return false;
}

enum status tokenizer_presplit_next(struct tokenizer_presplit_cut *cut, struct slice *piece)
{
    if (cut->parts.at < cut->parts.text.length)
        return walk_next(cut, &cut->parts, piece);
    TRY(walk_next(cut, &cut->pieces, piece));
    if (cut->parts.code == NULL || !next_has_parts(*piece))
        return STATUS_OK;
    cut->parts = (struct cut_walk){.code = cut->parts.code, .text = *piece};
    return walk_next(cut, &cut->parts, piece);
}
