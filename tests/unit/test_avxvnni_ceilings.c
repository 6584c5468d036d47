#include "kernels/cpu/avxvnni/avxvnni.h"

#include "tests/unit/isa_ceilings.h"

static void test_operations_are_counted(void **state)
{
    (void)state;
    if (kernels_can_run("avxvnni"))
        isa_ceilings_check_counts(k_spin_int8_avxvnni, k_spin_f32_avx2, 2 * 256, 2 * 64);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_operations_are_counted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
