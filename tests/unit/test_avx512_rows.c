/* Equal bits of avx512 and ref_int8 in the operations by rows, around the vector of 16 lanes. */
#include "kernels/cpu/avx512/avx512.h"

#include "tests/unit/isa_rows.h"

static void test_same_bits(void **state)
{
    (void)state;
    isa_rows_check("avx512");
}

static void test_exp(void **state)
{
    (void)state;
    isa_rows_check_exp("avx512", k_exp_avx512, 16);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_same_bits),
        cmocka_unit_test(test_exp),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
