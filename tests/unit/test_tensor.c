#include "kernels/tensor.h"

#include "tests/unit/kernels_kit.h"

static void test_the_list_of_types(void **state)
{
    (void)state;
    static const struct {
        uint32_t id;
        const char *name;
        uint32_t elements;
        uint32_t bytes;
    } want[] = {{0, "f32", 1, 4},       {1, "f16", 1, 2},       {2, "q4_0", 32, 18},
                {3, "q4_1", 32, 20},    {6, "q5_0", 32, 22},    {7, "q5_1", 32, 24},
                {8, "q8_0", 32, 34},    {12, "q4_k", 256, 144}, {13, "q5_k", 256, 176},
                {14, "q6_k", 256, 210}, {30, "bf16", 1, 2},     {39, "mxfp4", 32, 17}};
    for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
        const struct tensor_type_info *type = tensor_type_info(want[i].id);
        assert_non_null(type);
        assert_int_equal(type->id, want[i].id);
        assert_string_equal(type->name, want[i].name);
        assert_int_equal(type->block_elements, want[i].elements);
        assert_int_equal(type->block_bytes, want[i].bytes);
    }
    assert_null(tensor_type_info(4));
    assert_null(tensor_type_info(UINT32_MAX));
}

static void test_a_row_is_read_from_its_place(void **state)
{
    (void)state;
    const float data[6] = {1, 2, 3, 4, 5, 6};
    struct tensor tensor = {.type = tensor_type_info(TENSOR_TYPE_f32),
                            .dim_count = 2,
                            .dims = {3, 2, 1, 1},
                            .data = data,
                            .bytes = sizeof data};
    float out[3];
    tensor_row_to_f32(&tensor, 0, out);
    assert_memory_equal(out, data, sizeof out);
    tensor_row_to_f32(&tensor, 1, out);
    assert_memory_equal(out, data + 3, sizeof out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_list_of_types),
        cmocka_unit_test(test_a_row_is_read_from_its_place),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
