#include "kernels/cpu/avx512/avx512.h"

#include "kernels/cpu/avx512/avx512_vectors.h"
#include "kernels/cpu/kv_tile.h"

void k_exp_avx512(const float in[16], float out[16])
{
    _mm512_storeu_ps(out, avx512_exp(_mm512_loadu_ps(in)));
}

/* The kind and `accumulate` are constants in every call. */
static inline __attribute__((always_inline)) void norm_rows(const struct norm_args *args,
                                                            const enum norm_kind kind,
                                                            const bool accumulate, uint32_t begin,
                                                            uint32_t end)
{
    for (uint32_t r = begin; r < end; r++) {
        const float *x = args->x + (size_t)r * args->cols;
        float *y = args->y + (size_t)r * args->cols;
        float mean = 0;
        const __m512 scale = _mm512_set1_ps(
            kind == NORM_LAYER ? avx512_layer_scale(x, args->cols, args->epsilon, &mean)
                               : avx512_norm_scale(x, args->cols, args->epsilon));
        for (uint32_t i = 0; i < args->cols; i += 16) {
            const __mmask16 mask = avx512_mask(args->cols - i);
            const __m512 weight = _mm512_maskz_loadu_ps(mask, args->weight + i);
            __m512 v = _mm512_maskz_loadu_ps(mask, x + i);
            if (kind == NORM_LAYER) {
                const __m512 bias = args->bias != NULL ? _mm512_maskz_loadu_ps(mask, args->bias + i)
                                                       : _mm512_setzero_ps();
                v = _mm512_mul_ps(_mm512_sub_ps(v, _mm512_set1_ps(mean)), scale);
                v = _mm512_fmadd_ps(v, weight, bias);
            } else {
                v = _mm512_mul_ps(_mm512_mul_ps(v, scale), weight);
            }
            if (accumulate)
                v = _mm512_add_ps(_mm512_maskz_loadu_ps(mask, y + i), v);
            _mm512_mask_storeu_ps(y + i, mask, v);
        }
    }
}

void k_norm_avx512(const struct norm_args *args, uint32_t begin, uint32_t end)
{
    if (args->kind == NORM_LAYER && args->accumulate)
        norm_rows(args, NORM_LAYER, true, begin, end);
    else if (args->kind == NORM_LAYER)
        norm_rows(args, NORM_LAYER, false, begin, end);
    else if (args->accumulate)
        norm_rows(args, NORM_RMS, true, begin, end);
    else
        norm_rows(args, NORM_RMS, false, begin, end);
}

/* Rotates eight pairs (a, b) of neighbours at a time. */
static void rope_interleaved(float *x, const float *table, uint32_t pairs)
{
    for (uint32_t i = 0; i < 2 * pairs; i += 16) {
        __mmask16 mask = avx512_mask(2 * pairs - i);
        __m512 entry = _mm512_maskz_loadu_ps(mask, table + i);
        __m512 v = _mm512_maskz_loadu_ps(mask, x + i);
        __m512 other = _mm512_mul_ps(_mm512_permute_ps(v, 0xb1), _mm512_movehdup_ps(entry));
        v = _mm512_fmaddsub_ps(v, _mm512_moveldup_ps(entry), other);
        _mm512_mask_storeu_ps(x + i, mask, v);
    }
}

/* Rotates sixteen pairs at a time, a in the first half of x and b in the second. */
static void rope_halves(float *x, const float *table, uint32_t pairs)
{
    const __m512i evens =
        _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
    const __m512i odds = _mm512_add_epi32(evens, _mm512_set1_epi32(1));
    for (uint32_t i = 0; i < pairs; i += 16) {
        uint32_t left = pairs - i;
        __mmask16 mask = avx512_mask(left);
        __m512 first = _mm512_maskz_loadu_ps(avx512_mask(2 * left), table + 2 * i);
        __mmask16 rest = left > 8 ? avx512_mask(2 * left - 16) : 0;
        __m512 second = _mm512_maskz_loadu_ps(rest, table + 2 * i + 16);
        __m512 cosine = _mm512_permutex2var_ps(first, evens, second);
        __m512 sine = _mm512_permutex2var_ps(first, odds, second);
        __m512 a = _mm512_maskz_loadu_ps(mask, x + i);
        __m512 b = _mm512_maskz_loadu_ps(mask, x + pairs + i);
        _mm512_mask_storeu_ps(x + i, mask, _mm512_fmsub_ps(a, cosine, _mm512_mul_ps(b, sine)));
        _mm512_mask_storeu_ps(x + pairs + i, mask,
                              _mm512_fmadd_ps(b, cosine, _mm512_mul_ps(a, sine)));
    }
}

void k_rope_avx512(const struct rope_args *args, uint32_t begin, uint32_t end)
{
    for (uint32_t r = begin; r < end; r++) {
        const float *table = args->table + (size_t)r * args->pairs * 2;
        for (uint32_t h = 0; h < args->heads; h++) {
            float *x = args->x + ((size_t)r * args->heads + h) * args->head_dim;
            const struct norm_args norm = {.x = x,
                                           .weight = args->norm,
                                           .y = x,
                                           .rows = 1,
                                           .cols = args->head_dim,
                                           .epsilon = args->epsilon};
            if (args->norm != NULL) /* the head is in the first-level cache */
                norm_rows(&norm, NORM_RMS, false, 0, 1);
            if (args->pairing == ROPE_INTERLEAVED)
                rope_interleaved(x, table, args->pairs);
            else
                rope_halves(x, table, args->pairs);
        }
    }
}

/* Minimum and maximum return their second operand when either is a NaN. */
static inline __attribute__((always_inline)) __m512 act_of(const enum act_kind kind, __m512 x,
                                                           __m512 up)
{
    const __m512 most = _mm512_set1_ps(FIXED_MATH_CLAMP);
    const __m512 low = _mm512_max_ps(_mm512_set1_ps(-FIXED_MATH_CLAMP), up);
    switch (kind) {
    case ACT_SILU_MUL:
        return _mm512_mul_ps(avx512_sigmoid_mul(x, x), up);
    case ACT_GELU_MUL:
        return _mm512_mul_ps(avx512_sigmoid_mul(x, avx512_gelu_z(x)), up);
    case ACT_CLAMPED_MUL:
        x = _mm512_min_ps(most, x);
        x = avx512_sigmoid_mul(x, _mm512_mul_ps(x, _mm512_set1_ps(FIXED_MATH_CLAMP_Z)));
        return _mm512_mul_ps(x, _mm512_add_ps(_mm512_min_ps(most, low), _mm512_set1_ps(1.0f)));
    case ACT_GELU_TANH:
        return avx512_sigmoid_mul(x, avx512_gelu_z(x));
    case ACT_GELU_ERF:
        return avx512_gelu_erf(x);
    default:
        return x;
    }
}

/* The kind is a constant in every call. */
static inline __attribute__((always_inline)) void
act_rows(const struct act_args *args, const enum act_kind kind, uint32_t begin, uint32_t end)
{
    const size_t stop = (size_t)end * args->cols;
    for (size_t i = (size_t)begin * args->cols; i < stop; i += 16) {
        const __mmask16 mask = avx512_mask(stop - i < 16 ? (uint32_t)(stop - i) : 16);
        const __m512 up = kernels_act_takes_two(kind) ? _mm512_maskz_loadu_ps(mask, args->up + i)
                                                      : _mm512_setzero_ps();
        const __m512 x = _mm512_maskz_loadu_ps(mask, args->x + i);
        _mm512_mask_storeu_ps(args->x + i, mask, act_of(kind, x, up));
    }
}

void k_act_avx512(const struct act_args *args, uint32_t begin, uint32_t end)
{
    switch (args->kind) {
    case ACT_SILU_MUL:
        act_rows(args, ACT_SILU_MUL, begin, end);
        break;
    case ACT_GELU_MUL:
        act_rows(args, ACT_GELU_MUL, begin, end);
        break;
    case ACT_CLAMPED_MUL:
        act_rows(args, ACT_CLAMPED_MUL, begin, end);
        break;
    case ACT_GELU_TANH:
        act_rows(args, ACT_GELU_TANH, begin, end);
        break;
    case ACT_GELU_ERF:
        act_rows(args, ACT_GELU_ERF, begin, end);
        break;
    default:
        break;
    }
}

void k_softcap_avx512(float *x, size_t count, float cap)
{
    const __m512 inverse = _mm512_set1_ps(1.0f / cap);
    for (size_t i = 0; i < count; i += 16) {
        const __mmask16 mask = avx512_mask(count - i < 16 ? (uint32_t)(count - i) : 16);
        const __m512 v = _mm512_maskz_loadu_ps(mask, x + i);
        _mm512_mask_storeu_ps(x + i, mask, avx512_softcap(v, _mm512_set1_ps(cap), inverse));
    }
}

/* Returns the index of the first element that equals `value`, 0 when none does. */
static uint32_t logits_stats_find(const float *logits, uint32_t vocab, float value)
{
    for (uint32_t i = 0; i < vocab; i += 16) {
        __mmask16 mask = avx512_mask(vocab - i);
        __m512 x = _mm512_maskz_loadu_ps(mask, logits + i);
        mask = _mm512_mask_cmp_ps_mask(mask, x, _mm512_set1_ps(value), _CMP_EQ_OQ);
        if (mask != 0)
            return i + (uint32_t)__builtin_ctz(mask);
    }
    return 0;
}

float k_logits_stats_avx512(const float *logits, uint32_t vocab, struct logits_stats *out)
{
    __m512 max = _mm512_set1_ps(-INFINITY);
    for (uint32_t i = 0; i < vocab; i += 16) {
        __mmask16 mask = avx512_mask(vocab - i);
        max = _mm512_mask_max_ps(max, mask, _mm512_maskz_loadu_ps(mask, logits + i), max);
    }
    out->max = _mm512_reduce_max_ps(max);
    out->argmax = 0;
    if (out->max > -INFINITY) {
        out->argmax = logits_stats_find(logits, vocab, out->max);
        out->max = logits[out->argmax]; /* of two zeros, the sign of the first */
    }
    __m512 lanes = _mm512_setzero_ps();
    for (uint32_t i = 0; i < vocab; i += 16) {
        __mmask16 mask = avx512_mask(vocab - i);
        __m512 x = _mm512_maskz_loadu_ps(mask, logits + i);
        lanes = _mm512_mask_add_ps(lanes, mask, lanes,
                                   avx512_exp(_mm512_sub_ps(x, _mm512_set1_ps(out->max))));
    }
    return avx512_fold16(lanes);
}

/* In a K tile the dimensions of a key are 16 halves apart. */
static void kv_write_key(const struct kv_layout *layout, uint16_t *to, const float *key)
{
    for (uint32_t d = 0; d < layout->head_dim; d += 16) {
        uint16_t halves[16];
        __m512 x = _mm512_maskz_loadu_ps(avx512_mask(layout->head_dim - d), key + d);
        _mm256_storeu_si256((__m256i *)(void *)halves,
                            _mm512_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT));
        for (uint32_t i = 0; i < 16 && d + i < layout->head_dim; i++)
            to[(size_t)(d + i) * KV_TILE_KEYS] = halves[i];
    }
}

static void kv_write_value_codes(const struct kv_layout *layout, char *tile, uint32_t token,
                                 const float *value)
{
    int8_t codes[LIMIT_HEAD_DIM + 16];
    int32_t sum;
    const float scale = avx512_codes(value, layout->head_dim, 1, codes, &sum);
    memcpy(tile + kv_tile_scale_offset(layout, token), &scale, sizeof scale);
    memcpy(tile + kv_tile_v_index(layout, token, 0), codes, kv_tile_width(layout));
}

/* Writes the keys of one token of a head into pages of bytes. */
static void kv_write_key_codes(const struct kv_layout *layout, char *tile, uint32_t token,
                               const float *key)
{
    int8_t codes[LIMIT_HEAD_DIM + 16];
    char *to = tile + kv_tile_k_index(layout, token, 0);
    int32_t sum;
    const float scale = avx512_codes(key, layout->head_dim, 1, codes, &sum);
    memcpy(tile + kv_tile_scale_offset(layout, token), &scale, sizeof scale);
    for (uint32_t d = 0; d < kv_tile_width(layout);
         d += KV_TILE_QUAD, to += KV_TILE_KEYS * KV_TILE_QUAD) {
        uint32_t quad;
        memcpy(&quad, codes + d, sizeof quad);
        quad ^= KV_TILE_BIAS * 0x01010101u;
        memcpy(to, &quad, sizeof quad);
    }
}

static void kv_write_value(const struct kv_layout *layout, char *tile, uint32_t token,
                           const float *value)
{
    uint16_t *to = (uint16_t *)(void *)tile + kv_tile_v_index(layout, token, 0);
    for (uint32_t d = 0; d < layout->head_dim; d += 16) {
        __mmask16 mask = avx512_mask(layout->head_dim - d);
        __m512 x = _mm512_maskz_loadu_ps(mask, value + d);
        _mm256_mask_storeu_epi16(to + d, mask, _mm512_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT));
    }
}

void k_kv_write_avx512(const struct kv_write_args *args, uint32_t begin, uint32_t end)
{
    const struct kv_layout *layout = args->kv.layout;
    for (uint32_t r = begin; r < end; r++) {
        void *page = kv_tile_page(&args->kv, r, args->kv.position[r]);
        uint32_t token = args->kv.position[r] % layout->page_tokens;
        for (uint32_t h = 0; h < layout->kv_heads; h++) {
            size_t from = ((size_t)r * layout->kv_heads + h) * layout->head_dim;
            char *tile = kv_tile_at(layout, page, args->layer, h);
            if (layout->open_bytes > 0)
                kv_write_key(layout,
                             kv_tile_open(&args->kv, r, args->layer, h) + token % KV_TILE_KEYS,
                             args->k + from);
            else if (layout->type == KV_TYPE_I8)
                kv_write_key_codes(layout, tile, token, args->k + from);
            else
                kv_write_key(layout, (uint16_t *)(void *)tile + kv_tile_k_index(layout, token, 0),
                             args->k + from);
            tile += layout->tile_bytes;
            if (kv_tile_values_packed(layout))
                k_values_pack_avx512(args->v + from, layout->head_dim, token % KV_TILE_KEYS,
                                     tile + token / KV_TILE_KEYS * kv_tile_group_bytes(layout));
            else if (kv_tile_values_codes(layout))
                kv_write_value_codes(layout, tile, token, args->v + from);
            else
                kv_write_value(layout, tile, token, args->v + from);
        }
    }
}

/* Stores that bypass the caches: no line is read only to be overwritten, which is a third of a
 * plain copy's traffic (measured: 28 instead of 21 GB/s). */
void k_copy_avx512(void *to, const void *from, size_t bytes)
{
    for (size_t at = 0; at < bytes; at += sizeof(__m512i))
        _mm512_stream_si512((__m512i *)(void *)((char *)to + at),
                            _mm512_load_si512((const char *)from + at));
    /* streaming stores are not ordered with the store that announces the end of the copy */
    _mm_sfence();
}
