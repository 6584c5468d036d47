#include "engine/models/hf_tensors.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "config/base/mem.h"
#include "tests/kit/hf_writer.h"

enum { ELEMENTS = 64 };

struct part {
    const char *name;
    const char *dtype;
    uint32_t dim_count;
    uint64_t shape[4];
    uint32_t bytes;
};

struct bed {
    struct hf_writer folder;
    struct hf_config config;
    struct hf_shards *shards;
    struct hf_tensors *tensors;
};

/* Opens a directory of these tensors, whose bytes count up. */
static enum status bed_open(struct bed *bed, const char *arch, const struct part *parts,
                            uint32_t count)
{
    uint8_t bytes[4 * ELEMENTS];
    for (uint32_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (uint8_t)i;
    hf_writer_init(&bed->folder);
    for (uint32_t i = 0; i < count; i++)
        hf_writer_tensor(&bed->folder, parts[i].name, parts[i].dtype, parts[i].dim_count,
                         parts[i].shape, bytes, parts[i].bytes);
    hf_writer_finish(&bed->folder, 1);
    assert_int_equal(hf_shards_open(&bed->shards, bed->folder.descriptor), STATUS_OK);
    bed->config.arch = arch_find(slice_of(arch));
    bed->config.head_dim = bed->config.head_dim != 0 ? bed->config.head_dim : 4;
    return hf_tensors_open(&bed->tensors, &bed->config, bed->shards);
}

static void bed_close(struct bed *bed)
{
    hf_tensors_close(bed->tensors);
    hf_shards_close(bed->shards);
    hf_writer_deinit(&bed->folder);
    memset(bed, 0, sizeof *bed);
}

#define L               "model.layers.0."
#define EXPERT(e, name) L "mlp.experts." e "." name "_proj.weight"

static void test_directories_that_are_refused(void **state)
{
    static const struct {
        const char *arch;
        struct part parts[2];
        enum status status;
        const char *says;
    } cases[] = {
        {"llama", {{L "x", "I32", 1, {4}, 16}}, STATUS_UNSUPPORTED, "(I32) is of a dtype"},
        {"llama", {{L "x", "F64", 1, {4}, 32}}, STATUS_UNSUPPORTED, "'" L "x' (F64)"},
        {"llama", {{L "x", "F32", 0, {0}, 4}}, STATUS_UNSUPPORTED, "dimensions"},
        {"llama",
         {{L "self_attn.q_proj.weight", "F32", 2, {6, 2}, 48}},
         STATUS_CORRUPT,
         "whole heads"},
        {"llama",
         {{L "self_attn.k_proj.weight", "F32", 1, {8}, 32}},
         STATUS_CORRUPT,
         "whole heads"},
        {"gemma", {{"model.norm.weight", "F32", 2, {2, 2}, 16}}, STATUS_CORRUPT, "no vector"},
        {"qwen3moe", {{EXPERT("1", "up"), "F32", 2, {2, 2}, 16}}, STATUS_CORRUPT, "expert behind"},
        {"qwen3moe",
         {{EXPERT("0", "up"), "F32", 2, {2, 2}, 16}, {EXPERT("2", "up"), "F32", 2, {2, 2}, 16}},
         STATUS_CORRUPT,
         "expert behind"},
        {"qwen3moe",
         {{EXPERT("0", "up"), "F32", 2, {2, 2}, 16}, {EXPERT("1", "up"), "F32", 2, {4, 1}, 16}},
         STATUS_CORRUPT,
         "differs from those"},
        {"qwen3moe",
         {{EXPERT("0", "up"), "F32", 2, {2, 2}, 16}, {EXPERT("1", "up"), "F16", 2, {2, 2}, 8}},
         STATUS_CORRUPT,
         "differs from those"},
        {"qwen3moe", {{EXPERT("0", "up"), "F32", 1, {4}, 16}}, STATUS_UNSUPPORTED, "no matrix"},
        {"llama",
         {{L "block_sparse_moe.gate.weight", "F32", 2, {2, 2}, 16},
          {L "mlp.gate.weight", "F32", 2, {2, 2}, 16}},
         STATUS_CORRUPT,
         "under two names"},
        {"gpt-oss",
         {{L "mlp.experts.gate_up_proj", "F32", 3, {1, 2, 3}, 24}},
         STATUS_CORRUPT,
         "not of all experts"},
        {"gpt-oss",
         {{L "mlp.experts.gate_up_proj_bias", "F32", 1, {4}, 16}},
         STATUS_CORRUPT,
         "not of all experts"},
        {"gpt-oss",
         {{L "mlp.experts.down_proj_blocks", "U8", 4, {1, 1, 1, 16}, 16}},
         STATUS_CORRUPT,
         "no list of MXFP4"},
        {"gpt-oss",
         {{L "mlp.experts.down_proj_scales", "U8", 3, {1, 1, 1}, 1}},
         STATUS_UNSUPPORTED,
         "(U8) is of a dtype"}, /* without blocks nothing would use them */
        {"gpt-oss",
         {{L "other_scales", "U8", 3, {1, 1, 1}, 1}},
         STATUS_UNSUPPORTED,
         "(U8) is of a dtype"},
    };
    struct bed bed = {0};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const uint32_t count = cases[i].parts[1].name != NULL ? 2 : 1;
        const enum status status = bed_open(&bed, cases[i].arch, cases[i].parts, count);
        if (status != cases[i].status || strstr(status_note()->message, cases[i].says) == NULL)
            fail_msg("'%s' wanted: %s", cases[i].says, status_note()->message);
        assert_null(bed.tensors);
        bed_close(&bed);
    }
}

static void test_mxfp4_without_scales_of_its_shape(void **state)
{
    static const struct part parts[] = {
        {L "mlp.experts.down_proj_blocks", "U8", 4, {2, 1, 1, 16}, 32},
        {L "mlp.experts.down_proj_scales", "U8", 3, {1, 1, 2}, 2}};
    struct bed bed = {.config = {.is_mxfp4 = true}};
    (void)state;
    for (uint32_t count = 1; count <= 2; count++) {
        assert_int_equal(bed_open(&bed, "gpt-oss", parts, count), STATUS_CORRUPT);
        assert_non_null(strstr(status_note()->message, "no scales of its shape"));
        bed_close(&bed);
        bed.config.is_mxfp4 = true;
    }
}

static float value_at(const struct tensor *tensor, size_t index)
{
    float value;
    memcpy(&value, (const char *)tensor->data + index * sizeof value, sizeof value);
    return value;
}

/* Vectors of every type become float32; an old file's constants are left out. */
static void test_vectors_become_floats(void **state)
{
    static const struct part parts[] = {
        {L "input_layernorm.weight", "BF16", 1, {3}, 6},
        {L "post_attention_layernorm.weight", "F16", 1, {3}, 6},
        {L "self_attn.rotary_emb.inv_freq", "F32", 1, {3}, 12},
    };
    static const enum tensor_type types[] = {TENSOR_TYPE_bf16, TENSOR_TYPE_f16};
    struct bed bed = {0};
    (void)state;
    assert_int_equal(bed_open(&bed, "gemma", parts, 3), STATUS_OK);
    assert_int_equal(hf_tensors_count(bed.tensors), 2);
    for (uint32_t i = 0; i < 2; i++) {
        const uint16_t bits[] = {0x0100, 0x0302, 0x0504}; /* the bytes 0 to 5 */
        struct tensor tensor;
        void *memory;
        float want[3];
        uint32_t index;
        assert_int_equal(hf_tensors_find(bed.tensors, parts[i].name, &index), STATUS_OK);
        assert_int_equal(hf_tensors_load(bed.tensors, index, &tensor, &memory), STATUS_OK);
        assert_int_equal(tensor.type->id, TENSOR_TYPE_f32);
        assert_int_equal(tensor.bytes, 12);
        tensor_type_info(types[i])->to_f32(bits, want, 3);
        for (uint32_t v = 0; v < 3; v++)
            assert_true(value_at(&tensor, v) == want[v] + 1.0f);
        mem_free(memory);
    }
    bed_close(&bed);
}

/* Row r of a head of four is row 0, 2, 1, 3 of the file. */
static void test_rows_of_heads_are_interleaved(void **state)
{
    static const struct part parts[] = {{L "self_attn.q_proj.weight", "F32", 2, {8, 2}, 64}};
    static const uint32_t from[] = {0, 2, 1, 3, 4, 6, 5, 7};
    struct bed bed = {0};
    struct tensor tensor;
    void *memory;
    uint8_t bytes[64];
    (void)state;
    assert_int_equal(bed_open(&bed, "smollm3", parts, 1), STATUS_OK);
    assert_int_equal(hf_tensors_load(bed.tensors, 0, &tensor, &memory), STATUS_OK);
    memcpy(bytes, tensor.data, sizeof bytes);
    for (uint32_t row = 0; row < 8; row++)
        assert_int_equal(bytes[row * 8], from[row] * 8);
    mem_free(memory);
    bed_close(&bed);
    assert_int_equal(bed_open(&bed, "qwen2", parts, 1), STATUS_OK);
    assert_int_equal(hf_tensors_load(bed.tensors, 0, &tensor, &memory), STATUS_OK);
    assert_int_equal(((const uint8_t *)tensor.data)[8], 8);
    mem_free(memory);
    bed_close(&bed);
}

static void test_what_tie_word_embeddings_says(void **state)
{
    static const struct part tied[] = {
        {"model.embed_tokens.weight", "F32", 2, {2, 2}, 16},
        {"lm_head.weight", "F32", 2, {2, 2}, 16}, /* the same bytes */
    };
    static const struct part other[] = {{"model.embed_tokens.weight", "F32", 2, {2, 2}, 16},
                                        {"lm_head.weight", "F16", 2, {2, 2}, 8}};
    struct bed bed = {.config = {.is_tied = true}};
    (void)state;
    assert_int_equal(bed_open(&bed, "llama", tied, 2), STATUS_OK);
    assert_int_equal(hf_tensors_count(bed.tensors), 1);
    bed_close(&bed);
    bed.config.is_tied = true;
    assert_int_equal(bed_open(&bed, "llama", other, 2), STATUS_CORRUPT);
    assert_non_null(strstr(status_note()->message, "tie_word_embeddings"));
    bed_close(&bed);
    bed.config.is_untied = true;
    assert_int_equal(bed_open(&bed, "llama", tied, 1), STATUS_NOT_FOUND);
    assert_non_null(strstr(status_note()->message, "lm_head.weight"));
    bed_close(&bed);
    assert_int_equal(bed_open(&bed, "llama", other, 2), STATUS_OK);
    assert_int_equal(hf_tensors_count(bed.tensors), 2);
    bed_close(&bed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_directories_that_are_refused),
        cmocka_unit_test(test_mxfp4_without_scales_of_its_shape),
        cmocka_unit_test(test_vectors_become_floats),
        cmocka_unit_test(test_rows_of_heads_are_interleaved),
        cmocka_unit_test(test_what_tie_word_embeddings_says),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
