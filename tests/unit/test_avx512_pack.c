#include "kernels/cpu/avx512/avx512.h"

#include "tests/unit/isa_pack.h"

static void test_inputs(void **state)
{
    (void)state;
    if (kernels_can_run("avx512"))
        isa_pack_check(k_input_units_avx512, k_input_pack_avx512, AVX512_TILE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_inputs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
