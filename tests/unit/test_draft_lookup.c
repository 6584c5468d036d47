#include "engine/draft/draft_lookup.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "config/base/mem.h"
#include "config/base/rng.h"

enum { ROOM = 2 * DRAFT_LOOKUP_ENTRIES };

static struct draft_lookup lookup;
static uint32_t tokens[ROOM + DRAFT_LOOKUP_MOST];

static int setup(void **state)
{
    (void)state;
    lookup.entries = mem_zalloc(DRAFT_LOOKUP_NUMBERS, sizeof(lookup.entries[0]));
    assert_non_null(lookup.entries);
    draft_lookup_reset(&lookup);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    mem_free(lookup.entries);
    return 0;
}

static uint32_t guess(const uint32_t *text, uint32_t count, uint32_t most)
{
    memcpy(tokens, text, count * sizeof(tokens[0]));
    memset(tokens + count, 0xff, DRAFT_LOOKUP_MOST * sizeof(tokens[0]));
    return draft_lookup_guess(&lookup, tokens, count, most);
}

static void test_what_came_behind(void **state)
{
    (void)state;
    static const uint32_t text[] = {1, 2, 3, 40, 50, 60, 70, 1, 2, 3};
    assert_int_equal(guess(text, 10, 3), 3);
    assert_int_equal(tokens[10], 40);
    assert_int_equal(tokens[11], 50);
    assert_int_equal(tokens[12], 60);
    assert_int_equal(guess(text, 10, 2), 2);
    assert_int_equal(tokens[11], 50);
    assert_int_equal(tokens[12], UINT32_MAX); /* no more than was asked for is written */
    assert_int_equal(guess(text, 10, 0), 0);
    assert_int_equal(tokens[10], UINT32_MAX);
}

static void test_nothing_to_find(void **state)
{
    (void)state;
    static const uint32_t text[] = {1, 2, 3, 4, 5, 6, 1};
    for (uint32_t count = 0; count <= 7; count++)
        assert_int_equal(guess(text, count, 3), 0);
}

/* Three that agree say more than two that stand nearer; two are enough where there are no three. */
static void test_longer_first(void **state)
{
    (void)state;
    static const uint32_t text[] = {1, 2, 3, 10, 9, 2, 3, 20, 1, 2, 3};
    assert_int_equal(guess(text, 11, 1), 1);
    assert_int_equal(tokens[11], 10);
    draft_lookup_reset(&lookup);
    static const uint32_t other[] = {5, 2, 3, 10, 9, 2, 3, 20, 1, 2, 3};
    assert_int_equal(guess(other, 11, 1), 1);
    assert_int_equal(tokens[11], 20); /* of two runs alike the later */
}

static void test_repeats(void **state)
{
    (void)state;
    static const uint32_t same[] = {9, 7, 7, 7};
    assert_int_equal(guess(same, 4, 3), 3);
    for (uint32_t i = 4; i < 7; i++)
        assert_int_equal(tokens[i], 7);
    draft_lookup_reset(&lookup);
    static const uint32_t turns[] = {1, 2, 1, 2, 1};
    assert_int_equal(guess(turns, 5, 3), 3);
    assert_int_equal(tokens[5], 2);
    assert_int_equal(tokens[6], 1);
    assert_int_equal(tokens[7], 2);
}

/* Rejected guesses stand behind the text until others overwrite them: they are never found. */
static void test_guesses_are_no_text(void **state)
{
    (void)state;
    static const uint32_t text[] = {1, 2, 3, 4, 5, 1, 2, 3};
    memcpy(tokens, text, sizeof(text));
    assert_int_equal(draft_lookup_guess(&lookup, tokens, 8, 3), 3);
    assert_int_equal(tokens[8], 4);
    tokens[8] = 80;
    tokens[9] = 90;
    assert_int_equal(draft_lookup_guess(&lookup, tokens, 10, 3), 0);
    tokens[10] = 2;
    tokens[11] = 3;
    assert_int_equal(draft_lookup_guess(&lookup, tokens, 12, 2), 2);
    assert_int_equal(tokens[12], 80); /* behind the second "2 3", not 4 */
    assert_int_equal(tokens[13], 90);
}

/* What another text left is gone with the reset. */
static void test_reset(void **state)
{
    (void)state;
    static const uint32_t text[] = {1, 2, 3, 4, 5, 1, 2, 3};
    assert_int_equal(guess(text, 8, 3), 3);
    draft_lookup_reset(&lookup);
    for (uint32_t i = 0; i < DRAFT_LOOKUP_NUMBERS; i++)
        assert_int_equal(lookup.entries[i], 0);
    assert_int_equal(guess(text, 3, 3), 0);
}

/* A run of two that ends before `end` like the last one of `count` tokens. */
static bool is_like(uint32_t end, uint32_t count)
{
    return memcmp(tokens + end - 2, tokens + count - 2, 2 * sizeof(tokens[0])) == 0;
}

static bool was_there(uint32_t count)
{
    for (uint32_t end = DRAFT_LOOKUP_SHORT; end < count; end++)
        if (is_like(end, count))
            return true;
    return false;
}

static bool was_followed_by(uint32_t count, uint32_t next)
{
    for (uint32_t end = DRAFT_LOOKUP_SHORT; end < count; end++)
        if (tokens[end] == next && is_like(end, count))
            return true;
    return false;
}

/* Against a search through the whole text, asked at some counts and not at others: a guess is
 * always what stood behind an earlier run like the last one. Few are missed while the text is short
 * for the index: those whose entry another run has by chance. */
static void test_random(void **state)
{
    (void)state;
    struct rng rng = {.seed = 9};
    uint32_t found = 0;
    uint32_t missed = 0;
    for (uint32_t run = 0; run < 20; run++) {
        uint32_t words = 2 + (uint32_t)rng_below(&rng, run % 2 == 0 ? 6 : 300);
        uint32_t most = run < 18 ? 400 : ROOM;
        draft_lookup_reset(&lookup);
        for (uint32_t count = 0; count < most; count++) {
            if (rng_below(&rng, 3) > 0 && draft_lookup_guess(&lookup, tokens, count, 1) == 1) {
                assert_true(was_followed_by(count, tokens[count]));
                found++;
            } else if (run < 18 && count > DRAFT_LOOKUP_SHORT && lookup.indexed == count) {
                missed += was_there(count);
            }
            tokens[count] = (uint32_t)rng_below(&rng, words);
        }
    }
    assert_true(found > 2000);
    assert_true(missed * 20 < found);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_what_came_behind, setup, teardown),
        cmocka_unit_test_setup_teardown(test_nothing_to_find, setup, teardown),
        cmocka_unit_test_setup_teardown(test_longer_first, setup, teardown),
        cmocka_unit_test_setup_teardown(test_repeats, setup, teardown),
        cmocka_unit_test_setup_teardown(test_guesses_are_no_text, setup, teardown),
        cmocka_unit_test_setup_teardown(test_reset, setup, teardown),
        cmocka_unit_test_setup_teardown(test_random, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
