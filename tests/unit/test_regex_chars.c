#include "config/base/rng.h"
#include "config/base/utf8.h"
#include "engine/grammar/regex.h"
#include "tests/kit/rounds.h"
#include "tests/unit/base_kit.h"

enum { RANGES = 6, LAST = 0x10ffff };

static struct regex_pool *pool;

static int begin(void **state)
{
    (void)state;
    return regex_pool_new(NULL, &pool) == STATUS_OK ? 0 : -1;
}

static int end(void **state)
{
    (void)state;
    enum status status = regex_pool_status(pool);
    regex_pool_free(pool);
    return status == STATUS_OK ? 0 : -1;
}

static regex_node_id one(uint32_t first, uint32_t last)
{
    struct regex_range range = {first, last};
    return regex_chars(pool, &range, 1);
}

static bool is_in(const struct regex_range *ranges, uint32_t count, uint32_t code_point)
{
    for (uint32_t i = 0; i < count; i++)
        if (code_point >= ranges[i].first && code_point <= ranges[i].last)
            return true;
    return false;
}

static bool is_surrogate(uint32_t code_point)
{
    return code_point >= 0xd800 && code_point <= 0xdfff;
}

/* Code points near edges of ranges and of lengths. */
static uint32_t any_code_point(struct rng *rng, const struct regex_range *ranges, uint32_t count)
{
    static const uint32_t edges[] = {0,      0x7f,   0x80,   0x7ff,   0x800,    0xfff, 0x1000,
                                     0xd7ff, 0xe000, 0xffff, 0x10000, 0x10ffff, 0x3f,  0x40000};
    uint32_t at = edges[rng_below(rng, sizeof edges / sizeof *edges)];
    uint64_t way = rng_below(rng, 4);
    if (way == 0)
        at = (uint32_t)rng_below(rng, LAST + 1);
    if (way == 1 && count != 0)
        at = ranges[rng_below(rng, count)].first;
    if (way == 2 && count != 0)
        at = ranges[rng_below(rng, count)].last;
    return (at + (uint32_t)rng_below(rng, 5) + LAST - 1) % (LAST + 1);
}

static void test_ranges(void **state)
{
    (void)state;
    uint32_t checks = 0, inside = 0;
    for (uint32_t round = 0; round < rounds(300, 20000); round++) {
        struct rng rng = {round, 0};
        struct regex_range ranges[RANGES];
        uint32_t count = (uint32_t)rng_below(&rng, RANGES + 1);
        for (uint32_t i = 0; i < count; i++) {
            ranges[i].first = any_code_point(&rng, ranges, i);
            ranges[i].last = any_code_point(&rng, ranges, i);
            if (rng_below(&rng, 3) == 0)
                ranges[i].last = ranges[i].first + (uint32_t)rng_below(&rng, 300);
        }
        regex_node_id node = regex_chars(pool, ranges, count);
        for (uint32_t i = 0; i < 100; i++) {
            uint32_t at = any_code_point(&rng, ranges, count);
            if (is_surrogate(at))
                continue;
            char bytes[4];
            struct slice text = {bytes, utf8_encode(at, bytes)};
            bool wanted = is_in(ranges, count, at);
            if (regex_matches(pool, node, text) != wanted)
                fail_msg("round %u: U+%04X", round, at);
            inside += wanted;
            checks++;
        }
    }
    printf("%u characters, %u of them in the class\n", checks, inside);
    assert_true(inside > 100);
}

/* A class matches whole characters of UTF-8 alone: every text of up to four bytes at the edges. */
static void test_utf8(void **state)
{
    (void)state;
    static const uint8_t edges[] = {0x00, 0x41, 0x7f, 0x80, 0x8f, 0x90, 0x9f, 0xa0, 0xbf,
                                    0xc0, 0xc1, 0xc2, 0xdf, 0xe0, 0xe1, 0xec, 0xed, 0xee,
                                    0xef, 0xf0, 0xf1, 0xf3, 0xf4, 0xf5, 0xff};
    enum { EDGES = sizeof edges };
    regex_node_id any = one(0, LAST);
    for (uint32_t n = 0; n < EDGES * EDGES; n++) {
        regex_node_id two =
            regex_derive(pool, regex_derive(pool, any, edges[n % EDGES]), edges[n / EDGES]);
        for (uint32_t m = 0; m < EDGES * EDGES; m++) {
            char bytes[4] = {(char)edges[n % EDGES], (char)edges[n / EDGES], (char)edges[m % EDGES],
                             (char)edges[m / EDGES]};
            size_t length = utf8_sequence_length(bytes, 4);
            regex_node_id three = regex_derive(pool, two, edges[m % EDGES]);
            regex_node_id four = regex_derive(pool, three, edges[m / EDGES]);
            assert_int_equal(regex_is_nullable(pool, two), length == 2);
            assert_int_equal(regex_is_nullable(pool, three), length == 3);
            assert_int_equal(regex_is_nullable(pool, four), length == 4);
        }
    }
    assert_int_equal(one(0xd800, 0xdfff), REGEX_NONE);
    assert_int_equal(one(0x110000, UINT32_MAX), REGEX_NONE);
    assert_int_equal(one(0, UINT32_MAX), any);
}

static void test_runs(void **state)
{
    (void)state;
    regex_node_id letters = one('a', 'z'), wide = one(0x80, LAST);
    regex_node_id quote = regex_text(pool, SLICE("\""));
    struct regex_run run =
        regex_run_of(pool, regex_cat(pool, regex_repeat(pool, letters, 3, 9), quote));
    assert_int_equal(run.max, 9);
    assert_true(run.is_exact);
    uint32_t count;
    const struct regex_range *ranges = regex_chars_of(pool, run.chars, &count);
    assert_int_equal(count, 1);
    assert_int_equal(ranges[0].first, 'a');
    assert_int_equal(ranges[0].last, 'z');

    /* Behind the run another letter may come, or the lexeme may end. */
    run = regex_run_of(
        pool, regex_cat(pool, regex_repeat(pool, letters, 0, 2), regex_text(pool, SLICE("x\""))));
    assert_int_equal(run.max, 2);
    assert_false(run.is_exact);
    run = regex_run_of(pool, regex_repeat(pool, wide, 1, REGEX_UNBOUNDED));
    assert_int_equal(run.max, REGEX_UNBOUNDED);
    assert_false(run.is_exact);
    run = regex_run_of(pool, regex_cat(pool, wide, quote));
    assert_int_equal(run.max, 1);
    assert_true(run.is_exact);

    /* The longest of several. */
    run =
        regex_run_of(pool, regex_or(pool, regex_cat(pool, regex_repeat(pool, letters, 0, 7), quote),
                                    regex_cat(pool, regex_repeat(pool, wide, 0, 5), quote)));
    assert_int_equal(run.max, 7);
    assert_false(run.is_exact);
    assert_int_equal(regex_run_of(pool, quote).chars, REGEX_RUN_NONE);
    assert_int_equal(regex_run_of(pool, regex_derive(pool, wide, 0xc3)).chars, REGEX_RUN_NONE);
    assert_int_equal(regex_chars_count(pool), 2);

    /* A class beside texts that begin with other bytes, and beside one that does not. */
    regex_node_id escape = regex_text(pool, SLICE("\\n"));
    regex_node_id unit = regex_or(pool, regex_or(pool, letters, escape), wide);
    run = regex_run_of(pool, regex_cat(pool, regex_repeat(pool, unit, 0, 4), quote));
    assert_int_equal(run.max, 4);
    assert_true(run.is_exact);
    ranges = regex_chars_of(pool, run.chars, &count);
    assert_int_equal(count, 1);
    assert_int_equal(ranges[0].last, 'z');
    unit = regex_or(pool, letters, regex_text(pool, SLICE("xy")));
    run = regex_run_of(pool, regex_cat(pool, regex_repeat(pool, unit, 0, 4), quote));
    assert_int_equal(run.chars, REGEX_RUN_NONE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_ranges, begin, end),
        cmocka_unit_test_setup_teardown(test_utf8, begin, end),
        cmocka_unit_test_setup_teardown(test_runs, begin, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
