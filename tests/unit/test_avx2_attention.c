/* Equal bits of avx2 and ref_int8 in attention and in writing pages. */
#include "kernels/cpu/avx2/avx2.h"

#include "tests/unit/isa_attention.h"

static void test_same_bits(void **state)
{
    (void)state;
    isa_attention_check("avx2");
}

static void test_same_bits_at_edges(void **state)
{
    (void)state;
    isa_attention_check_edges("avx2");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_same_bits),
        cmocka_unit_test(test_same_bits_at_edges),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
