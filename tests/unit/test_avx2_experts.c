/* Equal bits of avx2 and ref_int8 in layers of experts. */
#include "kernels/cpu/avx2/avx2.h"

#include "tests/unit/isa_experts.h"

static void test_same_bits(void **state)
{
    (void)state;
    isa_experts_check("avx2");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_same_bits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
