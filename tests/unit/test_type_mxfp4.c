#include "tests/unit/kernels_kit.h"

enum { BLOCK = 32, BYTES = 17, Q5_BYTES = 22, LEAST = 104, MOST = 143 };

static const int VALUES[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

/* Element i is the low nibble of byte i, element 16 + i its high one. */
static void make_block(unsigned char *block, unsigned char e, uint32_t first)
{
    block[0] = e;
    for (uint32_t i = 0; i < 16; i++)
        block[1 + i] = (unsigned char)((first + i) % 16 | (first + i * 3 + 5) % 16 << 4);
}

/* Each exponent and each code: the value of the format, exactly. */
static void test_values(void **state)
{
    (void)state;
    const struct tensor_type_info *type = tensor_type_info(TENSOR_TYPE_mxfp4);
    unsigned char block[1 + BYTES];
    float out[BLOCK + 1];
    assert_int_equal(type->id, 39);
    assert_int_equal(type->block_elements, BLOCK);
    assert_int_equal(type->block_bytes, BYTES);
    for (uint32_t e = 0; e <= MOST; e++) {
        make_block(block + 1, (unsigned char)e, e);
        out[BLOCK] = 7;
        type->to_f32(block + 1, out, BLOCK);
        for (uint32_t i = 0; i < BLOCK; i++) {
            const uint32_t code = (i < 16 ? e + i : e + (i - 16) * 3 + 5) % 16;
            const double want = e < LEAST ? 0 : ldexp(VALUES[code], (int)e - 128);
            assert_true((double)out[i] == want);
        }
        assert_float_equal(out[BLOCK], 7, 0); /* nothing written behind */
    }
}

/* The same values as q5_0 with d = 2^(e − 128) and 16 added to the codes. */
static void test_is_q5_0(void **state)
{
    (void)state;
    const struct tensor_type_info *q5 = tensor_type_info(TENSOR_TYPE_q5_0);
    unsigned char block[BYTES];
    unsigned char other[Q5_BYTES];
    float want[BLOCK];
    float got[BLOCK];
    for (uint32_t e = LEAST; e <= MOST; e++) {
        uint32_t fifths = 0;
        make_block(block, (unsigned char)e, 3 * e);
        kit_half(other, ldexpf(1, (int)e - 128));
        for (uint32_t i = 0; i < 16; i++) {
            const uint32_t low = (uint32_t)(VALUES[block[1 + i] & 15] + 16);
            const uint32_t high = (uint32_t)(VALUES[block[1 + i] >> 4] + 16);
            other[6 + i] = (unsigned char)((low & 15) | (high & 15) << 4);
            fifths |= (low >> 4) << i | (high >> 4) << (16 + i);
        }
        memcpy(other + 2, &fifths, sizeof fifths);
        tensor_type_info(TENSOR_TYPE_mxfp4)->to_f32(block, got, BLOCK);
        q5->to_f32(other, want, BLOCK);
        for (uint32_t i = 0; i < BLOCK; i++)
            assert_true(got[i] == want[i]); /* 0 and −0 are equal */
    }
}

/* Larger factors are refused by every table, wherever they are. */
static void test_too_large(void **state)
{
    (void)state;
    struct rng rng = {.seed = 2};
    enum { ROWS = 40, COLS = 64 };
    struct tensor tensor = kit_tensor(&rng, TENSOR_TYPE_mxfp4, ROWS, COLS);
    unsigned char *blocks = (unsigned char *)(uintptr_t)tensor.data;
    for (const char *const *isa = kit_isas(); *isa != NULL; isa++) {
        struct kernels *kernels = kit_kernels(*isa, 2, 1, COLS);
        for (uint32_t b = 0; b < ROWS * COLS / BLOCK; b += 13) {
            const unsigned char e = blocks[b * BYTES];
            struct weight weight;
            blocks[b * BYTES] = MOST;
            assert_int_equal(kernels_weight_create(kernels, &weight, &tensor), STATUS_OK);
            kernels_weight_destroy(kernels, &weight);
            blocks[b * BYTES] = (unsigned char)(MOST + 1 + b);
            assert_int_equal(kernels_weight_create(kernels, &weight, &tensor), STATUS_CORRUPT);
            assert_non_null(strstr(status_note()->message, "mxfp4"));
            assert_null(weight.packed);
            blocks[b * BYTES] = e;
        }
        kernels_destroy(kernels);
    }
    kit_tensor_free(&tensor);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_values),
        cmocka_unit_test(test_is_q5_0),
        cmocka_unit_test(test_too_large),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
