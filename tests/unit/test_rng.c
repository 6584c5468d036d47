#include "config/base/rng.h"

#include "tests/unit/base_kit.h"

static void test_is_a_function_of_its_arguments(void **state)
{
    (void)state;
    assert_true(rng_at(1, 2, 3) == rng_at(1, 2, 3));
    assert_true(rng_at(1, 2, 3) != rng_at(2, 2, 3));
    assert_true(rng_at(1, 2, 3) != rng_at(1, 3, 3));
    assert_true(rng_at(1, 2, 3) != rng_at(1, 2, 4));
    assert_true(rng_at(0, 0, 0) != 0);
    assert_true(rng_at(1, 0, 0) != rng_at(0, 1, 0));
    assert_true(rng_of(rng_stream(1, 2), 3) == rng_at(1, 2, 3));
    struct rng a = {.seed = 9};
    struct rng b = {.seed = 9};
    for (int i = 0; i < 100; i++)
        assert_true(rng_next(&a) == rng_next(&b));
    assert_int_equal(a.counter, 100);
}

/* One bit of an argument changes each bit of the answer in half of the cases: 4,000 coins give
 * 2,000 ± 5 standard deviations (158). The seed is fixed, so this passes always or never. */
static void test_avalanche(void **state)
{
    (void)state;
    int changed[64] = {0};
    for (uint64_t i = 0; i < 4000; i++) {
        uint64_t difference = rng_at(i, 5, i) ^ rng_at(i ^ (1ull << (i % 64)), 5, i);
        for (int bit = 0; bit < 64; bit++)
            changed[bit] += (int)(difference >> bit & 1);
    }
    for (int bit = 0; bit < 64; bit++) {
        assert_true(changed[bit] > 2000 - 158);
        assert_true(changed[bit] < 2000 + 158);
    }
}

static void test_unit(void **state)
{
    (void)state;
    assert_true(rng_unit(0) > 0);
    assert_true(rng_unit(UINT64_MAX) < 1);
    assert_true(rng_unit(1ull << 63) > 0.5);
    assert_true(rng_unit(0) == 0x1p-53);
    double sum = 0;
    for (uint64_t i = 0; i < 10000; i++)
        sum += rng_unit(rng_at(3, 0, i));
    assert_true(sum > 5000 - 145); /* 5 × √(10,000 ÷ 12) */
    assert_true(sum < 5000 + 145);
}

static void test_below(void **state)
{
    (void)state;
    struct rng rng = {.seed = 4};
    int seen[10] = {0};
    for (int i = 0; i < 10000; i++) {
        uint64_t value = rng_below(&rng, 10);
        assert_true(value < 10);
        seen[value]++;
    }
    for (int i = 0; i < 10; i++) {
        assert_true(seen[i] > 1000 - 150); /* 5 × √(10,000 × 0.09) */
        assert_true(seen[i] < 1000 + 150);
    }
    assert_int_equal(rng_below(&rng, 1), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_is_a_function_of_its_arguments),
        cmocka_unit_test(test_avalanche),
        cmocka_unit_test(test_unit),
        cmocka_unit_test(test_below),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
