#include "engine/models/model_share.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "config/base/mem.h"
#include "config/base/rng.h"
#include "engine/models/model.h"

static const uint32_t types[] = {
#define TENSOR_TYPE(name, id, elements, bytes, bits, has_m) (id),
#include "kernels/types/tensor_types.def"
};
enum { TYPES = sizeof types / sizeof types[0], ROWS = 6, COLS = 1024 };

/* Bytes at random; their values are compared as the type reads them, or as bits. */
static struct tensor make_tensor(uint32_t type, unsigned char *memory)
{
    const struct tensor_type_info *info = tensor_type_info(type);
    uint64_t bytes = (uint64_t)ROWS * (COLS / info->block_elements) * info->block_bytes;
    for (uint64_t i = 0; i < bytes; i++)
        memory[i] = (unsigned char)rng_at(type, 3, i);
    return (struct tensor){
        .type = info, .dim_count = 2, .dims = {COLS, ROWS, 1, 1}, .data = memory, .bytes = bytes};
}

static void assert_same_values(const struct tensor *part, uint32_t row, uint32_t col,
                               const struct tensor *whole)
{
    static float have[COLS];
    static float want[COLS];
    for (uint32_t r = 0; r < part->dims[1]; r++) {
        tensor_row_to_f32(part, r, have);
        tensor_row_to_f32(whole, row + r, want);
        assert_memory_equal(have, want + col, part->dims[0] * sizeof(float));
    }
}

static void test_every_type_by_rows(void **state)
{
    (void)state;
    static unsigned char memory[ROWS * COLS * sizeof(float)];
    for (uint32_t t = 0; t < TYPES; t++)
        for (uint32_t begin = 0; begin < ROWS; begin++)
            for (uint32_t count = 1; begin + count <= ROWS; count++) {
                const struct tensor whole = make_tensor(types[t], memory);
                struct tensor part = whole;
                model_share_rows(&part, (struct model_part){begin, count});
                assert_int_equal(part.dims[1], count);
                assert_int_equal(part.bytes * ROWS, whole.bytes * count);
                assert_same_values(&part, begin, 0, &whole);
            }
}

static void test_every_type_by_columns(void **state)
{
    (void)state;
    static unsigned char memory[ROWS * COLS * sizeof(float)];
    for (uint32_t t = 0; t < TYPES; t++) {
        const struct tensor whole = make_tensor(types[t], memory);
        uint32_t block = whole.type->block_elements;
        uint32_t step = block > 1 ? block : 96;
        for (uint32_t begin = 0; begin < COLS; begin += step)
            for (uint32_t count = step; begin + count <= COLS; count += step) {
                struct tensor part = whole;
                void *copy = NULL;
                const struct model_part of = {begin, count};
                assert_int_equal(model_share_cols(&part, "a", of, &copy), STATUS_OK);
                assert_int_equal(part.dims[0], count);
                assert_int_equal(part.bytes * (COLS / block), whole.bytes * (count / block));
                assert_same_values(&part, 0, begin, &whole);
                mem_free(copy);
            }
    }
}

static void test_a_block_is_not_cut(void **state)
{
    (void)state;
    static unsigned char memory[ROWS * COLS * sizeof(float)];
    for (uint32_t t = 0; t < TYPES; t++) {
        struct tensor tensor = make_tensor(types[t], memory);
        uint32_t block = tensor.type->block_elements;
        void *copy = NULL;
        if (block == 1)
            continue;
        const struct model_part cut[] = {{block / 2, block}, {0, block - 1}, {block, block + 1}};
        for (size_t i = 0; i < sizeof cut / sizeof cut[0]; i++) {
            assert_int_equal(model_share_cols(&tensor, "blk.0.ffn_down.weight", cut[i], &copy),
                             STATUS_UNSUPPORTED);
            assert_null(copy);
        }
        assert_non_null(strstr(status_note()->message, "'blk.0.ffn_down.weight'"));
    }
}

static void test_shares_make_the_whole(void **state)
{
    (void)state;
    static const struct {
        struct model_config config;
        uint32_t count;
        uint32_t unit;
    } cases[] = {
        {{.heads = 9, .kv_heads = 3, .hidden = 1536, .vocab = 49152}, 3, 256},    /* SmolLM2-135M */
        {{.heads = 32, .kv_heads = 8, .hidden = 14336, .vocab = 128257}, 8, 256}, /* Llama 3 8B */
        {{.heads = 32, .kv_heads = 8, .hidden = 14336}, 1, 256},
        {{.heads = 4, .kv_heads = 2, .hidden = 96}, 2, 32}, /* three blocks: one and two */
        {{.heads = 4, .kv_heads = 4, .hidden = 50}, 4, 1},
    };
    for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++) {
        uint32_t heads = 0;
        uint32_t kv_heads = 0;
        uint32_t hidden = 0;
        uint32_t vocab = 0;
        for (uint32_t rank = 0; rank < cases[c].count; rank++) {
            struct model_share share;
            assert_int_equal(model_share_of(&share, &cases[c].config, rank, cases[c].count),
                             STATUS_OK);
            assert_int_equal(share.rank, rank);
            assert_int_equal(share.head_begin, heads);
            assert_int_equal(share.kv_head_begin, kv_heads);
            assert_int_equal(share.hidden_begin, hidden);
            assert_int_equal(share.hidden % cases[c].unit, 0);
            assert_int_equal(share.heads * cases[c].config.kv_heads,
                             share.kv_heads * cases[c].config.heads);
            assert_true(share.hidden > 0);
            heads += share.heads;
            kv_heads += share.kv_heads;
            hidden += share.hidden;
            assert_int_equal(share.vocab_begin, vocab);
            vocab += share.vocab;
        }
        assert_int_equal(heads, cases[c].config.heads);
        assert_int_equal(kv_heads, cases[c].config.kv_heads);
        assert_int_equal(hidden, cases[c].config.hidden);
        assert_int_equal(vocab, cases[c].config.vocab);
    }
}

static void test_what_does_not_divide_is_named(void **state)
{
    (void)state;
    struct model_share share;
    const struct model_config smol = {.heads = 9, .kv_heads = 3, .hidden = 1536};
    assert_int_equal(model_share_of(&share, &smol, 0, 2), STATUS_UNSUPPORTED);
    assert_string_equal(status_note()->message,
                        "tensor parallel: 3 key-value heads do not divide by 2 ranks");
    const struct model_config narrow = {.heads = 8, .kv_heads = 8, .hidden = 7};
    assert_int_equal(model_share_of(&share, &narrow, 0, 8), STATUS_UNSUPPORTED);
    assert_non_null(strstr(status_note()->message, "feed-forward layer of 7"));
}

/* --- experts: [3][4][5] float32, each value its place --- */

enum { EXPERTS = 3, EXPERT_ROWS = 4, EXPERT_COLS = 5 };

static struct tensor make_experts(float *memory)
{
    for (uint32_t i = 0; i < EXPERTS * EXPERT_ROWS * EXPERT_COLS; i++)
        memory[i] = (float)i;
    return (struct tensor){.type = tensor_type_info(TENSOR_TYPE_f32),
                           .dim_count = 3,
                           .dims = {EXPERT_COLS, EXPERT_ROWS, EXPERTS, 1},
                           .data = memory,
                           .bytes = EXPERTS * EXPERT_ROWS * EXPERT_COLS * sizeof *memory};
}

/* Value [e][r][c] of the part is that of the whole at the place that the caller says. */
static float expert_value(const struct tensor *tensor, uint64_t e, uint64_t r, uint64_t c)
{
    return ((const float *)tensor->data)[(e * tensor->dims[1] + r) * tensor->dims[0] + c];
}

static void test_parts_of_each_expert(void **state)
{
    (void)state;
    float memory[EXPERTS * EXPERT_ROWS * EXPERT_COLS];
    const struct tensor whole = make_experts(memory);
    struct tensor rows = whole;
    struct tensor cols = whole;
    void *copies[2] = {NULL, NULL};
    assert_int_equal(model_share_expert_rows(&rows, "a", (struct model_part){1, 2}, &copies[0]),
                     STATUS_OK);
    assert_int_equal(rows.dims[1], 2);
    assert_int_equal(rows.bytes, whole.bytes / 2);
    assert_int_equal(model_share_cols(&cols, "a", (struct model_part){3, 2}, &copies[1]),
                     STATUS_OK);
    assert_int_equal(cols.bytes, whole.bytes / 5 * 2);
    for (uint32_t e = 0; e < EXPERTS; e++)
        for (uint32_t i = 0; i < 2; i++) {
            assert_true(expert_value(&rows, e, i, 4) == expert_value(&whole, e, 1 + i, 4));
            assert_true(expert_value(&cols, e, 3, i) == expert_value(&whole, e, 3, 3 + i));
        }
    mem_free(copies[0]);
    mem_free(copies[1]);
}

static void test_whole_experts(void **state)
{
    (void)state;
    float memory[EXPERTS * EXPERT_ROWS * EXPERT_COLS];
    const struct tensor whole = make_experts(memory);
    for (uint32_t own = 0; own < 2; own++) {
        struct tensor part = whole;
        void *copy = NULL;
        assert_int_equal(model_share_experts(&part, "a", 2, own, &copy), STATUS_OK);
        assert_int_equal(part.dims[2], own == 0 ? 2 : 1); /* experts 0 and 2; expert 1 */
        assert_int_equal(part.bytes, part.dims[2] * whole.bytes / EXPERTS);
        for (uint64_t e = 0; e < part.dims[2]; e++)
            assert_true(expert_value(&part, e, 3, 2) == expert_value(&whole, 2 * e + own, 3, 2));
        mem_free(copy);
    }
}

/* Each rank would need the sum of the squares of all heads. */
static void test_norms_of_all_heads_are_refused(void **state)
{
    (void)state;
    struct model_share share;
    const struct model_config olmo = {
        .architecture = "olmo2", .heads = 8, .kv_heads = 8, .hidden = 512, .has_row_norms = true};
    assert_int_equal(model_share_of(&share, &olmo, 0, 1), STATUS_OK);
    assert_int_equal(model_share_of(&share, &olmo, 1, 2), STATUS_UNSUPPORTED);
    assert_non_null(strstr(status_note()->message, "architecture olmo2 norms queries and keys"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_type_by_rows),
        cmocka_unit_test(test_every_type_by_columns),
        cmocka_unit_test(test_a_block_is_not_cut),
        cmocka_unit_test(test_shares_make_the_whole),
        cmocka_unit_test(test_what_does_not_divide_is_named),
        cmocka_unit_test(test_parts_of_each_expert),
        cmocka_unit_test(test_whole_experts),
        cmocka_unit_test(test_norms_of_all_heads_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
