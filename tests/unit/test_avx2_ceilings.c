#include "kernels/cpu/avx2/avx2.h"

#include "tests/unit/kernels_kit.h"

/* Operations grow with the rounds, and the work depends on the sink, so it cannot be left out. */
static void test_operations_are_counted(void **state)
{
    (void)state;
    if (!kernels_can_run("avx2"))
        return;
    uint64_t sink = 3;
    uint64_t one = k_spin_int8_avx2(1, &sink);
    assert_true(one >= 2 * 256);
    assert_int_equal(k_spin_int8_avx2(1000, &sink), 1000 * one);
    one = k_spin_f32_avx2(1, &sink);
    assert_true(one >= 2 * 64);
    assert_int_equal(k_spin_f32_avx2(1000, &sink), 1000 * one);
    assert_true(sink != 3);
}

/* Every line is read: changing one byte anywhere changes what comes out. */
static void test_all_memory_is_read(void **state)
{
    (void)state;
    if (!kernels_can_run("avx2"))
        return;
    unsigned char memory[64 * 7 + 1] = {0};
    for (size_t at = 1; at < sizeof memory; at += 31) {
        uint64_t before = 0;
        uint64_t after = 0;
        k_read_avx2(memory + 1, 64 * 7, &before);
        memory[at] ^= 5;
        k_read_avx2(memory + 1, 64 * 7, &after);
        assert_true(before != after);
    }
    uint64_t sink = 9;
    k_read_avx2(memory, 0, &sink);
    assert_int_equal(sink, 9);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_operations_are_counted),
        cmocka_unit_test(test_all_memory_is_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
