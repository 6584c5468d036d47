#include "engine/models/decoder.h"

#include <string.h>

#include "config/base/mem.h"
#include "engine/models/decoder_weights.h"
#include "kernels/kernels_experts.h"

struct decoder {
    struct decoder_weights weights;

    /* Activations of a step, [rows_max][…]. Heads, kv_heads and hidden are those of the share. */
    float *x;                        /* width: the residual stream */
    float *q;                        /* heads × head_dim */
    float *k;                        /* kv_heads × head_dim */
    float *v;                        /* kv_heads × head_dim */
    float *attended;                 /* heads × head_dim */
    float *hidden;                   /* hidden: what the activation makes; dense layers only */
    float *added;                    /* width: a result that is normed before it is added */
    float *rope_tables[MODEL_KINDS]; /* rope_dims, of each table of frequencies in use */
    float *logits_part; /* [logit_rows_max][vocab of the share], with more than one rank */

    /* Of layers with experts. */
    float *normed;        /* width: the input of router and experts */
    float *router_logits; /* experts */
    void *routes_memory;
    struct kernels_routes routes;
    void *scratch;

    float *now_x; /* of the rows being computed: x and rope_tables, or the gathered ones */
    float *now_tables[MODEL_KINDS];

    /* Of the rows with logits, which the last layer computes: gathered values, and
     * where they are. */
    float *wanted_x;           /* [logit_rows_max][width] */
    float *wanted_table;       /* [logit_rows_max][rope_dims] */
    uint32_t *wanted_sequence; /* [logit_rows_max] */
    uint32_t *wanted_position; /* [logit_rows_max] */
    uint32_t *wanted_open;     /* [logit_rows_max] open groups, if the KV type has such */

    /* Of an encoder: [rows_max] the last position of each row's text, up to which the row sees. */
    uint32_t *ends;
};

static bool decoder_has(const struct model *model, uint32_t feature)
{
    return (model->arch->features & feature) != 0;
}

/* --- opening --- */

static enum status open_memory(struct model *model, void **out, size_t bytes)
{
    *out = kernels_buffer_create(model->kernels, bytes);
    if (*out == NULL)
        return kernels_no_memory(model->kernels, bytes, "a model's experts");
    return STATUS_OK;
}

static enum status open_experts(struct model *model)
{
    struct decoder *decoder = model->decoder;
    const struct model_config *config = &model->config;
    const uint32_t rows = model->rows_max;
    TRY(model_arch_buffer(model, rows, config->width, &decoder->normed));
    TRY(model_arch_buffer(model, rows, config->experts, &decoder->router_logits));
    TRY(open_memory(model, &decoder->routes_memory,
                    kernels_routes_bytes(rows, config->experts, config->experts_used)));
    kernels_routes_init(&decoder->routes, decoder->routes_memory, rows, config->experts,
                        config->experts_used);
    return open_memory(model, &decoder->scratch,
                       kernels_experts_bytes(model->kernels, rows, config->experts_used,
                                             config->width, model->share.hidden));
}

static enum status open_wanted(struct model *model)
{
    struct decoder *decoder = model->decoder;
    const struct model_config *config = &model->config;
    const uint32_t rows = model->logit_rows_max;
    TRY(model_arch_buffer(model, rows, config->width, &decoder->wanted_x));
    TRY(model_arch_buffer(model, rows, config->rope_dims, &decoder->wanted_table));
    decoder->wanted_sequence = mem_zalloc(rows, sizeof *decoder->wanted_sequence);
    decoder->wanted_position = mem_zalloc(rows, sizeof *decoder->wanted_position);
    decoder->wanted_open = mem_zalloc(rows, sizeof *decoder->wanted_open);
    if (decoder->wanted_sequence == NULL || decoder->wanted_position == NULL ||
        decoder->wanted_open == NULL)
        FAIL(STATUS_NO_MEMORY, "model: no memory for %u rows of logits", rows);
    return STATUS_OK;
}

/* There are states alone, and no logits. */
static enum status open_encoder(struct model *model)
{
    model->decoder->ends = mem_zalloc(model->rows_max, sizeof *model->decoder->ends);
    if (model->decoder->ends == NULL)
        FAIL(STATUS_NO_MEMORY, "model: no memory for %u rows", model->rows_max);
    return model_arch_buffer(model, model->logit_rows_max, model->config.width, &model->states);
}

static enum status open_buffers(struct model *model)
{
    struct decoder *decoder = model->decoder;
    const struct model_config *config = &model->config;
    const uint64_t rows = model->rows_max;
    const uint64_t attention = (uint64_t)model->share.heads * config->head_dim;
    const uint64_t kv = (uint64_t)model->share.kv_heads * config->head_dim;
    TRY(model_arch_buffer(model, rows, config->width, &decoder->x));
    TRY(open_wanted(model));
    TRY(model_arch_buffer(model, rows, attention, &decoder->q));
    TRY(model_arch_buffer(model, rows, kv, &decoder->k));
    TRY(model_arch_buffer(model, rows, kv, &decoder->v));
    TRY(model_arch_buffer(model, rows, attention, &decoder->attended));
    for (uint32_t i = 0; i < MODEL_KINDS; i++)
        if (decoder->weights.frequencies[i] != NULL)
            TRY(model_arch_buffer(model, rows, config->rope_dims, &decoder->rope_tables[i]));
    if (decoder_has(model, ARCH_POST_NORMS))
        TRY(model_arch_buffer(model, rows, config->width, &decoder->added));
    if (config->experts > 0)
        TRY(open_experts(model));
    else
        TRY(model_arch_buffer(model, rows, model->share.hidden, &decoder->hidden));
    if (model->share.count > 1)
        TRY(model_arch_buffer(model, model->logit_rows_max, model->share.vocab,
                              &decoder->logits_part));
    if (decoder_has(model, ARCH_ENCODER))
        return open_encoder(model);
    if (model->has_states)
        TRY(model_arch_buffer(model, model->logit_rows_max, config->width, &model->states));
    return model_arch_buffer(model, model->logit_rows_max, config->vocab, &model->logits);
}

void decoder_close(struct model *model)
{
    struct decoder *decoder = model->decoder;
    void *const buffers[] = {decoder->x,
                             decoder->q,
                             decoder->k,
                             decoder->v,
                             decoder->attended,
                             decoder->hidden,
                             decoder->added,
                             decoder->normed,
                             decoder->router_logits,
                             decoder->wanted_x,
                             decoder->wanted_table,
                             decoder->rope_tables[0],
                             decoder->logits_part,
                             decoder->routes_memory,
                             decoder->rope_tables[1],
                             decoder->scratch,
                             model->logits,
                             model->states};
    for (size_t i = 0; i < sizeof buffers / sizeof buffers[0]; i++)
        kernels_buffer_destroy(model->kernels, buffers[i]);
    decoder_weights_close(&decoder->weights, model);
    mem_free(decoder->wanted_sequence);
    mem_free(decoder->wanted_position);
    mem_free(decoder->wanted_open);
    mem_free(decoder->ends);
    mem_free(decoder);
    model->decoder = NULL;
}

enum status decoder_open(struct model *model, const struct model_source *source)
{
    model->decoder = mem_zalloc(1, sizeof *model->decoder);
    if (model->decoder == NULL)
        FAIL(STATUS_NO_MEMORY, "model: no memory");
    enum status status = decoder_weights_open(&model->decoder->weights, model, source);
    if (status == STATUS_OK)
        status = open_buffers(model);
    if (status != STATUS_OK)
        decoder_close(model);
    return status;
}

/* --- one step --- */

static const struct layer_kind *forward_kind(const struct model *model, uint32_t index)
{
    return &model->config.kinds[model->config.kind_of[index]];
}

/* Norm per head and rotation of q or k; false when the layer has neither. */
static bool forward_rope(const struct model *model, uint32_t index, float *x, uint32_t heads,
                         uint32_t rows, const float *norm, struct rope_args *out)
{
    const struct layer_kind *kind = forward_kind(model, index);
    const bool has_norm = decoder_has(model, ARCH_HEAD_NORMS);
    *out = (struct rope_args){
        .x = x,
        .table = kind->has_rope ? model->decoder->now_tables[kind->frequencies] : NULL,
        .rows = rows,
        .heads = heads,
        .head_dim = model->config.head_dim,
        .pairs = kind->has_rope ? model->config.rope_dims / 2 : 0,
        .pairing = model->arch->pairing,
        .norm = has_norm ? norm : NULL,
        .epsilon = model->config.norm_epsilon};
    return kind->has_rope || has_norm;
}

/* x = norm(x) over all heads together, in rows that norm so. */
static void forward_row_norm(struct model *model, float *x, const float *weight, uint32_t rows,
                             uint32_t cols)
{
    if (!decoder_has(model, ARCH_ROW_NORMS))
        return;
    kernels_norm(model->kernels, &(struct norm_args){.x = x,
                                                     .weight = weight,
                                                     .y = x,
                                                     .rows = rows,
                                                     .cols = cols,
                                                     .epsilon = model->config.norm_epsilon,
                                                     .kind = NORM_RMS});
}

static enum norm_kind forward_norm_kind(const struct model *model)
{
    return decoder_has(model, ARCH_LAYER_NORM) ? NORM_LAYER : NORM_RMS;
}

/* Where a part of a layer puts its result, which forward_add adds to the residual stream. With
 * several ranks only the first adds its part to the stream, which all ranks have, and the sum over
 * the ranks is the new stream. A result that is normed before it is added has memory of its own. */
struct forward_target {
    float *y;
    bool accumulate;
};

static struct forward_target forward_target(const struct model *model)
{
    if (decoder_has(model, ARCH_POST_NORMS))
        return (struct forward_target){model->decoder->added, false};
    return (struct forward_target){model->decoder->now_x, model->share.rank == 0};
}

static void forward_add(struct model *model, const float *post_norm, uint32_t rows)
{
    const struct forward_target target = forward_target(model);
    if (model->share.count > 1)
        kernels_all_reduce(
            model->kernels,
            &(struct all_reduce_args){.x = target.y, .rows = rows, .cols = model->config.width});
    if (post_norm != NULL)
        kernels_norm(model->kernels, &(struct norm_args){.x = target.y,
                                                         .weight = post_norm,
                                                         .y = model->decoder->now_x,
                                                         .rows = rows,
                                                         .cols = model->config.width,
                                                         .epsilon = model->config.norm_epsilon,
                                                         .kind = NORM_RMS,
                                                         .accumulate = true});
}

/* The bias of a result that is summed over the ranks: the first rank adds it. */
static const float *forward_sum_bias(const struct model *model, const float *bias)
{
    return model->share.rank == 0 ? bias : NULL;
}

static void forward_linear_add(struct model *model, const float *x, const struct weight *weight,
                               const float *bias, const float *post_norm, uint32_t rows)
{
    const struct forward_target target = forward_target(model);
    kernels_linear(model->kernels, &(struct linear_args){.x = x,
                                                         .rows = rows,
                                                         .count = 1,
                                                         .weights = {weight},
                                                         .bias = {forward_sum_bias(model, bias)},
                                                         .y = {target.y},
                                                         .accumulate = target.accumulate});
    forward_add(model, post_norm, rows);
}

/* Writes K and V of all rows to their pages; computes q of all rows too if wants_queries. */
static void forward_keys(struct model *model, const struct model_batch *batch, uint32_t index,
                         bool wants_queries)
{
    struct decoder *decoder = model->decoder;
    const struct decoder_layer *layer = &decoder->weights.layers[index];
    const struct model_share *share = &model->share;
    const uint32_t rows = batch->rows;
    const uint32_t head_dim = model->config.head_dim;
    struct rope_args k, q;
    const bool has_rope =
        forward_rope(model, index, decoder->k, share->kv_heads, rows, layer->k_norm, &k);
    (void)forward_rope(model, index, decoder->q, share->heads, rows, layer->q_norm, &q);
    kernels_linear(model->kernels,
                   &(struct linear_args){.x = decoder->now_x,
                                         .rows = rows,
                                         .count = wants_queries ? 3 : 2,
                                         .weights = {&layer->k, &layer->v, &layer->q},
                                         .bias = {layer->k_bias, layer->v_bias, layer->q_bias},
                                         .y = {decoder->k, decoder->v, decoder->q},
                                         .norm = layer->attn_norm,
                                         .norm_bias = layer->attn_norm_bias,
                                         .norm_kind = forward_norm_kind(model),
                                         .epsilon = model->config.norm_epsilon});
    forward_row_norm(model, decoder->k, layer->k_norm, rows, share->kv_heads * head_dim);
    if (wants_queries)
        forward_row_norm(model, decoder->q, layer->q_norm, rows, share->heads * head_dim);
    kernels_kv_write(model->kernels,
                     &(struct kv_write_args){
                         .k = decoder->k,
                         .v = decoder->v,
                         .rows = rows,
                         .group = model->places[index].group,
                         .layer = model->places[index].layer,
                         .kv = batch->kv,
                         .rope = {has_rope ? &k : NULL, has_rope && wants_queries ? &q : NULL}});
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

/* Computes q of the gathered rows. */
static void forward_wanted_queries(struct model *model, uint32_t index, uint32_t rows)
{
    struct decoder *decoder = model->decoder;
    const struct decoder_layer *layer = &decoder->weights.layers[index];
    struct rope_args q;
    kernels_linear(model->kernels, &(struct linear_args){.x = decoder->now_x,
                                                         .rows = rows,
                                                         .count = 1,
                                                         .weights = {&layer->q},
                                                         .bias = {layer->q_bias},
                                                         .y = {decoder->q},
                                                         .norm = layer->attn_norm,
                                                         .norm_bias = layer->attn_norm_bias,
                                                         .norm_kind = forward_norm_kind(model),
                                                         .epsilon = model->config.norm_epsilon});
    forward_row_norm(model, decoder->q, layer->q_norm, rows,
                     model->share.heads * model->config.head_dim);
    if (forward_rope(model, index, decoder->q, model->share.heads, rows, layer->q_norm, &q))
        kernels_rope(model->kernels, &q);
}

/* Only the logits read the last layer's output, so after K and V it computes only rows with logits.
 * Gathers their x and angles, computes their q, and returns the batch of these rows. */
static struct model_batch forward_wanted(struct model *model, const struct model_batch *batch,
                                         uint32_t index)
{
    struct decoder *decoder = model->decoder;
    const struct layer_kind *kind = forward_kind(model, index);
    struct model_batch wanted = *batch;
    for (uint32_t i = 0; i < batch->logit_rows; i++) {
        decoder->wanted_sequence[i] = batch->kv.sequence[batch->logit_row[i]];
        decoder->wanted_position[i] =
            (decoder->ends != NULL ? decoder->ends : batch->kv.position)[batch->logit_row[i]];
        if (batch->kv.open != NULL)
            decoder->wanted_open[i] = batch->kv.open_of[batch->logit_row[i]];
    }
    wanted.rows = batch->logit_rows;
    wanted.kv.sequence = decoder->wanted_sequence;
    wanted.kv.position = decoder->wanted_position;
    wanted.kv.open_of = decoder->wanted_open;
    wanted.groups = model->wanted_groups;
    forward_gather(model, batch, decoder->wanted_x, decoder->x, model->config.width);
    decoder->now_x = decoder->wanted_x;
    if (kind->has_rope) {
        forward_gather(model, batch, decoder->wanted_table, decoder->rope_tables[kind->frequencies],
                       model->config.rope_dims);
        decoder->now_tables[kind->frequencies] = decoder->wanted_table;
    }
    forward_wanted_queries(model, index, wanted.rows);
    return wanted;
}

/* Norms what a part of a layer was added to, into `to`. */
static void forward_sum_norm(struct model *model, const float *weight, const float *bias, float *to,
                             uint32_t rows)
{
    if (weight == NULL)
        return;
    kernels_norm(model->kernels, &(struct norm_args){.x = model->decoder->now_x,
                                                     .weight = weight,
                                                     .y = to,
                                                     .rows = rows,
                                                     .cols = model->config.width,
                                                     .epsilon = model->config.norm_epsilon,
                                                     .kind = NORM_LAYER,
                                                     .bias = bias});
}

static void forward_attention(struct model *model, const struct model_batch *batch, uint32_t index,
                              bool is_wanted)
{
    struct decoder *decoder = model->decoder;
    const struct model_config *config = &model->config;
    const struct decoder_layer *layer = &decoder->weights.layers[index];
    kernels_attention(model->kernels,
                      &(struct attention_args){.q = decoder->q,
                                               .out = decoder->attended,
                                               .rows = batch->rows,
                                               .heads = model->share.heads,
                                               .group = model->places[index].group,
                                               .layer = model->places[index].layer,
                                               .scale = config->attention_scale,
                                               .kv = batch->kv,
                                               .groups = batch->groups,
                                               .is_wanted = is_wanted,
                                               .window = forward_kind(model, index)->window,
                                               .sinks = layer->sinks,
                                               .softcap = config->attention_softcap});
    forward_linear_add(model, decoder->attended, &layer->attn_output, layer->attn_output_bias,
                       layer->attn_post_norm, batch->rows);
    forward_sum_norm(model, layer->attn_sum_norm, layer->attn_sum_norm_bias, decoder->now_x,
                     batch->rows);
}

static void forward_feed(struct model *model, uint32_t rows, uint32_t index)
{
    struct decoder *decoder = model->decoder;
    const struct decoder_layer *layer = &decoder->weights.layers[index];
    const bool is_gated = kernels_act_takes_two(model->arch->act);
    struct linear_args args = {
        .x = decoder->now_x,
        .rows = rows,
        .count = is_gated ? 2 : 1,
        .weights = {is_gated ? &layer->gate : &layer->up, &layer->up},
        .bias = {is_gated ? layer->gate_bias : layer->up_bias, layer->up_bias},
        .y = {decoder->hidden},
        .act = model->arch->act,
        .norm = layer->ffn_norm,
        .norm_bias = layer->ffn_norm_bias,
        .norm_kind = forward_norm_kind(model),
        .epsilon = model->config.norm_epsilon};
    kernels_linear(model->kernels, &args);
    forward_linear_add(model, decoder->hidden, &layer->down, layer->down_bias, layer->ffn_post_norm,
                       rows);
    /* Nothing follows the last layer of an encoder. */
    const bool is_last = decoder->ends != NULL && index + 1 == model->config.layers;
    forward_sum_norm(model, layer->ffn_sum_norm, layer->ffn_sum_norm_bias,
                     is_last ? model->states : decoder->now_x, rows);
}

/* The feed-forward of the experts that the router chooses for each row. */
static void forward_experts(struct model *model, uint32_t rows, uint32_t index)
{
    struct decoder *decoder = model->decoder;
    const struct decoder_layer *layer = &decoder->weights.layers[index];
    const struct forward_target target = forward_target(model);
    const bool is_whole = model->share.expert_every > 0;
    kernels_norm(model->kernels, &(struct norm_args){.x = decoder->now_x,
                                                     .weight = layer->ffn_norm,
                                                     .y = decoder->normed,
                                                     .rows = rows,
                                                     .cols = model->config.width,
                                                     .epsilon = model->config.norm_epsilon,
                                                     .kind = forward_norm_kind(model),
                                                     .bias = layer->ffn_norm_bias});
    kernels_linear(model->kernels, &(struct linear_args){.x = decoder->normed,
                                                         .rows = rows,
                                                         .count = 1,
                                                         .weights = {&layer->router},
                                                         .bias = {layer->router_bias},
                                                         .y = {decoder->router_logits}});
    kernels_route(model->kernels,
                  &(struct route_args){.logits = decoder->router_logits,
                                       .rows = rows,
                                       .is_normalised = decoder_has(model, ARCH_NORMALISED),
                                       .routes = &decoder->routes});
    kernels_experts(
        model->kernels,
        &(struct experts_args){.x = decoder->normed,
                               .y = target.y,
                               .rows = rows,
                               .routes = &decoder->routes,
                               .gate = &layer->gate,
                               .up = &layer->up,
                               .down = &layer->down,
                               .gate_bias = layer->gate_bias,
                               .up_bias = layer->up_bias,
                               .down_bias = is_whole ? layer->down_bias
                                                     : forward_sum_bias(model, layer->down_bias),
                               .act = model->arch->act,
                               .accumulate = target.accumulate,
                               .every = model->share.expert_every,
                               .own = model->share.rank,
                               .scratch = decoder->scratch});
    forward_add(model, layer->ffn_post_norm, rows);
}

static void forward_logits(struct model *model, uint32_t rows)
{
    const struct decoder *decoder = model->decoder;
    const struct decoder_weights *weights = &decoder->weights;
    const struct model_config *config = &model->config;
    float *own = model->share.count > 1 ? decoder->logits_part : model->logits;
    kernels_linear(model->kernels, &(struct linear_args){.x = decoder->now_x,
                                                         .rows = rows,
                                                         .count = 1,
                                                         .weights = {weights->output},
                                                         .y = {own},
                                                         .norm = weights->output_norm,
                                                         .norm_bias = weights->output_norm_bias,
                                                         .norm_kind = forward_norm_kind(model),
                                                         .epsilon = config->norm_epsilon});
    if (config->logit_softcap > 0)
        kernels_softcap(model->kernels, &(struct softcap_args){.x = own,
                                                               .rows = rows,
                                                               .cols = model->share.vocab,
                                                               .cap = config->logit_softcap});
    if (model->share.count > 1)
        kernels_all_gather(model->kernels, &(struct all_gather_args){.part = own,
                                                                     .out = model->logits,
                                                                     .rows = rows,
                                                                     .cols = config->vocab});
}

/* What the output layer reads, for those who want it without logits. */
static void forward_states(struct model *model, uint32_t rows)
{
    const struct decoder_weights *weights = &model->decoder->weights;
    kernels_norm(model->kernels, &(struct norm_args){.x = model->decoder->now_x,
                                                     .weight = weights->output_norm,
                                                     .y = model->states,
                                                     .rows = rows,
                                                     .cols = model->config.width,
                                                     .epsilon = model->config.norm_epsilon,
                                                     .kind = forward_norm_kind(model),
                                                     .bias = weights->output_norm_bias});
}

/* Whether every row has logits, in the same order: then nothing needs to be gathered. */
static bool forward_wants_all(const struct model_batch *batch)
{
    bool wants_all = batch->logit_rows == batch->rows;
    for (uint32_t i = 0; wants_all && i < batch->rows; i++)
        wants_all = batch->logit_row[i] == i;
    return wants_all;
}

/* The rows' embeddings, and their angles for all layers. */
static void forward_begin(struct model *model, const struct model_batch *batch)
{
    struct decoder *decoder = model->decoder;
    decoder->now_x = decoder->x;
    kernels_embed(model->kernels, &(struct embed_args){.table = &decoder->weights.embedding,
                                                       .tokens = batch->tokens,
                                                       .rows = batch->rows,
                                                       .out = decoder->x,
                                                       .scale = model->config.embed_scale,
                                                       .added = decoder->weights.positions,
                                                       .positions = batch->kv.position});
    forward_sum_norm(model, decoder->weights.embed_norm, decoder->weights.embed_norm_bias,
                     decoder->x, batch->rows);
    for (uint32_t i = 0; i < MODEL_KINDS; i++) {
        decoder->now_tables[i] = decoder->rope_tables[i];
        if (decoder->rope_tables[i] == NULL)
            continue;
        kernels_rope_table(model->kernels,
                           &(struct rope_table_args){.positions = batch->kv.position,
                                                     .frequencies = decoder->weights.frequencies[i],
                                                     .rows = batch->rows,
                                                     .pairs = model->config.rope_dims / 2,
                                                     .table = decoder->rope_tables[i],
                                                     .factor = decoder->weights.rope_factors[i]});
    }
}

/* The rows of a text stand together and are all there, so the last one has its last position. */
static void forward_ends(struct decoder *decoder, const struct model_batch *batch)
{
    for (uint32_t r = batch->rows; r-- > 0;) {
        const bool is_last =
            r + 1 == batch->rows || batch->kv.sequence[r] != batch->kv.sequence[r + 1];
        decoder->ends[r] = is_last ? batch->kv.position[r] : decoder->ends[r + 1];
    }
}

void decoder_forward(struct model *model, const struct model_batch *batch)
{
    struct model_batch rest = *batch; /* the rows that are computed after K and V */
    const uint32_t layers = batch->layers > 0 ? batch->layers : model->config.layers;
    forward_begin(model, batch);
    if (model->decoder->ends != NULL) {
        forward_ends(model->decoder, batch);
        rest.kv.position = model->decoder->ends;
    }
    for (uint32_t i = 0; i < layers; i++) {
        pulse_beat(model->pulse, model->pulse_place);
        const bool is_whole = i + 1 < layers || forward_wants_all(batch);
        forward_keys(model, batch, i, is_whole);
        if (!is_whole)
            rest = forward_wanted(model, batch, i);
        forward_attention(model, &rest, i, !is_whole);
        if (model->config.experts > 0)
            forward_experts(model, rest.rows, i);
        else
            forward_feed(model, rest.rows, i);
    }
    if (model->decoder->ends != NULL)
        return;
    if (model->states != NULL)
        forward_states(model, rest.rows);
    forward_logits(model, rest.rows);
}
