#include "tests/kit/tiny_model.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config/base/rng.h"
#include "kernels/tensor.h"
#include "tests/kit/pack_values.h"

static const struct tiny_model MODELS[] = {
#define TINY_MODEL(name_, family_, layers_, width_, heads_, kv_heads_, head_dim_, hidden_,         \
                   context_, ...)                                                                  \
    {.name = #name_,                                                                               \
     .family = TINY_##family_,                                                                     \
     .layers = (layers_),                                                                          \
     .width = (width_),                                                                            \
     .heads = (heads_),                                                                            \
     .kv_heads = (kv_heads_),                                                                      \
     .head_dim = (head_dim_),                                                                      \
     .hidden = (hidden_),                                                                          \
     .context = (context_),                                                                        \
     __VA_ARGS__},
#include "tests/kit/tiny_models.def"
};

uint32_t tiny_model_count(void)
{
    return sizeof MODELS / sizeof MODELS[0];
}

const struct tiny_model *tiny_model_at(uint32_t index)
{
    return &MODELS[index];
}

const struct tiny_model *tiny_model_find(const char *name)
{
    for (uint32_t i = 0; i < tiny_model_count(); i++)
        if (strcmp(MODELS[i].name, name) == 0)
            return &MODELS[i];
    return NULL;
}

/* Sets of families. */
enum {
#define IN(family) (1u << TINY_##family)
    MIXTRAL = IN(MIXTRAL),
    QWEN2 = IN(QWEN2),
    GEMMA3 = IN(GEMMA3),
    PHI3 = IN(PHI3),
    GPT_OSS = IN(GPT_OSS),
    STARCODER2 = IN(STARCODER2),
    LLAMAS = IN(LLAMA) | IN(MIXTRAL) | IN(SMOLLM3), /* q and k permuted */
    GEMMAS = IN(GEMMA) | IN(GEMMA2) | IN(GEMMA3),
    GEMMAS_POST = IN(GEMMA2) | IN(GEMMA3),
    OLMO2S = IN(OLMO2) | IN(OLMO3),
    NAMED_EXPERTS = IN(QWEN3MOE) | IN(OLMOE),
    EXPERTS = MIXTRAL | NAMED_EXPERTS | GPT_OSS,
    HEAD_NORMS = IN(QWEN3) | IN(QWEN3MOE) | IN(GEMMA3),
    ROW_NORMS = OLMO2S | IN(OLMOE),
    POST_NORMS = GEMMAS_POST | OLMO2S,
    BIASES = QWEN2 | STARCODER2 | GPT_OSS,
    ALL = (1u << (TINY_STARCODER2 + 1)) - 1,
    HEAD_DIM_KEYS = ALL & ~(QWEN2 | PHI3 | OLMO2S | IN(OLMOE) | IN(SMOLLM3) | STARCODER2),
#undef IN
};

static bool is_in(const struct tiny_model *model, uint32_t families)
{
    return (families >> model->family & 1) != 0;
}

const char *tiny_model_architecture(const struct tiny_model *model)
{
    static const char *const names[] = {
        [TINY_LLAMA] = "llama",     [TINY_MIXTRAL] = "llama",     [TINY_QWEN2] = "qwen2",
        [TINY_QWEN3] = "qwen3",     [TINY_QWEN3MOE] = "qwen3moe", [TINY_GEMMA] = "gemma",
        [TINY_GEMMA2] = "gemma2",   [TINY_GEMMA3] = "gemma3",     [TINY_PHI3] = "phi3",
        [TINY_OLMO2] = "olmo2",     [TINY_OLMO3] = "olmo2",       [TINY_OLMOE] = "olmoe",
        [TINY_GPT_OSS] = "gpt-oss", [TINY_SMOLLM3] = "smollm3",   [TINY_STARCODER2] = "starcoder2"};
    return names[model->family];
}

/* --- the formula --- */

static uint64_t name_hash(const char *name)
{
    uint64_t hash = 0xcbf29ce484222325;
    for (; *name != '\0'; name++)
        hash = (hash ^ (unsigned char)*name) * 0x100000001b3;
    return hash;
}

static uint64_t bits_at(uint64_t hash, uint64_t index)
{
    uint64_t z = hash + index + 0x9e3779b97f4a7c15;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
}

static float weight_at(uint64_t hash, uint64_t index, float add, float scale)
{
    int32_t k = (int32_t)(bits_at(hash, index) >> 40) - (1 << 23);
    return add + (float)k * 0x1p-23f * scale;
}

float tiny_model_weight(const char *name, uint64_t index, float add, float scale)
{
    return weight_at(name_hash(name), index, add, scale);
}

/* --- tensors --- */

enum size { ONE, WIDTH, Q, KV, QKV, HEAD, HEADS, HIDDEN, HIDDEN_TWICE, EXPERT_COUNT };
enum kind { MATRIX, ROUTER, NORM, BIAS };

/* A tensor of a layer, its names behind "blk.N." and "model.layers.N.". */
struct recipe {
    const char *gguf;
    const char *hf;
    enum size rows;
    enum size cols;
    enum kind kind;
    uint32_t families;
};

static const struct recipe RECIPES[] = {
    {"attn_norm.weight", "input_layernorm.weight", ONE, WIDTH, NORM, ALL & ~OLMO2S},
    {"attn_norm.bias", "input_layernorm.bias", ONE, WIDTH, BIAS, STARCODER2},
    {"attn_q.weight", "self_attn.q_proj.weight", Q, WIDTH, MATRIX, ALL & ~PHI3},
    {"attn_k.weight", "self_attn.k_proj.weight", KV, WIDTH, MATRIX, ALL & ~PHI3},
    {"attn_v.weight", "self_attn.v_proj.weight", KV, WIDTH, MATRIX, ALL & ~PHI3},
    {"attn_qkv.weight", "self_attn.qkv_proj.weight", QKV, WIDTH, MATRIX, PHI3},
    {"attn_q.bias", "self_attn.q_proj.bias", ONE, Q, BIAS, BIASES},
    {"attn_k.bias", "self_attn.k_proj.bias", ONE, KV, BIAS, BIASES},
    {"attn_v.bias", "self_attn.v_proj.bias", ONE, KV, BIAS, BIASES},
    {"attn_q_norm.weight", "self_attn.q_norm.weight", ONE, HEAD, NORM, HEAD_NORMS},
    {"attn_k_norm.weight", "self_attn.k_norm.weight", ONE, HEAD, NORM, HEAD_NORMS},
    {"attn_q_norm.weight", "self_attn.q_norm.weight", ONE, Q, NORM, ROW_NORMS},
    {"attn_k_norm.weight", "self_attn.k_norm.weight", ONE, KV, NORM, ROW_NORMS},
    {"attn_sinks.weight", "self_attn.sinks", ONE, HEADS, BIAS, GPT_OSS},
    {"attn_output.weight", "self_attn.o_proj.weight", WIDTH, Q, MATRIX, ALL},
    {"attn_output.bias", "self_attn.o_proj.bias", ONE, WIDTH, BIAS, STARCODER2 | GPT_OSS},
    {"post_attention_norm.weight", "post_attention_layernorm.weight", ONE, WIDTH, NORM,
     POST_NORMS | GPT_OSS},
    {"ffn_norm.weight", "post_attention_layernorm.weight", ONE, WIDTH, NORM,
     ALL & ~POST_NORMS & ~GPT_OSS},
    {"ffn_norm.bias", "post_attention_layernorm.bias", ONE, WIDTH, BIAS, STARCODER2},
    {"ffn_norm.weight", "pre_feedforward_layernorm.weight", ONE, WIDTH, NORM, GEMMAS_POST},
    {"post_ffw_norm.weight", "post_feedforward_layernorm.weight", ONE, WIDTH, NORM, POST_NORMS},
    {"ffn_gate.weight", "mlp.gate_proj.weight", HIDDEN, WIDTH, MATRIX,
     ALL & ~EXPERTS & ~PHI3 & ~STARCODER2},
    {"ffn_up.weight", "mlp.up_proj.weight", HIDDEN, WIDTH, MATRIX,
     ALL & ~EXPERTS & ~PHI3 & ~STARCODER2},
    {"ffn_up.weight", "mlp.gate_up_proj.weight", HIDDEN_TWICE, WIDTH, MATRIX, PHI3},
    {"ffn_down.weight", "mlp.down_proj.weight", WIDTH, HIDDEN, MATRIX,
     ALL & ~EXPERTS & ~STARCODER2},
    {"ffn_up.weight", "mlp.c_fc.weight", HIDDEN, WIDTH, MATRIX, STARCODER2},
    {"ffn_up.bias", "mlp.c_fc.bias", ONE, HIDDEN, BIAS, STARCODER2},
    {"ffn_down.weight", "mlp.c_proj.weight", WIDTH, HIDDEN, MATRIX, STARCODER2},
    {"ffn_down.bias", "mlp.c_proj.bias", ONE, WIDTH, BIAS, STARCODER2},
    {"ffn_gate_inp.weight", "block_sparse_moe.gate.weight", EXPERT_COUNT, WIDTH, ROUTER, MIXTRAL},
    {"ffn_gate_inp.weight", "mlp.gate.weight", EXPERT_COUNT, WIDTH, ROUTER, NAMED_EXPERTS},
    {"ffn_gate_inp.weight", "mlp.router.weight", EXPERT_COUNT, WIDTH, ROUTER, GPT_OSS},
    {"ffn_gate_inp.bias", "mlp.router.bias", ONE, EXPERT_COUNT, BIAS, GPT_OSS},
};

static uint32_t size_of(const struct tiny_model *model, enum size size)
{
    switch (size) {
    case ONE:
        return 1;
    case WIDTH:
        return model->width;
    case Q:
        return model->heads * model->head_dim;
    case KV:
        return model->kv_heads * model->head_dim;
    case QKV:
        return (model->heads + 2 * model->kv_heads) * model->head_dim;
    case HEAD:
        return model->head_dim;
    case HEADS:
        return model->heads;
    case HIDDEN:
        return model->hidden;
    case HIDDEN_TWICE:
        return 2 * model->hidden;
    case EXPERT_COUNT:
        return model->experts;
    }
    abort();
}

struct maker {
    struct gguf_writer *writer;
    const struct tiny_model *model;
};

/* One tensor of the Hugging Face file. */
struct source {
    uint64_t hash;
    float add;
    float scale;
};

static bool ends_with(const char *text, const char *suffix)
{
    size_t length = strlen(text);
    size_t tail = strlen(suffix);
    return length >= tail && strcmp(text + length - tail, suffix) == 0;
}

/* A norm of a Gemma file lacks the 1 that the converter adds, so both kinds are alike here. */
static struct source source_of(const struct tiny_model *model, const char *hf, enum kind kind)
{
    static const float scales[] = {
        [MATRIX] = 0x1p-3f, [ROUTER] = 0x1p-2f, [NORM] = 0x1p-1f, [BIAS] = 0x1p-1f};
    struct source source = {name_hash(hf), kind == NORM ? 1 : 0, scales[kind]};
    if (ends_with(hf, "embed_tokens.weight") && model->has_own_output)
        source.scale = 2;
    for (uint32_t i = 0; i < TINY_SCALES && model->scales[i].suffix != NULL; i++) {
        if (!ends_with(hf, model->scales[i].suffix))
            continue;
        source.scale = model->scales[i].scale;
        source.add += model->scales[i].add;
    }
    return source;
}

static float *values_of(size_t count)
{
    float *x = malloc(count * sizeof *x);
    if (x == NULL)
        abort();
    return x;
}

static void put(const struct maker *maker, const char *name, uint32_t type, uint32_t dim_count,
                const uint64_t *dims, float *x)
{
    size_t count = 1;
    size_t bytes;
    for (uint32_t i = 0; i < dim_count; i++)
        count *= (size_t)dims[i];
    uint8_t *packed = pack_values(type, x, count, &bytes);
    gguf_writer_tensor(maker->writer, name, dim_count, dims, type, packed, bytes);
    free(packed);
    free(x);
}

/* The converter interleaves the halves of each head of q and k, for rope over neighbours. */
static uint64_t unpermuted_row(const struct tiny_model *model, uint64_t row)
{
    uint64_t in_head = row % model->head_dim;
    return row - in_head + in_head % 2 * (model->head_dim / 2) + in_head / 2;
}

static uint64_t source_row(const struct tiny_model *model, const struct recipe *recipe,
                           uint64_t row)
{
    bool is_rotated = ends_with(recipe->gguf, "_q.weight") || ends_with(recipe->gguf, "_k.weight");
    if (is_rotated && is_in(model, LLAMAS) && !model->is_unpermuted)
        return unpermuted_row(model, row);
    if (recipe->rows == HIDDEN_TWICE && model->is_up_first)
        return (row + model->hidden) % (2 * model->hidden);
    return row;
}

static void add_tensor(const struct maker *maker, const char *gguf, const char *hf,
                       const struct recipe *recipe)
{
    const struct tiny_model *model = maker->model;
    const struct source source = source_of(model, hf, recipe->kind);
    uint64_t dims[] = {size_of(model, recipe->cols), size_of(model, recipe->rows)};
    float *x = values_of((size_t)(dims[0] * dims[1]));
    for (uint64_t r = 0; r < dims[1]; r++)
        for (uint64_t c = 0; c < dims[0]; c++)
            x[r * dims[0] + c] = weight_at(source.hash, source_row(model, recipe, r) * dims[0] + c,
                                           source.add, source.scale);
    put(maker, gguf, recipe->kind == MATRIX ? model->type : TENSOR_TYPE_f32,
        recipe->rows == ONE ? 1 : 2, dims, x);
}

/* --- experts --- */

enum part { GATE, UP, DOWN };
static const char *const PART_NAMES[] = {"gate", "up", "down"};

static void put_stack(const struct maker *maker, uint32_t layer, enum part part, float *x)
{
    const struct tiny_model *model = maker->model;
    char gguf[64];
    uint64_t dims[] = {model->width, model->expert_hidden, model->experts};
    if (part == DOWN) {
        dims[0] = model->expert_hidden;
        dims[1] = model->width;
    }
    snprintf(gguf, sizeof gguf, "blk.%u.ffn_%s_exps.weight", layer, PART_NAMES[part]);
    put(maker, gguf, model->expert_type, 3, dims, x);
}

/* Joins the experts' own matrices. */
static void add_stack(const struct maker *maker, uint32_t layer, enum part part)
{
    static const char *const mixtral[] = {"w1", "w3", "w2"};
    const struct tiny_model *model = maker->model;
    const uint64_t each = (uint64_t)model->width * model->expert_hidden;
    float *x = values_of((size_t)(each * model->experts));
    char hf[128];
    for (uint32_t e = 0; e < model->experts; e++) {
        if (is_in(model, MIXTRAL))
            snprintf(hf, sizeof hf, "model.layers.%u.block_sparse_moe.experts.%u.%s.weight", layer,
                     e, mixtral[part]);
        else
            snprintf(hf, sizeof hf, "model.layers.%u.mlp.experts.%u.%s_proj.weight", layer, e,
                     PART_NAMES[part]);
        const struct source source = source_of(model, hf, MATRIX);
        for (uint64_t i = 0; i < each; i++)
            x[e * each + i] = weight_at(source.hash, i, source.add, source.scale);
    }
    put_stack(maker, layer, part, x);
}

/* GPT-OSS has one tensor [experts][inputs][outputs], in which gate and up alternate. */
static void add_gpt_oss_stack(const struct maker *maker, uint32_t layer, enum part part)
{
    const struct tiny_model *model = maker->model;
    const uint64_t width = model->width;
    const uint64_t hidden = model->expert_hidden;
    const uint64_t inputs = part == DOWN ? hidden : width;
    const uint64_t outputs = part == DOWN ? width : hidden;
    const uint64_t step = part == DOWN ? 1 : 2;
    float *x = values_of((size_t)(inputs * outputs * model->experts));
    char hf[128];
    snprintf(hf, sizeof hf, "model.layers.%u.mlp.experts.%s", layer,
             part == DOWN ? "down_proj" : "gate_up_proj");
    const struct source source = source_of(model, hf, MATRIX);
    for (uint64_t e = 0; e < model->experts; e++)
        for (uint64_t o = 0; o < outputs; o++)
            for (uint64_t i = 0; i < inputs; i++)
                x[(e * outputs + o) * inputs + i] =
                    weight_at(source.hash,
                              (e * inputs + i) * outputs * step + o * step + (part == UP ? 1 : 0),
                              source.add, source.scale);
    put_stack(maker, layer, part, x);
}

enum { MXFP4_BLOCK = 32, MXFP4_BYTES = 17, MXFP4_EXPONENT = 121 };

/* The same in MXFP4: blocks [experts][outputs][blocks][16] with neighbours in one byte, and scales
 * [experts][outputs][blocks]. GGUF has elements i and i + 16 in byte i, behind the scale. */
static void add_mxfp4_stack(const struct maker *maker, uint32_t layer, enum part part)
{
    const struct tiny_model *model = maker->model;
    const uint64_t inputs = part == DOWN ? model->expert_hidden : model->width;
    const uint64_t outputs = part == DOWN ? model->width : model->expert_hidden;
    const uint64_t step = part == DOWN ? 1 : 2;
    const uint64_t blocks = inputs / MXFP4_BLOCK;
    const uint64_t dims[] = {inputs, outputs, model->experts};
    const size_t bytes = (size_t)(model->experts * outputs * blocks * MXFP4_BYTES);
    const char *what = part == DOWN ? "down_proj" : "gate_up_proj";
    uint8_t *packed = calloc(1, bytes);
    char name[128];
    if (packed == NULL)
        abort();
    snprintf(name, sizeof name, "model.layers.%u.mlp.experts.%s_blocks", layer, what);
    const uint64_t codes = name_hash(name);
    snprintf(name, sizeof name, "model.layers.%u.mlp.experts.%s_scales", layer, what);
    const uint64_t scales = name_hash(name);
    for (uint64_t row = 0; row < model->experts * outputs; row++) {
        const uint64_t from = row * step + (part == UP ? 1 : 0);
        for (uint64_t b = 0; b < blocks; b++) {
            uint8_t *block = packed + (row * blocks + b) * MXFP4_BYTES;
            uint64_t index = from * blocks + b;
            block[0] = (uint8_t)(MXFP4_EXPONENT + (bits_at(scales, index) >> 62));
            for (uint32_t i = 0; i < MXFP4_BLOCK; i++) {
                uint64_t pair = bits_at(codes, index * (MXFP4_BLOCK / 2) + i / 2) >> 56;
                block[1 + i % 16] |= (uint8_t)((pair >> 4 * (i % 2) & 15) << (i < 16 ? 0 : 4));
            }
        }
    }
    snprintf(name, sizeof name, "blk.%u.ffn_%s_exps.weight", layer, PART_NAMES[part]);
    gguf_writer_tensor(maker->writer, name, 3, dims, TINY_MODEL_MXFP4, packed, bytes);
    free(packed);
}

static void add_expert_biases(const struct maker *maker, uint32_t layer, enum part part)
{
    const struct tiny_model *model = maker->model;
    const uint64_t outputs = part == DOWN ? model->width : model->expert_hidden;
    const uint64_t step = part == DOWN ? 1 : 2;
    const uint64_t dims[] = {outputs, model->experts};
    float *x = values_of((size_t)(outputs * model->experts));
    char name[128];
    snprintf(name, sizeof name, "model.layers.%u.mlp.experts.%s", layer,
             part == DOWN ? "down_proj_bias" : "gate_up_proj_bias");
    const struct source source = source_of(model, name, BIAS);
    for (uint64_t i = 0; i < outputs * model->experts; i++)
        x[i] = weight_at(source.hash, i * step + (part == UP ? 1 : 0), source.add, source.scale);
    snprintf(name, sizeof name, "blk.%u.ffn_%s_exps.bias", layer, PART_NAMES[part]);
    put(maker, name, TENSOR_TYPE_f32, 2, dims, x);
}

static void add_experts(const struct maker *maker, uint32_t layer)
{
    for (enum part part = GATE; part <= DOWN; part++) {
        if (!is_in(maker->model, GPT_OSS)) {
            add_stack(maker, layer, part);
            continue;
        }
        if (maker->model->expert_type == TINY_MODEL_MXFP4)
            add_mxfp4_stack(maker, layer, part);
        else
            add_gpt_oss_stack(maker, layer, part);
        add_expert_biases(maker, layer, part);
    }
}

/* --- what the converter computes --- */

static float llama3_factor(const struct tiny_model *model, double frequency)
{
    const double low = 1;
    const double high = 4;
    const double turns = model->rope_original * frequency / (2 * M_PI);
    if (turns > high)
        return 1;
    if (turns < low)
        return model->rope_factor;
    double smooth = (turns - low) / (high - low);
    return (float)(1 / ((1 - smooth) / (double)model->rope_factor + smooth));
}

static uint32_t rope_dims(const struct tiny_model *model)
{
    return model->rope_dims != 0 ? model->rope_dims : model->head_dim;
}

double tiny_model_long_factor(uint32_t pair, bool is_long)
{
    return 1 + (is_long ? 0.5 : 0.01) * (double)pair;
}

static void add_rope(const struct maker *maker)
{
    const struct tiny_model *model = maker->model;
    const uint64_t pairs = rope_dims(model) / 2;
    if (model->rope == TINY_ROPE_LLAMA3 && !model->has_no_rope_freqs) {
        float *x = values_of((size_t)pairs);
        for (uint64_t i = 0; i < pairs; i++)
            x[i] = llama3_factor(model, pow((double)model->rope_base, -(double)i / (double)pairs));
        put(maker, "rope_freqs.weight", TENSOR_TYPE_f32, 1, &pairs, x);
    }
    for (uint32_t is_long = 0; model->rope == TINY_ROPE_LONG && is_long < 2; is_long++) {
        float *x = values_of((size_t)pairs);
        for (uint64_t i = 0; i < pairs; i++)
            x[i] = (float)tiny_model_long_factor((uint32_t)i, is_long != 0);
        put(maker,
            (is_long ^ model->has_factors_swapped) != 0 ? "rope_factors_long.weight"
                                                        : "rope_factors_short.weight",
            TENSOR_TYPE_f32, 1, &pairs, x);
    }
}

/* --- keys --- */

static const char *key_of(const struct maker *maker, const char *name)
{
    static char key[128];
    snprintf(key, sizeof key, "%s.%s", tiny_model_architecture(maker->model), name);
    return key;
}

static void put_u32(const struct maker *maker, const char *name, uint32_t value)
{
    gguf_writer_u32(maker->writer, key_of(maker, name), value);
}

static void put_f32(const struct maker *maker, const char *name, float value)
{
    gguf_writer_f32(maker->writer, key_of(maker, name), value);
}

static void put_string(const struct maker *maker, const char *name, const char *value)
{
    gguf_writer_string(maker->writer, key_of(maker, name), value);
}

static void write_rope_keys(const struct maker *maker)
{
    const struct tiny_model *model = maker->model;
    if (is_in(model, LLAMAS | PHI3))
        put_u32(maker, "rope.dimension_count", rope_dims(model));
    if (model->rope_base != 0)
        put_f32(maker, "rope.freq_base", model->rope_base);
    if (model->rope_base_local != 0)
        put_f32(maker, "rope.freq_base_swa", model->rope_base_local);
    if (model->rope == TINY_ROPE_LINEAR || model->rope == TINY_ROPE_YARN) {
        put_string(maker, "rope.scaling.type", model->rope == TINY_ROPE_YARN ? "yarn" : "linear");
        put_f32(maker, "rope.scaling.factor", model->rope_factor);
    }
    if (model->rope == TINY_ROPE_YARN || is_in(model, PHI3))
        put_u32(maker, "rope.scaling.original_context_length", model->rope_original);
    if (model->rope == TINY_ROPE_YARN) {
        put_f32(maker, "rope.scaling.yarn_beta_fast", 32);
        put_f32(maker, "rope.scaling.yarn_beta_slow", 1);
    }
    if (model->rope == TINY_ROPE_LONG) {
        double stretch = (double)model->context / model->rope_original;
        put_f32(maker, "rope.scaling.attn_factor",
                stretch <= 1 ? 1 : (float)sqrt(1 + log(stretch) / log(model->rope_original)));
    }
}

/* Every fourth layer of OLMo 3 is global. */
static void write_pattern(const struct maker *maker)
{
    uint8_t is_local[256];
    for (uint32_t i = 0; i < maker->model->layers; i++)
        is_local[i] = (i + 1) % 4 != 0;
    gguf_writer_array(maker->writer, key_of(maker, "attention.sliding_window_pattern"),
                      GGUF_WRITER_BOOL, maker->model->layers, is_local, maker->model->layers);
}

static void write_keys(const struct maker *maker)
{
    const struct tiny_model *model = maker->model;
    gguf_writer_string(maker->writer, "general.architecture", tiny_model_architecture(model));
    put_u32(maker, "block_count", model->layers);
    put_u32(maker, "context_length", model->context);
    put_u32(maker, "embedding_length", model->width);
    put_u32(maker, "feed_forward_length", model->hidden);
    put_u32(maker, "attention.head_count", model->heads);
    put_u32(maker, "attention.head_count_kv", model->kv_heads);
    put_f32(maker,
            is_in(model, STARCODER2) ? "attention.layer_norm_epsilon"
                                     : "attention.layer_norm_rms_epsilon",
            model->epsilon);
    if (is_in(model, HEAD_DIM_KEYS)) {
        put_u32(maker, "attention.key_length", model->head_dim);
        put_u32(maker, "attention.value_length", model->head_dim);
    }
    if (is_in(model, LLAMAS))
        put_u32(maker, "vocab_size", model->vocab);
    write_rope_keys(maker);
    if (model->window != 0 || is_in(model, PHI3))
        put_u32(maker, "attention.sliding_window", model->window);
    if (model->family == TINY_OLMO3)
        write_pattern(maker);
    if (model->attention_softcap != 0)
        put_f32(maker, "attn_logit_softcapping", model->attention_softcap);
    if (model->logit_softcap != 0)
        put_f32(maker, "final_logit_softcapping", model->logit_softcap);
    if (model->experts != 0) {
        put_u32(maker, "expert_count", model->experts);
        put_u32(maker, "expert_used_count", model->experts_used);
    }
    if (model->family == TINY_QWEN3MOE || is_in(model, GPT_OSS))
        put_u32(maker, "expert_feed_forward_length", model->expert_hidden);
}

/* --- the file --- */

static void add_layer(const struct maker *maker, uint32_t layer)
{
    char gguf[64];
    char hf[128];
    for (size_t i = 0; i < sizeof RECIPES / sizeof RECIPES[0]; i++) {
        if (!is_in(maker->model, RECIPES[i].families))
            continue;
        snprintf(gguf, sizeof gguf, "blk.%u.%s", layer, RECIPES[i].gguf);
        snprintf(hf, sizeof hf, "model.layers.%u.%s", layer, RECIPES[i].hf);
        add_tensor(maker, gguf, hf, &RECIPES[i]);
    }
    if (is_in(maker->model, EXPERTS))
        add_experts(maker, layer);
}

static void add_table(const struct maker *maker, const char *gguf, const char *hf)
{
    const struct tiny_model *model = maker->model;
    const struct source source = source_of(model, hf, MATRIX);
    const uint64_t dims[] = {model->width, model->vocab};
    float *x = values_of((size_t)(dims[0] * dims[1]));
    for (uint64_t i = 0; i < dims[0] * dims[1]; i++)
        x[i] = weight_at(source.hash, i, source.add, source.scale);
    put(maker, gguf, model->type, 2, dims, x);
}

void tiny_model_write(struct gguf_writer *writer, const struct tiny_model *model)
{
    static const struct recipe norm = {"", "", ONE, WIDTH, NORM, ALL};
    static const struct recipe bias = {"", "", ONE, WIDTH, BIAS, STARCODER2};
    struct tiny_model own = *model;
    const struct maker maker = {writer, &own};
    if (own.vocab == 0)
        own.vocab = TINY_VOCAB;
    write_keys(&maker);
    add_table(&maker, "token_embd.weight", "model.embed_tokens.weight");
    for (uint32_t i = 0; i < own.layers; i++)
        add_layer(&maker, i);
    add_tensor(&maker, "output_norm.weight", "model.norm.weight", &norm);
    if (is_in(&own, STARCODER2))
        add_tensor(&maker, "output_norm.bias", "model.norm.bias", &bias);
    if (own.has_own_output)
        add_table(&maker, "output.weight", "lm_head.weight");
    add_rope(&maker);
}

void tiny_model_build(const struct tiny_model *model, struct buffer *out)
{
    struct gguf_writer writer;
    gguf_writer_init(&writer);
    tiny_model_write(&writer, model);
    gguf_writer_finish(&writer, out);
    gguf_writer_deinit(&writer);
}

/* --- the Hugging Face file --- */

struct lister {
    const struct tiny_model *model;
    void (*take)(void *context, const struct tiny_tensor *tensor);
    void *context;
};

/* Norms of Gemma's files lack the 1. */
static void list(const struct lister *lister, const char *name, enum kind kind, uint64_t rows,
                 uint64_t cols)
{
    const struct source source = source_of(lister->model, name, kind);
    const bool is_gemma = kind == NORM && is_in(lister->model, GEMMAS);
    const struct tiny_tensor tensor = {.name = name,
                                       .is_matrix = kind == MATRIX,
                                       .dim_count = rows == 0 ? 1 : 2,
                                       .shape = {rows == 0 ? cols : rows, rows == 0 ? 1 : cols},
                                       .add = source.add - (is_gemma ? 1 : 0),
                                       .scale = source.scale};
    lister->take(lister->context, &tensor);
}

static void list_experts(const struct lister *lister, uint32_t layer)
{
    static const char *const mixtral[] = {"w1", "w3", "w2"};
    const struct tiny_model *model = lister->model;
    char name[128];
    for (uint32_t e = 0; e < model->experts; e++)
        for (enum part part = GATE; part <= DOWN; part++) {
            const uint64_t rows = part == DOWN ? model->width : model->expert_hidden;
            const uint64_t cols = part == DOWN ? model->expert_hidden : model->width;
            if (is_in(model, MIXTRAL))
                snprintf(name, sizeof name, "model.layers.%u.block_sparse_moe.experts.%u.%s.weight",
                         layer, e, mixtral[part]);
            else
                snprintf(name, sizeof name, "model.layers.%u.mlp.experts.%u.%s_proj.weight", layer,
                         e, PART_NAMES[part]);
            list(lister, name, MATRIX, rows, cols);
        }
}

/* One tensor for all experts, in GPT-OSS. */
static void list_stack(const struct lister *lister, uint32_t layer, const char *what,
                       uint64_t inputs, uint64_t outputs)
{
    const struct tiny_model *model = lister->model;
    const bool is_mxfp4 = model->expert_type == TINY_MODEL_MXFP4;
    char name[128];
    struct tiny_tensor tensor = {.name = name,
                                 .is_matrix = true,
                                 .dim_count = 3,
                                 .shape = {model->experts, inputs, outputs, MXFP4_BLOCK / 2}};
    snprintf(name, sizeof name, "model.layers.%u.mlp.experts.%s%s", layer, what,
             is_mxfp4 ? "_blocks" : "");
    tensor.scale = source_of(model, name, MATRIX).scale;
    if (is_mxfp4) {
        tensor.form = TINY_CODES;
        tensor.dim_count = 4;
        tensor.shape[1] = outputs;
        tensor.shape[2] = inputs / MXFP4_BLOCK;
    }
    lister->take(lister->context, &tensor);
    if (is_mxfp4) {
        tensor.form = TINY_EXPONENTS;
        tensor.dim_count = 3;
        snprintf(name, sizeof name, "model.layers.%u.mlp.experts.%s_scales", layer, what);
        lister->take(lister->context, &tensor);
    }
    snprintf(name, sizeof name, "model.layers.%u.mlp.experts.%s_bias", layer, what);
    list(lister, name, BIAS, model->experts, outputs);
}

static void list_layer(const struct lister *lister, uint32_t layer)
{
    const struct tiny_model *model = lister->model;
    char name[128];
    for (size_t i = 0; i < sizeof RECIPES / sizeof RECIPES[0]; i++) {
        const struct recipe *recipe = &RECIPES[i];
        if (!is_in(model, recipe->families))
            continue;
        snprintf(name, sizeof name, "model.layers.%u.%s", layer, recipe->hf);
        list(lister, name, recipe->kind, recipe->rows == ONE ? 0 : size_of(model, recipe->rows),
             size_of(model, recipe->cols));
    }
    if (is_in(model, GPT_OSS)) {
        list_stack(lister, layer, "gate_up_proj", model->width, 2 * (uint64_t)model->expert_hidden);
        list_stack(lister, layer, "down_proj", model->expert_hidden, model->width);
    } else if (is_in(model, EXPERTS)) {
        list_experts(lister, layer);
    }
}

void tiny_model_each(const struct tiny_model *model,
                     void (*take)(void *context, const struct tiny_tensor *tensor), void *context)
{
    const struct lister lister = {model, take, context};
    const uint64_t vocab = model->vocab != 0 ? model->vocab : TINY_VOCAB;
    list(&lister, "model.embed_tokens.weight", MATRIX, vocab, model->width);
    for (uint32_t layer = 0; layer < model->layers; layer++)
        list_layer(&lister, layer);
    list(&lister, "model.norm.weight", NORM, 0, model->width);
    if (is_in(model, STARCODER2))
        list(&lister, "model.norm.bias", BIAS, 0, model->width);
    if (model->has_own_output)
        list(&lister, "lm_head.weight", MATRIX, vocab, model->width);
}

uint8_t tiny_model_byte(const struct tiny_tensor *tensor, uint64_t index)
{
    const uint64_t bits = bits_at(name_hash(tensor->name), index);
    return tensor->form == TINY_CODES ? (uint8_t)(bits >> 56)
                                      : (uint8_t)(MXFP4_EXPONENT + (bits >> 62));
}
