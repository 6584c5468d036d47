#include "kernels/cpu/packed/packed.h"

#include "tests/unit/kernels_kit.h"

/* The layouts of packed.h, element by element, and zeros in lanes without an output. */
static void test_weight_layout(void **state)
{
    (void)state;
    enum { ROWS = 18, COLS = 64 };
    struct rng rng = {.seed = 1};
    struct tensor q4 = kit_tensor(&rng, TENSOR_TYPE_q4_1, ROWS, COLS);
    struct tensor q8 = kit_tensor(&rng, TENSOR_TYPE_q8_0, ROWS, COLS);
    unsigned char packed[2 * 2 * 544];
    const unsigned char *file = q4.data;
    assert_int_equal(packed_weight_bytes(q4.type, ROWS, COLS), 2 * 2 * 320);
    memset(packed, 0xee, sizeof packed);
    packed_weight_pack(&q4, 1, 2, packed);
    assert_int_equal(packed[0], 0xee); /* the other group is another thread's */
    packed_weight_pack(&q4, 0, 1, packed);
    for (uint32_t r = 0; r < ROWS; r++)
        for (uint32_t b = 0; b < 2; b++) {
            const unsigned char *unit = packed + (r / 16 * 2 + b) * 320;
            const unsigned char *block = file + (r * 2 + b) * 20;
            for (uint32_t i = 0; i < 16; i++)
                assert_int_equal(unit[i / 4 * 64 + r % 16 * 4 + i % 4], block[4 + i]);
            assert_memory_equal(unit + 256 + r % 16 * 2, block, 2);
            assert_memory_equal(unit + 288 + r % 16 * 2, block + 2, 2);
        }
    for (uint32_t lane = ROWS % 16; lane < 16; lane++)
        assert_int_equal(packed[2 * 320 + lane * 4], 0);
    file = q8.data;
    assert_int_equal(packed_weight_bytes(q8.type, ROWS, COLS), sizeof packed);
    packed_weight_pack(&q8, 0, 2, packed);
    for (uint32_t r = 0; r < ROWS; r++)
        for (uint32_t b = 0; b < 2; b++)
            for (uint32_t i = 0; i < 32; i++)
                assert_int_equal(packed[(r / 16 * 2 + b) * 544 + i / 4 * 64 + r % 16 * 4 + i % 4],
                                 (file[(r * 2 + b) * 34 + 2 + i] + 128) & 255);
    kit_tensor_free(&q4);
    kit_tensor_free(&q8);
}

/* Every type comes back, whichever lane and unit: nothing overlaps. Sizes are near the file's. */
static void test_rows_come_back(void **state)
{
    (void)state;
    enum { ROWS = 33, COLS = 512 };
    struct rng rng = {.seed = 3};
    for (size_t t = 0; t < KIT_TYPES; t++) {
        struct tensor tensor = kit_tensor(&rng, kit_types[t], ROWS, COLS);
        const size_t bytes = packed_weight_bytes(tensor.type, ROWS, COLS);
        /* MXFP4's codes are packed as Q5_0's are: 22 bytes in place of 17. */
        size_t row_bytes = tensor.bytes / ROWS;
        if (strcmp(tensor.type->name, "mxfp4") == 0)
            row_bytes = row_bytes * 22 / 17;
        assert_in_range(bytes, row_bytes * 48, row_bytes * 48 * 26 / 25);
        unsigned char *packed = malloc(bytes);
        memset(packed, 0xee, bytes);
        packed_weight_pack(&tensor, 0, 1, packed);
        packed_weight_pack(&tensor, 1, 3, packed);
        struct weight weight = {.type = tensor.type,
                                .rows = ROWS,
                                .cols = COLS,
                                .packed = packed,
                                .packed_bytes = bytes};
        for (uint32_t r = 0; r < ROWS; r++) {
            float want[COLS];
            float got[COLS];
            tensor_row_to_f32(&tensor, r, want);
            packed_weight_row(&weight, r, got);
            kit_assert_same_bits(got, want, COLS);
        }
        free(packed);
        kit_tensor_free(&tensor);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_weight_layout),
        cmocka_unit_test(test_rows_come_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
