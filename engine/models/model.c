#include "engine/models/model.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "config/base/clock.h"
#include "config/base/limits.h"
#include "config/base/log.h"
#include "config/base/mem.h"
#include "config/base/utf8.h"
#include "engine/models/llama.h"
#include "engine/models/model_arch.h"
#include "engine/models/model_int4.h"
#include "engine/models/model_wanted.h"
#include "kernels/kernels_step.h"

static const struct model_arch *const MODEL_ARCHES[] = {
#define MODEL_ARCH(name) &name##_arch,
#include "engine/models/models.def"
#undef MODEL_ARCH
};

static const char *const MODEL_WEIGHTS_NAMES[] = {
    [MODEL_WEIGHTS_FILE] = "file", [MODEL_WEIGHTS_INT4] = "int4"};

enum status model_weights_find(enum model_weights *out, const char *name)
{
    for (int i = MODEL_WEIGHTS_FILE; i <= MODEL_WEIGHTS_INT4; i++)
        if (strcmp(name, MODEL_WEIGHTS_NAMES[i]) == 0) {
            *out = (enum model_weights)i;
            return STATUS_OK;
        }
    FAIL(STATUS_INVALID, "--weights %.32s is not known: file or int4", name);
}

const char *model_weights_name(enum model_weights weights)
{
    return MODEL_WEIGHTS_NAMES[weights];
}

/* --- hyper-parameters --- */

struct config_reader {
    const struct model_source *source;
    const char *architecture;
    char key[64]; /* "<architecture>.<name>" of the last call of config_key */
};

static const char *config_key(struct config_reader *reader, const char *name)
{
    snprintf(reader->key, sizeof reader->key, "%s.%s", reader->architecture, name);
    return reader->key;
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

/* Keys that change the arithmetic in ways that are not supported, and their values that change
 * nothing (some writers leave these in; 0 always changes nothing). */
static const struct {
    const char *name;
    float off;
} CONFIG_FEATURES[] = {
    {"expert_count", 0},        {"attention.scale", 0},
    {"logit_scale", 1},         {"residual_scale", 1},
    {"embedding_scale", 1},     {"attention.clamp_kqv", 0},
    {"rope.scale_linear", 1},   {"attention.max_alibi_bias", 0},
    {"rope.scaling.factor", 1}, {"rope.scaling.attn_factor", 1},
};

static bool config_is_off(const struct config_reader *reader, float off)
{
    uint32_t count;
    float real;
    if (model_source_get_u32(reader->source, reader->key, &count) == STATUS_OK)
        real = (float)count;
    else if (model_source_get_f32(reader->source, reader->key, &real) != STATUS_OK)
        return false;
    return real == 0 || real == off;
}

/* Refuses such a key by name instead of ignoring it. */
static enum status config_refuse_features(struct config_reader *reader)
{
    struct slice scaling;
    for (size_t i = 0; i < sizeof CONFIG_FEATURES / sizeof CONFIG_FEATURES[0]; i++) {
        const char *key = config_key(reader, CONFIG_FEATURES[i].name);
        if (model_source_has(reader->source, key) && !config_is_off(reader, CONFIG_FEATURES[i].off))
            FAIL(STATUS_UNSUPPORTED, "model file: '%s' is not supported", key);
    }
    const char *key = config_key(reader, "rope.scaling.type");
    if (model_source_has(reader->source, key)) {
        TRY(model_source_get_string(reader->source, key, &scaling));
        if (!slice_is(scaling, "none"))
            FAIL(STATUS_UNSUPPORTED,
                 "model file: '%s' is set: only unscaled rotary positions and 'rope_freqs.weight' "
                 "are supported",
                 key);
    }
    return STATUS_OK;
}

/* Each token attends to itself and to the window − 1 tokens before it; 0, or no key, means to all
 * before it. The window holds in all layers: a file with a pattern of layers is refused. */
static enum status config_window(struct model_config *out, struct config_reader *reader)
{
    uint32_t window = 0;
    const char *key = config_key(reader, "attention.sliding_window");
    if (model_source_has(reader->source, key))
        TRY(model_source_get_u32(reader->source, key, &window));
    if (window >= out->context)
        window = 0;
    key = config_key(reader, "attention.sliding_window_pattern");
    if (window > 0 && model_source_has(reader->source, key))
        FAIL(STATUS_UNSUPPORTED, "model file: '%s' is not supported: a window is of all layers",
             key);
    out->kind_count = 1; /* of all layers: kind_of is all zeros */
    out->kinds[0] = (struct layer_kind){.window = window, .frequencies = 0, .has_rope = true};
    return STATUS_OK;
}

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
    out->attention_scale = 1.0f / sqrtf((float)out->head_dim);
    return config_real(reader, "rope.freq_base", 1.0f, 1e12f, 10000.0f, &out->ropes[0].base);
}

/* The embedding table, the list of tokens and the key must agree on the vocabulary. */
static enum status config_vocab(struct model_config *out, struct config_reader *reader)
{
    struct tensor table;
    uint64_t tokens;
    TRY(model_source_get_tensor(reader->source, "token_embd.weight", &table));
    if (table.dim_count != 2 || table.dims[0] != out->width || table.dims[1] > LIMIT_VOCAB)
        FAIL(STATUS_CORRUPT,
             "model file: 'token_embd.weight' is %llu x %llu, it must be %u x at most %d",
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
                                       const struct model_arch **arch)
{
    struct slice name;
    TRY(model_source_get_string(source, "general.architecture", &name));
    *arch = NULL;
    for (size_t i = 0; i < sizeof MODEL_ARCHES / sizeof MODEL_ARCHES[0]; i++)
        if (slice_is(name, MODEL_ARCHES[i]->name))
            *arch = MODEL_ARCHES[i];
    if (*arch == NULL)
        FAIL(STATUS_UNSUPPORTED, "model file: architecture '%.*s' is not supported",
             (int)(name.length < 32 ? name.length : 32), name.bytes);
    snprintf(out->architecture, sizeof out->architecture, "%s", (*arch)->name);
    return STATUS_OK;
}

static enum status config_read(struct model_config *out, const struct model_source *source,
                               const struct model_arch **arch)
{
    memset(out, 0, sizeof *out);
    out->embed_scale = 1;
    TRY(config_architecture(out, source, arch));
    struct config_reader reader = {.source = source, .architecture = (*arch)->name};
    TRY(config_refuse_features(&reader));
    TRY(config_count(&reader, "block_count", LIMIT_LAYERS, 0, &out->layers));
    TRY(config_count(&reader, "embedding_length", LIMIT_WIDTH, 0, &out->width));
    TRY(config_count(&reader, "feed_forward_length", LIMIT_HIDDEN, 0, &out->hidden));
    TRY(config_count(&reader, "context_length", LIMIT_CONTEXT, 0, &out->context));
    TRY(config_real(&reader, "attention.layer_norm_rms_epsilon", 1e-12f, 0.1f, 0,
                    &out->norm_epsilon));
    TRY(config_attention(out, &reader));
    TRY(config_window(out, &reader));
    TRY(config_vocab(out, &reader));
    config_name(out, source);
    for (uint32_t i = 0; i < model_source_tensor_count(source); i++) {
        struct tensor tensor;
        model_source_tensor_at(source, i, NULL, &tensor);
        /* No overflow: all tensors together are in the file, with at least half a
         * byte an element. */
        out->weight_bytes += tensor.bytes;
        out->parameters += tensor.dims[0] * tensor.dims[1] * tensor.dims[2] * tensor.dims[3];
    }
    return STATUS_OK;
}

enum status model_config_read(struct model_config *out, const struct model_source *source)
{
    const struct model_arch *arch;
    return config_read(out, source, &arch);
}

uint32_t model_cols_max(const struct model_config *config)
{
    uint32_t attention = config->heads * config->head_dim;
    uint32_t most = config->width > config->hidden ? config->width : config->hidden;
    return most > attention ? most : attention;
}

/* --- the model --- */

enum status model_open(struct model **out, struct kernels *kernels,
                       const struct model_source *source, uint32_t rows_max,
                       uint32_t logit_rows_max)
{
    struct model_config config;
    struct model_share whole;
    TRY(model_config_read(&config, source));
    TRY(model_share_of(&whole, &config, 0, 1));
    return model_open_share(out, kernels, source, rows_max, logit_rows_max, MODEL_WEIGHTS_FILE,
                            &whole);
}

static void open_tell_int4(const struct model *model)
{
    const struct model_int4_sums *sums = &model->int4_sums;
    if (model->weights == MODEL_WEIGHTS_INT4)
        LOG(LOG_INFO, "weights_int4", LOG_NUMBER("matrices", sums->matrices),
            LOG_NUMBER("file_bytes", sums->file_bytes), LOG_NUMBER("bytes", sums->bytes),
            LOG_NUMBER("kept", sums->kept), LOG_NUMBER("kept_bytes", sums->kept_bytes));
}

/* Checks what no kernel table of this machine supports and no tensor or layout shows. */
static enum status open_check(const struct model *model)
{
    const uint32_t group = model->config.heads / model->config.kv_heads;
    if (kernels_is_device(model->kernels) && group > ATTENTION_DEVICE_HEADS)
        FAIL(STATUS_UNSUPPORTED,
             "model file: %u query heads over one key-value head; devices have up to %d", group,
             ATTENTION_DEVICE_HEADS);
    return STATUS_OK;
}

/* Allocates what model_wanted_groups writes to. */
static enum status open_wanted(struct model *model)
{
    model->wanted_order = mem_zalloc(model->logit_rows_max, sizeof *model->wanted_order);
    model->wanted_shared = mem_zalloc(model->logit_rows_max, sizeof *model->wanted_shared);
    if (model->wanted_order == NULL || model->wanted_shared == NULL)
        FAIL(STATUS_NO_MEMORY, "model: no memory for %u rows of logits", model->logit_rows_max);
    return STATUS_OK;
}

static void open_free(struct model *model)
{
    mem_free(model->wanted_order);
    mem_free(model->wanted_shared);
    mem_free(model);
}

enum status model_open_share(struct model **out, struct kernels *kernels,
                             const struct model_source *source, uint32_t rows_max,
                             uint32_t logit_rows_max, enum model_weights weights,
                             const struct model_share *share)
{
    ASSERT(rows_max >= 1);
    ASSERT(logit_rows_max >= 1);
    ASSERT(logit_rows_max <= rows_max);
    struct model *model = mem_zalloc(1, sizeof *model);
    if (model == NULL)
        FAIL(STATUS_NO_MEMORY, "model: no memory");
    model->kernels = kernels;
    model->share = *share;
    model->weights = weights;
    model->rows_max = rows_max;
    model->logit_rows_max = logit_rows_max;
    model->told_us = clock_mono_us(clock_system());
    enum status status = config_read(&model->config, source, &model->arch);
    if (status == STATUS_OK)
        status = open_check(model);
    if (status == STATUS_OK)
        status = open_wanted(model);
    if (status == STATUS_OK)
        status = model->arch->open(model, source);
    if (status != STATUS_OK) {
        open_free(model);
        return status;
    }
    open_tell_int4(model);
    *out = model;
    return STATUS_OK;
}

void model_close(struct model *model)
{
    if (model == NULL)
        return;
    model->arch->close(model);
    open_free(model);
}

void model_tell(struct model *model, void (*told)(void *context, const struct model_batch *batch),
                void *context)
{
    model->told = told;
    model->told_context = context;
}

void model_watch(struct model *model, struct pulse *pulse, uint32_t place)
{
    model->pulse = pulse;
    model->pulse_place = place;
}

const struct model_config *model_config(const struct model *model)
{
    return &model->config;
}

const struct model_int4_sums *model_int4_sums(const struct model *model)
{
    return &model->int4_sums;
}

static void forward_check(const struct model *model, const struct model_batch *batch)
{
    const struct model_config *config = &model->config;
    ASSERT(batch->rows >= 1);
    ASSERT(batch->rows <= model->rows_max);
    ASSERT(batch->logit_rows <= model->logit_rows_max);
    ASSERT(batch->layers <= config->layers);
    ASSERT(batch->kv.layout->layers == config->layers);
    ASSERT(batch->kv.layout->kv_heads == model->share.kv_heads);
    ASSERT(batch->kv.layout->head_dim == config->head_dim);
    for (uint32_t r = 0; r < batch->rows; r++) {
        ASSERT(batch->tokens[r] < config->vocab);
        ASSERT(batch->kv.position[r] < config->context);
    }
    for (uint32_t i = 0; i < batch->logit_rows; i++)
        ASSERT(batch->logit_row[i] < batch->rows);
}

/* The largest window of any layer; 0 if some layer has none. */
static uint32_t forward_window(const struct model_config *config)
{
    uint32_t largest = config->kinds[0].window;
    for (uint32_t i = 1; i < config->kind_count; i++) {
        const uint32_t window = config->kinds[i].window;
        largest = largest == 0 || window == 0 ? 0 : window > largest ? window : largest;
    }
    return largest;
}

static void forward_run(void *context)
{
    struct model *model = context;
    model->arch->forward(model, model->batch);
}

const float *model_forward(struct model *model, const struct model_batch *batch)
{
    forward_check(model, batch);
    if (model->told != NULL)
        model->told(model->told_context, batch);
    const struct attention_groups wanted = {model->wanted_order, model->wanted_shared};
    const bool is_shared = model_wanted_groups(batch, model->wanted_order, model->wanted_shared);
    model->wanted_groups = is_shared ? &wanted : NULL;
    const struct kernels_step step = {.rows = batch->rows,
                                      .tokens = batch->tokens,
                                      .kv = batch->kv,
                                      .groups = batch->groups,
                                      .wanted_groups = model->wanted_groups,
                                      .logit_rows = batch->logit_rows,
                                      .logit_rows_max = model->logit_rows_max,
                                      .heads = model->share.heads,
                                      .window = forward_window(&model->config),
                                      .logit_row = batch->logit_row,
                                      .layers = batch->layers,
                                      .has_sums = model->share.count > 1};
    model->batch = batch;
    if (kernels_step_run(model->kernels, &step, forward_run, model) != STATUS_OK)
        return NULL;
    return model->logits;
}
