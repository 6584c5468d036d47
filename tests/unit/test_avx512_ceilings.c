#include "kernels/cpu/avx512/avx512.h"

#include "tests/unit/isa_ceilings.h"

static void test_operations_are_counted(void **state)
{
    (void)state;
    if (kernels_can_run("avx512"))
        isa_ceilings_check_counts(k_spin_int8_avx512, k_spin_f32_avx512, 2 * 256, 2 * 256);
}

static void test_all_memory_is_read(void **state)
{
    (void)state;
    if (kernels_can_run("avx512"))
        isa_ceilings_check_read(k_read_avx512);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_operations_are_counted),
        cmocka_unit_test(test_all_memory_is_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
