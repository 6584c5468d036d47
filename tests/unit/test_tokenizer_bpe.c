/* Merging by heap against merging by the definition; the steps of long pieces; failing memory. */
#include "engine/text/tokenizer_bpe.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "config/base/mem.h"
#include "config/base/rng.h"

/* By the definition: look through all pairs for the lowest rank, the leftmost first; merge; again.
 */
static size_t naive_merge(const struct tokenizer_bpe_table *table, uint32_t *ids, size_t count)
{
    for (;;) {
        const struct tokenizer_bpe_merge *best = NULL;
        size_t at = 0;
        for (size_t i = 0; i + 1 < count; i++) {
            const struct tokenizer_bpe_merge *merge =
                tokenizer_bpe_table_find(table, ids[i], ids[i + 1]);
            if (merge != NULL && (best == NULL || merge->rank < best->rank)) {
                best = merge;
                at = i;
            }
        }
        if (best == NULL)
            return count;
        ids[at] = best->merged;
        memmove(ids + at + 1, ids + at + 2, (count - at - 2) * sizeof *ids);
        count--;
    }
}

enum { LETTERS = 3, MERGES = 24, LENGTH = 40 };

static void random_round(uint64_t seed, struct tokenizer_bpe_scratch *scratch)
{
    struct rng rng = {.seed = seed};
    struct tokenizer_bpe_table table;
    assert_int_equal(tokenizer_bpe_table_init(&table, MERGES), STATUS_OK);
    uint32_t tokens = LETTERS;
    for (uint32_t rank = 0; rank < MERGES; rank++) {
        uint32_t left = (uint32_t)rng_below(&rng, tokens);
        uint32_t right = (uint32_t)rng_below(&rng, tokens);
        if (tokenizer_bpe_table_add(&table, left, right, rank, tokens) == STATUS_OK)
            tokens++;
    }
    uint32_t ids[LENGTH];
    uint32_t want[LENGTH];
    size_t count = rng_below(&rng, LENGTH + 1);
    for (size_t i = 0; i < count; i++)
        ids[i] = want[i] = (uint32_t)rng_below(&rng, LETTERS);
    size_t want_count = naive_merge(&table, want, count);
    assert_int_equal(tokenizer_bpe_merge(&table, scratch, ids, &count), STATUS_OK);
    if (count != want_count || memcmp(ids, want, count * sizeof *ids) != 0)
        fail_msg("seed %llu differs", (unsigned long long)seed);
    tokenizer_bpe_table_deinit(&table);
}

static void random_merges_equal_the_definition(void **state)
{
    (void)state;
    struct tokenizer_bpe_scratch scratch;
    tokenizer_bpe_scratch_init(&scratch);
    for (uint64_t seed = 0; seed < 5000; seed++)
        random_round(seed, &scratch);
    tokenizer_bpe_scratch_deinit(&scratch);
}

/* a+a → aa → aaaa … up to 2^9, and none at all; steps may grow by n log n. */
static uint64_t steps_of(size_t length, uint32_t merges)
{
    struct tokenizer_bpe_table table;
    struct tokenizer_bpe_scratch scratch;
    assert_int_equal(tokenizer_bpe_table_init(&table, merges), STATUS_OK);
    for (uint32_t rank = 0; rank < merges; rank++)
        assert_int_equal(tokenizer_bpe_table_add(&table, rank, rank, rank, rank + 1), STATUS_OK);
    uint32_t *ids = calloc(length, sizeof *ids);
    size_t count = length;
    assert_non_null(ids);
    tokenizer_bpe_scratch_init(&scratch);
    assert_int_equal(tokenizer_bpe_merge(&table, &scratch, ids, &count), STATUS_OK);
    assert_int_equal(count, length >> merges);
    uint64_t steps = scratch.steps;
    free(ids);
    tokenizer_bpe_scratch_deinit(&scratch);
    tokenizer_bpe_table_deinit(&table);
    return steps;
}

static void a_long_piece_costs_n_log_n(void **state)
{
    (void)state;
    assert_int_equal(steps_of(1 << 20, 0), 0);
    /* 2^20 bytes: at most 2 n candidates, each up and down a heap of at most 21 floors. */
    assert_true(steps_of(1 << 20, 9) <= (uint64_t)2 * (1 << 20) * (2 * 21 + 2));
    /* Twice the length, little more than twice the steps. */
    assert_true(steps_of(1 << 17, 9) * 5 / 2 >= steps_of(1 << 18, 9));
}

static void a_pair_has_one_rank(void **state)
{
    (void)state;
    struct tokenizer_bpe_table table;
    assert_int_equal(tokenizer_bpe_table_init(&table, 3), STATUS_OK);
    assert_int_equal(tokenizer_bpe_table_add(&table, 1, 2, 0, 3), STATUS_OK);
    assert_int_equal(tokenizer_bpe_table_add(&table, 2, 1, 1, 4), STATUS_OK);
    assert_int_equal(tokenizer_bpe_table_add(&table, 1, 2, 2, 5), STATUS_EXISTS);
    assert_int_equal(tokenizer_bpe_table_find(&table, 1, 2)->merged, 3);
    assert_int_equal(tokenizer_bpe_table_find(&table, 2, 1)->rank, 1);
    assert_null(tokenizer_bpe_table_find(&table, 1, 1));
    tokenizer_bpe_table_deinit(&table);
}

static int fail_at(void *context, size_t bytes)
{
    (void)bytes;
    int *left = context;
    return (*left)-- == 0;
}

static void failing_memory_is_survived(void **state)
{
    (void)state;
    struct tokenizer_bpe_table table;
    struct tokenizer_bpe_scratch scratch;
    uint32_t ids[200] = {0};
    int left = 0;
    mem_hook_set(fail_at, &left);
    assert_int_equal(tokenizer_bpe_table_init(&table, 1), STATUS_NO_MEMORY);
    mem_hook_set(NULL, NULL);
    assert_int_equal(tokenizer_bpe_table_init(&table, 1), STATUS_OK);
    assert_int_equal(tokenizer_bpe_table_add(&table, 0, 0, 0, 1), STATUS_OK);
    tokenizer_bpe_scratch_init(&scratch);
    for (int n = 0; n < 2; n++) {
        size_t count = 200;
        left = n;
        mem_hook_set(fail_at, &left);
        assert_int_equal(tokenizer_bpe_merge(&table, &scratch, ids, &count), STATUS_NO_MEMORY);
        mem_hook_set(NULL, NULL);
    }
    size_t count = 200;
    assert_int_equal(tokenizer_bpe_merge(&table, &scratch, ids, &count), STATUS_OK);
    assert_int_equal(count, 100);
    tokenizer_bpe_scratch_deinit(&scratch);
    tokenizer_bpe_table_deinit(&table);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_merges_equal_the_definition),
        cmocka_unit_test(a_long_piece_costs_n_log_n),
        cmocka_unit_test(a_pair_has_one_rank),
        cmocka_unit_test(failing_memory_is_survived),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
