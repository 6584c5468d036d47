/* The pre-splits: cuts against those of the published libraries, long runs of what is hostile to
 * the published patterns, and PCRE2 without its compiler. Includes the .c file to compile patterns
 * in other ways. */
#include "engine/text/tokenizer_presplit.c"

#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "tests/kit/rounds.h"

static const char *const hostile[] = {
    " ",
    "A",
    "\xe4\xb8\xad", /* Han */
    "\xcc\x81",     /* an acute that stands alone */
    "7",
    "\xca\xb0\x41", /* a letter that is neither capital nor small, and a capital */
    "\n",
    "a",
    " a",
    "\t \n",
    "\r\n",
    "'",
    "'s",
    "\xe3\x80\x80",  /* a wide blank */
    "\xe2\x80\x83 ", /* a blank of two kinds */
    "\xc2\xa3 ",     /* a sign and a blank */
    "A\xcc\x81",
    "aB",
    ".",
    "\xe3\x80\x82\xe3\x80\x80", /* a full stop and a wide blank */
    " \xe3\x80\x80\xc3\xa9",
    "\xe0\xa5\xa7", /* a digit of another script */
};
enum { HOSTILE_COUNT = sizeof hostile / sizeof hostile[0], HOSTILE_TIMES = 200000 };

/* --- the libraries' cuts --- */

static void cut_ends(const struct tokenizer_presplit *presplit, struct slice text, json_t *ends)
{
    struct tokenizer_presplit_cut *cut;
    struct slice piece;
    assert_int_equal(tokenizer_presplit_begin(&cut, presplit), STATUS_OK);
    tokenizer_presplit_start(cut, text);
    size_t at = 0;
    for (;;) {
        assert_int_equal(tokenizer_presplit_next(cut, &piece), STATUS_OK);
        if (piece.length == 0)
            break;
        assert_ptr_equal(piece.bytes, text.bytes + at);
        at += piece.length;
        json_array_append_new(ends, json_integer((json_int_t)at));
    }
    assert_int_equal(at, text.length);
    tokenizer_presplit_end(cut);
}

static void the_libraries_cut_equally(void **state)
{
    (void)state;
    json_t *root = json_load_file("tests/parity/tokenizers/cuts.json", JSON_ALLOW_NUL, NULL);
    assert_non_null(root);
    json_t *texts = json_object_get(root, "texts");
    json_t *rows = json_object_get(root, "ends");
    size_t wrong = 0;
    size_t compared = 0;
    for (int i = 0; i < TOKENIZER_PRESPLIT_COUNT; i++) {
        const char *name = TOKENIZER_PRESPLIT_ROWS[i].name;
        json_t *row = json_object_get(rows, name);
        struct tokenizer_presplit *presplit;
        if (row == NULL)
            fail_msg("no cuts of '%s'", name);
        assert_int_equal(json_array_size(row), json_array_size(texts));
        assert_int_equal(tokenizer_presplit_create(&presplit, slice_of(name)), STATUS_OK);
        for (size_t k = 0; k < json_array_size(texts); k++, compared++) {
            json_t *text = json_array_get(texts, k);
            json_t *got = json_array();
            cut_ends(presplit, (struct slice){json_string_value(text), json_string_length(text)},
                     got);
            if (!json_equal(got, json_array_get(row, k))) {
                print_error("%s cuts '%s' differently\n", name, json_string_value(text));
                wrong++;
            }
            json_decref(got);
        }
        tokenizer_presplit_destroy(presplit);
    }
    json_decref(root);
    assert_int_equal(wrong, 0);
    assert_true(compared >= 1000);
}

/* --- hostile texts --- */

static struct slice repeat(const char *unit, size_t times)
{
    size_t length = strlen(unit);
    char *bytes = malloc(times * length);
    assert_non_null(bytes);
    for (size_t i = 0; i < times; i++)
        memcpy(bytes + i * length, unit, length);
    return (struct slice){bytes, times * length};
}

/* Cuts a text to its end; returns the number of pieces. */
static size_t count_pieces(struct tokenizer_presplit_cut *cut, struct slice text)
{
    struct slice piece;
    size_t bytes = 0;
    size_t pieces = 0;
    tokenizer_presplit_start(cut, text);
    for (;; pieces++) {
        if (tokenizer_presplit_next(cut, &piece) != STATUS_OK)
            fail_msg("refused: %s", status_note()->message);
        if (piece.length == 0)
            break;
        bytes += piece.length;
    }
    assert_int_equal(bytes, text.length);
    return pieces;
}

/* Each row has a third of the kinds at full length, and all of them in tests/run --all. */
static void long_runs_are_not_refused(void **state)
{
    (void)state;
    const uint32_t step = rounds(3, 1);
    for (int i = 0; i < TOKENIZER_PRESPLIT_COUNT; i++) {
        struct tokenizer_presplit *presplit;
        struct tokenizer_presplit_cut *cut;
        assert_int_equal(
            tokenizer_presplit_create(&presplit, slice_of(TOKENIZER_PRESPLIT_ROWS[i].name)),
            STATUS_OK);
        assert_int_equal(tokenizer_presplit_begin(&cut, presplit), STATUS_OK);
        for (int k = 0; k < HOSTILE_COUNT; k++) {
            struct slice text =
                repeat(hostile[k], HOSTILE_TIMES / ((uint32_t)(i + k) % step == 0 ? 1U : 20U));
            uint64_t before = cut->steps;
            size_t pieces = count_pieces(cut, text);
            /* A match for each piece, or for two when text is left between matches. */
            assert_true(cut->steps - before <= 2 * pieces + 2);
            free((char *)text.bytes);
        }
        tokenizer_presplit_end(cut);
        tokenizer_presplit_destroy(presplit);
    }
}

static int count_callout(pcre2_callout_block *block, void *context)
{
    (void)block;
    uint64_t *steps = context;
    ++*steps;
    return 0;
}

/* The items of the pattern that PCRE2 comes upon, counted by its interpreter. */
static uint64_t count_steps(const char *pattern, struct slice text)
{
    int error;
    PCRE2_SIZE offset;
    uint64_t steps = 0;
    struct tokenizer_presplit presplit = {.row = &TOKENIZER_PRESPLIT_ROWS[0]};
    struct tokenizer_presplit_cut *cut;
    presplit.pattern = pcre2_compile((PCRE2_SPTR)pattern, PCRE2_ZERO_TERMINATED,
                                     PCRE2_UTF | PCRE2_AUTO_CALLOUT, &error, &offset, NULL);
    assert_non_null(presplit.pattern);
    assert_int_equal(tokenizer_presplit_begin(&cut, &presplit), STATUS_OK);
    assert_int_equal(pcre2_set_callout(cut->limits, count_callout, &steps), 0);
    (void)count_pieces(cut, text);
    tokenizer_presplit_end(cut);
    pcre2_code_free(presplit.pattern);
    return steps;
}

static void steps_grow_linearly(void **state)
{
    (void)state;
    enum { SHORT = 500, FACTOR = 4 };
    for (int i = 0; i < TOKENIZER_PRESPLIT_COUNT; i++) {
        const char *patterns[] = {TOKENIZER_PRESPLIT_ROWS[i].pattern,
                                  TOKENIZER_PRESPLIT_ROWS[i].parts};
        for (int k = 0; k < 2 * HOSTILE_COUNT; k++) {
            const char *pattern = patterns[k % 2];
            if (pattern == NULL)
                continue;
            struct slice little = repeat(hostile[k / 2], SHORT);
            struct slice much = repeat(hostile[k / 2], FACTOR * SHORT);
            uint64_t steps_little = count_steps(pattern, little);
            uint64_t steps_much = count_steps(pattern, much);
            if (steps_much > FACTOR * steps_little + 100)
                fail_msg("%s: '%s' %d times costs %llu steps, %d times %llu",
                         TOKENIZER_PRESPLIT_ROWS[i].name, hostile[k / 2], SHORT,
                         (unsigned long long)steps_little, FACTOR * SHORT,
                         (unsigned long long)steps_much);
            free((char *)little.bytes);
            free((char *)much.bytes);
        }
    }
}

/* Where there is no executable memory PCRE2 interprets: the same pieces, within the same limit. */
static void the_interpreter_does_the_same(void **state)
{
    (void)state;
    for (int i = 0; i < TOKENIZER_PRESPLIT_COUNT; i++) {
        const struct tokenizer_presplit_row *row = &TOKENIZER_PRESPLIT_ROWS[i];
        struct tokenizer_presplit *presplit;
        struct tokenizer_presplit interpreted = {.row = row};
        int error;
        PCRE2_SIZE offset;
        assert_int_equal(tokenizer_presplit_create(&presplit, slice_of(row->name)), STATUS_OK);
        interpreted.pattern = pcre2_compile((PCRE2_SPTR)row->pattern, PCRE2_ZERO_TERMINATED,
                                            PCRE2_UTF, &error, &offset, NULL);
        if (row->parts != NULL)
            interpreted.parts = pcre2_compile((PCRE2_SPTR)row->parts, PCRE2_ZERO_TERMINATED,
                                              PCRE2_UTF, &error, &offset, NULL);
        for (int k = 0; k < HOSTILE_COUNT; k++) {
            struct slice text = repeat(hostile[k], HOSTILE_TIMES / 100);
            json_t *want = json_array();
            json_t *got = json_array();
            cut_ends(presplit, text, want);
            cut_ends(&interpreted, text, got);
            assert_true(json_equal(want, got));
            json_decref(want);
            json_decref(got);
            free((char *)text.bytes);
        }
        pcre2_code_free(interpreted.pattern);
        pcre2_code_free(interpreted.parts);
        tokenizer_presplit_destroy(presplit);
    }
}

/* A pattern that goes back more often than the limit fails; it does not take long. */
static void a_bad_pattern_is_stopped(void **state)
{
    (void)state;
    int error;
    PCRE2_SIZE offset;
    struct tokenizer_presplit presplit = {.row = &TOKENIZER_PRESPLIT_ROWS[0]};
    struct tokenizer_presplit_cut *cut;
    struct slice text = repeat("a", 1000);
    struct slice piece;
    presplit.pattern = pcre2_compile((PCRE2_SPTR) "(?:a|aa)+(?:b|c)", PCRE2_ZERO_TERMINATED,
                                     PCRE2_UTF, &error, &offset, NULL);
    assert_non_null(presplit.pattern);
    assert_int_equal(tokenizer_presplit_begin(&cut, &presplit), STATUS_OK);
    tokenizer_presplit_start(cut, (struct slice){text.bytes, text.length});
    assert_int_equal(tokenizer_presplit_next(cut, &piece), STATUS_LIMIT);
    tokenizer_presplit_end(cut);
    pcre2_code_free(presplit.pattern);
    free((char *)text.bytes);
}

static void an_unknown_name_is_refused(void **state)
{
    (void)state;
    struct tokenizer_presplit *presplit;
    assert_int_equal(tokenizer_presplit_create(&presplit, SLICE("no-such")), STATUS_UNSUPPORTED);
    assert_null(presplit);
    assert_non_null(strstr(status_note()->message, "'no-such'"));
}

static int fail_at(void *context, size_t bytes)
{
    (void)bytes;
    int *left = context;
    return (*left)-- == 0;
}

static void every_failing_allocation_is_survived(void **state)
{
    (void)state;
    struct tokenizer_presplit *presplit = NULL;
    struct tokenizer_presplit_cut *cut = NULL;
    int n = 0;
    for (;; n++) {
        int left = n;
        mem_hook_set(fail_at, &left);
        enum status status = tokenizer_presplit_create(&presplit, SLICE("deepseek-llm"));
        mem_hook_set(NULL, NULL);
        if (left >= 0)
            break; /* nothing failed any more */
        assert_true(status == STATUS_NO_MEMORY || status == STATUS_OK); /* it may interpret */
        tokenizer_presplit_destroy(presplit);
    }
    assert_true(n >= 4);
    for (n = 0;; n++) {
        int left = n;
        mem_hook_set(fail_at, &left);
        enum status status = tokenizer_presplit_begin(&cut, presplit);
        mem_hook_set(NULL, NULL);
        if (left >= 0)
            break;
        assert_int_equal(status, STATUS_NO_MEMORY);
        assert_null(cut);
    }
    assert_true(n >= 3);
    tokenizer_presplit_end(cut);
    tokenizer_presplit_destroy(presplit);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_libraries_cut_equally),
        cmocka_unit_test(long_runs_are_not_refused),
        cmocka_unit_test(steps_grow_linearly),
        cmocka_unit_test(the_interpreter_does_the_same),
        cmocka_unit_test(a_bad_pattern_is_stopped),
        cmocka_unit_test(an_unknown_name_is_refused),
        cmocka_unit_test(every_failing_allocation_is_survived),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
