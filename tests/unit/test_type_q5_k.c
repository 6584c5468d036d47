#include "tests/unit/type_block.h"

static void test_a_block_of_the_format(void **state)
{
    (void)state;
    assert_int_equal(tensor_type_info(TENSOR_TYPE_q5_k)->block_elements, 256);
    assert_int_equal(tensor_type_info(TENSOR_TYPE_q5_k)->block_bytes, 176);
    type_block_check(&(struct type_block){
        .type = TENSOR_TYPE_q5_k,
        .factors = {{0, -0.5f}, {2, 0.25f}},
        .first = -345,
        .at_17 = -460.5f,
        .last = -27.25f,
        .sum = -72873,
        .weighted = -9700353,
    });
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_block_of_the_format),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
