#include "engine/models/decoder_weights.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/kit/model_run.h"
#include "tests/kit/tiny_model.h"

enum { ROWS = 24 };

static void tokens_fill(uint32_t *tokens)
{
    for (uint32_t i = 0; i < ROWS; i++)
        tokens[i] = (i * 37 + 11) % TINY_VOCAB;
}

static enum status run_open(struct model_run *run, const struct gguf *gguf, const char *isa,
                            uint32_t context)
{
    return model_run_open(run, gguf,
                          &(struct model_run_options){.isa = isa,
                                                      .threads = 1,
                                                      .kv_type = KV_TYPE_F16,
                                                      .rows_max = ROWS,
                                                      .sequences = 1,
                                                      .tokens_max = ROWS,
                                                      .context = context});
}

/* Logits of all rows, which the caller frees. */
static float *logits_of(const struct buffer *file, const char *isa, uint32_t context)
{
    const size_t bytes = (size_t)ROWS * TINY_VOCAB * sizeof(float);
    uint32_t tokens[ROWS];
    struct model_run run;
    struct gguf *gguf;
    float *out = malloc(bytes);
    assert_non_null(out);
    tokens_fill(tokens);
    assert_int_equal(gguf_parse(&gguf, file->bytes, file->length), STATUS_OK);
    const enum status status = run_open(&run, gguf, isa, context);
    if (status != STATUS_OK)
        fail_msg("%s: %s", status_name(status), status_note()->message);
    memcpy(out, model_run_chunk(&run, 0, 0, tokens, ROWS), bytes);
    model_run_close(&run);
    gguf_close(gguf);
    return out;
}

static bool ends_with(const char *name, const char *end)
{
    const size_t length = strlen(name);
    const size_t tail = strlen(end);
    return length >= tail && strcmp(name + length - tail, end) == 0;
}

/* --- one tensor of q, k and v --- */

/* The keys of a model's file without its tensors. */
static void begin_keys(struct gguf_writer *writer, const struct tiny_model *model)
{
    struct gguf_writer whole;
    gguf_writer_init(&whole);
    tiny_model_write(&whole, model);
    gguf_writer_init(writer);
    buffer_append(&writer->keys, whole.keys.bytes, whole.keys.length);
    writer->key_count = whole.key_count;
    gguf_writer_deinit(&whole);
}

/* Joins q, k and v of one layer, which the file has as "blk.N.attn_q" and so on. */
static void write_joined(struct gguf_writer *writer, const struct gguf *gguf, const char *q_name)
{
    static const char letters[] = {'q', 'k', 'v'};
    const size_t at = (size_t)(strstr(q_name, "attn_q") - q_name) + 5;
    struct buffer data;
    struct tensor part;
    char name[128];
    uint64_t dims[2] = {0, 0};
    const bool is_bias = ends_with(q_name, ".bias");
    buffer_init(&data, SIZE_MAX);
    for (uint32_t i = 0; i < 3; i++) {
        snprintf(name, sizeof name, "%s", q_name);
        name[at] = letters[i];
        assert_int_equal(gguf_get_tensor(gguf, name, &part), STATUS_OK);
        dims[0] = is_bias ? dims[0] + part.dims[0] : part.dims[0];
        dims[1] += part.dims[1];
        buffer_append(&data, part.data, part.bytes);
    }
    snprintf(name, sizeof name, "%.*sqkv%s", (int)at, q_name, q_name + at + 1);
    gguf_writer_tensor(writer, name, is_bias ? 1 : 2, dims, part.type->id, data.bytes, data.length);
    buffer_deinit(&data);
}

static void build_joined(const struct tiny_model *model, const struct buffer *file,
                         bool keeps_single, struct buffer *out)
{
    struct gguf_writer writer;
    struct gguf *gguf;
    assert_int_equal(gguf_parse(&gguf, file->bytes, file->length), STATUS_OK);
    begin_keys(&writer, model);
    for (uint32_t i = 0; i < gguf_tensor_count(gguf); i++) {
        struct slice found;
        struct tensor tensor;
        char name[128];
        gguf_tensor_at(gguf, i, &found, &tensor);
        snprintf(name, sizeof name, "%.*s", (int)found.length, found.bytes);
        const bool is_part = strstr(name, "attn_q.") != NULL || strstr(name, "attn_k.") != NULL ||
                             strstr(name, "attn_v.") != NULL;
        if (strstr(name, "attn_q.") != NULL)
            write_joined(&writer, gguf, name);
        if (!is_part || keeps_single)
            gguf_writer_tensor(&writer, name, tensor.dim_count, tensor.dims, tensor.type->id,
                               tensor.data, tensor.bytes);
    }
    gguf_writer_finish(&writer, out);
    gguf_writer_deinit(&writer);
    gguf_close(gguf);
}

static void test_joined_queries_keys_and_values(void **state)
{
    (void)state;
    static const char *const names[] = {"llama", "qwen2", "qwen3", "olmo2", "starcoder2"};
    static const char *const tables[] = {"ref", "auto"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        const struct tiny_model *model = tiny_model_find(names[i]);
        struct buffer single, joined;
        tiny_model_build(model, &single);
        build_joined(model, &single, false, &joined);
        for (size_t t = 0; t < 2; t++) {
            float *right = logits_of(&single, tables[t], 0);
            float *own = logits_of(&joined, tables[t], 0);
            if (memcmp(own, right, (size_t)ROWS * TINY_VOCAB * sizeof *own) != 0)
                fail_msg("%s, %s: other bits from one tensor", names[i], tables[t]);
            free(own);
            free(right);
        }
        buffer_deinit(&joined);
        buffer_deinit(&single);
    }
}

static enum status open_file(const struct buffer *file)
{
    struct model_run run;
    struct gguf *gguf;
    assert_int_equal(gguf_parse(&gguf, file->bytes, file->length), STATUS_OK);
    const enum status status = run_open(&run, gguf, "ref", 0);
    model_run_close(&run);
    gguf_close(gguf);
    return status;
}

/* A file that has both forms leaves one unused. */
static void test_both_forms_are_refused(void **state)
{
    (void)state;
    const struct tiny_model *model = tiny_model_find("qwen2");
    struct buffer single, both;
    tiny_model_build(model, &single);
    build_joined(model, &single, true, &both);
    assert_int_equal(open_file(&both), STATUS_UNSUPPORTED);
    assert_non_null(strstr(status_note()->message, "'blk.0.attn_"));
    buffer_deinit(&both);
    buffer_deinit(&single);
}

/* --- refusals --- */

struct extra {
    const char *model;
    const char *tensor;
    uint32_t dim_count;
    uint64_t dims[3];
};

static enum status open_with(const struct extra *extra)
{
    struct gguf_writer writer;
    struct buffer file;
    static const float zeros[4096];
    gguf_writer_init(&writer);
    tiny_model_write(&writer, tiny_model_find(extra->model));
    uint64_t count = 1;
    for (uint32_t d = 0; d < extra->dim_count; d++)
        count *= extra->dims[d];
    assert_true(count <= sizeof zeros / sizeof zeros[0]);
    gguf_writer_tensor(&writer, extra->tensor, extra->dim_count, extra->dims, TENSOR_TYPE_f32,
                       zeros, count * sizeof *zeros);
    gguf_writer_finish(&writer, &file);
    gguf_writer_deinit(&writer);
    const enum status status = open_file(&file);
    buffer_deinit(&file);
    return status;
}

/* A tensor of another row, or one that no row uses, would make other numbers if it were ignored. */
static void test_tensors_of_other_rows_are_refused(void **state)
{
    (void)state;
    static const struct extra cases[] = {
        {"llama", "blk.0.attn_q_norm.weight", 1, {32}},
        {"llama", "blk.1.post_attention_norm.weight", 1, {64}},
        {"llama", "blk.0.attn_sinks.weight", 1, {4}},
        {"llama", "position_embd.weight", 2, {64, 4}},
        {"llama", "token_types.weight", 2, {64, 2}},
        {"llama", "v.blk.0.attn_q.weight", 2, {64, 64}},
        {"llama", "blk.0.ssm_a", 1, {64}},
        {"llama", "blk.0.attn_kv_a_mqa.weight", 2, {64, 16}},
        {"llama", "rope_factors_long.weight", 1, {16}},
        {"mixtral", "blk.0.ffn_gate.0.weight", 2, {64, 64}}, /* early files: one for each expert */
        {"mixtral", "blk.0.ffn_up.weight", 2, {64, 64}},
        {"qwen3moe", "blk.0.ffn_up_shexp.weight", 2, {64, 64}},
        {"qwen3moe", "blk.0.exp_probs_b.bias", 1, {8}},
        {"qwen2", "rope_freqs.weight", 1, {16}},
        {"olmo2", "blk.0.attn_norm.weight", 1, {128}},
        {"starcoder2", "blk.0.ffn_gate.weight", 2, {16, 16}},
        {"gemma", "output_norm.bias", 1, {64}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const enum status status = open_with(&cases[i]);
        if (status != STATUS_UNSUPPORTED || strstr(status_note()->message, cases[i].tensor) == NULL)
            fail_msg("%s with %s: %s: %s", cases[i].model, cases[i].tensor, status_name(status),
                     status_note()->message);
    }
}

/* Copies a model's file without one tensor, or with its values or shape changed. */
enum change { LEFT_OUT, SHORTER, NOT_FINITE, TOO_LARGE };

static enum status open_changed(const char *model_name, const char *tensor_name, enum change change)
{
    const struct tiny_model *model = tiny_model_find(model_name);
    struct gguf_writer writer;
    struct buffer file, changed;
    struct gguf *gguf;
    tiny_model_build(model, &file);
    assert_int_equal(gguf_parse(&gguf, file.bytes, file.length), STATUS_OK);
    begin_keys(&writer, model);
    for (uint32_t i = 0; i < gguf_tensor_count(gguf); i++) {
        struct slice found;
        struct tensor tensor;
        char name[128];
        gguf_tensor_at(gguf, i, &found, &tensor);
        snprintf(name, sizeof name, "%.*s", (int)found.length, found.bytes);
        float *values = malloc(tensor.bytes);
        assert_non_null(values);
        memcpy(values, tensor.data, tensor.bytes);
        if (strcmp(name, tensor_name) == 0 && change == NOT_FINITE)
            values[tensor.bytes / sizeof *values - 1] = __builtin_inff();
        if (strcmp(name, tensor_name) == 0 && change == TOO_LARGE) /* the last block's exponent */
            ((unsigned char *)values)[tensor.bytes - tensor.type->block_bytes] = 255;
        if (strcmp(name, tensor_name) == 0 && change == SHORTER) {
            const uint32_t last = tensor.dim_count - 1;
            tensor.bytes = tensor.bytes / tensor.dims[last] * (tensor.dims[last] - 1);
            tensor.dims[last]--;
        }
        if (strcmp(name, tensor_name) != 0 || change != LEFT_OUT)
            gguf_writer_tensor(&writer, name, tensor.dim_count, tensor.dims, tensor.type->id,
                               values, tensor.bytes);
        free(values);
    }
    gguf_writer_finish(&writer, &changed);
    gguf_writer_deinit(&writer);
    gguf_close(gguf);
    const enum status status = open_file(&changed);
    buffer_deinit(&changed);
    buffer_deinit(&file);
    return status;
}

static void test_wrong_tensors_are_named(void **state)
{
    (void)state;
    static const struct {
        const char *model;
        const char *tensor;
        enum change change;
        enum status status;
    } cases[] = {
        {"qwen2", "blk.1.attn_k.bias", LEFT_OUT, STATUS_NOT_FOUND},
        {"qwen2", "blk.1.attn_k.bias", SHORTER, STATUS_CORRUPT},
        {"qwen3", "blk.0.attn_q_norm.weight", LEFT_OUT, STATUS_NOT_FOUND},
        {"olmo2", "blk.0.attn_q_norm.weight", SHORTER, STATUS_CORRUPT},
        {"gemma3", "blk.6.post_ffw_norm.weight", LEFT_OUT, STATUS_NOT_FOUND},
        {"phi3_long", "blk.0.attn_qkv.weight", SHORTER, STATUS_CORRUPT},
        {"phi3_long", "blk.0.ffn_up.weight", SHORTER, STATUS_CORRUPT},
        {"phi3_long", "rope_factors_short.weight", LEFT_OUT, STATUS_NOT_FOUND},
        {"phi3_long", "rope_factors_short.weight", SHORTER, STATUS_CORRUPT},
        {"starcoder2", "blk.0.attn_norm.bias", LEFT_OUT, STATUS_NOT_FOUND},
        {"starcoder2", "output_norm.bias", LEFT_OUT, STATUS_NOT_FOUND},
        {"qwen3moe", "blk.1.ffn_gate_inp.weight", NOT_FINITE, STATUS_CORRUPT},
        {"qwen3moe", "blk.1.ffn_gate_inp.weight", LEFT_OUT, STATUS_NOT_FOUND},
        {"qwen3moe", "blk.1.ffn_gate_inp.weight", SHORTER, STATUS_CORRUPT},
        {"mixtral", "blk.0.ffn_up_exps.weight", SHORTER, STATUS_CORRUPT},
        {"mixtral", "blk.0.ffn_down_exps.weight", LEFT_OUT, STATUS_NOT_FOUND},
        {"gpt_oss_mxfp4", "blk.1.ffn_gate_exps.weight", TOO_LARGE, STATUS_CORRUPT},
        {"gpt_oss_mxfp4", "blk.0.ffn_down_exps.weight", TOO_LARGE, STATUS_CORRUPT},
        {"gpt_oss", "blk.0.attn_sinks.weight", LEFT_OUT, STATUS_NOT_FOUND},
        {"gpt_oss", "blk.0.attn_sinks.weight", NOT_FINITE, STATUS_CORRUPT},
        {"gpt_oss", "blk.1.ffn_down_exps.bias", SHORTER, STATUS_CORRUPT},
        {"gpt_oss", "blk.1.ffn_gate_inp.bias", LEFT_OUT, STATUS_NOT_FOUND},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const enum status status = open_changed(cases[i].model, cases[i].tensor, cases[i].change);
        if (status != cases[i].status || strstr(status_note()->message, cases[i].tensor) == NULL)
            fail_msg("%s, %s: %s: %s", cases[i].model, cases[i].tensor, status_name(status),
                     status_note()->message);
    }
}

/* --- long and short factors --- */

/* The context that is served decides, so that a key never depends on how long a text becomes: with
 * fewer tokens than in training the short factors hold, whatever the file's context is. */
static void test_long_factors_are_decided_once(void **state)
{
    (void)state;
    struct tiny_model swapped = *tiny_model_find("phi3_long");
    const size_t bytes = (size_t)ROWS * TINY_VOCAB * sizeof(float);
    struct buffer file, other;
    tiny_model_build(&swapped, &file);
    swapped.has_factors_swapped = true;
    tiny_model_build(&swapped, &other);
    float *whole = logits_of(&file, "ref", 0);         /* 256 tokens: long factors */
    float *above = logits_of(&file, "ref", 33);        /* the training had 32 */
    float *below = logits_of(&file, "ref", 32);        /* short factors */
    float *other_whole = logits_of(&other, "ref", 0);  /* short ones under the name of the long */
    float *other_below = logits_of(&other, "ref", 32); /* and the other way round */
    assert_memory_equal(whole, above, bytes);
    assert_memory_not_equal(whole, below, bytes);
    assert_memory_equal(other_whole, below, bytes);
    assert_memory_equal(other_below, whole, bytes);
    free(whole);
    free(above);
    free(below);
    free(other_whole);
    free(other_below);
    buffer_deinit(&other);
    buffer_deinit(&file);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_joined_queries_keys_and_values),
        cmocka_unit_test(test_both_forms_are_refused),
        cmocka_unit_test(test_tensors_of_other_rows_are_refused),
        cmocka_unit_test(test_wrong_tensors_are_named),
        cmocka_unit_test(test_long_factors_are_decided_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
