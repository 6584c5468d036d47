#include "kernels/cpu/avx512/avx512.h"

#include "tests/unit/isa_keys.h"

static void test_same_bits(void **state)
{
    (void)state;
    isa_keys_check("avx512", k_keys_pack_avx512, k_keys_unpack_avx512);
    isa_values_check("avx512", k_values_pack_avx512, k_values_unpack_avx512, k_hadamard_avx512);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_same_bits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
