#include "tests/unit/type_block.h"

static void test_a_block_of_the_format(void **state)
{
    (void)state;
    assert_int_equal(tensor_type_info(TENSOR_TYPE_q6_k)->block_elements, 256);
    assert_int_equal(tensor_type_info(TENSOR_TYPE_q6_k)->block_bytes, 210);
    type_block_check(&(struct type_block){
        .type = TENSOR_TYPE_q6_k,
        .factors = {{208, 0.5f}, {208, 0.5f}},
        .first = 1255.5f,
        .at_17 = -887.5f,
        .last = 429,
        .sum = -12363.5,
        .weighted = -2960049,
    });
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_block_of_the_format),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
