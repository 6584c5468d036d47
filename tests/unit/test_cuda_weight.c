#include "kernels/cuda/cuda_weight.h"

#include "tests/unit/kernels_kit.h"

/* Every element of a part has a place of its own, and all places are taken. */
static void test_places_fill_a_part(void **state)
{
    (void)state;
    static const uint32_t widths[] = {16, 8, 4};
    for (int w = 0; w < 3; w++) {
        unsigned char taken[1024] = {0}; /* in units of a place */
        const uint32_t step = widths[w] == 16 ? 2 : 1;
        for (uint32_t row = 0; row < CUDA_WEIGHT_TILE; row++)
            for (uint32_t col = 0; col < CUDA_WEIGHT_PART; col++) {
                const uint32_t place = cuda_weight_place(widths[w], row, col);
                assert_true(place + step <= sizeof taken);
                assert_int_equal(taken[place]++, 0);
            }
        for (uint32_t i = 0; i < CUDA_WEIGHT_TILE * CUDA_WEIGHT_PART; i++)
            assert_int_equal(taken[i * step], 1);
    }
}

static float half_at(const unsigned char *at)
{
    uint16_t half;
    memcpy(&half, at, sizeof half);
    return half_to_float(half);
}

/* What the device makes of one element. */
static float element(const struct cuda_weight_form *form, const unsigned char *codes,
                     const unsigned char *factors, float scale, uint32_t row, uint32_t col)
{
    const size_t index = (size_t)(row / CUDA_WEIGHT_TILE) * form->parts + col / CUDA_WEIGHT_PART;
    const uint32_t at = row % CUDA_WEIGHT_TILE;
    const uint32_t place = cuda_weight_place(form->bits, at, col % CUDA_WEIGHT_PART);
    const uint32_t half = form->is_split ? col % CUDA_WEIGHT_PART / CUDA_WEIGHT_STEP : 0;
    codes += index * form->codes_bytes;
    factors += index * form->factors_bytes + (half * CUDA_WEIGHT_TILE + at) * (form->has_m ? 4 : 2);
    if (form->bits == 16) {
        uint16_t bits;
        memcpy(&bits, codes + place, sizeof bits);
        return form->is_bf16 ? half_bits_float((uint32_t)bits << 16) : half_to_float(bits);
    }
    const int code = form->bits == 8
                         ? codes[place] - 128
                         : (codes[place / 2] >> 4 * (place % 2) & 15) - (form->has_m ? 0 : 8);
    const float value = half_at(factors) * (float)code;
    return (form->has_m ? value + half_at(factors + 2) : value) / scale;
}

/* Packed in two pieces, each type says the same as the file's own reader, but for the factors'
 * rounding to halves; outputs beyond the last are zero. */
static void test_elements_are_the_files(void **state)
{
    (void)state;
    struct rng rng = {.seed = 3};
    enum { OUT = 37, COLS = 512 };
    for (size_t t = 0; t < KIT_TYPES; t++) {
        struct tensor tensor = kit_tensor(&rng, kit_types[t], OUT, COLS);
        struct cuda_weight_form form;
        if (kit_types[t] == TENSOR_TYPE_f32) {
            assert_int_equal(cuda_weight_form(&form, tensor.type, OUT, COLS), STATUS_UNSUPPORTED);
            kit_tensor_free(&tensor);
            continue;
        }
        assert_int_equal(cuda_weight_form(&form, tensor.type, OUT, COLS), STATUS_OK);
        assert_int_equal(form.tiles, 3);
        assert_int_equal(form.parts, 16);
        const size_t count = (size_t)form.tiles * form.parts;
        assert_int_equal(form.bytes,
                         CUDA_WEIGHT_HEAD + count * (form.codes_bytes + form.factors_bytes));
        unsigned char *codes = malloc(count * form.codes_bytes);
        unsigned char *factors = malloc(count * form.factors_bytes + 1);
        const float scale = cuda_weight_scale(&tensor);
        const size_t first = 2 * (size_t)form.parts;
        cuda_weight_pack(&form, &tensor, scale, 0, 2, codes, factors);
        cuda_weight_pack(&form, &tensor, scale, 2, 3, codes + first * form.codes_bytes,
                         factors + first * form.factors_bytes);
        for (uint32_t row = 0; row < form.tiles * CUDA_WEIGHT_TILE; row++) {
            float want[COLS] = {0};
            if (row < OUT)
                tensor_row_to_f32(&tensor, row, want);
            for (uint32_t col = 0; col < COLS; col++) {
                const float got = element(&form, codes, factors, scale, row, col);
                const float bound = form.bits == 16 ? 0 : 0.6f * 0x1p-11f;
                if (row < OUT ? !(fabsf(got - want[col]) <= bound) : form.bits == 16 && got != 0)
                    fail_msg("%s [%u][%u]: %g, not %g", tensor.type->name, row, col, (double)got,
                             (double)want[col]);
            }
        }
        free(codes);
        free(factors);
        kit_tensor_free(&tensor);
    }
}

/* Inputs that are no whole part. */
static void test_inputs_are_padded_with_zeros(void **state)
{
    (void)state;
    struct rng rng = {.seed = 4};
    struct tensor tensor = kit_tensor(&rng, TENSOR_TYPE_f16, 3, 33);
    struct cuda_weight_form form;
    unsigned char codes[2 * 1024];
    unsigned char none[1];
    float want[33];
    assert_int_equal(cuda_weight_form(&form, tensor.type, 3, 33), STATUS_OK);
    assert_int_equal(form.parts, 2);
    memset(codes, 0xff, sizeof codes);
    cuda_weight_pack(&form, &tensor, 1, 0, 1, codes, none);
    tensor_row_to_f32(&tensor, 2, want);
    for (uint32_t col = 0; col < 64; col++)
        assert_true(element(&form, codes, none, 1, 2, col) == (col < 33 ? want[col] : 0));
    kit_tensor_free(&tensor);
}

/* The greatest factor, scaled, uses the range of a half and stays inside it. */
static void test_scale(void **state)
{
    (void)state;
    unsigned char block[34] = {0};
    struct tensor tensor = {.type = tensor_type_info(TENSOR_TYPE_q8_0),
                            .dim_count = 2,
                            .dims = {32, 1, 1, 1},
                            .data = block,
                            .bytes = sizeof block};
    assert_true(cuda_weight_scale(&tensor) == 1); /* all zero */
    for (float d = 0x1p-24f; d < 60000; d *= 3) {
        kit_half(block, -d);
        const float scaled = fabsf(half_at(block)) * cuda_weight_scale(&tensor);
        assert_true(scaled >= 0x1p14f);
        assert_true(scaled < 0x1p15f);
    }
    kit_half(block, INFINITY);
    assert_true(cuda_weight_scale(&tensor) == 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_places_fill_a_part),
        cmocka_unit_test(test_elements_are_the_files),
        cmocka_unit_test(test_inputs_are_padded_with_zeros),
        cmocka_unit_test(test_scale),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
