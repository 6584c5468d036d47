#include "kernels/cpu/ref_int8/ref_int8.h"

#include <string.h>

#include "config/base/limits.h"
#include "kernels/cpu/fixed_math.h"
#include "kernels/cpu/kv_tile.h"
#include "kernels/cpu/ref/ref.h"

/* q × scale of one row and head, and its codes for keys of int8. */
struct attention_factor {
    float q[LIMIT_HEAD_DIM];
    int8_t codes[LIMIT_HEAD_DIM];
    float scale;
};

struct attention_state {
    float max;
    float sum;
    float mean[LIMIT_HEAD_DIM];
};

/* Returns the K tile of a key's page; its V tile follows. */
static const char *attention_tile(const struct table_attention *call, uint32_t row, uint32_t key)
{
    const struct attention_args *args = call->args;
    void *page = kv_tile_page(&args->kv, row, key);
    return kv_tile_at(args->kv.layout, page, args->layer, call->kv_head);
}

static float attention_scale(const struct kv_layout *layout, const char *tile, uint32_t token)
{
    float scale;
    memcpy(&scale, tile + kv_tile_scale_offset(layout, token), sizeof scale);
    return scale;
}

static float attention_score(const struct kv_layout *layout, const struct attention_factor *factor,
                             const uint16_t *keys)
{
    float s = 0;
    for (uint32_t d = 0; d < layout->head_dim; d++)
        s = fmaf(factor->q[d], half_to_float(keys[(size_t)d * KV_TILE_KEYS]), s);
    return s;
}

/* Writes the codes of an f16 key, which equal those that a page of int8 would store; returns their
 * scale. */
static float attention_round(const struct kv_layout *layout, const char *tile, uint32_t token,
                             int8_t *codes)
{
    const uint16_t *k = (const uint16_t *)(const void *)tile;
    float key[LIMIT_HEAD_DIM];
    for (uint32_t d = 0; d < layout->head_dim; d++)
        key[d] = half_to_float(k[kv_tile_k_index(layout, token, d)]);
    return k_kv_codes_ref(key, layout->head_dim, codes);
}

static float attention_score_codes(const struct kv_layout *layout,
                                   const struct attention_factor *factor, const char *tile,
                                   uint32_t token)
{
    int8_t codes[LIMIT_HEAD_DIM];
    float scale;
    int32_t sum = 0;
    if (layout->type == KV_TYPE_I8) {
        scale = attention_scale(layout, tile, token);
        for (uint32_t d = 0; d < layout->head_dim; d++)
            codes[d] = (int8_t)((uint8_t)tile[kv_tile_k_index(layout, token, d)] - KV_TILE_BIAS);
    } else {
        scale = attention_round(layout, tile, token, codes);
    }
    for (uint32_t d = 0; d < layout->head_dim; d++)
        sum += codes[d] * factor->codes[d];
    return (float)sum * (factor->scale * scale);
}

/* Returns how many keys of the block that begins at `first` are hidden by a row's window. */
static uint32_t attention_hidden(const struct table_attention *call, uint32_t row, uint32_t first)
{
    const uint32_t seen = table_first_key(call->args, row);
    return seen > first ? seen - first : 0;
}

/* Computes the scores of keys [first, first + count), −∞ for hidden ones. Returns the greatest of
 * them and `max`. */
static float attention_scores(const struct table_attention *call, uint32_t row,
                              const struct attention_factor *factor, uint32_t first, uint32_t count,
                              float max, float *scores)
{
    const struct kv_layout *layout = call->args->kv.layout;
    const float softcap = call->args->softcap;
    uint16_t open[LIMIT_HEAD_DIM * KV_TILE_KEYS];
    for (uint32_t j = 0; j < count; j++) {
        const char *tile = attention_tile(call, row, first + j);
        uint32_t token = (first + j) % layout->page_tokens;
        if (layout->open_bytes > 0 && j % KV_TILE_KEYS == 0)
            k_keys_read_ref(call->args, row, call->kv_head, first + j, open);
        if (kv_tile_scores_codes(layout))
            scores[j] = attention_score_codes(layout, factor, tile, token);
        else if (layout->open_bytes > 0)
            scores[j] = attention_score(layout, factor, open + j % KV_TILE_KEYS);
        else
            scores[j] = attention_score(layout, factor,
                                        (const uint16_t *)(const void *)tile +
                                            kv_tile_k_index(layout, token, 0));
        if (softcap > 0)
            scores[j] = fixed_math_softcap(scores[j], softcap, 1.0f / softcap);
        if (j < attention_hidden(call, row, first))
            scores[j] = -INFINITY;
        max = fixed_math_max(scores[j], max);
    }
    return max;
}

/* mean += p × the values of one key. */
static void attention_value(const struct kv_layout *layout, const char *tile, uint32_t token,
                            float p, float *mean)
{
    const size_t index = kv_tile_v_index(layout, token, 0);
    const uint16_t *halves = (const uint16_t *)(const void *)tile + index;
    const int8_t *codes = (const int8_t *)tile + index;
    uint16_t unpacked[LIMIT_HEAD_DIM];
    if (kv_tile_values_packed(layout)) {
        k_value_unpack_ref(tile + token / KV_TILE_KEYS * kv_tile_group_bytes(layout),
                           layout->head_dim, token % KV_TILE_KEYS, unpacked);
        halves = unpacked;
    }
    if (kv_tile_values_codes(layout)) {
        p *= attention_scale(layout, tile, token);
        for (uint32_t d = 0; d < layout->head_dim; d++)
            mean[d] = fmaf(p, (float)codes[d], mean[d]);
    } else {
        for (uint32_t d = 0; d < layout->head_dim; d++)
            mean[d] = fmaf(p, half_to_float(halves[d]), mean[d]);
    }
}

/* Adds keys [first, first + count), count ≤ 64, to a running state. */
static void attention_block(const struct table_attention *call, uint32_t row,
                            const struct attention_factor *factor, uint32_t first, uint32_t count,
                            struct attention_state *state)
{
    const struct kv_layout *layout = call->args->kv.layout;
    float p[TABLE_KEYS_BLOCK] = {0};
    float lanes[16];
    float max = attention_scores(call, row, factor, first, count, state->max, p);
    float shrink = fixed_math_exp(state->max - max);
    for (uint32_t j = 0; j < count; j++)
        p[j] = fixed_math_exp(p[j] - max);
    for (uint32_t i = 0; i < 16; i++)
        lanes[i] = ((p[i] + p[16 + i]) + p[32 + i]) + p[48 + i];
    state->sum = fmaf(state->sum, shrink, fixed_math_fold16(lanes));
    state->max = max;
    for (uint32_t d = 0; d < layout->head_dim; d++)
        state->mean[d] *= shrink;
    for (uint32_t j = 0; j < count; j++)
        attention_value(layout, attention_tile(call, row, first + j) + layout->tile_bytes,
                        (first + j) % layout->page_tokens, p[j], state->mean);
}

static void attention_merge(struct attention_state *all, const struct attention_state *segment,
                            uint32_t n)
{
    float max = fixed_math_max(all->max, segment->max);
    float e = fixed_math_exp(all->max - max);
    float f = fixed_math_exp(segment->max - max);
    all->max = max;
    all->sum = fmaf(segment->sum, f, all->sum * e);
    for (uint32_t d = 0; d < n; d++)
        all->mean[d] = fmaf(segment->mean[d], f, all->mean[d] * e);
}

static void attention_query(const struct table_attention *call, uint32_t row, const float *q,
                            const float *sink, float *out)
{
    const uint32_t n = call->args->kv.layout->head_dim;
    const uint32_t keys = call->args->kv.position[row] + 1;
    struct attention_state all = {.max = -INFINITY};
    struct attention_state segment;
    struct attention_factor factor;
    for (uint32_t d = 0; d < n; d++)
        factor.q[d] = q[d] * call->args->scale;
    factor.scale = k_kv_codes_ref(factor.q, n, factor.codes);
    const uint32_t begin = table_first_key(call->args, row) / TABLE_KEYS_BLOCK * TABLE_KEYS_BLOCK;
    /* first key of the second segment */
    const uint32_t second = (begin / TABLE_KEYS_SEGMENT + 1) * TABLE_KEYS_SEGMENT;
    for (uint32_t first = begin; first < keys; first += TABLE_KEYS_BLOCK) {
        if (first == begin || first % TABLE_KEYS_SEGMENT == 0) {
            if (first == second)
                all = segment;
            else if (first > second)
                attention_merge(&all, &segment, n);
            memset(&segment, 0, sizeof segment);
            segment.max = -INFINITY;
        }
        uint32_t count = keys - first < TABLE_KEYS_BLOCK ? keys - first : TABLE_KEYS_BLOCK;
        attention_block(call, row, &factor, first, count, &segment);
    }
    if (keys > second)
        attention_merge(&all, &segment, n);
    else
        all = segment;
    float inverse = fixed_math_softmax_factor(sink, all.max, all.sum);
    for (uint32_t d = 0; d < n; d++)
        out[d] = all.mean[d] * inverse;
    if (kv_tile_values_packed(call->args->kv.layout))
        k_hadamard_ref(out, n);
}

void k_attention_ref_int8(const struct table_attention *call)
{
    const struct attention_args *args = call->args;
    const uint32_t n = args->kv.layout->head_dim;
    for (uint32_t i = 0; i < call->rows; i++)
        for (uint32_t h = call->head; h < call->head + call->heads; h++) {
            uint32_t r = call->order[i];
            size_t at = ((size_t)r * args->heads + h) * n;
            attention_query(call, r, args->q + at, args->sinks != NULL ? &args->sinks[h] : NULL,
                            args->out + at);
        }
}
