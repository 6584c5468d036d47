#include "engine/models/llama.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config/base/limits.h"
#include "config/base/mem.h"

/* Shapes are [outputs][inputs], as in kernels_linear; heads, kv_heads and hidden are those of
 * this rank's share. */
struct llama_layer {
    float *attn_norm;          /* [width] */
    struct weight q;           /* [heads × head_dim][width] */
    struct weight k;           /* [kv_heads × head_dim][width] */
    struct weight v;           /* [kv_heads × head_dim][width] */
    struct weight attn_output; /* [width][heads × head_dim] */
    float *ffn_norm;           /* [width] */
    struct weight gate;        /* [hidden][width] */
    struct weight up;          /* [hidden][width] */
    struct weight down;        /* [width][hidden] */
};

struct llama {
    struct weight embedding;  /* [vocab][width] */
    struct weight own_output; /* [vocab of the share][width]; none when the embedding serves */
    const struct weight *output;
    float *output_norm; /* [width] */
    float *frequencies; /* [rope_dims ÷ 2], radians a position */
    struct llama_layer *layers;

    /* Activations of a step, [rows_max][…]. */
    float *x;           /* width: the residual stream */
    float *q;           /* heads × head_dim */
    float *k;           /* kv_heads × head_dim */
    float *v;           /* kv_heads × head_dim */
    float *attended;    /* heads × head_dim */
    float *gate;        /* hidden: silu(gate) × up */
    float *rope_table;  /* rope_dims */
    float *logits_part; /* [logit_rows_max][vocab of the share], with more than one rank */

    float *now_x; /* of the rows being computed: x and rope_table, or the gathered ones */
    float *now_table;

    /* Of the rows with logits, which the last layer computes: gathered values, and
     * where they are. */
    float *wanted_x;           /* [logit_rows_max][width] */
    float *wanted_table;       /* [logit_rows_max][rope_dims] */
    uint32_t *wanted_sequence; /* [logit_rows_max] */
    uint32_t *wanted_position; /* [logit_rows_max] */
    uint32_t *wanted_open;     /* [logit_rows_max] open groups, if the KV type has such */
};

/* --- loading --- */

/* The tensors of one layer: name, where they are stored, and their dimensions by name. A vector
 * has no columns. */
enum llama_dim { DIM_NONE, DIM_WIDTH, DIM_HIDDEN, DIM_HEADS, DIM_KV_HEADS };

struct llama_tensor {
    const char *name;
    size_t offset; /* in struct llama_layer: of a struct weight, or of a float * without columns */
    enum llama_dim rows;
    enum llama_dim cols;
};

static const struct llama_tensor LAYER_TENSORS[] = {
    {"attn_norm.weight", offsetof(struct llama_layer, attn_norm), DIM_WIDTH, DIM_NONE},
    {"attn_q.weight", offsetof(struct llama_layer, q), DIM_HEADS, DIM_WIDTH},
    {"attn_k.weight", offsetof(struct llama_layer, k), DIM_KV_HEADS, DIM_WIDTH},
    {"attn_v.weight", offsetof(struct llama_layer, v), DIM_KV_HEADS, DIM_WIDTH},
    {"attn_output.weight", offsetof(struct llama_layer, attn_output), DIM_WIDTH, DIM_HEADS},
    {"ffn_norm.weight", offsetof(struct llama_layer, ffn_norm), DIM_WIDTH, DIM_NONE},
    {"ffn_gate.weight", offsetof(struct llama_layer, gate), DIM_HIDDEN, DIM_WIDTH},
    {"ffn_up.weight", offsetof(struct llama_layer, up), DIM_HIDDEN, DIM_WIDTH},
    {"ffn_down.weight", offsetof(struct llama_layer, down), DIM_WIDTH, DIM_HIDDEN},
};
enum { LAYER_TENSOR_COUNT = sizeof LAYER_TENSORS / sizeof LAYER_TENSORS[0] };

static const char *const MODEL_TENSORS[] = {"token_embd.weight", "output.weight",
                                            "output_norm.weight", "rope_freqs.weight"};

static uint32_t open_dim(const struct model_config *config, enum llama_dim dim)
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
    default:
        return 0;
    }
}

/* The part of a dimension that this rank has. */
static struct model_part open_part(const struct model *model, enum llama_dim dim)
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
    default:
        return (struct model_part){0, open_dim(&model->config, dim)};
    }
}

static enum status open_layer(struct model *model, const struct model_source *source,
                              uint32_t index)
{
    struct llama *llama = model->state;
    for (uint32_t t = 0; t < LAYER_TENSOR_COUNT; t++) {
        const struct llama_tensor *tensor = &LAYER_TENSORS[t];
        void *place = (char *)&llama->layers[index] + tensor->offset;
        uint32_t rows = open_dim(&model->config, tensor->rows);
        char name[64];
        snprintf(name, sizeof name, "blk.%u.%s", index, tensor->name);
        if (tensor->cols == DIM_NONE)
            TRY(model_arch_vector(model, source, name, rows, place));
        else
            TRY(model_arch_layer_part(
                model, source, name, rows, open_dim(&model->config, tensor->cols),
                open_part(model, tensor->rows), open_part(model, tensor->cols), place));
    }
    return STATUS_OK;
}

/* base^(-2i ÷ dims), each divided by its factor if the file has factors (with which Llama 3.1 and
 * later stretch the low frequencies). */
static enum status open_frequencies(struct model *model, const struct model_source *source)
{
    struct llama *llama = model->state;
    const struct model_config *config = &model->config;
    const uint32_t pairs = config->rope_dims / 2;
    float frequencies[LIMIT_HEAD_DIM / 2];
    struct tensor factors;
    if (model_source_get_tensor(source, "rope_freqs.weight", &factors) == STATUS_OK)
        TRY(model_arch_vector_read(source, "rope_freqs.weight", pairs, frequencies));
    else
        for (uint32_t i = 0; i < pairs; i++)
            frequencies[i] = 1.0f;
    for (uint32_t i = 0; i < pairs; i++) {
        float factor = frequencies[i];
        if (!(factor > 0))
            FAIL(STATUS_CORRUPT,
                 "model file: 'rope_freqs.weight' has the factor %g, it must be "
                 "above 0",
                 (double)factor);
        double exponent = -2.0 * i / config->rope_dims;
        frequencies[i] = (float)(pow((double)config->ropes[0].base, exponent) / (double)factor);
    }
    TRY(model_arch_buffer(model, 1, pairs, &llama->frequencies));
    kernels_upload(model->kernels, llama->frequencies, frequencies, pairs * sizeof *frequencies);
    return STATUS_OK;
}

static enum status open_output(struct model *model, const struct model_source *source)
{
    struct llama *llama = model->state;
    const struct model_config *config = &model->config;
    struct tensor own;
    TRY(model_arch_vector(model, source, "output_norm.weight", config->width, &llama->output_norm));
    llama->output = &llama->embedding;
    bool is_tied = model_source_get_tensor(source, "output.weight", &own) != STATUS_OK;
    if (!is_tied || model->share.count > 1) {
        TRY(model_arch_matrix_part(
            model, source, is_tied ? "token_embd.weight" : "output.weight", config->vocab,
            config->width, (struct model_part){model->share.vocab_begin, model->share.vocab},
            (struct model_part){0, config->width}, &llama->own_output));
        llama->output = &llama->own_output;
    }
    return STATUS_OK;
}

static enum status open_buffers(struct model *model)
{
    struct llama *llama = model->state;
    const struct model_config *config = &model->config;
    uint64_t rows = model->rows_max;
    uint64_t attention = (uint64_t)model->share.heads * config->head_dim;
    uint64_t kv = (uint64_t)model->share.kv_heads * config->head_dim;
    TRY(model_arch_buffer(model, rows, config->width, &llama->x));
    TRY(model_arch_buffer(model, model->logit_rows_max, config->width, &llama->wanted_x));
    TRY(model_arch_buffer(model, model->logit_rows_max, config->rope_dims, &llama->wanted_table));
    TRY(model_arch_buffer(model, rows, attention, &llama->q));
    TRY(model_arch_buffer(model, rows, kv, &llama->k));
    TRY(model_arch_buffer(model, rows, kv, &llama->v));
    TRY(model_arch_buffer(model, rows, attention, &llama->attended));
    TRY(model_arch_buffer(model, rows, model->share.hidden, &llama->gate));
    TRY(model_arch_buffer(model, rows, config->rope_dims, &llama->rope_table));
    llama->wanted_sequence = mem_zalloc(model->logit_rows_max, sizeof *llama->wanted_sequence);
    llama->wanted_position = mem_zalloc(model->logit_rows_max, sizeof *llama->wanted_position);
    llama->wanted_open = mem_zalloc(model->logit_rows_max, sizeof *llama->wanted_open);
    if (llama->wanted_sequence == NULL || llama->wanted_position == NULL ||
        llama->wanted_open == NULL)
        FAIL(STATUS_NO_MEMORY, "model: no memory for %u rows of logits", model->logit_rows_max);
    if (model->share.count > 1)
        TRY(model_arch_buffer(model, model->logit_rows_max, model->share.vocab,
                              &llama->logits_part));
    return model_arch_buffer(model, model->logit_rows_max, config->vocab, &model->logits);
}

static bool open_knows(const struct model_config *config, struct slice name)
{
    for (size_t i = 0; i < sizeof MODEL_TENSORS / sizeof MODEL_TENSORS[0]; i++)
        if (slice_is(name, MODEL_TENSORS[i]))
            return true;
    for (uint32_t t = 0; t < LAYER_TENSOR_COUNT; t++) {
        size_t tail = strlen(LAYER_TENSORS[t].name);
        char digits[16] = {0};
        char *digits_end;
        if (name.length < 6 + tail || name.length - tail - 5 >= sizeof digits ||
            memcmp(name.bytes, "blk.", 4) != 0 ||
            memcmp(name.bytes + name.length - tail, LAYER_TENSORS[t].name, tail) != 0)
            continue;
        memcpy(digits, name.bytes + 4, name.length - tail - 5);
        unsigned long layer = strtoul(digits, &digits_end, 10);
        if (digits[0] >= '0' && digits[0] <= '9' && *digits_end == '\0')
            return layer < config->layers;
    }
    return false;
}

/* Refuses a tensor that would not be used, by name: the model (with biases, experts, or more layers
 * than the key says) would be computed wrongly without it. */
static enum status open_refuse_unknown(const struct model *model, const struct model_source *source)
{
    for (uint32_t i = 0; i < model_source_tensor_count(source); i++) {
        struct slice name;
        struct tensor tensor;
        model_source_tensor_at(source, i, &name, &tensor);
        if (!open_knows(&model->config, name))
            FAIL(STATUS_UNSUPPORTED,
                 "model file: tensor '%.*s' is not part of a llama model of %u layers as "
                 "supported here",
                 (int)name.length, name.bytes, model->config.layers);
    }
    return STATUS_OK;
}

static enum status open_all(struct model *model, const struct model_source *source)
{
    struct llama *llama = model->state;
    const struct model_config *config = &model->config;
    TRY(open_refuse_unknown(model, source));
    llama->layers = mem_zalloc(config->layers, sizeof *llama->layers);
    if (llama->layers == NULL)
        FAIL(STATUS_NO_MEMORY, "model: no memory for %u layers", config->layers);
    TRY(model_arch_matrix(model, source, "token_embd.weight", config->vocab, config->width,
                          &llama->embedding));
    TRY(open_output(model, source));
    TRY(open_frequencies(model, source));
    for (uint32_t i = 0; i < config->layers; i++)
        TRY(open_layer(model, source, i));
    return open_buffers(model);
}

static void llama_close(struct model *model)
{
    struct llama *llama = model->state;
    struct kernels *kernels = model->kernels;
    float *const buffers[] = {llama->output_norm, llama->frequencies, llama->x,
                              llama->wanted_x,    llama->q,           llama->k,
                              llama->v,           llama->attended,    llama->gate,
                              llama->rope_table,  model->logits,      llama->wanted_table,
                              llama->logits_part};
    for (size_t i = 0; i < sizeof buffers / sizeof buffers[0]; i++)
        kernels_buffer_destroy(kernels, buffers[i]);
    for (uint32_t i = 0; llama->layers != NULL && i < model->config.layers; i++) {
        for (uint32_t t = 0; t < LAYER_TENSOR_COUNT; t++) {
            void *place = (char *)&llama->layers[i] + LAYER_TENSORS[t].offset;
            if (LAYER_TENSORS[t].cols != DIM_NONE)
                kernels_weight_destroy(kernels, place);
            else
                kernels_buffer_destroy(kernels, *(float **)place);
        }
    }
    kernels_weight_destroy(kernels, &llama->embedding);
    kernels_weight_destroy(kernels, &llama->own_output);
    mem_free(llama->layers);
    mem_free(llama->wanted_sequence);
    mem_free(llama->wanted_position);
    mem_free(llama->wanted_open);
    mem_free(llama);
    model->state = NULL;
}

static enum status llama_open(struct model *model, const struct model_source *source)
{
    model->state = mem_zalloc(1, sizeof(struct llama));
    if (model->state == NULL)
        FAIL(STATUS_NO_MEMORY, "model: no memory");
    enum status status = open_all(model, source);
    if (status != STATUS_OK)
        llama_close(model);
    return status;
}

/* --- one step --- */

static struct rope_args forward_rope(const struct model *model, float *x, uint32_t heads,
                                     uint32_t rows)
{
    const struct llama *llama = model->state;
    return (struct rope_args){.x = x,
                              .table = llama->now_table,
                              .rows = rows,
                              .heads = heads,
                              .head_dim = model->config.head_dim,
                              .pairs = model->config.rope_dims / 2,
                              .pairing = ROPE_INTERLEAVED};
}

/* y = norm(x) · weightᵀ, where x is the residual stream. */
static void forward_normed(struct model *model, const float *norm, const struct weight *weight,
                           uint32_t rows, float *y)
{
    const struct llama *llama = model->state;
    kernels_linear(model->kernels, &(struct linear_args){.x = llama->now_x,
                                                         .rows = rows,
                                                         .count = 1,
                                                         .weights = {weight},
                                                         .y = {y},
                                                         .norm = norm,
                                                         .epsilon = model->config.norm_epsilon});
}

/* Adds x · weightᵀ to the residual stream. With several ranks only the first adds its part to the
 * stream, which all ranks have; the sum over the ranks is the new stream. */
static void forward_add(struct model *model, const float *x, const struct weight *weight,
                        uint32_t rows)
{
    const struct llama *llama = model->state;
    kernels_linear(model->kernels, &(struct linear_args){.x = x,
                                                         .rows = rows,
                                                         .count = 1,
                                                         .weights = {weight},
                                                         .y = {llama->now_x},
                                                         .accumulate = model->share.rank == 0});
    if (model->share.count > 1)
        kernels_all_reduce(model->kernels, &(struct all_reduce_args){.x = llama->now_x,
                                                                     .rows = rows,
                                                                     .cols = model->config.width});
}

/* Writes K and V of all rows to their pages; computes q of all rows too if wants_queries. */
static void forward_keys(struct model *model, const struct model_batch *batch, uint32_t index,
                         bool wants_queries)
{
    struct llama *llama = model->state;
    const struct model_config *config = &model->config;
    const struct llama_layer *layer = &llama->layers[index];
    const uint32_t rows = batch->rows;
    const struct rope_args k = forward_rope(model, llama->k, model->share.kv_heads, rows);
    const struct rope_args q = forward_rope(model, llama->q, model->share.heads, rows);
    kernels_linear(model->kernels,
                   &(struct linear_args){.x = llama->now_x,
                                         .rows = rows,
                                         .count = wants_queries ? 3 : 2,
                                         .weights = {&layer->k, &layer->v, &layer->q},
                                         .y = {llama->k, llama->v, llama->q},
                                         .norm = layer->attn_norm,
                                         .epsilon = config->norm_epsilon});
    kernels_kv_write(model->kernels,
                     &(struct kv_write_args){.k = llama->k,
                                             .v = llama->v,
                                             .rows = rows,
                                             .layer = index,
                                             .kv = batch->kv,
                                             .rope = {&k, wants_queries ? &q : NULL}});
}

/* Copies rows in the order of the batch's logits. */
static void forward_gather(struct model *model, const struct model_batch *batch, float *to,
                           const float *from, uint32_t cols)
{
    kernels_gather(model->kernels, &(struct gather_args){.to = to,
                                                         .from = from,
                                                         .order = batch->logit_row,
                                                         .rows = batch->logit_rows,
                                                         .cols = cols});
}

/* Only the logits read the last layer's output, so after K and V it computes only rows with logits.
 * Gathers their x and angles, computes their q, and returns the batch of these rows. */
static struct model_batch forward_wanted(struct model *model, const struct model_batch *batch,
                                         uint32_t index)
{
    struct llama *llama = model->state;
    const struct llama_layer *layer = &llama->layers[index];
    struct model_batch wanted = *batch;
    for (uint32_t i = 0; i < batch->logit_rows; i++) {
        llama->wanted_sequence[i] = batch->kv.sequence[batch->logit_row[i]];
        llama->wanted_position[i] = batch->kv.position[batch->logit_row[i]];
        if (batch->kv.open != NULL)
            llama->wanted_open[i] = batch->kv.open_of[batch->logit_row[i]];
    }
    wanted.rows = batch->logit_rows;
    wanted.kv.sequence = llama->wanted_sequence;
    wanted.kv.position = llama->wanted_position;
    wanted.kv.open_of = llama->wanted_open;
    wanted.groups = model->wanted_groups;
    forward_gather(model, batch, llama->wanted_x, llama->x, model->config.width);
    forward_gather(model, batch, llama->wanted_table, llama->rope_table, model->config.rope_dims);
    llama->now_x = llama->wanted_x;
    llama->now_table = llama->wanted_table;
    forward_normed(model, layer->attn_norm, &layer->q, wanted.rows, llama->q);
    const struct rope_args q = forward_rope(model, llama->q, model->share.heads, wanted.rows);
    kernels_rope(model->kernels, &q);
    return wanted;
}

static void forward_attention(struct model *model, const struct model_batch *batch, uint32_t index,
                              bool is_wanted)
{
    struct llama *llama = model->state;
    const struct model_config *config = &model->config;
    kernels_attention(model->kernels, &(struct attention_args){
                                          .q = llama->q,
                                          .out = llama->attended,
                                          .rows = batch->rows,
                                          .heads = model->share.heads,
                                          .layer = index,
                                          .scale = config->attention_scale,
                                          .kv = batch->kv,
                                          .groups = batch->groups,
                                          .is_wanted = is_wanted,
                                          .window = config->kinds[config->kind_of[index]].window});
    forward_add(model, llama->attended, &llama->layers[index].attn_output, batch->rows);
}

static void forward_feed(struct model *model, uint32_t rows, uint32_t index)
{
    struct llama *llama = model->state;
    const struct llama_layer *layer = &llama->layers[index];
    kernels_linear(model->kernels, &(struct linear_args){.x = llama->now_x,
                                                         .rows = rows,
                                                         .count = 2,
                                                         .weights = {&layer->gate, &layer->up},
                                                         .y = {llama->gate},
                                                         .is_gated = true,
                                                         .norm = layer->ffn_norm,
                                                         .epsilon = model->config.norm_epsilon});
    forward_add(model, llama->gate, &layer->down, rows);
}

static void forward_logits(struct model *model, uint32_t rows)
{
    const struct llama *llama = model->state;
    float *own = model->share.count > 1 ? llama->logits_part : model->logits;
    forward_normed(model, llama->output_norm, llama->output, rows, own);
    if (model->share.count > 1)
        kernels_all_gather(model->kernels, &(struct all_gather_args){.part = own,
                                                                     .out = model->logits,
                                                                     .rows = rows,
                                                                     .cols = model->config.vocab});
}

/* Whether every row has logits, in the same order: then nothing needs to be gathered. */
static bool forward_wants_all(const struct model_batch *batch)
{
    bool wants_all = batch->logit_rows == batch->rows;
    for (uint32_t i = 0; wants_all && i < batch->rows; i++)
        wants_all = batch->logit_row[i] == i;
    return wants_all;
}

static void llama_forward(struct model *model, const struct model_batch *batch)
{
    struct llama *llama = model->state;
    llama->now_x = llama->x;
    llama->now_table = llama->rope_table;
    kernels_embed(model->kernels, &(struct embed_args){.table = &llama->embedding,
                                                       .tokens = batch->tokens,
                                                       .rows = batch->rows,
                                                       .out = llama->x});
    kernels_rope_table(model->kernels,
                       &(struct rope_table_args){.positions = batch->kv.position,
                                                 .frequencies = llama->frequencies,
                                                 .rows = batch->rows,
                                                 .pairs = model->config.rope_dims / 2,
                                                 .table = llama->rope_table});
    struct model_batch rest = *batch; /* the rows that are computed after K and V */
    uint32_t layers = batch->layers > 0 ? batch->layers : model->config.layers;
    for (uint32_t i = 0; i < layers; i++) {
        pulse_beat(model->pulse, model->pulse_place);
        bool is_whole = i + 1 < layers || forward_wants_all(batch);
        forward_keys(model, batch, i, is_whole);
        if (!is_whole)
            rest = forward_wanted(model, batch, i);
        forward_attention(model, &rest, i, !is_whole);
        forward_feed(model, rest.rows, i);
    }
    forward_logits(model, rest.rows);
}

const struct model_arch llama_arch = {
    .name = "llama", .open = llama_open, .close = llama_close, .forward = llama_forward};
