/* isa_linear: equal bits of a table and ref_int8 in linear layers of every weight type.
 *
 * Owns:     nothing. A test of one instruction set includes it and calls
 *           isa_linear_check(its name).
 * Not here: what a table's own test knows better.
 */
#pragma once

#include "tests/unit/kernels_kit.h"

static void isa_linear_compare(struct kernels *fast, struct kernels *judge, struct rng *rng,
                               uint32_t type, uint32_t rows, uint32_t outputs, uint32_t cols)
{
    struct tensor tensor = kit_tensor(rng, type, outputs, cols);
    float *x = kit_floats(rng, (size_t)rows * cols + 1, 3);
    float *a = kit_floats(rng, (size_t)rows * outputs + 1, 1);
    float *b = malloc(((size_t)rows * outputs + 1) * sizeof *b);
    memcpy(b, a, ((size_t)rows * outputs + 1) * sizeof *b);
    if (rows > 0)
        memset(x + 1, 0, cols / 2 * sizeof *x); /* blocks of zeros */
    bool accumulate = rng_below(rng, 2) == 1;
    float *biases = kit_floats(rng, outputs + 1, 2);
    /* One float beyond the start of the allocation: no pointer is aligned to a vector. */
    const float *bias = rng_below(rng, 2) == 1 ? biases + 1 : NULL;
    kit_linear_bias(fast, &tensor, x + 1, rows, bias, a + 1, accumulate);
    kit_linear_bias(judge, &tensor, x + 1, rows, bias, b + 1, accumulate);
    kit_assert_same_bits(a, b, (size_t)rows * outputs + 1);
    free(biases);
    free(x);
    free(a);
    free(b);
    kit_tensor_free(&tensor);
}

/* Around the tiles of 16 outputs and of 4 and 16 rows; types of 256 elements a block too. */
static void isa_linear_check_type(const char *isa, const struct tensor_type_info *type)
{
    static const uint32_t row_counts[] = {0, 1, 2, 3, 4, 5, 7, 8, 12, 15, 16, 17, 31, 32, 33, 70};
    static const uint32_t output_counts[] = {1, 15, 16, 17, 32, 49};
    static const uint32_t col_counts[] = {1, 3, 18};
    struct rng rng = {.seed = type->id};
    const uint32_t unit = type->take == NULL ? 11 : type->block_elements > 32 ? 256 : 32;
    struct kernels *fast = kit_fast(isa, 2, 70, unit * 18);
    if (fast == NULL)
        return;
    struct kernels *judge = kit_kernels("ref_int8", 1, 70, unit * 18);
    for (size_t r = 0; r < sizeof row_counts / sizeof *row_counts; r++)
        for (size_t o = 0; o < sizeof output_counts / sizeof *output_counts; o++)
            isa_linear_compare(fast, judge, &rng, type->id, row_counts[r], output_counts[o],
                               unit * col_counts[rng_below(&rng, unit > 32 ? 2 : 3)]);
    kernels_destroy(fast);
    kernels_destroy(judge);
}

/* Greatest codes against inputs of one sign: sums of products must not saturate. */
static void isa_linear_check_extremes(const char *isa)
{
    enum { OUTPUTS = 16, COLS = 64, ROWS = 2 };
    struct kernels *fast = kit_fast(isa, 1, ROWS, COLS);
    if (fast == NULL)
        return;
    struct rng rng = {.seed = 9};
    struct tensor tensor = kit_tensor(&rng, TENSOR_TYPE_q8_0, OUTPUTS, COLS);
    const uint16_t one = half_from_float(1);
    unsigned char *block = (unsigned char *)(uintptr_t)tensor.data;
    for (uint32_t b = 0; b < OUTPUTS * COLS / 32; b++, block += 34) {
        memcpy(block, &one, sizeof one);
        memset(block + 2, b % 2 ? 127 : 128, 32); /* 127 and −128 */
    }
    float x[ROWS * COLS];
    float y[ROWS * OUTPUTS];
    for (uint32_t i = 0; i < ROWS * COLS; i++)
        x[i] = i < COLS ? -127.0f : (i % 64 < 32 ? 127.0f : -127.0f);
    kit_linear(fast, &tensor, x, ROWS, y, false);
    for (uint32_t o = 0; o < OUTPUTS; o++) {
        assert_float_equal(y[o], 32 * -127 * (127 - 128), 0);
        assert_float_equal(y[OUTPUTS + o], 32 * 127 * (-128 - 127), 0);
    }
    kit_tensor_free(&tensor);
    kernels_destroy(fast);
}

/* All codes (and small factors) of all bits against inputs of one sign: what random codes leave far
 * from the ends of 16 bits. */
static void isa_linear_check_greatest(const char *isa, const struct tensor_type_info *type)
{
    enum { OUTPUTS = 16, COLS = 512, ROWS = 2 };
    struct kernels *fast = kit_fast(isa, 1, ROWS, COLS);
    if (fast == NULL)
        return;
    struct kernels *judge = kit_kernels("ref_int8", 1, ROWS, COLS);
    struct rng rng = {.seed = type->id};
    struct tensor tensor = kit_tensor(&rng, type->id, OUTPUTS, COLS);
    unsigned char *block = (unsigned char *)(uintptr_t)tensor.data;
    for (uint64_t at = 0; at < tensor.bytes; at += type->block_bytes) {
        memset(block + at, 0xff, type->block_bytes);
        kit_factors(&rng, type->id, block + at);
    }
    float x[ROWS * COLS];
    float y[2][ROWS * OUTPUTS];
    for (uint32_t i = 0; i < ROWS * COLS; i++)
        x[i] = i < COLS ? 127.0f : -127.0f;
    kit_linear(fast, &tensor, x, ROWS, y[0], false);
    kit_linear(judge, &tensor, x, ROWS, y[1], false);
    kit_assert_same_bits(y[0], y[1], (size_t)ROWS * OUTPUTS);
    kit_tensor_free(&tensor);
    kernels_destroy(fast);
    kernels_destroy(judge);
}

/* Rows that are wider than what a table takes of them in turn. */
static void isa_linear_check_wide(const char *isa)
{
    enum { OUTPUTS = 33, COLS = 32 * 340, ROWS = 70 };
    struct kernels *fast = kit_fast(isa, 1, ROWS, COLS);
    if (fast == NULL)
        return;
    struct kernels *judge = kit_kernels("ref_int8", 1, ROWS, COLS);
    struct rng rng = {.seed = 6};
    isa_linear_compare(fast, judge, &rng, TENSOR_TYPE_q4_1, ROWS, OUTPUTS, COLS);
    kernels_destroy(fast);
    kernels_destroy(judge);
}

static void isa_linear_check(const char *isa)
{
    isa_linear_check_wide(isa);

    for (size_t t = 0; t < KIT_TYPES; t++) {
        const struct tensor_type_info *type = tensor_type_info(kit_types[t]);
        isa_linear_check_type(isa, type);
        if (type->take != NULL)
            isa_linear_check_greatest(isa, type);
    }
    isa_linear_check_extremes(isa);
}
