/* isa_sample: a table's parts of drawing a token give what ref's do.
 *
 * Owns:     nothing. A test of one instruction set includes it and calls isa_sample_check.
 * Not here: drawing (test_sampler).
 */
#pragma once

#include "kernels/cpu/ref/ref.h"
#include "kernels/dispatch/registry.h"
#include "tests/unit/kernels_kit.h"

/* The same ids, and nothing written behind ROW_IDS_MORE; a NaN is never among them. */
static void isa_sample_check(const char *isa)
{
    static const uint32_t sizes[] = {1, 2, 15, 16, 17, 31, 32, 33, 576};
    const struct kernel_table *table = registry_find(isa);
    if (!kernels_can_run(isa))
        return;
    struct rng rng = {.seed = 8};
    for (uint32_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (int repeat = 0; repeat < 20; repeat++) {
            const uint32_t n = sizes[i];
            const uint32_t ids_n = n + ROW_IDS_MORE;
            float *x = kit_floats(&rng, n + 1, 20);
            float *a = kit_floats(&rng, n + 1, 1);
            float *b = kit_floats(&rng, n + 1, 1);
            memcpy(b, a, (n + 1) * sizeof *b);
            uint32_t *ids_a = malloc((ids_n + 1) * sizeof *ids_a);
            uint32_t *ids_b = malloc((ids_n + 1) * sizeof *ids_b);
            const float special[] = {NAN, INFINITY, -INFINITY, 0};
            x[1 + rng_below(&rng, n)] = special[repeat % 4];
            ids_a[ids_n] = 77;
            float max = (float)repeat;
            float sum_a = table->row_exp(x + 1, n, max, 0.7f, a);
            float sum_b = k_row_exp_ref(x + 1, n, max, 0.7f, b);
            kit_assert_same_bits(a, b, n + 1);
            assert_true(half_float_bits(sum_a) == half_float_bits(sum_b) || isnan(sum_b));
            uint32_t count = k_row_above_ref(x + 1, n, 3, ids_b);
            assert_int_equal(table->row_above(x + 1, n, 3, ids_a), count);
            assert_memory_equal(ids_a, ids_b, count * sizeof *ids_a);
            struct row_noise_args noise = {.x = x + 1,
                                           .begin = (uint32_t)rng_below(&rng, n + 1),
                                           .end = n,
                                           .stream = rng_next(&rng)};
            kernels_row_noise_set(&noise, 0.5 + repeat, 5 + repeat);
            count = k_row_noise_ref(&noise, ids_b);
            assert_int_equal(table->row_noise(&noise, ids_a), count);
            assert_memory_equal(ids_a, ids_b, count * sizeof *ids_a);
            assert_int_equal(ids_a[ids_n], 77);
            free(x);
            free(a);
            free(b);
            free(ids_a);
            free(ids_b);
        }
}
