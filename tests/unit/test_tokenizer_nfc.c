/* Normal form C: known cases, the library's own slow way over random texts, and long runs of marks.
 * Includes the .c file to call the library. */
#include "engine/text/tokenizer_nfc.c"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "config/base/rng.h"
#include "tests/kit/rounds.h"

static void expect(const char *text, const char *want)
{
    struct tokenizer_nfc nfc;
    struct slice out;
    tokenizer_nfc_init(&nfc);
    assert_int_equal(tokenizer_nfc_apply(&nfc, slice_of(text), &out), STATUS_OK);
    assert_int_equal(out.length, strlen(want));
    assert_memory_equal(out.bytes, want, out.length);
    tokenizer_nfc_deinit(&nfc);
}

static void known_cases(void **state)
{
    (void)state;
    expect("plain \xc3\xa9", "plain \xc3\xa9");
    expect("e\xcc\x81", "\xc3\xa9");
    expect("\xe1\x84\x92\xe1\x85\xa1\xe1\x86\xab", "\xed\x95\x9c"); /* Hangul from its letters */
    expect("\xe2\x84\xab", "\xc3\x85");                             /* U+212B is U+00C5 */
    expect("\xe0\xa5\x98", "\xe0\xa4\x95\xe0\xa4\xbc");             /* U+0958 never composes */
    expect("\xe0\xa6\x95\xe0\xa7\x87\xe0\xa6\xbe", "\xe0\xa6\x95\xe0\xa7\x8b"); /* no mark class */
    /* The mark below comes first, whatever the text says. */
    expect("a\xcc\x81\xcc\xa3", "\xe1\xba\xa1\xcc\x81");
    expect("\xef\xac\x81", "\xef\xac\x81"); /* a ligature is a compatible form only */
}

static void unchanged_text_is_not_copied(void **state)
{
    (void)state;
    struct tokenizer_nfc nfc;
    struct slice out;
    struct slice text = SLICE("\xc3\x89"
                              "COLE and \xcb\xbf"); /* up to U+02FF */
    tokenizer_nfc_init(&nfc);
    assert_int_equal(tokenizer_nfc_apply(&nfc, text, &out), STATUS_OK);
    assert_ptr_equal(out.bytes, text.bytes);
    tokenizer_nfc_deinit(&nfc);
}

/* Characters that marks join, marks of several classes, and anything. */
static uint32_t random_point(struct rng *rng)
{
    static const uint32_t some[] = {'a',    'e',    ' ',    0x300,  0x301,  0x323,  0x327,  0x345,
                                    0x1100, 0x1161, 0x11a8, 0xac00, 0x958,  0x9c7,  0x9be,  0x212b,
                                    0x3b1,  0x313,  0xb47,  0xb57,  0x3099, 0x304b, 0x1d15f};
    uint64_t way = rng_below(rng, 4);
    if (way < 3)
        return some[rng_below(rng, sizeof some / sizeof some[0])];
    uint32_t point = (uint32_t)rng_below(rng, 0x30000);
    return point >= 0xd800 && point < 0xe000 ? 'x' : point;
}

static void the_library_agrees(void **state)
{
    (void)state;
    struct tokenizer_nfc nfc;
    struct rng rng = {.seed = 4};
    tokenizer_nfc_init(&nfc);
    for (uint32_t round = 0; round < rounds(2000, 40000); round++) {
        char text[256];
        size_t length = 0;
        for (uint64_t n = rng_below(&rng, 60); n > 0; n--)
            length += utf8_encode(random_point(&rng), text + length);
        utf8proc_uint8_t *want = NULL;
        utf8proc_ssize_t want_length = utf8proc_map((const utf8proc_uint8_t *)text,
                                                    (utf8proc_ssize_t)length, &want, NFC_OPTIONS);
        struct slice out;
        assert_int_equal(tokenizer_nfc_apply(&nfc, (struct slice){text, length}, &out), STATUS_OK);
        assert_int_equal(out.length, want_length);
        assert_memory_equal(out.bytes, want, out.length);
        assert_true(out.length <= TOKENIZER_NFC_GROWTH * length);
        free(want);
    }
    tokenizer_nfc_deinit(&nfc);
}

/* Parts end at ASCII characters only: a text of several parts is the text of one. */
static void parts_are_one_text(void **state)
{
    (void)state;
    enum { TIMES = 3 * NFC_CHUNK };
    struct tokenizer_nfc nfc;
    struct slice out;
    char *text = malloc(4 * TIMES);
    size_t length = 0;
    tokenizer_nfc_init(&nfc);
    assert_non_null(text);
    for (int i = 0; i < TIMES; i++) { /* "e" and an acute */
        memcpy(text + length, "e\xcc\x81", 3);
        length += 3;
    }
    assert_int_equal(tokenizer_nfc_apply(&nfc, (struct slice){text, length}, &out), STATUS_OK);
    assert_int_equal(out.length, 2 * TIMES);
    for (int i = 0; i < TIMES; i++)
        assert_memory_equal(out.bytes + 2 * (size_t)i, "\xc3\xa9", 2);
    free(text);
    tokenizer_nfc_deinit(&nfc);
}

/* The library sorts these in quadratic time: 40,000,000,000 steps. */
static void long_runs_of_marks_are_sorted(void **state)
{
    (void)state;
    enum { MARKS = 200000 };
    struct tokenizer_nfc nfc;
    struct slice out;
    char *text = malloc(2 * MARKS);
    tokenizer_nfc_init(&nfc);
    assert_non_null(text);
    for (int i = 0; i < MARKS; i++) /* above, below, above, … */
        memcpy(text + 2 * (size_t)i, i % 2 == 0 ? "\xcc\x81" : "\xcc\xa3", 2);
    assert_int_equal(tokenizer_nfc_apply(&nfc, (struct slice){text, 2 * MARKS}, &out), STATUS_OK);
    assert_int_equal(out.length, 2 * MARKS);
    for (int i = 0; i < MARKS; i++)
        assert_memory_equal(out.bytes + 2 * (size_t)i, i < MARKS / 2 ? "\xcc\xa3" : "\xcc\x81", 2);
    free(text);
    tokenizer_nfc_deinit(&nfc);
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
    int n = 0;
    for (;; n++) {
        struct tokenizer_nfc nfc;
        struct slice out;
        int left = n;
        tokenizer_nfc_init(&nfc);
        mem_hook_set(fail_at, &left);
        enum status status = tokenizer_nfc_apply(&nfc, SLICE("e\xcc\x81"), &out);
        mem_hook_set(NULL, NULL);
        tokenizer_nfc_deinit(&nfc);
        if (status == STATUS_OK)
            break;
        assert_int_equal(status, STATUS_NO_MEMORY);
    }
    assert_true(n >= 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(known_cases),
        cmocka_unit_test(unchanged_text_is_not_copied),
        cmocka_unit_test(the_library_agrees),
        cmocka_unit_test(parts_are_one_text),
        cmocka_unit_test(long_runs_of_marks_are_sorted),
        cmocka_unit_test(every_failing_allocation_is_survived),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
