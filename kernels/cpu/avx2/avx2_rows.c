#include "kernels/cpu/avx2/avx2.h"

#include "kernels/cpu/avx2/avx2_vectors.h"
#include "kernels/cpu/kv_tile.h"

void k_exp_avx2(const float in[8], float out[8])
{
    _mm256_storeu_ps(out, avx2_exp(_mm256_loadu_ps(in)));
}

/* The kind and `accumulate` are constants in every call. */
static inline __attribute__((always_inline)) void norm_rows(const struct norm_args *args,
                                                            const enum norm_kind kind,
                                                            const bool accumulate, uint32_t begin,
                                                            uint32_t end)
{
    const uint32_t n = args->cols;
    for (uint32_t r = begin; r < end; r++) {
        const float *x = args->x + (size_t)r * n;
        float *y = args->y + (size_t)r * n;
        float mean = 0;
        const __m256 scale =
            _mm256_set1_ps(kind == NORM_LAYER ? avx2_layer_scale(x, n, args->epsilon, &mean)
                                              : avx2_norm_scale(x, n, args->epsilon));
        for (uint32_t i = 0; i < n; i += 8) {
            const __m256 weight = avx2_load(args->weight + i, n - i);
            __m256 v = avx2_load(x + i, n - i);
            if (kind == NORM_LAYER) {
                const __m256 bias =
                    args->bias != NULL ? avx2_load(args->bias + i, n - i) : _mm256_setzero_ps();
                v = _mm256_mul_ps(_mm256_sub_ps(v, _mm256_set1_ps(mean)), scale);
                v = _mm256_fmadd_ps(v, weight, bias);
            } else {
                v = _mm256_mul_ps(_mm256_mul_ps(v, scale), weight);
            }
            if (accumulate)
                v = _mm256_add_ps(avx2_load(y + i, n - i), v);
            avx2_store(y + i, n - i, v);
        }
    }
}

void k_norm_avx2(const struct norm_args *args, uint32_t begin, uint32_t end)
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

/* Rotates four pairs (a, b) of neighbours at a time. */
static void rope_interleaved(float *x, const float *table, uint32_t pairs)
{
    const uint32_t n = 2 * pairs;
    for (uint32_t i = 0; i < n; i += 8) {
        __m256 entry = avx2_load(table + i, n - i);
        __m256 v = avx2_load(x + i, n - i);
        __m256 other = _mm256_mul_ps(_mm256_permute_ps(v, 0xb1), _mm256_movehdup_ps(entry));
        avx2_store(x + i, n - i, _mm256_fmaddsub_ps(v, _mm256_moveldup_ps(entry), other));
    }
}

/* Restores the order of pairs after shuffles of 128-bit halves, which leave them as 0 2 1 3. */
static inline __m256 rope_order(__m256 v)
{
    return _mm256_castpd_ps(_mm256_permute4x64_pd(_mm256_castps_pd(v), 0xd8));
}

/* Rotates eight pairs at a time, a in the first half of x and b in the second. */
static void rope_halves(float *x, const float *table, uint32_t pairs)
{
    for (uint32_t i = 0; i < pairs; i += 8) {
        const uint32_t left = pairs - i;
        __m256 first = avx2_load(table + 2 * i, 2 * left);
        __m256 second = avx2_load(table + 2 * i + 8, avx2_left(2 * left, 8));
        __m256 cosine = rope_order(_mm256_shuffle_ps(first, second, 0x88));
        __m256 sine = rope_order(_mm256_shuffle_ps(first, second, 0xdd));
        __m256 a = avx2_load(x + i, left);
        __m256 b = avx2_load(x + pairs + i, left);
        avx2_store(x + i, left, _mm256_fmsub_ps(a, cosine, _mm256_mul_ps(b, sine)));
        avx2_store(x + pairs + i, left, _mm256_fmadd_ps(b, cosine, _mm256_mul_ps(a, sine)));
    }
}

void k_rope_avx2(const struct rope_args *args, uint32_t begin, uint32_t end)
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
static inline __attribute__((always_inline)) __m256 act_of(const enum act_kind kind, __m256 x,
                                                           __m256 up)
{
    const __m256 most = _mm256_set1_ps(FIXED_MATH_CLAMP);
    const __m256 low = _mm256_max_ps(_mm256_set1_ps(-FIXED_MATH_CLAMP), up);
    switch (kind) {
    case ACT_SILU_MUL:
        return _mm256_mul_ps(avx2_sigmoid_mul(x, x), up);
    case ACT_GELU_MUL:
        return _mm256_mul_ps(avx2_sigmoid_mul(x, avx2_gelu_z(x)), up);
    case ACT_CLAMPED_MUL:
        x = _mm256_min_ps(most, x);
        x = avx2_sigmoid_mul(x, _mm256_mul_ps(x, _mm256_set1_ps(FIXED_MATH_CLAMP_Z)));
        return _mm256_mul_ps(x, _mm256_add_ps(_mm256_min_ps(most, low), _mm256_set1_ps(1.0f)));
    case ACT_GELU_TANH:
        return avx2_sigmoid_mul(x, avx2_gelu_z(x));
    case ACT_GELU_ERF:
        return avx2_gelu_erf(x);
    default:
        return x;
    }
}

/* The kind is a constant in every call. */
static inline __attribute__((always_inline)) void
act_rows(const struct act_args *args, const enum act_kind kind, uint32_t begin, uint32_t end)
{
    const size_t stop = (size_t)end * args->cols;
    for (size_t i = (size_t)begin * args->cols; i < stop; i += 8) {
        const uint32_t left = stop - i < 8 ? (uint32_t)(stop - i) : 8;
        const __m256 up =
            kernels_act_takes_two(kind) ? avx2_load(args->up + i, left) : _mm256_setzero_ps();
        avx2_store(args->x + i, left, act_of(kind, avx2_load(args->x + i, left), up));
    }
}

void k_act_avx2(const struct act_args *args, uint32_t begin, uint32_t end)
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

void k_softcap_avx2(float *x, size_t count, float cap)
{
    const __m256 inverse = _mm256_set1_ps(1.0f / cap);
    for (size_t i = 0; i < count; i += 8) {
        const uint32_t left = count - i < 8 ? (uint32_t)(count - i) : 8;
        const __m256 v = avx2_load(x + i, left);
        avx2_store(x + i, left, avx2_softcap(v, _mm256_set1_ps(cap), inverse));
    }
}

/* Returns the index of the first element that equals `value`, 0 when none does. */
static uint32_t logits_stats_find(const float *logits, uint32_t vocab, float value)
{
    uint32_t i = 0;
    for (; i + 8 <= vocab; i += 8) {
        __m256 is = _mm256_cmp_ps(_mm256_loadu_ps(logits + i), _mm256_set1_ps(value), _CMP_EQ_OQ);
        int mask = _mm256_movemask_ps(is);
        if (mask != 0)
            return i + (uint32_t)__builtin_ctz((unsigned)mask);
    }
    for (; i < vocab; i++)
        if (logits[i] == value)
            return i;
    return 0;
}

static float logits_stats_max(const float *logits, uint32_t vocab)
{
    uint32_t i = 0;
    __m256 most = _mm256_set1_ps(-INFINITY);
    for (; i + 8 <= vocab; i += 8)
        most = _mm256_max_ps(_mm256_loadu_ps(logits + i), most);
    float max = avx2_greatest(most);
    for (; i < vocab; i++)
        max = fixed_math_max(logits[i], max);
    return max;
}

float k_logits_stats_avx2(const float *logits, uint32_t vocab, struct logits_stats *out)
{
    out->max = logits_stats_max(logits, vocab);
    out->argmax = 0;
    if (out->max > -INFINITY) {
        out->argmax = logits_stats_find(logits, vocab, out->max);
        out->max = logits[out->argmax]; /* of two zeros, the sign of the first */
    }
    const __m256 max = _mm256_set1_ps(out->max);
    __m256 low = _mm256_setzero_ps();
    __m256 high = _mm256_setzero_ps();
    uint32_t i = 0;
    for (; i + 16 <= vocab; i += 16) {
        low = _mm256_add_ps(low, avx2_exp(_mm256_sub_ps(_mm256_loadu_ps(logits + i), max)));
        high = _mm256_add_ps(high, avx2_exp(_mm256_sub_ps(_mm256_loadu_ps(logits + i + 8), max)));
    }
    float lanes[16];
    _mm256_storeu_ps(lanes, low);
    _mm256_storeu_ps(lanes + 8, high);
    for (uint32_t lane = 0; i < vocab; i++, lane++)
        lanes[lane] += fixed_math_exp(logits[i] - out->max);
    return fixed_math_fold16(lanes);
}

static void kv_write_value_codes(const struct kv_layout *layout, char *tile, uint32_t token,
                                 const float *values)
{
    int8_t codes[LIMIT_HEAD_DIM + 8];
    const float scale = avx2_codes(values, layout->head_dim, 1, codes);
    tile += layout->tile_bytes;
    memcpy(tile + kv_tile_scale_offset(layout, token), &scale, sizeof scale);
    memcpy(tile + kv_tile_v_index(layout, token, 0), codes, kv_tile_width(layout));
}

/* Writes keys and values of one token of a head into pages of bytes. */
static void kv_write_codes(const struct kv_layout *layout, char *tile, uint32_t token,
                           const float *keys, const float *values)
{
    int8_t codes[LIMIT_HEAD_DIM + 8];
    const uint32_t width = kv_tile_width(layout);
    const size_t scale_at = kv_tile_scale_offset(layout, token);
    char *to = tile + kv_tile_k_index(layout, token, 0);
    float scale = avx2_codes(keys, layout->head_dim, 1, codes);
    memcpy(tile + scale_at, &scale, sizeof scale);
    for (uint32_t d = 0; d < width; d += KV_TILE_QUAD, to += KV_TILE_KEYS * KV_TILE_QUAD) {
        uint32_t quad;
        memcpy(&quad, codes + d, sizeof quad);
        quad ^= KV_TILE_BIAS * 0x01010101u;
        memcpy(to, &quad, sizeof quad);
    }
    kv_write_value_codes(layout, tile, token, values);
}

static inline void kv_write_eight(const float *from, uint32_t n, uint16_t out[8])
{
    __m128i halves = _mm256_cvtps_ph(avx2_load(from, n), _MM_FROUND_TO_NEAREST_INT);
    _mm_storeu_si128((__m128i *)(void *)out, halves);
}

/* In a K tile the dimensions of a key are 16 elements apart; a value's are adjacent. */
static void kv_write_halves(const struct kv_layout *layout, char *tile, uint32_t token,
                            const float *keys, const float *values)
{
    uint16_t *k = (uint16_t *)(void *)tile;
    uint16_t *v = k + layout->tile_bytes / sizeof *k + kv_tile_v_index(layout, token, 0);
    k += kv_tile_k_index(layout, token, 0);
    for (uint32_t d = 0; d < layout->head_dim; d += 8) {
        uint16_t key[8];
        uint16_t value[8];
        kv_write_eight(keys + d, layout->head_dim - d, key);
        kv_write_eight(values + d, layout->head_dim - d, value);
        for (uint32_t i = 0; i < 8 && d + i < layout->head_dim; i++) {
            k[(size_t)(d + i) * KV_TILE_KEYS] = key[i];
            v[d + i] = value[i];
        }
    }
}

/* Writes keys into an open group and values into a page of codes. */
static void kv_write_open(const struct kv_layout *layout, uint16_t *open, char *tile,
                          uint32_t token, const float *keys, const float *values)
{
    open += token % KV_TILE_KEYS;
    for (uint32_t d = 0; d < layout->head_dim; d += 8) {
        uint16_t key[8];
        kv_write_eight(keys + d, layout->head_dim - d, key);
        for (uint32_t i = 0; i < 8 && d + i < layout->head_dim; i++)
            open[(size_t)(d + i) * KV_TILE_KEYS] = key[i];
    }
    if (kv_tile_values_packed(layout))
        k_values_pack_avx2(values, layout->head_dim, token % KV_TILE_KEYS,
                           tile + layout->tile_bytes +
                               token / KV_TILE_KEYS * kv_tile_group_bytes(layout));
    else
        kv_write_value_codes(layout, tile, token, values);
}

void k_kv_write_avx2(const struct kv_write_args *args, uint32_t begin, uint32_t end)
{
    const struct kv_layout *layout = args->kv.layout;
    for (uint32_t r = begin; r < end; r++) {
        void *page = kv_tile_page(&args->kv, r, args->kv.position[r]);
        uint32_t token = args->kv.position[r] % layout->page_tokens;
        for (uint32_t h = 0; h < layout->kv_heads; h++) {
            size_t from = ((size_t)r * layout->kv_heads + h) * layout->head_dim;
            char *tile = kv_tile_at(layout, page, args->layer, h);
            if (layout->open_bytes > 0)
                kv_write_open(layout, kv_tile_open(&args->kv, r, args->layer, h), tile, token,
                              args->k + from, args->v + from);
            else
                (layout->type == KV_TYPE_I8 ? kv_write_codes : kv_write_halves)(
                    layout, tile, token, args->k + from, args->v + from);
        }
    }
}

/* Stores that bypass the caches, as in k_copy_avx512 and for the same reason. */
void k_copy_avx2(void *to, const void *from, size_t bytes)
{
    for (size_t at = 0; at < bytes; at += sizeof(__m256i))
        _mm256_stream_si256(
            (__m256i *)(void *)((char *)to + at),
            _mm256_load_si256((const __m256i *)(const void *)((const char *)from + at)));
    /* streaming stores are not ordered with the store that announces the end of the copy */
    _mm_sfence();
}
