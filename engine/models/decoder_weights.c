#include "engine/models/decoder_weights.h"

#include <stdio.h>
#include <string.h>

#include "config/base/limits.h"
#include "config/base/log.h"
#include "config/base/mem.h"
#include "engine/models/rope_frequencies.h"

/* --- the list of tensors --- */

enum weights_dim {
    DIM_NONE,
    DIM_WIDTH,
    DIM_HIDDEN,     /* shared by ranks */
    DIM_HEADS,      /* heads × head_dim, shared */
    DIM_KV_HEADS,   /* kv_heads × head_dim, shared */
    DIM_HEAD_COUNT, /* heads, shared */
    DIM_HEAD_DIM,
    DIM_EXPERTS,
};

enum weights_whole {
    WHOLE_NONE,
#define ARCH_WHOLE(id, gguf, hf, features) WHOLE_##id,
#include "engine/models/arch_tensors.def"
    WHOLES
};

static const struct {
    struct model_source_name name;
    uint32_t features;
} WHOLE_TENSORS[WHOLES] = {
#define ARCH_WHOLE(id, gguf, hf, features) [WHOLE_##id] = {{gguf, hf}, features},
#include "engine/models/arch_tensors.def"
};

struct weights_tensor {
    struct model_source_name name;
    size_t
        offset; /* in struct decoder_layer: of a struct weight, or of a float * without columns */
    enum weights_dim rows;
    enum weights_dim cols; /* DIM_NONE: a vector */
    bool is_of_experts;    /* that many for each expert */
    uint32_t features;     /* the row has all of these */
    enum weights_whole whole;
};

#define WEIGHTS_AT(field) offsetof(struct decoder_layer, field)
static const struct weights_tensor LAYER_TENSORS[] = {
#define ARCH_MATRIX(field, gguf, hf, rows, cols, features, whole)                                  \
    {{gguf, hf}, WEIGHTS_AT(field), DIM_##rows, DIM_##cols, false, features, WHOLE_##whole},
#define ARCH_VECTOR(field, gguf, hf, count, features, whole)                                       \
    {{gguf, hf}, WEIGHTS_AT(field), DIM_##count, DIM_NONE, false, features, WHOLE_##whole},
#define ARCH_EXPERT_MATRIX(field, gguf, hf, rows, cols, features, whole)                           \
    {{gguf, hf}, WEIGHTS_AT(field), DIM_##rows, DIM_##cols, true, features, WHOLE_##whole},
#define ARCH_EXPERT_VECTOR(field, gguf, hf, count, features, whole)                                \
    {{gguf, hf}, WEIGHTS_AT(field), DIM_##count, DIM_NONE, true, features, WHOLE_##whole},
#include "engine/models/arch_tensors.def"
};
enum { LAYER_TENSOR_COUNT = sizeof LAYER_TENSORS / sizeof LAYER_TENSORS[0] };

/* Tensors of the model itself. */
static const struct model_source_name EMBEDDING = {"token_embd.weight",
                                                   "model.embed_tokens.weight"};
static const struct model_source_name OUTPUT = {"output.weight", "lm_head.weight"};
static const struct model_source_name OUTPUT_NORM = {"output_norm.weight", "model.norm.weight"};
static const struct model_source_name OUTPUT_NORM_BIAS = {"output_norm.bias", "model.norm.bias"};
/* Of encoders. */
static const struct model_source_name POSITIONS = {"position_embd.weight",
                                                   "model.embed_positions.weight"};
static const struct model_source_name TYPES = {"token_types.weight", "model.embed_types.weight"};
static const struct model_source_name EMBED_NORM = {"token_embd_norm.weight",
                                                    "model.embed_norm.weight"};
static const struct model_source_name EMBED_NORM_BIAS = {"token_embd_norm.bias",
                                                         "model.embed_norm.bias"};
/* Hugging Face files have these three in config.json. */
static const struct model_source_name ROPE_FREQS = {"rope_freqs.weight", "rope_freqs.weight"};
static const struct model_source_name ROPE_LONG = {"rope_factors_long.weight",
                                                   "rope_factors_long.weight"};
static const struct model_source_name ROPE_SHORT = {"rope_factors_short.weight",
                                                    "rope_factors_short.weight"};

/* --- what is opened --- */

struct weights_open {
    struct decoder_weights *weights;
    struct model *model;
    const struct model_source *source;
    uint32_t features; /* of the row, for layers as this model has them: dense or of experts */
    bool *is_used;     /* [tensors of the file] */
};

static bool open_has(const struct weights_open *open, const struct weights_tensor *tensor)
{
    return (tensor->features & ~open->features) == 0;
}

static uint32_t open_dim(const struct model_config *config, enum weights_dim dim)
{
    switch (dim) {
    case DIM_WIDTH:
        return config->width;
    case DIM_HIDDEN:
        return config->hidden;
    case DIM_HEADS:
        return config->heads * config->head_dim;
    case DIM_KV_HEADS:
        return config->kv_heads * config->head_dim;
    case DIM_HEAD_COUNT:
        return config->heads;
    case DIM_HEAD_DIM:
        return config->head_dim;
    case DIM_EXPERTS:
        return config->experts;
    default:
        return 0;
    }
}

/* The part of a dimension that this rank has. */
static struct model_part open_part(const struct model *model, enum weights_dim dim)
{
    const struct model_share *share = &model->share;
    uint32_t head_dim = model->config.head_dim;
    switch (dim) {
    case DIM_HIDDEN:
        return (struct model_part){share->hidden_begin, share->hidden};
    case DIM_HEADS:
        return (struct model_part){share->head_begin * head_dim, share->heads * head_dim};
    case DIM_KV_HEADS:
        return (struct model_part){share->kv_head_begin * head_dim, share->kv_heads * head_dim};
    case DIM_HEAD_COUNT:
        return (struct model_part){share->head_begin, share->heads};
    default:
        return (struct model_part){0, open_dim(&model->config, dim)};
    }
}

/* The tensor of the file that holds the field: its name, its rows, and those before the field's. */
struct weights_place {
    char name[MODEL_SOURCE_NAME_BYTES];
    uint32_t rows;
    uint32_t ahead;
};

static void open_place(const struct weights_open *open, const struct weights_tensor *tensor,
                       uint32_t layer, struct weights_place *out)
{
    const struct model_config *config = &open->model->config;
    struct tensor found;
    out->ahead = 0;
    if (tensor->whole != WHOLE_NONE &&
        (WHOLE_TENSORS[tensor->whole].features & ~open->features) == 0) {
        model_source_tensor_name(open->source, WHOLE_TENSORS[tensor->whole].name, layer, out->name);
        if (model_source_get_tensor(open->source, out->name, &found) == STATUS_OK) {
            out->rows = 0;
            for (const struct weights_tensor *t = LAYER_TENSORS;
                 t < LAYER_TENSORS + LAYER_TENSOR_COUNT; t++) {
                if (t->whole != tensor->whole || !open_has(open, t))
                    continue;
                out->ahead = t == tensor ? out->rows : out->ahead;
                out->rows += open_dim(config, t->rows);
            }
            return;
        }
    }
    model_source_tensor_name(open->source, tensor->name, layer, out->name);
    out->rows = open_dim(config, tensor->rows);
}

/* --- refusal of what is not used --- */

static void open_mark(const struct weights_open *open, const char *name)
{
    uint32_t index;
    if (model_source_find_tensor(open->source, name, &index) == STATUS_OK)
        open->is_used[index] = true;
}

static void open_mark_model(const struct weights_open *open, struct model_source_name of)
{
    char name[MODEL_SOURCE_NAME_BYTES];
    model_source_tensor_name(open->source, of, MODEL_SOURCE_NO_LAYER, name);
    open_mark(open, name);
}

/* Refuses a tensor that would not be used, by name: the model (with biases, shared experts, or more
 * layers than the key says) would be computed wrongly without it. */
static enum status open_refuse_unknown(const struct weights_open *open)
{
    const struct model_config *config = &open->model->config;
    open_mark_model(open, EMBEDDING);
    if (open->features & ARCH_ENCODER) {
        open_mark_model(open, POSITIONS);
        open_mark_model(open, TYPES);
        open_mark_model(open, EMBED_NORM);
        open_mark_model(open, EMBED_NORM_BIAS);
    } else {
        open_mark_model(open, OUTPUT);
        open_mark_model(open, OUTPUT_NORM);
        if (open->features & ARCH_LAYER_NORM)
            open_mark_model(open, OUTPUT_NORM_BIAS);
    }
    if (open->features & ARCH_ROPE_FREQS)
        open_mark_model(open, ROPE_FREQS);
    if (open->features & ARCH_ROPE_FACTORS) {
        open_mark_model(open, ROPE_LONG);
        open_mark_model(open, ROPE_SHORT);
    }
    for (uint32_t layer = 0; layer < config->layers; layer++)
        for (uint32_t t = 0; t < LAYER_TENSOR_COUNT; t++) {
            struct weights_place place;
            if (!open_has(open, &LAYER_TENSORS[t]))
                continue;
            open_place(open, &LAYER_TENSORS[t], layer, &place);
            open_mark(open, place.name);
        }
    for (uint32_t i = 0; i < model_source_tensor_count(open->source); i++) {
        struct slice name;
        struct tensor tensor;
        if (open->is_used[i])
            continue;
        model_source_tensor_at(open->source, i, &name, &tensor);
        FAIL(STATUS_UNSUPPORTED,
             "model file: tensor '%.*s' is not part of a %s model of %u %s as supported here",
             (int)name.length, name.bytes, config->architecture, config->layers,
             config->experts > 0 ? "layers with experts" : "layers");
    }
    return STATUS_OK;
}

/* --- packing --- */

static enum status open_tensor(const struct weights_open *open, uint32_t layer,
                               const struct weights_tensor *tensor)
{
    struct model *model = open->model;
    const struct model_config *config = &model->config;
    void *at = (char *)&open->weights->layers[layer] + tensor->offset;
    struct weights_place place;
    struct model_part rows = open_part(model, tensor->rows);
    open_place(open, tensor, layer, &place);
    rows.begin += place.ahead;
    if (tensor->cols == DIM_NONE) {
        const uint32_t each = tensor->is_of_experts ? config->experts : 1;
        return model_arch_vector_part(model, open->source, place.name, place.rows, each, rows, at);
    }
    const uint32_t cols = open_dim(config, tensor->cols);
    if (tensor->is_of_experts)
        return model_arch_experts(model, open->source, place.name, place.rows, cols, rows,
                                  open_part(model, tensor->cols), at);
    if (tensor->rows == DIM_EXPERTS)
        return model_arch_router(model, open->source, place.name, place.rows, cols, at);
    return model_arch_layer_part(model, open->source, place.name, place.rows, cols, rows,
                                 open_part(model, tensor->cols), at);
}

static enum status open_layers(const struct weights_open *open)
{
    for (uint32_t layer = 0; layer < open->model->config.layers; layer++)
        for (uint32_t t = 0; t < LAYER_TENSOR_COUNT; t++)
            if (open_has(open, &LAYER_TENSORS[t]))
                TRY(open_tensor(open, layer, &LAYER_TENSORS[t]));
    return STATUS_OK;
}

static enum status open_output(const struct weights_open *open)
{
    struct decoder_weights *weights = open->weights;
    struct model *model = open->model;
    const struct model_config *config = &model->config;
    struct tensor own;
    char embedding[MODEL_SOURCE_NAME_BYTES];
    char output[MODEL_SOURCE_NAME_BYTES];
    char name[MODEL_SOURCE_NAME_BYTES];
    model_source_tensor_name(open->source, EMBEDDING, MODEL_SOURCE_NO_LAYER, embedding);
    model_source_tensor_name(open->source, OUTPUT, MODEL_SOURCE_NO_LAYER, output);
    TRY(model_arch_matrix(model, open->source, embedding, config->vocab, config->width,
                          &weights->embedding));
    model_source_tensor_name(open->source, OUTPUT_NORM, MODEL_SOURCE_NO_LAYER, name);
    TRY(model_arch_vector(model, open->source, name, config->width, &weights->output_norm));
    if (open->features & ARCH_LAYER_NORM) {
        model_source_tensor_name(open->source, OUTPUT_NORM_BIAS, MODEL_SOURCE_NO_LAYER, name);
        TRY(model_arch_vector(model, open->source, name, config->width,
                              &weights->output_norm_bias));
    }
    weights->output = &weights->embedding;
    bool is_tied = model_source_get_tensor(open->source, output, &own) != STATUS_OK;
    if (!is_tied || model->share.count > 1) {
        TRY(model_arch_matrix_part(
            model, open->source, is_tied ? embedding : output, config->vocab, config->width,
            (struct model_part){model->share.vocab_begin, model->share.vocab},
            (struct model_part){0, config->width}, &weights->own_output));
        weights->output = &weights->own_output;
    }
    return STATUS_OK;
}

/* --- what an encoder has in place of an output layer --- */

static enum status open_model_vector(const struct weights_open *open, struct model_source_name of,
                                     float **out)
{
    char name[MODEL_SOURCE_NAME_BYTES];
    model_source_tensor_name(open->source, of, MODEL_SOURCE_NO_LAYER, name);
    return model_arch_vector(open->model, open->source, name, open->model->config.width, out);
}

/* Adds the first `rows` rows of a matrix to those of `sums`; if there are fewer than `rows`, its
 * first row to each. */
static enum status open_add_rows(const struct weights_open *open, struct model_source_name of,
                                 uint32_t rows, bool is_first_alone, float *sums)
{
    const uint32_t width = open->model->config.width;
    char name[MODEL_SOURCE_NAME_BYTES];
    struct tensor tensor;
    void *memory;
    float *row = mem_zalloc(width, sizeof *row);
    enum status status = STATUS_OK;
    if (row == NULL)
        FAIL(STATUS_NO_MEMORY, "model: no memory for a row");
    model_source_tensor_name(open->source, of, MODEL_SOURCE_NO_LAYER, name);
    TRY_OUT(model_source_load_tensor(open->source, name, &tensor, &memory));
    if (tensor.dim_count != 2 || tensor.dims[0] != width ||
        tensor.dims[1] < (is_first_alone ? 1 : rows))
        status = status_fail(STATUS_CORRUPT, __FILE__, __LINE__, NULL,
                             "model file: '%s' is %llu x %llu, it must be %u x %u", name,
                             (unsigned long long)tensor.dims[0], (unsigned long long)tensor.dims[1],
                             width, rows);
    for (uint32_t r = 0; status == STATUS_OK && r < rows; r++) {
        tensor_row_to_f32(&tensor, is_first_alone ? 0 : r, row);
        for (uint32_t i = 0; i < width; i++)
            sums[(size_t)r * width + i] += row[i];
    }
    mem_free(memory);
out:
    mem_free(row);
    return status;
}

/* All tokens are of the first type, so its vector is added to those of the positions here. */
static enum status open_encoder(const struct weights_open *open)
{
    struct decoder_weights *weights = open->weights;
    const struct model_config *config = &open->model->config;
    const size_t count = (size_t)config->context * config->width;
    char name[MODEL_SOURCE_NAME_BYTES];
    enum status status = STATUS_OK;
    float *sums = mem_zalloc(count, sizeof *sums);
    if (sums == NULL)
        FAIL(STATUS_NO_MEMORY, "model: no memory for %u positions", config->context);
    model_source_tensor_name(open->source, EMBEDDING, MODEL_SOURCE_NO_LAYER, name);
    TRY_OUT(model_arch_matrix(open->model, open->source, name, config->vocab, config->width,
                              &weights->embedding));
    TRY_OUT(open_add_rows(open, POSITIONS, config->context, false, sums));
    TRY_OUT(open_add_rows(open, TYPES, config->context, true, sums));
    TRY_OUT(model_arch_buffer(open->model, config->context, config->width, &weights->positions));
    kernels_upload(open->model->kernels, weights->positions, sums, count * sizeof *sums);
    TRY_OUT(open_model_vector(open, EMBED_NORM, &weights->embed_norm));
    TRY_OUT(open_model_vector(open, EMBED_NORM_BIAS, &weights->embed_norm_bias));
out:
    mem_free(sums);
    return status;
}

/* --- frequencies of rope --- */

/* Reads factors [pairs], each above 0. */
static enum status open_factors(const struct weights_open *open, struct model_source_name of,
                                float *out)
{
    const uint32_t pairs = open->model->config.rope_dims / 2;
    char name[MODEL_SOURCE_NAME_BYTES];
    model_source_tensor_name(open->source, of, MODEL_SOURCE_NO_LAYER, name);
    TRY(model_arch_vector_read(open->source, name, pairs, out));
    for (uint32_t i = 0; i < pairs; i++)
        if (!(out[i] > 0))
            FAIL(STATUS_CORRUPT, "model file: '%s' has the factor %g, it must be above 0", name,
                 (double)out[i]);
    return STATUS_OK;
}

/* Chooses the long or the short factors once, for all sequences. If each text chose by its own
 * length, the keys of a page would depend on the tokens behind it, and pages could not be
 * shared. */
static enum status open_long_factors(const struct weights_open *open, float *out)
{
    const struct model *model = open->model;
    const struct model_rope *rope = &model->config.ropes[0];
    float other[LIMIT_HEAD_DIM / 2];
    const bool is_long = model->context > rope->original_context;
    TRY(open_factors(open, is_long ? ROPE_LONG : ROPE_SHORT, out));
    TRY(open_factors(open, is_long ? ROPE_SHORT : ROPE_LONG, other)); /* a wrong one is refused */
    LOG(LOG_INFO, "rope_factors", LOG_TEXT("factors", is_long ? "long" : "short"),
        LOG_NUMBER("context", model->context),
        LOG_NUMBER("original_context", rope->original_context));
    return STATUS_OK;
}

static bool open_has_model(const struct weights_open *open, struct model_source_name of)
{
    char name[MODEL_SOURCE_NAME_BYTES];
    struct tensor tensor;
    model_source_tensor_name(open->source, of, MODEL_SOURCE_NO_LAYER, name);
    return model_source_get_tensor(open->source, name, &tensor) == STATUS_OK;
}

static enum status open_frequencies(const struct weights_open *open)
{
    struct model *model = open->model;
    const struct model_config *config = &model->config;
    const uint32_t pairs = config->rope_dims / 2;
    float factors[LIMIT_HEAD_DIM / 2];
    float frequencies[LIMIT_HEAD_DIM / 2];
    bool has_factors = false; /* of layers with the first table */
    if ((open->features & ARCH_ROPE_FREQS) && open_has_model(open, ROPE_FREQS)) {
        has_factors = true;
        TRY(open_factors(open, ROPE_FREQS, factors));
    } else if (config->ropes[0].scaling == MODEL_ROPE_LONG) {
        has_factors = true;
        TRY(open_long_factors(open, factors));
    }
    for (uint32_t i = 0; i < config->kind_count; i++) {
        const uint32_t f = config->kinds[i].frequencies;
        if (!config->kinds[i].has_rope || open->weights->frequencies[f] != NULL)
            continue;
        rope_frequencies(&config->ropes[f], config->rope_dims,
                         has_factors && f == 0 ? factors : NULL, frequencies);
        TRY(model_arch_buffer(model, 1, pairs, &open->weights->frequencies[f]));
        kernels_upload(model->kernels, open->weights->frequencies[f], frequencies,
                       pairs * sizeof *frequencies);
        open->weights->rope_factors[f] = config->ropes[f].table_factor;
    }
    return STATUS_OK;
}

/* --- open and close --- */

static enum status open_all(const struct weights_open *open)
{
    TRY(open_refuse_unknown(open));
    TRY(open->features & ARCH_ENCODER ? open_encoder(open) : open_output(open));
    TRY(open_frequencies(open));
    return open_layers(open);
}

enum status decoder_weights_open(struct decoder_weights *out, struct model *model,
                                 const struct model_source *source)
{
    const struct model_config *config = &model->config;
    struct weights_open open = {
        .weights = out,
        .model = model,
        .source = source,
        .features =
            model->arch->features & ~(uint32_t)(config->experts > 0 ? ARCH_DENSE : ARCH_EXPERTS),
        .is_used = mem_zalloc(model_source_tensor_count(source), sizeof *open.is_used),
    };
    out->layers = mem_zalloc(config->layers, sizeof *out->layers);
    enum status status = STATUS_OK;
    if (open.is_used == NULL || out->layers == NULL)
        FAIL_OUT(STATUS_NO_MEMORY, "model: no memory for %u layers", config->layers);
    TRY_OUT(open_all(&open));
out:
    mem_free(open.is_used);
    return status;
}

void decoder_weights_close(struct decoder_weights *weights, struct model *model)
{
    struct kernels *kernels = model->kernels;
    for (uint32_t i = 0; weights->layers != NULL && i < model->config.layers; i++) {
        for (uint32_t t = 0; t < LAYER_TENSOR_COUNT; t++) {
            void *at = (char *)&weights->layers[i] + LAYER_TENSORS[t].offset;
            if (LAYER_TENSORS[t].cols != DIM_NONE) {
                kernels_weight_destroy(kernels, at);
            } else {
                kernels_buffer_destroy(kernels, *(float **)at);
                *(float **)at = NULL;
            }
        }
    }
    for (uint32_t i = 0; i < MODEL_KINDS; i++)
        kernels_buffer_destroy(kernels, weights->frequencies[i]);
    kernels_buffer_destroy(kernels, weights->positions);
    kernels_buffer_destroy(kernels, weights->embed_norm);
    kernels_buffer_destroy(kernels, weights->embed_norm_bias);
    kernels_buffer_destroy(kernels, weights->output_norm);
    kernels_buffer_destroy(kernels, weights->output_norm_bias);
    kernels_weight_destroy(kernels, &weights->embedding);
    kernels_weight_destroy(kernels, &weights->own_output);
    mem_free(weights->layers);
}
