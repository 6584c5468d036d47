#include "kernels/cpu/ref/ref.h"

#include <math.h>
#include <string.h>

#include "config/base/limits.h"
#include "kernels/cpu/fixed_math.h"
#include "kernels/cpu/kv_tile.h"
#include "kernels/types/half.h"

static void write_store(const struct kv_layout *layout, char *tile, size_t index, float value)
{
    if (layout->type == KV_TYPE_F32) {
        ((float *)(void *)tile)[index] = value;
    } else {
        ((uint16_t *)(void *)tile)[index] =
            layout->type == KV_TYPE_BF16 ? half_bf16_from_float(value) : half_from_float(value);
    }
}

/* Returns one element of a K tile or of the V tile behind it. */
static float attention_load(const struct kv_layout *layout, const char *tile, bool is_value,
                            uint32_t token, uint32_t dim)
{
    const size_t index =
        is_value ? kv_tile_v_index(layout, token, dim) : kv_tile_k_index(layout, token, dim);
    float scale;
    tile += is_value ? layout->tile_bytes : 0;
    if (layout->type == KV_TYPE_F32)
        return ((const float *)(const void *)tile)[index];
    if (!kv_tile_values_codes(layout)) {
        const uint16_t bits = ((const uint16_t *)(const void *)tile)[index];
        return layout->type == KV_TYPE_BF16 ? half_bf16_to_float(bits) : half_to_float(bits);
    }
    memcpy(&scale, tile + kv_tile_scale_offset(layout, token), sizeof scale);
    if (layout->type == KV_TYPE_FP8)
        return scale * half_e4m3_to_float((uint8_t)tile[index]);
    return scale * (float)(is_value ? (int8_t)tile[index] : (uint8_t)tile[index] - KV_TILE_BIAS);
}

/* Returns the greatest magnitude; NaN when one is not finite. */
static float codes_max(const float *x, uint32_t n)
{
    /* compared as integers: magnitudes rise with their bits, and NaN is above all */
    uint32_t bits = 0;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t magnitude = half_float_bits(x[i]) & 0x7fffffffu;
        bits = magnitude > bits ? magnitude : bits;
    }
    return bits < 0x7f800000u ? half_bits_float(bits) : NAN;
}

float k_kv_codes_ref(const float *x, uint32_t n, int8_t *codes)
{
    const float max = codes_max(x, n);
    memset(codes, 0, n);
    if (!(max >= 1e-30f))
        return max < 1e-30f ? 0 : NAN;
    const float inverse = 127.0f / max;
    for (uint32_t i = 0; i < n; i++)
        codes[i] = (int8_t)(half_float_bits(x[i] * inverse + FIXED_MATH_ROUND) & 0xffu);
    return max / 127.0f;
}

float k_kv_fp8_ref(const float *x, uint32_t n, uint8_t *codes)
{
    const float max = codes_max(x, n);
    memset(codes, 0, n);
    if (!(max >= 0x1p-118f))
        return max < 0x1p-118f ? 0 : NAN;
    /* 448 is 1.75 × 2^8: greater mantissas carry into the exponent. */
    const uint32_t exponent = (half_float_bits(max) + 0x1fffffu) >> 23;
    const float inverse = half_bits_float((254 - (exponent - 8)) << 23);
    for (uint32_t i = 0; i < n; i++)
        codes[i] = half_e4m3_from_float(x[i] * inverse);
    return half_bits_float((exponent - 8) << 23);
}

/* Rounds one token of a head to codes; returns their scale. */
static float write_round(const struct kv_layout *layout, const float *x, int8_t *codes)
{
    return layout->type == KV_TYPE_FP8 ? k_kv_fp8_ref(x, layout->head_dim, (uint8_t *)codes)
                                       : k_kv_codes_ref(x, layout->head_dim, codes);
}

/* Writes the key of one token of a head into a K tile, or into `open` where the type has open
 * groups. */
static void write_key(const struct kv_layout *layout, char *tile, uint16_t *open, uint32_t token,
                      const float *k)
{
    int8_t codes[LIMIT_HEAD_DIM + KV_TILE_QUAD] = {0};
    if (open != NULL) {
        for (uint32_t d = 0; d < layout->head_dim; d++)
            open[d * KV_TILE_KEYS + token % KV_TILE_KEYS] = half_from_float(k[d]);
    } else if (kv_tile_values_codes(layout)) {
        const int bias = layout->type == KV_TYPE_FP8 ? 0 : KV_TILE_BIAS;
        const float scale = write_round(layout, k, codes);
        memcpy(tile + kv_tile_scale_offset(layout, token), &scale, sizeof scale);
        for (uint32_t d = 0; d < kv_tile_width(layout); d++)
            tile[kv_tile_k_index(layout, token, d)] = (char)(codes[d] + bias);
    } else {
        for (uint32_t d = 0; d < layout->head_dim; d++)
            write_store(layout, tile, kv_tile_k_index(layout, token, d), k[d]);
    }
}

/* The same of its value into a V tile. */
static void write_value(const struct kv_layout *layout, char *tile, uint32_t token, const float *v)
{
    int8_t codes[LIMIT_HEAD_DIM + KV_TILE_QUAD] = {0};
    if (kv_tile_values_packed(layout)) {
        k_values_pack_ref(v, layout->head_dim, token % KV_TILE_KEYS,
                          tile + token / KV_TILE_KEYS * kv_tile_group_bytes(layout));
    } else if (kv_tile_values_codes(layout)) {
        const float scale = write_round(layout, v, codes);
        memcpy(tile + kv_tile_scale_offset(layout, token), &scale, sizeof scale);
        memcpy(tile + kv_tile_v_index(layout, token, 0), codes, kv_tile_width(layout));
    } else {
        for (uint32_t d = 0; d < layout->head_dim; d++)
            write_store(layout, tile, kv_tile_v_index(layout, token, d), v[d]);
    }
}

void k_kv_write_ref(const struct kv_write_args *args, uint32_t begin, uint32_t end)
{
    const struct kv_layout *layout = args->kv.layout;
    for (uint32_t r = begin; r < end; r++) {
        void *page = kv_tile_page(&args->kv, r, args->kv.position[r]);
        uint32_t token = args->kv.position[r] % layout->page_tokens;
        for (uint32_t h = 0; h < layout->kv_heads; h++) {
            size_t from = ((size_t)r * layout->kv_heads + h) * layout->head_dim;
            char *tile = kv_tile_at(layout, page, args->layer, h);
            uint16_t *open =
                layout->open_bytes > 0 ? kv_tile_open(&args->kv, r, args->layer, h) : NULL;
            write_key(layout, tile, open, token, args->k + from);
            write_value(layout, tile + layout->tile_bytes, token, args->v + from);
        }
    }
}

/* Reads the value of one token from the V tile behind a K tile. */
static void attention_value(const struct kv_layout *layout, const char *tile, uint32_t token,
                            float *value)
{
    const uint32_t n = layout->head_dim;
    uint16_t halves[LIMIT_HEAD_DIM];
    if (kv_tile_values_packed(layout))
        k_value_unpack_ref(tile + layout->tile_bytes +
                               token / KV_TILE_KEYS * kv_tile_group_bytes(layout),
                           n, token % KV_TILE_KEYS, halves);
    for (uint32_t d = 0; d < n; d++)
        value[d] = kv_tile_values_packed(layout) ? half_to_float(halves[d])
                                                 : attention_load(layout, tile, true, token, d);
}

/* softmax(scale × q · Kᵀ) · V of one query with a running maximum: when a greater score comes, the
 * earlier sums are scaled down. A sink is the initial state: a score without a value. */
static void attention_query(const struct attention_args *args, uint32_t row, uint32_t kv_head,
                            const float *q, const float *sink, float *out)
{
    const struct kv_layout *layout = args->kv.layout;
    const uint32_t n = layout->head_dim;
    const uint32_t first = table_first_key(args, row);
    double max = sink != NULL ? (double)*sink : -INFINITY;
    double sum = sink != NULL ? 1 : 0;
    double mean[LIMIT_HEAD_DIM] = {0};
    uint16_t open[LIMIT_HEAD_DIM * KV_TILE_KEYS];
    float value[LIMIT_HEAD_DIM];
    for (uint32_t key = first; key <= args->kv.position[row]; key++) {
        uint32_t token = key % layout->page_tokens;
        const char *k = kv_tile_at(layout, kv_tile_page(&args->kv, row, key), args->layer, kv_head);
        double score = 0;
        if (layout->open_bytes > 0 && (key == first || key % KV_TILE_KEYS == 0))
            k_keys_read_ref(args, row, kv_head, key, open);
        for (uint32_t d = 0; d < n; d++)
            score += (double)q[d] *
                     (double)(layout->open_bytes > 0
                                  ? half_to_float(open[d * KV_TILE_KEYS + key % KV_TILE_KEYS])
                                  : attention_load(layout, k, false, token, d));
        score *= (double)args->scale;
        if (args->softcap > 0)
            score = (double)args->softcap * tanh(score / (double)args->softcap);
        if (score > max) {
            double shrink = exp(max - score);
            sum *= shrink;
            for (uint32_t d = 0; d < n; d++)
                mean[d] *= shrink;
            max = score;
        }
        double p = exp(score - max);
        sum += p;
        attention_value(layout, k, token, value);
        for (uint32_t d = 0; d < n; d++)
            mean[d] += p * (double)value[d];
    }
    for (uint32_t d = 0; d < n; d++)
        out[d] = (float)(mean[d] / sum);
    if (kv_tile_values_packed(layout))
        k_hadamard_ref(out, n);
}

void k_attention_ref(const struct table_attention *call)
{
    const struct attention_args *args = call->args;
    const uint32_t n = args->kv.layout->head_dim;
    for (uint32_t i = 0; i < call->rows; i++)
        for (uint32_t h = call->head; h < call->head + call->heads; h++) {
            uint32_t r = call->order[i];
            size_t at = ((size_t)r * args->heads + h) * n;
            attention_query(args, r, call->kv_head, args->q + at,
                            args->sinks != NULL ? &args->sinks[h] : NULL, args->out + at);
        }
}
