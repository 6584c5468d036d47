#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "config/base/rng.h"
#include "engine/sampling/sampler_order.h"
#include "tests/unit/kernels_kit.h"

enum { MOST = 6000 };

static struct kernels *kernels;
static float values[MOST];
static uint32_t ids[MOST + ROW_IDS_MORE];
static uint32_t scratch[MOST];
static uint32_t wanted[MOST]; /* the order, by comparing */

/* A NaN is the least value. */
static float known(float value)
{
    return isnan(value) ? -INFINITY : value;
}

static int compare(const void *left, const void *right)
{
    uint32_t a = *(const uint32_t *)left;
    uint32_t b = *(const uint32_t *)right;
    float one = known(values[a]);
    float other = known(values[b]);
    if (one > other || one < other)
        return one > other ? -1 : 1;
    return a < b ? -1 : 1;
}

/* Spread, with many equals, of both signs, with zeros of both, hardly any different, or sorted, so
 * that a sample of the first ones misleads. */
static void fill(struct rng *rng, uint32_t count)
{
    const uint32_t kind = (uint32_t)rng_below(rng, 7);
    for (uint32_t i = 0; i < count; i++) {
        double unit = rng_unit(rng_next(rng));
        values[i] = kind == 0   ? (float)(int)(4 * unit)
                    : kind == 1 ? 1
                    : kind == 2 ? (unit < 0.5 ? 0.0F : -0.0F)
                    : kind == 3 ? (unit < 0.9 ? -INFINITY : (float)unit)
                    : kind == 4 ? (float)i
                    : kind == 5 ? (i % (count / 1024 + 1) == 0 ? 1000 : (float)unit)
                                : (float)(1e3 * (unit - 0.5));
        wanted[i] = i;
    }
    if (rng_below(rng, 4) == 0)
        values[rng_below(rng, count)] = INFINITY;
    if (kind != 3 && rng_below(rng, 4) == 0) /* it is the only one of the least value */
        values[rng_below(rng, count)] = NAN;
    qsort(wanted, count, sizeof(wanted[0]), compare);
}

/* Each place of the order is found, and exactly those before it belong to its run. */
static void test_find(void **state)
{
    (void)state;
    struct rng rng = {.seed = 21};
    for (uint32_t round = 0; round < 400; round++) {
        const uint32_t count = 1 + (uint32_t)rng_below(&rng, round % 2 == 0 ? 100 : MOST);
        fill(&rng, count);
        for (uint32_t i = 0; i < 8; i++) {
            uint32_t place = i == 0 ? 0 : i == 1 ? count - 1 : (uint32_t)rng_below(&rng, count);
            const struct sampler_order_cut cut =
                sampler_order_find(kernels, values, count, place + 1, ids, scratch);
            if (isnan(values[wanted[place]]))
                continue;
            assert_int_equal(cut.id, wanted[place]);
            for (uint32_t n = 0; n < count && !isnan(values[wanted[n]]); n++)
                assert_int_equal(sampler_order_has(&cut, values[wanted[n]], wanted[n]), n <= place);
        }
    }
}

static void test_sort(void **state)
{
    (void)state;
    struct rng rng = {.seed = 22};
    for (uint32_t round = 0; round < 200; round++) {
        const uint32_t count = 1 + (uint32_t)rng_below(&rng, MOST);
        fill(&rng, count);
        for (uint32_t i = 0; i < count; i++)
            ids[i] = i;
        sampler_order_sort(values, ids, count, scratch);
        assert_memory_equal(ids, wanted, count * sizeof(ids[0]));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_find),
        cmocka_unit_test(test_sort),
    };
    kernels = kit_kernels("auto", 1, 1, 32);
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    kernels_destroy(kernels);
    return failed;
}
