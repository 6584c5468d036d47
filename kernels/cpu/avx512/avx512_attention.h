/* avx512_attention: the state of a call of the attention leaf; scores of keys that are bytes.
 *
 * Owns:     nothing; what the state points to is the leaf's scratch.
 * Thread:   any compute thread.
 * Cost:     four dimensions of 16 keys and a query are one dot product.
 * Not here: the leaf (avx512_attention.c). Includes only from files built with the instruction
 *           set's flags.
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

/* Running softmax of each query of the call; `stride` floats from query to query, a multiple of 16.
 * Query i is row i ÷ heads, head i mod heads. */
struct attention_run {
    const struct table_attention *call;
    uint32_t n; /* head_dim */
    uint32_t stride;
    uint32_t queries;
    uint32_t width; /* queries, up to a multiple of 4 */
    float *q;       /* [n][width], scaled: the factors of a register block lie side by side */
    /* In place of q where keys are bytes: codes [quads][width][4], quads being n ÷ 4, up; of each
     * query the scale and what its sums begin with. */
    int8_t *codes;
    uint32_t quads;
    float code_scale[TABLE_QUERIES_MAX];
    int32_t code_start[TABLE_QUERIES_MAX];
    uint32_t value_bytes; /* from one key's values to the next's */
    float *segment_mean;
    float *mean;
    float *segment_max;
    float *segment_sum;
    float *max;
    float *sum;
    float *p;                         /* [queries][64] scores, then weights, of the block */
    float shrink[TABLE_QUERIES_MAX];  /* what the block makes of the state before it */
    uint32_t keys[TABLE_QUERIES_MAX]; /* that a query sees */
    /* Where the block's keys lie, by groups of 16; and those of the next one, to prefetch. */
    const char *k[ATTENTION_GROUPS];
    const char *v[ATTENTION_GROUPS];
    const char *next_k[ATTENTION_GROUPS];
    const char *next_v[ATTENTION_GROUPS];
    uint32_t first; /* key of the block */
    uint32_t count; /* of its keys that any of the present rows sees */
};

/* Codes of query `i` (k_kv_codes_ref of q × scale) into their columns. */
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

/* Scores of n queries from `query` against the first `groups` groups of 16 keys at run->k, as
 * pages of bytes have them; all but `query` are constants. */
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

/* Weights of queries [query, end) take up the scales of values: these are codes from then on. */
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
