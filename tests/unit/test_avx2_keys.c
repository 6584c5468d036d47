#include "kernels/cpu/avx2/avx2.h"

#include "tests/unit/isa_keys.h"

static void test_same_bits(void **state)
{
    (void)state;
    isa_keys_check("avx2", k_keys_pack_ref, k_keys_unpack_avx2);
    isa_values_check("avx2", k_values_pack_avx2, k_values_unpack_avx2, k_hadamard_avx2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_same_bits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
