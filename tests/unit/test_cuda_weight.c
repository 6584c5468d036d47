#include "kernels/cuda/cuda_weight.h"

#include "tests/unit/kernels_kit.h"

/* Every element of a tile has a place of its own, and all places are taken. */
static void test_places_fill_a_tile(void **state)
{
    (void)state;
    static const uint32_t widths[] = {32, 16, 8, 4};
    enum { PARTS = 4, ELEMENTS = PARTS * CUDA_WEIGHT_TILE * CUDA_WEIGHT_PART };
    for (int w = 0; w < 4; w++) {
        const struct cuda_weight_form form = {.bits = widths[w], .parts = PARTS};
        unsigned char taken[ELEMENTS * 4] = {0}; /* in units of a place */
        const uint32_t step = widths[w] >= 16 ? widths[w] / 8 : 1;
        for (uint32_t row = 0; row < CUDA_WEIGHT_TILE; row++)
            for (uint32_t col = 0; col < PARTS * CUDA_WEIGHT_PART; col++) {
                const size_t place = cuda_weight_place(&form, row, col);
                assert_true(place + step <= (size_t)ELEMENTS * step);
                assert_int_equal(taken[place]++, 0);
            }
        for (uint32_t i = 0; i < ELEMENTS; i++)
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
    const size_t first = (size_t)(row / CUDA_WEIGHT_TILE) * form->parts; /* part of its tile */
    const uint32_t at = row % CUDA_WEIGHT_TILE;
    const size_t place = cuda_weight_place(form, at, col);
    codes += first * form->codes_bytes;
    factors += first / form->group * form->factors_bytes + cuda_weight_factor(form, at, col);
    if (form->bits == 32) {
        float value;
        memcpy(&value, codes + place, sizeof value);
        return value;
    }
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
        assert_int_equal(cuda_weight_form(&form, tensor.type, OUT, COLS, 0), STATUS_OK);
        assert_int_equal(form.tiles, 3);
        assert_int_equal(form.parts, 16);
        const size_t count = (size_t)form.tiles * form.parts;
        assert_int_equal(form.bytes,
                         CUDA_WEIGHT_HEAD + count * (form.codes_bytes + form.factors_bytes));
        unsigned char *codes = malloc(count * form.codes_bytes);
        unsigned char *factors = malloc(count * form.factors_bytes + 1);
        const float first_max = cuda_weight_max(&tensor, 0, 20);
        const float max = cuda_weight_max(&tensor, 20, OUT);
        const float scale = cuda_weight_scale(max > first_max ? max : first_max);
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
                const float bound = form.bits >= 16 ? 0 : 0.6f * 0x1p-11f;
                if (row < OUT ? !(fabsf(got - want[col]) <= bound) : form.bits >= 16 && got != 0)
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
    assert_int_equal(cuda_weight_form(&form, tensor.type, 3, 33, 0), STATUS_OK);
    assert_int_equal(form.parts, 2);
    memset(codes, 0xff, sizeof codes);
    cuda_weight_pack(&form, &tensor, 1, 0, 1, codes, none);
    tensor_row_to_f32(&tensor, 2, want);
    for (uint32_t col = 0; col < 64; col++)
        assert_true(element(&form, codes, none, 1, 2, col) == (col < 33 ? want[col] : 0));
    kit_tensor_free(&tensor);
}

/* Factors that 128 inputs have in common stand once. */
static void test_groups(void **state)
{
    (void)state;
    enum { OUT = 16, COLS = 320, BLOCKS = COLS / 32 };
    struct rng rng = {.seed = 5};
    struct tensor tensor = kit_tensor(&rng, TENSOR_TYPE_q4_1, OUT, COLS);
    unsigned char *blocks = (unsigned char *)(uintptr_t)tensor.data;
    struct cuda_weight_form form;
    unsigned char codes[12 * 256];
    unsigned char factors[3 * 64];
    for (uint32_t b = 0; b < OUT * BLOCKS; b++)
        memcpy(blocks + (size_t)b * 20, blocks + (size_t)(b - b % BLOCKS % 4) * 20, 4);
    tensor.group = CUDA_WEIGHT_GROUP;
    assert_int_equal(cuda_weight_form(&form, tensor.type, OUT, COLS, 64), STATUS_UNSUPPORTED);
    assert_int_equal(cuda_weight_form(&form, tensor_type_info(TENSOR_TYPE_q4_0), OUT, COLS, 128),
                     STATUS_UNSUPPORTED);
    assert_int_equal(cuda_weight_form(&form, tensor.type, OUT, COLS, tensor.group), STATUS_OK);
    assert_int_equal(form.parts, 12);
    assert_int_equal(form.bytes, CUDA_WEIGHT_HEAD + sizeof codes + sizeof factors);
    const float scale = cuda_weight_scale(cuda_weight_max(&tensor, 0, OUT));
    cuda_weight_pack(&form, &tensor, scale, 0, 1, codes, factors);
    for (uint32_t row = 0; row < OUT; row++) {
        float want[COLS];
        tensor_row_to_f32(&tensor, row, want);
        for (uint32_t col = 0; col < COLS; col++)
            assert_true(fabsf(element(&form, codes, factors, scale, row, col) - want[col]) <=
                        0.6f * 0x1p-11f);
    }
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
    assert_true(cuda_weight_scale(cuda_weight_max(&tensor, 0, 1)) == 1); /* all zero */
    for (float d = 0x1p-24f; d < 60000; d *= 3) {
        kit_half(block, -d);
        const float scaled =
            fabsf(half_at(block)) * cuda_weight_scale(cuda_weight_max(&tensor, 0, 1));
        assert_true(scaled >= 0x1p14f);
        assert_true(scaled < 0x1p15f);
    }
    kit_half(block, INFINITY);
    assert_true(cuda_weight_scale(cuda_weight_max(&tensor, 0, 1)) == 1);
}

/* Segments depend on the matrix alone; blocks share them where they are few. */
static void test_segments(void **state)
{
    (void)state;
    assert_int_equal(cuda_weight_segment(1), 2);
    assert_int_equal(cuda_weight_segment(64), 8);   /* 4,096 inputs: 8 of 512 */
    assert_int_equal(cuda_weight_segment(224), 28); /* 14,336 */
    for (uint32_t pairs = 1; pairs < 1000; pairs++) {
        const uint32_t segment = cuda_weight_segment(pairs);
        const uint32_t segments = (pairs + segment - 1) / segment;
        assert_int_equal(segment % 2, 0);
        assert_true(segments <= 8);
        for (uint32_t blocks = 1; blocks < 200; blocks += 13) {
            const uint32_t splits = cuda_weight_splits(blocks, 132, segments, 1, UINT64_MAX);
            const uint32_t each = (segments + splits - 1) / splits;
            assert_true(splits * each >= segments);
            assert_true((splits - 1) * each < segments);
        }
    }
    assert_int_equal(cuda_weight_splits(132, 132, 8, 1, 100), 1);
    assert_int_equal(cuda_weight_splits(32, 132, 8, 1, 100), 4); /* of two segments */
    assert_int_equal(cuda_weight_splits(32, 132, 8, 10, 79), 1);
    assert_int_equal(cuda_weight_splits(1, 132, 5, 1, 100), 5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_places_fill_a_tile),
        cmocka_unit_test(test_elements_are_the_files),
        cmocka_unit_test(test_inputs_are_padded_with_zeros),
        cmocka_unit_test(test_groups),
        cmocka_unit_test(test_scale),
        cmocka_unit_test(test_segments),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
