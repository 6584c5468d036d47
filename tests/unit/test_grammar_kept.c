/* grammar_kept: what is kept is found, the least recently used goes, what is held stays. */
#include "engine/grammar/grammar_kept.h"

#include "config/base/limits_grammar.h"
#include "tests/unit/base_kit.h"

enum { WORDS = 4 };

static const int trie, other_trie; /* two names for tries */
static struct grammar_kept *kept;

static int setup(void **state)
{
    (void)state;
    return grammar_kept_new(&kept) != STATUS_OK;
}

static int teardown(void **state)
{
    (void)state;
    grammar_kept_free(kept);
    grammar_kept_free(NULL);
    return 0;
}

/* A mask and exits that show which state they are of. */
static void put(uint32_t at, size_t bytes_max)
{
    uint32_t mask[WORDS] = {at, at + 1, at + 2, at + 3};
    struct grammar_exit exits[2] = {{at, at + 1}, {at + 2, at}};
    grammar_kept_put(kept, &trie, at, mask, WORDS, exits, at % 3, bytes_max);
}

static bool has(uint32_t at)
{
    const struct grammar_kept_mask *entry = grammar_kept_find(kept, &trie, at);
    if (entry == NULL)
        return false;
    assert_int_equal(entry->mask[0], at);
    assert_int_equal(entry->mask[3], at + 3);
    assert_int_equal(entry->exit_count, at % 3);
    if (at % 3 == 2)
        assert_int_equal(entry->exits[1].node, at + 2);
    grammar_kept_release(kept, entry);
    return true;
}

static void test_what_is_kept_is_found_by_state_and_trie(void **state)
{
    (void)state;
    put(5, SIZE_MAX);
    assert_true(has(5));
    assert_false(has(6));
    assert_null(grammar_kept_find(kept, &other_trie, 5));
}

static void test_the_least_recently_used_goes(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < LIMIT_GRAMMAR_KEPT; i++)
        put(i, SIZE_MAX);
    assert_true(has(0));
    size_t bytes = grammar_kept_bytes(kept);
    put(1000, SIZE_MAX);
    assert_true(has(0));
    assert_false(has(1));
    assert_true(has(2));
    assert_true(has(1000));
    assert_true(grammar_kept_bytes(kept) <= bytes + 2 * sizeof(struct grammar_exit));
}

static void test_what_is_held_stays(void **state)
{
    (void)state;
    const struct grammar_kept_mask *held[LIMIT_GRAMMAR_KEPT];
    for (uint32_t i = 0; i < LIMIT_GRAMMAR_KEPT; i++) {
        put(i, SIZE_MAX);
        held[i] = grammar_kept_find(kept, &trie, i);
    }
    put(1000, SIZE_MAX);
    assert_false(has(1000)); /* there is no place */
    grammar_kept_release(kept, held[7]);
    put(1000, SIZE_MAX);
    assert_true(has(1000));
    assert_false(has(7));
    for (uint32_t i = 0; i < LIMIT_GRAMMAR_KEPT; i++) {
        if (i == 7)
            continue;
        assert_int_equal(held[i]->mask[1], i + 1);
        grammar_kept_release(kept, held[i]);
    }
}

static void test_bytes_are_bounded(void **state)
{
    (void)state;
    size_t empty = grammar_kept_bytes(kept);
    size_t limit = empty + 10 * (WORDS * sizeof(uint32_t) + 2 * sizeof(struct grammar_exit));
    for (uint32_t i = 0; i < 1000; i++) {
        put(i, limit);
        assert_true(has(i));
        assert_true(grammar_kept_bytes(kept) <= limit);
    }
    put(2000, empty); /* not even one fits */
    assert_false(has(2000));
    put(2001, 1);
    assert_false(has(2001));
}

static void test_without_memory_nothing_is_kept(void **state)
{
    (void)state;
    int left = 1;
    mem_hook_set(kit_fail_at, &left);
    put(3, SIZE_MAX);
    mem_hook_set(NULL, NULL);
    assert_false(has(3));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_what_is_kept_is_found_by_state_and_trie, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_the_least_recently_used_goes, setup, teardown),
        cmocka_unit_test_setup_teardown(test_what_is_held_stays, setup, teardown),
        cmocka_unit_test_setup_teardown(test_bytes_are_bounded, setup, teardown),
        cmocka_unit_test_setup_teardown(test_without_memory_nothing_is_kept, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
