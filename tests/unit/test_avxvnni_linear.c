/* Equal bits of avxvnni and ref_int8 in linear layers, and layers of experts, of every weight
 * type. */
#include "kernels/cpu/avxvnni/avxvnni.h"

#include "tests/unit/isa_experts.h"
#include "tests/unit/isa_linear.h"

static void test_same_bits(void **state)
{
    (void)state;
    isa_linear_check("avxvnni");
    isa_experts_check("avxvnni");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_same_bits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
