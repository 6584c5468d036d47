#include "engine/models/model_config.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "config/base/limits.h"
#include "config/base/log.h"
#include "config/base/utf8.h"
#include "engine/models/rope_frequencies.h"

struct config_reader {
    const struct model_source *source;
    const struct arch *arch;
    char key[96]; /* "<architecture>.<name>" of the last call of config_key */
};

static const char *config_key(struct config_reader *reader, const char *name)
{
    snprintf(reader->key, sizeof reader->key, "%s.%s", reader->arch->name, name);
    return reader->key;
}

static bool config_has(struct config_reader *reader, const char *name)
{
    return model_source_has(reader->source, config_key(reader, name));
}

static bool config_is(const struct config_reader *reader, uint32_t feature)
{
    return (reader->arch->features & feature) != 0;
}

/* A missing key has the value `fallback`, or is an error when that is 0. */
static enum status config_count(struct config_reader *reader, const char *name, uint32_t max,
                                uint32_t fallback, uint32_t *out)
{
    const char *key = config_key(reader, name);
    *out = fallback;
    if (fallback == 0 || model_source_has(reader->source, key))
        TRY(model_source_get_u32(reader->source, key, out));
    if (*out < 1 || *out > max)
        FAIL(STATUS_CORRUPT, "model file: key '%s' is %u, it must be from 1 to %u", key, *out, max);
    return STATUS_OK;
}

static enum status config_real(struct config_reader *reader, const char *name, float min, float max,
                               float fallback, float *out)
{
    const char *key = config_key(reader, name);
    *out = fallback;
    if (fallback == 0 || model_source_has(reader->source, key))
        TRY(model_source_get_f32(reader->source, key, out));
    if (!(*out >= min) || !(*out <= max))
        FAIL(STATUS_CORRUPT, "model file: key '%s' is %g, it must be from %g to %g", key,
             (double)*out, (double)min, (double)max);
    return STATUS_OK;
}

/* --- keys that the row does not use --- */

static const struct {
    const char *name;
    uint32_t features;
} CONFIG_KEYS[] = {
#define ARCH_KEY(of, needs) {of, needs},
#define ARCH_KEY_OFF(of, off)
#define ARCH_KEY_FREE(of) {of, 0},
#include "engine/models/arch_keys.def"
};

static const struct {
    const char *name;
    float off;
} CONFIG_KEYS_OFF[] = {
#define ARCH_KEY(of, needs)
#define ARCH_KEY_OFF(of, off) {of, off},
#define ARCH_KEY_FREE(of)
#include "engine/models/arch_keys.def"
};

/* Whether the key's value is `off` or 0. */
static bool config_is_off(struct config_reader *reader, const char *name, float off)
{
    const char *key = config_key(reader, name);
    uint32_t count;
    float real;
    bool truth;
    if (model_source_get_u32(reader->source, key, &count) == STATUS_OK)
        real = (float)count;
    else if (model_source_get_bool(reader->source, key, &truth) == STATUS_OK)
        real = truth ? 1 : 0;
    else if (model_source_get_f32(reader->source, key, &real) != STATUS_OK)
        return false;
    return real == 0 || real == off;
}

static bool config_knows(struct config_reader *reader, struct slice name)
{
    for (size_t i = 0; i < sizeof CONFIG_KEYS / sizeof CONFIG_KEYS[0]; i++)
        if (slice_is(name, CONFIG_KEYS[i].name) &&
            (CONFIG_KEYS[i].features == 0 || config_is(reader, CONFIG_KEYS[i].features)))
            return true;
    for (size_t i = 0; i < sizeof CONFIG_KEYS_OFF / sizeof CONFIG_KEYS_OFF[0]; i++)
        if (slice_is(name, CONFIG_KEYS_OFF[i].name) &&
            config_is_off(reader, CONFIG_KEYS_OFF[i].name, CONFIG_KEYS_OFF[i].off))
            return true;
    return false;
}

/* Refuses a key of the architecture that is not used, by name, instead of ignoring it. */
static enum status config_refuse_unknown(struct config_reader *reader)
{
    const size_t length = strlen(reader->arch->name);
    for (uint32_t i = 0; i < model_source_key_count(reader->source); i++) {
        const struct slice key = model_source_key_at(reader->source, i);
        if (key.length <= length || memcmp(key.bytes, reader->arch->name, length) != 0 ||
            key.bytes[length] != '.')
            continue;
        const struct slice name = {key.bytes + length + 1, key.length - length - 1};
        if (!config_knows(reader, name))
            FAIL(STATUS_UNSUPPORTED, "model file: key '%.*s' is not supported for %s models",
                 (int)key.length, key.bytes, reader->arch->name);
    }
    return STATUS_OK;
}

/* --- sizes --- */

static enum status config_attention(struct model_config *out, struct config_reader *reader)
{
    uint32_t value_dim;
    uint32_t default_dim = 0;
    TRY(config_count(reader, "attention.head_count", LIMIT_HEADS, 0, &out->heads));
    TRY(config_count(reader, "attention.head_count_kv", LIMIT_HEADS, out->heads, &out->kv_heads));
    if (out->heads % out->kv_heads != 0)
        FAIL(STATUS_CORRUPT, "model file: %u heads are no multiple of %u key-value heads",
             out->heads, out->kv_heads);
    if (out->width % out->heads == 0)
        default_dim = out->width / out->heads;
    TRY(config_count(reader, "attention.key_length", LIMIT_HEAD_DIM, default_dim, &out->head_dim));
    TRY(config_count(reader, "attention.value_length", LIMIT_HEAD_DIM, out->head_dim, &value_dim));
    if (value_dim != out->head_dim)
        FAIL(STATUS_UNSUPPORTED, "model file: keys of %u and values of %u dimensions",
             out->head_dim, value_dim);
    if (out->head_dim % 2 != 0)
        FAIL(STATUS_CORRUPT, "model file: heads of %u dimensions, an odd number", out->head_dim);
    TRY(config_count(reader, "rope.dimension_count", LIMIT_HEAD_DIM, out->head_dim,
                     &out->rope_dims));
    if (out->rope_dims > out->head_dim || out->rope_dims % 2 != 0)
        FAIL(STATUS_CORRUPT, "model file: %u rotated dimensions in heads of %u: odd or too many",
             out->rope_dims, out->head_dim);
    const bool is_wide = reader->arch->wide_layers == out->layers;
    out->attention_scale = 1.0f / sqrtf((float)(is_wide ? out->width / out->heads : out->head_dim));
    out->has_row_norms = config_is(reader, ARCH_ROW_NORMS);
    return STATUS_OK;
}

static enum status config_feed(struct model_config *out, struct config_reader *reader)
{
    enum { GATING_SIGMOID = 2 }; /* the format's number for it */
    uint32_t experts = 0;
    uint32_t gating = 0;
    if (config_is(reader, ARCH_EXPERTS) &&
        (!config_is(reader, ARCH_DENSE) || config_has(reader, "expert_count")))
        TRY(model_source_get_u32(reader->source, config_key(reader, "expert_count"), &experts));
    if (experts == 0 && config_is(reader, ARCH_DENSE))
        return config_count(reader, "feed_forward_length", LIMIT_HIDDEN, 0, &out->hidden);
    TRY(config_count(reader, "expert_count", LIMIT_EXPERTS, 0, &out->experts));
    TRY(config_count(reader, "expert_used_count", LIMIT_EXPERTS_USED, 0, &out->experts_used));
    if (out->experts_used > out->experts)
        FAIL(STATUS_CORRUPT, "model file: key '%s' is %u, but there are %u experts", reader->key,
             out->experts_used, out->experts);
    if (config_has(reader, "expert_gating_func"))
        TRY(model_source_get_u32(reader->source, reader->key, &gating));
    if (gating == GATING_SIGMOID)
        FAIL(STATUS_UNSUPPORTED, "model file: key '%s': routers by a sigmoid are not supported",
             reader->key);
    return config_count(reader,
                        config_has(reader, "expert_feed_forward_length")
                            ? "expert_feed_forward_length"
                            : "feed_forward_length",
                        LIMIT_HIDDEN, 0, &out->hidden);
}

/* A cap of 0 is none. */
static enum status config_softcap(struct config_reader *reader, const char *name, float fallback,
                                  float *out)
{
    *out = fallback;
    if (!config_has(reader, name) || config_is_off(reader, name, 0))
        return STATUS_OK;
    return config_real(reader, name, 1e-3f, 1e6f, 0, out);
}

/* The embedding table, the list of tokens and the key must agree on the vocabulary. */
static enum status config_vocab(struct model_config *out, struct config_reader *reader)
{
    static const struct model_source_name names = {"token_embd.weight",
                                                   "model.embed_tokens.weight"};
    char name[MODEL_SOURCE_NAME_BYTES];
    struct tensor table;
    uint64_t tokens;
    model_source_tensor_name(reader->source, names, MODEL_SOURCE_NO_LAYER, name);
    TRY(model_source_get_tensor(reader->source, name, &table));
    if (table.dim_count != 2 || table.dims[0] != out->width || table.dims[1] > LIMIT_VOCAB)
        FAIL(STATUS_CORRUPT, "model file: '%s' is %llu x %llu, it must be %u x at most %d", name,
             (unsigned long long)table.dims[0], (unsigned long long)table.dims[1], out->width,
             LIMIT_VOCAB);
    uint32_t rows = (uint32_t)table.dims[1];
    TRY(config_count(reader, "vocab_size", LIMIT_VOCAB, rows, &out->vocab));
    if (out->vocab != rows)
        FAIL(STATUS_CORRUPT, "model file: a vocabulary of %u, but %u rows of embeddings",
             out->vocab, rows);
    if (model_source_has(reader->source, "tokenizer.ggml.tokens")) {
        TRY(model_source_get_length(reader->source, "tokenizer.ggml.tokens", &tokens));
        if (tokens != rows)
            FAIL(STATUS_CORRUPT, "model file: %llu tokens, but %u rows of embeddings",
                 (unsigned long long)tokens, rows);
    }
    return STATUS_OK;
}

/* --- kinds of layers --- */

/* Of each `period` layers the last one is not local. */
static bool config_is_local(uint32_t layer, uint32_t period)
{
    return layer % period < period - 1;
}

/* Leaves out a kind that no layer has, or that equals the other one. */
static void config_join_kinds(struct model_config *out)
{
    const struct layer_kind *kinds = out->kinds;
    bool has[MODEL_KINDS] = {false, false};
    for (uint32_t i = 0; i < out->layers; i++)
        has[out->kind_of[i]] = true;
    const bool is_same = kinds[0].window == kinds[1].window &&
                         kinds[0].frequencies == kinds[1].frequencies &&
                         kinds[0].has_rope == kinds[1].has_rope;
    if (has[0] && has[1] && !is_same)
        return;
    out->kinds[0] = has[0] ? kinds[0] : kinds[1];
    out->kind_count = 1;
    memset(out->kind_of, 0, sizeof out->kind_of);
}

/* A pattern that the file has is checked here and compared by model_config_warn. */
static enum status config_pattern(struct config_reader *reader, uint32_t window, uint32_t layers)
{
    static const char name[] = "attention.sliding_window_pattern";
    uint64_t length;
    if (!config_has(reader, name))
        return STATUS_OK;
    if (reader->arch->window_period == 0 && window > 0)
        FAIL(STATUS_UNSUPPORTED, "model file: '%s' is not supported: a window is of all layers",
             reader->key);
    if (!model_source_is_list(reader->source, reader->key))
        return STATUS_OK;
    TRY(model_source_get_length(reader->source, reader->key, &length));
    if (length < layers)
        FAIL(STATUS_CORRUPT, "model file: key '%s' has %llu elements, but there are %u layers",
             reader->key, (unsigned long long)length, layers);
    return STATUS_OK;
}

/* Each token attends to itself and to the window − 1 tokens before it; 0, or no key, means to all
 * before it. */
static enum status config_kinds(struct model_config *out, struct config_reader *reader)
{
    const struct arch *arch = reader->arch;
    uint32_t window = arch->window;
    if (config_is(reader, ARCH_WINDOW) &&
        (config_is(reader, ARCH_WINDOW_NEEDED) || config_has(reader, "attention.sliding_window")))
        TRY(model_source_get_u32(reader->source, config_key(reader, "attention.sliding_window"),
                                 &window));
    const uint32_t period = window > 0 ? arch->window_period : 0;
    if (window >= out->context)
        window = 0;
    TRY(config_pattern(reader, window, out->layers));
    out->kind_count = 1;
    out->kinds[0] = (struct layer_kind){.window = period > 0 ? 0 : window,
                                        .has_rope = !config_is(reader, ARCH_ENCODER)};
    if (period > 0) {
        out->kind_count = 2;
        out->kinds[1] = (struct layer_kind){
            .window = window, .frequencies = config_is(reader, ARCH_LOCAL_ROPE), .has_rope = true};
        for (uint32_t i = 0; i < out->layers; i++)
            out->kind_of[i] = config_is_local(i, period);
    } else if (arch->nope_period > 0) {
        out->kind_count = 2;
        out->kinds[1] = (struct layer_kind){.window = window, .has_rope = false};
        for (uint32_t i = 0; i < out->layers; i++)
            out->kind_of[i] = !config_is_local(i, arch->nope_period);
    }
    if (out->kind_count > 1)
        config_join_kinds(out);
    return STATUS_OK;
}

/* --- rope --- */

static enum status config_yarn(struct model_rope *rope, struct config_reader *reader)
{
    rope->scaling = MODEL_ROPE_YARN;
    rope->is_rounded = !config_is(reader, ARCH_YARN_NOT_ROUNDED);
    TRY(config_real(reader, "rope.scaling.factor", 1, 1e6f, 0, &rope->factor));
    TRY(config_count(reader, "rope.scaling.original_context_length", LIMIT_CONTEXT, 0,
                     &rope->original_context));
    TRY(config_real(reader, "rope.scaling.yarn_beta_fast", 1e-3f, 1e6f, 32, &rope->beta_fast));
    TRY(config_real(reader, "rope.scaling.yarn_beta_slow", 1e-3f, 1e6f, 1, &rope->beta_slow));
    if (!(rope->beta_fast > rope->beta_slow))
        FAIL(STATUS_CORRUPT, "model file: YaRN's beta_fast is %g, it must be above beta_slow, %g",
             (double)rope->beta_fast, (double)rope->beta_slow);
    if (!(rope->base > 1))
        FAIL(STATUS_CORRUPT, "model file: YaRN needs a rope base above 1");
    const char *own = config_has(reader, "rope.scaling.yarn_attn_factor")
                          ? "rope.scaling.yarn_attn_factor"
                          : "rope.scaling.attn_factor";
    return config_real(reader, own, 1e-3f, 1e3f, rope_frequencies_yarn_factor(rope->factor),
                       &rope->table_factor);
}

static enum status config_long(struct model_rope *rope, struct config_reader *reader)
{
    rope->scaling = MODEL_ROPE_LONG;
    TRY(config_count(reader, "rope.scaling.original_context_length", LIMIT_CONTEXT, 0,
                     &rope->original_context));
    return config_real(reader, "rope.scaling.attn_factor", 1e-3f, 1e3f, 1, &rope->table_factor);
}

/* A factor that nothing says how to use would be ignored. */
static enum status config_not_scaled(struct config_reader *reader)
{
    static const char *const names[] = {"rope.scaling.factor", "rope.scaling.attn_factor",
                                        "rope.scaling.yarn_attn_factor"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (config_has(reader, names[i]) && !config_is_off(reader, names[i], 1))
            FAIL(STATUS_UNSUPPORTED, "model file: '%s' is not supported without a scaling type",
                 config_key(reader, names[i]));
    return STATUS_OK;
}

static enum status config_scaling(struct model_rope *rope, struct config_reader *reader)
{
    struct slice type = SLICE("none");
    struct tensor factors;
    if (config_has(reader, "rope.scaling.type"))
        TRY(model_source_get_string(reader->source, reader->key, &type));
    const bool has_factors =
        config_is(reader, ARCH_ROPE_FACTORS) &&
        model_source_get_tensor(reader->source, "rope_factors_long.weight", &factors) == STATUS_OK;
    if (has_factors && (slice_is(type, "none") || slice_is(type, "longrope")))
        return config_long(rope, reader);
    if (slice_is(type, "none"))
        return config_not_scaled(reader);
    if (slice_is(type, "yarn"))
        return config_yarn(rope, reader);
    if (!slice_is(type, "linear"))
        FAIL(STATUS_UNSUPPORTED,
             "model file: '%s' is '%.*s': only none, linear, yarn and factors in tensors are "
             "supported",
             config_key(reader, "rope.scaling.type"), (int)(type.length < 32 ? type.length : 32),
             type.bytes);
    rope->scaling = MODEL_ROPE_LINEAR;
    return config_real(reader, "rope.scaling.factor", 1e-3f, 1e6f, 0, &rope->factor);
}

static enum status config_rope(struct model_config *out, struct config_reader *reader)
{
    struct model_rope *ropes = out->ropes;
    ropes[0].table_factor = ropes[1].table_factor = 1;
    TRY(config_real(reader, "rope.freq_base", 1.0f, 1e12f, 10000.0f, &ropes[0].base));
    TRY(config_scaling(&ropes[0], reader));
    if (!config_is(reader, ARCH_LOCAL_ROPE))
        return STATUS_OK;
    const float local = reader->arch->local_base;
    return config_real(reader, "rope.freq_base_swa", 1.0f, 1e12f, local > 0 ? local : ropes[0].base,
                       &ropes[1].base);
}

/* --- all --- */

/* A readable name: general.name if it is plain text, cut at a whole character. */
static void config_name(struct model_config *out, const struct model_source *source)
{
    struct slice name;
    bool is_plain = model_source_get_string(source, "general.name", &name) == STATUS_OK &&
                    name.length > 0 && utf8_is_valid(name.bytes, name.length);
    for (size_t i = 0; is_plain && i < name.length; i++)
        is_plain = (unsigned char)name.bytes[i] >= 0x20 && name.bytes[i] != 0x7f;
    if (!is_plain)
        name = slice_of(out->architecture);
    if (name.length > sizeof out->name - 1) {
        name.length = sizeof out->name - 1;
        name.length -= utf8_incomplete_tail(name.bytes, name.length);
    }
    memcpy(out->name, name.bytes, name.length);
    out->name[name.length] = '\0';
}

static enum status config_architecture(struct model_config *out, const struct model_source *source,
                                       const struct arch **arch)
{
    struct slice name;
    TRY(model_source_get_string(source, "general.architecture", &name));
    *arch = arch_find(name);
    if (*arch == NULL)
        FAIL(STATUS_UNSUPPORTED, "model file: architecture '%.*s' is not supported",
             (int)(name.length < 32 ? name.length : 32), name.bytes);
    snprintf(out->architecture, sizeof out->architecture, "%s", (*arch)->name);
    return STATUS_OK;
}

static void config_sizes(struct model_config *out, const struct model_source *source)
{
    for (uint32_t i = 0; i < model_source_tensor_count(source); i++) {
        struct tensor tensor;
        model_source_tensor_at(source, i, NULL, &tensor);
        /* No overflow: all tensors together are in the file, with at least half a
         * byte an element. */
        out->weight_bytes += tensor.bytes;
        out->parameters += tensor.dims[0] * tensor.dims[1] * tensor.dims[2] * tensor.dims[3];
    }
}

enum status model_config_read_arch(struct model_config *out, const struct model_source *source,
                                   const struct arch **arch)
{
    memset(out, 0, sizeof *out);
    TRY(config_architecture(out, source, arch));
    struct config_reader reader = {.source = source, .arch = *arch};
    TRY(config_refuse_unknown(&reader));
    TRY(config_count(&reader, "block_count", LIMIT_LAYERS, 0, &out->layers));
    TRY(config_count(&reader, "embedding_length", LIMIT_WIDTH, 0, &out->width));
    TRY(config_feed(out, &reader));
    TRY(config_count(&reader, "context_length", LIMIT_CONTEXT, 0, &out->context));
    TRY(config_real(&reader,
                    config_is(&reader, ARCH_LAYER_NORM) ? "attention.layer_norm_epsilon"
                                                        : "attention.layer_norm_rms_epsilon",
                    1e-12f, 0.1f, 0, &out->norm_epsilon));
    TRY(config_attention(out, &reader));
    TRY(config_kinds(out, &reader));
    TRY(config_rope(out, &reader));
    if (config_is(&reader, ARCH_SCORE_CAP))
        TRY(config_softcap(&reader, "attn_logit_softcapping", (*arch)->attention_softcap,
                           &out->attention_softcap));
    if (config_is(&reader, ARCH_LOGIT_CAP))
        TRY(config_softcap(&reader, "final_logit_softcapping", (*arch)->logit_softcap,
                           &out->logit_softcap));
    out->embed_scale =
        config_is(&reader, ARCH_EMBED_SCALE) ? (float)sqrt((double)out->width) : 1.0f;
    TRY(config_vocab(out, &reader));
    config_name(out, source);
    config_sizes(out, source);
    return STATUS_OK;
}

enum status model_config_read(struct model_config *out, const struct model_source *source)
{
    const struct arch *arch;
    return model_config_read_arch(out, source, &arch);
}

/* --- keys that contradict the row --- */

static uint32_t warn_says(const struct config_reader *reader, const char *file, const char *row)
{
    LOG(LOG_WARN, "model_metadata", LOG_TEXT("key", reader->key), LOG_TEXT("file", file),
        LOG_TEXT("used", row));
    return 1;
}

static uint32_t warn_number(const struct config_reader *reader, uint32_t file, uint32_t row)
{
    char texts[2][16];
    if (file == row)
        return 0;
    snprintf(texts[0], sizeof texts[0], "%u", file);
    snprintf(texts[1], sizeof texts[1], "%u", row);
    return warn_says(reader, texts[0], texts[1]);
}

/* The first layer of which the file's list says something else than the row. */
static uint32_t warn_pattern(const struct model_config *config, struct config_reader *reader)
{
    const uint32_t period = reader->arch->window_period;
    uint32_t list[LIMIT_LAYERS];
    uint32_t count;
    if (period == 0 || !config_has(reader, "attention.sliding_window_pattern"))
        return 0;
    if (!model_source_is_list(reader->source, reader->key))
        return model_source_get_u32(reader->source, reader->key, &count) == STATUS_OK
                   ? warn_number(reader, count, period)
                   : warn_says(reader, "not a number", "the row's");
    if (model_source_get_list(reader->source, reader->key, LIMIT_LAYERS, list, &count) != STATUS_OK)
        return warn_says(reader, "not a list of layers", "the row's");
    for (uint32_t i = 0; i < config->layers; i++) {
        char texts[2][48];
        if ((list[i] != 0) == config_is_local(i, period))
            continue;
        snprintf(texts[0], sizeof texts[0], "layer %u: %s", i, list[i] != 0 ? "window" : "all");
        snprintf(texts[1], sizeof texts[1], "layer %u: %s", i, list[i] != 0 ? "all" : "window");
        return warn_says(reader, texts[0], texts[1]);
    }
    return 0;
}

uint32_t model_config_warn(const struct model_config *config, const struct arch *arch,
                           const struct model_source *source)
{
    struct config_reader reader = {.source = source, .arch = arch};
    const bool is_normalised = (arch->features & ARCH_NORMALISED) != 0;
    uint32_t warnings = warn_pattern(config, &reader);
    bool norm;
    if (config->experts == 0)
        return warnings;
    if (config_has(&reader, "expert_weights_norm") &&
        model_source_get_bool(source, reader.key, &norm) == STATUS_OK && norm != is_normalised)
        warnings += warn_says(&reader, norm ? "true" : "false", is_normalised ? "true" : "false");
    return warnings;
}

bool model_config_is_encoder(const struct model_config *config)
{
    const struct arch *arch = arch_find(slice_of(config->architecture));
    return arch != NULL && (arch->features & ARCH_ENCODER) != 0;
}

bool model_config_has_two_windows(const struct model_config *config)
{
    return config->kind_count > 1 && config->kinds[0].window != config->kinds[1].window;
}

enum status model_config_check_kv(const struct model_config *config, enum kv_type type)
{
    if (kernels_kv_has_groups(type) && model_config_is_encoder(config))
        FAIL(STATUS_UNSUPPORTED, "KV pages of type %s are not supported for %s models",
             kernels_kv_type_name(type), config->architecture);
    if (kernels_kv_has_groups(type) && model_config_has_two_windows(config))
        FAIL(STATUS_UNSUPPORTED,
             "KV pages of type %s: the layers of this %s model have two windows, of %u tokens and "
             "of %u (0 = all), and keys of 4 bits need one",
             kernels_kv_type_name(type), config->architecture, config->kinds[1].window,
             config->kinds[0].window);
    return STATUS_OK;
}
