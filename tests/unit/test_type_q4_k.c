#include "tests/unit/type_block.h"

static void test_a_block_of_the_format(void **state)
{
    (void)state;
    assert_int_equal(tensor_type_info(TENSOR_TYPE_q4_k)->block_elements, 256);
    assert_int_equal(tensor_type_info(TENSOR_TYPE_q4_k)->block_bytes, 144);
    type_block_check(&(struct type_block){
        .type = TENSOR_TYPE_q4_k,
        .factors = {{0, 0.5f}, {2, 0.25f}},
        .first = 232.5f,
        .at_17 = 166.5f,
        .last = -6.25f,
        .sum = 30568.5,
        .weighted = 4126900.5,
    });
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_block_of_the_format),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
