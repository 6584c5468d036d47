#include "tests/unit/type_block.h"

static void test_a_block_of_the_format(void **state)
{
    (void)state;
    assert_int_equal(tensor_type_info(TENSOR_TYPE_q5_1)->block_elements, 32);
    assert_int_equal(tensor_type_info(TENSOR_TYPE_q5_1)->block_bytes, 24);
    type_block_check(&(struct type_block){
        .type = TENSOR_TYPE_q5_1,
        .factors = {{0, 0.5f}, {2, -3}},
        .first = 11,
        .at_17 = 8,
        .last = 2,
        .sum = 167,
        .weighted = 2738,
    });
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_block_of_the_format),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
