#include "kernels/tensor.h"

#include <math.h>

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

/* Whole numbers of 2^-23 by a formula, times a power of two for each block; two blocks are
 * different. */
static float value_at(uint32_t i)
{
    const uint32_t block = i / 32;
    uint32_t k = i * 2654435761u + 12345;
    k = (k ^ k >> 15) * 2246822519u;
    k ^= k >> 13;
    if (block == 60)
        return 0;
    if (block == 61) /* halves between codes */
        return ((float)(i % 32) - 16) * 0.5f * (127.0f / 8);
    const float value = ((float)(k >> 8) - 8388608.0f) * 0x1p-23f;
    return block < 60 ? ldexpf(value, (int)block - 40) : value;
}

/* The bytes that the package gguf (0.19.0) makes of these values as Q8_0. */
static void test_codes_of_8_bits_are_those_of_llama_cpp(void **state)
{
    enum { COUNT = 64 * 32, BYTES = 64 * 34 };
    float x[COUNT];
    uint8_t codes[BYTES];
    uint64_t hash = 0xcbf29ce484222325u;
    (void)state;
    for (uint32_t i = 0; i < COUNT; i++)
        x[i] = value_at(i);
    assert_true(tensor_row_to_q8_0(x, COUNT, codes));
    for (uint32_t i = 0; i < BYTES; i++)
        hash = (hash ^ codes[i]) * 0x100000001b3u;
    assert_true(hash == 0xa9d1ede423a48762u);
}

static void test_values_that_codes_of_8_bits_cannot_hold(void **state)
{
    static const float bad[] = {NAN, INFINITY, -INFINITY, 65505.0f * 127, -65505.0f * 127};
    float x[64] = {0};
    uint8_t codes[68];
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        x[40] = bad[i];
        assert_false(tensor_row_to_q8_0(x, 64, codes));
    }
    x[40] = -65504.0f * 127;
    assert_true(tensor_row_to_q8_0(x, 64, codes));
    assert_int_equal((int8_t)codes[34 + 2 + 8], -127);
    x[40] = 0x1p-140f; /* 1 / its factor is beyond float32 */
    assert_true(tensor_row_to_q8_0(x, 64, codes));
    assert_int_equal(codes[34] | codes[35], 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_list_of_types),
        cmocka_unit_test(test_a_row_is_read_from_its_place),
        cmocka_unit_test(test_codes_of_8_bits_are_those_of_llama_cpp),
        cmocka_unit_test(test_values_that_codes_of_8_bits_cannot_hold),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
