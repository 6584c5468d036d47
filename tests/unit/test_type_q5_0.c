#include "tests/unit/type_block.h"

static void test_a_block_of_the_format(void **state)
{
    (void)state;
    assert_int_equal(tensor_type_info(TENSOR_TYPE_q5_0)->block_elements, 32);
    assert_int_equal(tensor_type_info(TENSOR_TYPE_q5_0)->block_bytes, 22);
    type_block_check(&(struct type_block){
        .type = TENSOR_TYPE_q5_0,
        .factors = {{0, 0.5f}, {0, 0.5f}},
        .first = 7,
        .at_17 = -7.5f,
        .last = 2.5f,
        .sum = 12,
        .weighted = 86.5,
    });
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_block_of_the_format),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
