#include "kernels/cpu/avx2/avx2.h"

#include "tests/unit/isa_ceilings.h"

static void test_operations_are_counted(void **state)
{
    (void)state;
    if (kernels_can_run("avx2"))
        isa_ceilings_check_counts(k_spin_int8_avx2, k_spin_f32_avx2, 2 * 256, 2 * 64);
}

static void test_all_memory_is_read(void **state)
{
    (void)state;
    if (kernels_can_run("avx2"))
        isa_ceilings_check_read(k_read_avx2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_operations_are_counted),
        cmocka_unit_test(test_all_memory_is_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
