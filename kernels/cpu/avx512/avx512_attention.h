/* avx512_attention: the state of one call of the attention leaf, and scores of keys that are bytes.
 *
 * Owns:     nothing; the state points into the leaf's scratch.
 * Thread:   any compute thread.
 * Cost:     four dimensions of 16 keys and a query are one dot product.
 * Not here: the leaf (avx512_attention.c). Included only by files built with the instruction set's
 *           flags.
 */
#pragma once

#include <string.h>

#include "kernels/cpu/avx512/avx512.h"
#include "kernels/cpu/avx512/avx512_vectors.h"
#include "kernels/cpu/kv_tile.h"

enum {
    ATTENTION_QUERIES =
        6, /* × 4 vectors = 24 accumulators, 4 vectors of keys or values, 1 factor */
    ATTENTION_GROUPS = TABLE_KEYS_BLOCK / KV_TILE_KEYS,
};

/* The running softmax of each query of the call; `stride` floats between queries, a multiple of 16.
 * Query i is row i ÷ heads, head i mod heads. */
struct attention_run {
    const struct table_attention *call;
    uint32_t n; /* head_dim */
    uint32_t stride;
    uint32_t queries;
    uint32_t width; /* queries, rounded up to a multiple of 4 */
    float *q;       /* [n][width], scaled: the factors of a register block are adjacent */
    /* Used instead of q where keys are bytes: codes [quads][width][4], where quads is n ÷ 4 rounded
     * up; for each query its scale and the start value of its sums. */
    int8_t *codes;
    uint32_t quads;
    float code_scale[TABLE_QUERIES_MAX];
    int32_t code_start[TABLE_QUERIES_MAX];
    /* The block's keys, converted: from halves to codes as in a page of bytes, or from codes of 4
     * bits to halves; then its packed values, to halves. */
    char *block;
    uint32_t value_bytes; /* from one key's values to the next's */
    float *segment_mean;
    float *mean;
    float *segment_max;
    float *segment_sum;
    float *max;
    float *sum;
    float *p;                         /* [queries][64] scores, then weights, of the block */
    float shrink[TABLE_QUERIES_MAX];  /* factor by which the block shrinks the earlier state */
    uint32_t keys[TABLE_QUERIES_MAX]; /* that a query sees */
    /* Addresses of the block's keys and values, by groups of 16, and of the next block's, to
     * prefetch. */
    const char *k[ATTENTION_GROUPS];
    const char *v[ATTENTION_GROUPS];
    const char *next_k[ATTENTION_GROUPS];
    const char *next_v[ATTENTION_GROUPS];
    uint32_t first;  /* index of the block's first key */
    uint32_t begin;  /* first key of the first block that is read */
    uint32_t hidden; /* number of keys in that block that a window hides */
    uint32_t second; /* first key of the second segment */
    uint32_t count;  /* number of the block's keys that any of the present rows sees */
};

static inline __m512 attention_halves(const char *at)
{
    return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)(const void *)at));
}

/* Writes the codes of query `i` (k_kv_codes_ref of q × scale) into its columns. */
static inline void attention_codes(struct attention_run *run, uint32_t i, const float *q)
{
    int8_t codes[LIMIT_HEAD_DIM + 16];
    int32_t sum;
    run->code_scale[i] = avx512_codes(q, run->n, run->call->args->scale, codes, &sum);
    run->code_start[i] = -KV_TILE_BIAS * sum; /* keys are unsigned */
    for (uint32_t quad = 0; quad < run->quads; quad++)
        memcpy(run->codes + ((size_t)quad * run->width + i) * KV_TILE_QUAD,
               codes + (size_t)quad * KV_TILE_QUAD, KV_TILE_QUAD);
}

/* Returns in each lane the greatest magnitude of a key of halves. Prefetches the next block's keys
 * meanwhile. */
static inline __m512 attention_magnitudes(const struct attention_run *run, uint32_t g)
{
    const char *from = run->k[g];
    const char *next = run->next_k[g];
    const __m512i low15 = _mm512_set1_epi16(INT16_MAX);
    const size_t bytes = (size_t)run->n * KV_TILE_KEYS * sizeof(uint16_t);
    /* compared as integers: magnitudes rise with their bits, and NaN is above all */
    __m512i bits = _mm512_setzero_si512();
    size_t at = 0;
    for (; at + 64 <= bytes; at += 64) { /* two dimensions */
        bits = _mm512_max_epu16(bits, _mm512_and_si512(_mm512_loadu_si512(from + at), low15));
        _mm_prefetch(next + at, _MM_HINT_T0);
    }
    if (at < bytes) {
        __m256i last = _mm256_loadu_si256((const __m256i *)(const void *)(from + at));
        bits = _mm512_max_epu16(bits, _mm512_and_si512(_mm512_zextsi256_si512(last), low15));
        _mm_prefetch(next + at, _MM_HINT_T0);
    }
    return _mm512_cvtph_ps(
        _mm256_max_epu16(_mm512_castsi512_si256(bits), _mm512_extracti64x4_epi64(bits, 1)));
}

/* Returns the codes of n dimensions, 1 to 4, of 16 keys; those beyond n are 0. */
static inline __attribute__((always_inline)) __m512i
attention_round_quad(const char *from, const uint32_t n, __m512 inverse)
{
    const __m512i by_key =
        _mm512_broadcast_i32x4(_mm_setr_epi8(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15));
    __m512i code[KV_TILE_QUAD];
#pragma GCC unroll 4
    for (uint32_t i = 0; i < KV_TILE_QUAD; i++)
        code[i] = i < n
                      ? _mm512_cvtps_epi32(_mm512_mul_ps(
                            attention_halves(from + i * KV_TILE_KEYS * sizeof(uint16_t)), inverse))
                      : _mm512_setzero_si512();
    /* as bytes, still by dimension in each quarter of the vector */
    __m512i codes = _mm512_packs_epi16(_mm512_packs_epi32(code[0], code[1]),
                                       _mm512_packs_epi32(code[2], code[3]));
    return _mm512_xor_si512(_mm512_shuffle_epi8(codes, by_key),
                            _mm512_set1_epi8((char)KV_TILE_BIAS));
}

/* Converts 16 keys from halves to codes and scales, as k_kv_codes_ref does; a lane is a key. The
 * codes of a key that is not finite are undefined: its scale is NaN. */
static inline void attention_round16(const struct attention_run *run, uint32_t g, char *to)
{
    const char *from = run->k[g];
    const size_t quad = (size_t)KV_TILE_QUAD * KV_TILE_KEYS * sizeof(uint16_t);
    const __m512 max = attention_magnitudes(run, g);
    const __m512 most = _mm512_set1_ps(127.0f);
    const __mmask16 is_finite = _mm512_cmp_ps_mask(max, _mm512_set1_ps(INFINITY), _CMP_LT_OQ);
    const __mmask16 has_codes =
        _mm512_mask_cmp_ps_mask(is_finite, max, _mm512_set1_ps(1e-30f), _CMP_GE_OQ);
    const __m512 inverse = _mm512_maskz_div_ps(has_codes, most, max);
    const __m512 scale = _mm512_maskz_div_ps(has_codes, max, most);
    const uint32_t whole = run->n / KV_TILE_QUAD;
    for (uint32_t i = 0; i < whole; i++, from += quad, to += 64)
        _mm512_storeu_si512(to, attention_round_quad(from, KV_TILE_QUAD, inverse));
    switch (run->n % KV_TILE_QUAD) {
    case 1:
        _mm512_storeu_si512(to, attention_round_quad(from, 1, inverse));
        break;
    case 2:
        _mm512_storeu_si512(to, attention_round_quad(from, 2, inverse));
        break;
    case 3:
        _mm512_storeu_si512(to, attention_round_quad(from, 3, inverse));
        break;
    default:
        break;
    }
    to += run->n % KV_TILE_QUAD > 0 ? 64 : 0;
    _mm512_storeu_ps((float *)(void *)to,
                     _mm512_mask_mov_ps(_mm512_set1_ps(NAN), is_finite, scale));
}

/* Converts the block's keys to codes, for all its queries. */
static inline void attention_round(struct attention_run *run)
{
    for (uint32_t g = 0; g * KV_TILE_KEYS < run->count; g++) {
        char *to = run->block + (size_t)g * (run->quads + 1) * 64;
        attention_round16(run, g, to);
        run->k[g] = to;
        run->next_k[g] = to; /* prefetched already */
    }
}

/* Scores of n queries from `query` against the first `groups` groups of 16 keys at run->k, laid out
 * as in pages of bytes; all but `query` are constants. */
static inline __attribute__((always_inline)) void
attention_scores_int8(const struct attention_run *run, uint32_t query, const int n,
                      const int groups)
{
    __m512i sum[ATTENTION_QUERIES][ATTENTION_GROUPS];
    const int8_t *q = run->codes + (size_t)query * KV_TILE_QUAD;
    float *p = run->p + (size_t)query * TABLE_KEYS_BLOCK;
    size_t at = 0;
#pragma GCC unroll 6
    for (int t = 0; t < n; t++)
#pragma GCC unroll 4
        for (int g = 0; g < groups; g++)
            sum[t][g] = _mm512_set1_epi32(run->code_start[query + (uint32_t)t]);
    for (; at < (size_t)run->quads * 64; at += 64, q += (size_t)run->width * KV_TILE_QUAD) {
        __m512i k[ATTENTION_GROUPS];
#pragma GCC unroll 4
        for (int g = 0; g < groups; g++)
            k[g] = _mm512_loadu_si512(run->k[g] + at);
#pragma GCC unroll 4
        for (int g = 0; g < groups; g++)
            _mm_prefetch(run->next_k[g] + at, _MM_HINT_T0);
#pragma GCC unroll 6
        for (int t = 0; t < n; t++)
#pragma GCC unroll 4
            for (int g = 0; g < groups; g++)
                sum[t][g] = avx512_dot(sum[t][g], k[g], q + t * KV_TILE_QUAD);
    }
#pragma GCC unroll 4
    for (int g = 0; g < groups; g++) {
        __m512 scales = _mm512_loadu_ps((const float *)(const void *)(run->k[g] + at));
        _mm_prefetch(run->next_k[g] + at, _MM_HINT_T0);
#pragma GCC unroll 6
        for (int t = 0; t < n; t++) {
            __m512 by = _mm512_mul_ps(_mm512_set1_ps(run->code_scale[query + (uint32_t)t]), scales);
            _mm512_storeu_ps(p + t * TABLE_KEYS_BLOCK + g * KV_TILE_KEYS,
                             _mm512_mul_ps(_mm512_cvtepi32_ps(sum[t][g]), by));
        }
    }
}

/* Multiplies the weights of queries [query, end) by the scales of the values, which are codes. */
static inline void attention_weights_int8(const struct attention_run *run, uint32_t query,
                                          uint32_t end)
{
    float *p = run->p + (size_t)query * TABLE_KEYS_BLOCK;
    for (uint32_t g = 0; g * KV_TILE_KEYS < run->count; g++) {
        const char *at = run->v[g] + (size_t)KV_TILE_KEYS * run->value_bytes;
        __m512 scales = _mm512_loadu_ps((const float *)(const void *)at);
        _mm_prefetch(run->next_v[g] + (size_t)KV_TILE_KEYS * run->value_bytes, _MM_HINT_T0);
        for (uint32_t t = 0; t < end - query; t++) {
            float *weights = p + t * TABLE_KEYS_BLOCK + g * KV_TILE_KEYS;
            _mm512_storeu_ps(weights, _mm512_mul_ps(_mm512_loadu_ps(weights), scales));
        }
    }
}
