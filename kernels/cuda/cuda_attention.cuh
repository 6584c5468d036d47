/* cuda_attention.cuh: attention over KV pages, for one type of pages.
 *
 * Owns:     nothing.
 * Thread:   device code; launches as cuda_backend says.
 * Not here: the choice of the type, and the fold of the states that several blocks left
 *           (cuda_attention.cu).
 *
 * Each type has a file of its own (cuda_attention_f16.cu, …) that instantiates all head sizes.
 * Together they were by far the longest translation unit of the build.
 */
#pragma once

#include "config/base/limits.h"
#include "kernels/cuda/cuda_backend.cuh"
#include "kernels/cuda/cuda_kv.h"
#include "kernels/cuda/cuda_machine.cuh"
#include "kernels/cuda/cuda_ops.h"

/* Attention over pages, for few rows and for many, with one order of sums (Dao 2023, in the order
 * of kernels.h): blocks of 64 keys with a running maximum, segments of 256 keys from an empty
 * state, merged as a left fold. A block of threads does one work of cuda_tiles. Where a work does
 * not cover all segments of its rows, the block leaves each segment's state in memory, and a second
 * kernel does the same fold (Dao et al. 2023, Flash-Decoding) with equal bits. Rows of several
 * sequences that read the same pages share a tile; a row's own sums do not depend on the others.
 *
 * A block has up to 64 queries (rows × heads over one KV head), 16 a warp, which are the rows of
 * one matrix instruction. Keys and values of 64 tokens are in shared memory for all queries, while
 * the next 64 are being copied there. Each query's sums are its row of the fragments: lane 4g + t
 * has queries g and g + 8. Exponents are to base 2. Codes are converted to halves between memory
 * and the instruction.
 *
 * Up to 16 queries, which is decode, are computed by all four warps together: each warp scores 16
 * of the 64 keys, all warps read all scores, and each sums a quarter of the dimensions. So the
 * order of sums stays the same. For 64 keys and heads of 128, one warp would need 128 matrix
 * instructions of 8 cycles, twice as many loads of 2 and 32 exponentials of 8: some 2,000 cycles.
 * The first warps of a multiprocessor's two blocks run on the same of its four partitions, hence
 * 4,000 cycles, where memory takes 3,600 (2 × 32 KB at 4.3 TB/s ÷ 132, 1.8 GHz). Four warps have a
 * quarter of all but the exponentials each, 900 cycles, on one partition each.
 *
 * Bytes in flight on an H200 (132 multiprocessors, about 0.8 µs from memory at full rate): 4.3 TB/s
 * × 0.8 µs ÷ 132 = 26 KB a multiprocessor. With heads of 128 in halves, each block requests 32 KB
 * while it computes, and uses 75 KB of shared memory and at most 255 registers: two blocks a
 * multiprocessor, 64 KB. */
enum {
    ATTENTION_WARPS = CUDA_PLAN_QUERIES / 16,
    ATTENTION_THREADS = ATTENTION_WARPS * 32,
    /* halves after each row of shared memory, so that the next row uses other banks */
    ATTENTION_PAD = 8,
    ATTENTION_TILES = CUDA_PLAN_KEYS / 8,
    ATTENTION_GROUP = CUDA_KV_TOKENS,  /* keys that are certainly in one page */
    ATTENTION_STAGES = 2,              /* blocks of keys in shared memory, in the form of pages */
    ATTENTION_ALL = CUDA_PLAN_QUERIES, /* value of `alone`: all rows, not a single one */
    ATTENTION_FEW = 16,                /* queries that all warps compute together */
};
#define ATTENTION_LOG2E 1.44269504f
static_assert((uint64_t)LIMIT_CONTEXT * LIMIT_PAGE_TOKENS <= 1ull << 32, "page_factor is exact");

struct attention_call {
    const float *q;
    float *out;
    const struct cuda_tiles_head *tiles;
    const struct cuda_plan_row *rows;
    const uint32_t *tables;
    const char *pages;
    const float *sinks;
    float *partials; /* [states][heads][CUDA_TILES_STATE + head_dim] */
    struct kv_layout layout;
    uint32_t heads;
    uint32_t group; /* query heads over a KV head */
    uint32_t unit;  /* of pages: the group of attention_args */
    uint32_t layer;
    uint32_t window;
    uint32_t stages;
    float scale;          /* × log2 e */
    float softcap;        /* × log2 e; 0: none */
    uint32_t page_factor; /* key × factor ÷ 2^32 is the index of the key's page */
};

/* 64 keys and values as the instruction reads them. Rows are a multiple of 16 bytes. */
template <int D>
struct alignas(16) attention_halves {
    uint16_t k[CUDA_PLAN_KEYS][D + ATTENTION_PAD];
    uint16_t v[D][CUDA_PLAN_KEYS + ATTENTION_PAD];
};

/* The same in the form of pages of codes. */
template <int D>
struct alignas(16) attention_codes {
    uint8_t k[CUDA_PLAN_KEYS][D];
    uint8_t v[D][CUDA_PLAN_KEYS];
    float k_scale[CUDA_PLAN_KEYS];
    float v_scale[CUDA_PLAN_KEYS];
};

/* Scores of few queries, exchanged between the warps: the bits of two keys' scores each. */
struct alignas(16) attention_shown {
    uint2 at[ATTENTION_FEW][(CUDA_PLAN_KEYS + ATTENTION_PAD) / 2];
};

static constexpr __host__ __device__ bool attention_has_codes(enum kv_type type)
{
    return type == KV_TYPE_I8 || type == KV_TYPE_FP8;
}

template <int D>
static constexpr __host__ __device__ size_t attention_stage_bytes(enum kv_type type)
{
    return attention_has_codes(type) ? sizeof(attention_codes<D>) : sizeof(attention_halves<D>);
}

/* Returns the shared memory of a block: exchanged scores, stages in the form of pages, and the
 * halves that codes are converted to. */
template <int D>
static size_t attention_bytes(enum kv_type type, uint32_t stages)
{
    return sizeof(struct attention_shown) + stages * attention_stage_bytes<D>(type) +
           (attention_has_codes(type) ? sizeof(attention_halves<D>) : 0);
}

/* The state of one lane's two queries over the keys of one segment, for S dimensions: all, or the
 * warp's part where warps share their queries. */
template <int S>
struct attention_state {
    float max[2];
    float sum[2]; /* this lane's part; the sum over all four lanes when the segment is complete */
    float mean[S / 8][4]; /* not normalised */
};

/* Returns the warp's index among the W warps that share their queries. */
template <int W>
static __device__ uint32_t attention_way()
{
    return W > 1 ? threadIdx.x / 32 : 0;
}

struct attention_query {
    uint32_t first; /* first key that it sees */
    uint32_t count; /* number of keys; 0: no query */
    size_t at;      /* row of the batch × heads + head */
};

/* What a block works on; equal in all threads. */
struct attention_run {
    const struct attention_call *call;
    uint32_t table; /* the unit of page p is call->tables[table + p × stride] */
    uint32_t stride;
    size_t tile; /* offset of the layer and KV head in a page */
    uint32_t keys;
};

/* --- copying keys and values to shared memory --- */

/* Returns the address of the page of a group of 16 keys, and the group's first token there; any
 * page behind the last key. */
static __device__ const char *attention_page(const struct attention_run *run, uint32_t key,
                                             uint32_t *token)
{
    const struct attention_call *call = run->call;
    *token = 0;
    if (key >= run->keys)
        return call->pages;
    const uint32_t page = (uint32_t)((uint64_t)key * call->page_factor >> 32);
    *token = key - page * call->layout.page_tokens;
    return call->pages + call->tables[run->table + page * run->stride] * call->layout.page_bytes +
           run->tile;
}

/* Returns how many of 16 bytes of keys from `key` on are to be copied; the others become zeros, so
 * that stale values are never summed. */
template <typename E>
static __device__ uint32_t attention_there(const struct attention_run *run, uint32_t key)
{
    const uint32_t left = key < run->keys ? run->keys - key : 0;
    return (left < 16 / sizeof(E) ? left : 16 / sizeof(E)) * sizeof(E);
}

/* Copies 64 keys [64][k_stride] and values [D][v_stride] from `key_begin` on; dimensions beyond the
 * head's become zeros. A thread copies the same dimensions of all its keys, and the same keys of
 * all its values, in a number of rounds known at compile time, so that a copy is a few
 * instructions. */
template <int D, typename E>
static __device__ void attention_ask_block(const struct attention_run *run, uint32_t key_begin,
                                           E *keys, uint32_t k_stride, E *values, uint32_t v_stride)
{
    enum {
        EACH = 16 / sizeof(E),
        KEYS = ATTENTION_THREADS / (D / EACH), /* in one round */
        PIECES = CUDA_PLAN_KEYS / EACH,        /* pieces of a dimension's values */
        DIMS = ATTENTION_THREADS / PIECES,     /* in one round */
    };
    const struct kv_layout *layout = &run->call->layout;
    const uint32_t n = layout->head_dim;
    const uint32_t k_dim = threadIdx.x % (D / EACH) * EACH;
    const char *from = NULL;
    uint32_t token;
#pragma unroll
    for (uint32_t begin = 0; begin < CUDA_PLAN_KEYS; begin += KEYS) {
        const uint32_t key = begin + threadIdx.x / (D / EACH);
        if (begin % ATTENTION_GROUP == 0) {
            from =
                attention_page(run, (key_begin + key) / ATTENTION_GROUP * ATTENTION_GROUP, &token);
            from += cuda_kv_k_index(n, token + key % ATTENTION_GROUP, k_dim) * sizeof(E);
        }
        cuda_machine_copy16(keys + key * k_stride + k_dim,
                            from + begin % ATTENTION_GROUP * n * sizeof(E),
                            key_begin + key < run->keys && k_dim < n ? 16 : 0);
    }
    const uint32_t key = threadIdx.x % PIECES * EACH;
    const uint32_t v_dim = threadIdx.x / PIECES;
    const uint32_t bytes = attention_there<E>(run, key_begin + key);
    from = attention_page(run, (key_begin + key) / ATTENTION_GROUP * ATTENTION_GROUP, &token) +
           layout->tile_bytes;
    from += cuda_kv_v_index(layout->page_tokens, token + key % ATTENTION_GROUP, v_dim) * sizeof(E);
#pragma unroll
    for (uint32_t begin = 0; begin < D; begin += DIMS)
        cuda_machine_copy16(values + (v_dim + begin) * v_stride + key,
                            from + begin * layout->page_tokens * sizeof(E),
                            v_dim + begin < n ? bytes : 0);
}

/* Copies the scales of 64 keys and of their values. */
static __device__ void attention_ask_scales(const struct attention_run *run, uint32_t key_begin,
                                            float *k_scale, float *v_scale)
{
    const struct kv_layout *layout = &run->call->layout;
    const uint32_t each = CUDA_PLAN_KEYS / 4; /* threads for one tile */
    const uint32_t key = threadIdx.x % each * 4;
    uint32_t token;
    if (threadIdx.x >= 2 * each)
        return;
    const bool is_value = threadIdx.x >= each;
    const char *page =
        attention_page(run, (key_begin + key) / ATTENTION_GROUP * ATTENTION_GROUP, &token) +
        (is_value ? layout->tile_bytes : 0) + cuda_kv_scales(layout);
    cuda_machine_copy16((is_value ? v_scale : k_scale) + key,
                        page + (token + key % ATTENTION_GROUP) * sizeof(float),
                        attention_there<float>(run, key_begin + key));
}

template <int D, enum kv_type T>
static __device__ void attention_ask_stage(const struct attention_run *run, uint32_t key,
                                           char *stage)
{
    if (attention_has_codes(T)) {
        attention_codes<D> *codes = (attention_codes<D> *)stage;
        attention_ask_block<D>(run, key, &codes->k[0][0], D, &codes->v[0][0], CUDA_PLAN_KEYS);
        attention_ask_scales(run, key, codes->k_scale, codes->v_scale);
    } else {
        attention_halves<D> *halves = (attention_halves<D> *)stage;
        attention_ask_block<D>(run, key, &halves->k[0][0], D + ATTENTION_PAD, &halves->v[0][0],
                               CUDA_PLAN_KEYS + ATTENTION_PAD);
    }
}

template <enum kv_type T>
static __device__ float attention_code(uint32_t codes, int i)
{
    const uint8_t code = (uint8_t)(codes >> 8 * i);
    return T == KV_TYPE_FP8 ? cuda_machine_e4m3_float(code) * 256 : (float)(int8_t)code;
}

/* Converts codes to halves: scale × code, to the nearest. A thread takes four elements at a time.
 */
template <int D, enum kv_type T>
static __device__ void attention_convert(const attention_codes<D> *from, attention_halves<D> *to)
{
    for (uint32_t i = threadIdx.x; i < CUDA_PLAN_KEYS * D / 4; i += ATTENTION_THREADS) {
        const uint32_t key = i / (D / 4);
        const uint32_t dim = i % (D / 4) * 4;
        const uint32_t codes = *(const uint32_t *)&from->k[key][dim];
        const float scale = from->k_scale[key];
        uint32_t *out = (uint32_t *)&to->k[key][dim];
        for (int j = 0; j < 2; j++)
            out[j] = cuda_machine_half2(scale * attention_code<T>(codes, 2 * j),
                                        scale * attention_code<T>(codes, 2 * j + 1));
    }
    for (uint32_t i = threadIdx.x; i < CUDA_PLAN_KEYS * D / 4; i += ATTENTION_THREADS) {
        const uint32_t dim = i / (CUDA_PLAN_KEYS / 4);
        const uint32_t key = i % (CUDA_PLAN_KEYS / 4) * 4;
        const uint32_t codes = *(const uint32_t *)&from->v[dim][key];
        const float *scale = &from->v_scale[key];
        uint32_t *out = (uint32_t *)&to->v[dim][key];
        for (int j = 0; j < 2; j++)
            out[j] = cuda_machine_half2(scale[2 * j] * attention_code<T>(codes, 2 * j),
                                        scale[2 * j + 1] * attention_code<T>(codes, 2 * j + 1));
    }
}

/* --- one block of 64 keys --- */

template <enum kv_type T>
static __device__ uint32_t attention_pair(float low, float high)
{
    if (T == KV_TYPE_BF16)
        return (uint32_t)cuda_machine_bf16(low) | (uint32_t)cuda_machine_bf16(high) << 16;
    return cuda_machine_half2(low, high);
}

template <enum kv_type T>
static __device__ float attention_float(uint16_t bits)
{
    return T == KV_TYPE_BF16 ? cuda_machine_bf16_float(bits) : cuda_machine_half_float(bits);
}

template <enum kv_type T>
static __device__ void attention_mma(float *c, const uint32_t *a, const uint32_t *b)
{
    if (T == KV_TYPE_BF16)
        cuda_machine_mma_bf16(c, a, b);
    else
        cuda_machine_mma_f16(c, a, b);
}

/* Loads the A side of the scores for 16 dimensions: this lane's two queries, rounded. */
template <int D, enum kv_type T>
static __device__ void attention_rounded(const struct attention_call *call,
                                         const struct attention_query *queries, int step,
                                         uint32_t *out)
{
    const uint32_t n = call->layout.head_dim;
    for (int r = 0; r < 4; r++) {
        const uint32_t dim = step * 16 + r / 2 * 8 + 2 * (threadIdx.x % 4);
        const struct attention_query query = queries[r % 2];
        const float *q = call->q + query.at * n + dim;
        out[r] = query.count > 0 && dim < n ? attention_pair<T>(q[0], q[1]) : 0;
    }
}

static __device__ float attention_quad_max(float value)
{
    value = fmaxf(value, __shfl_xor_sync(0xffffffffu, value, 1));
    return fmaxf(value, __shfl_xor_sync(0xffffffffu, value, 2));
}

static __device__ float attention_quad_sum(float value)
{
    value += __shfl_xor_sync(0xffffffffu, value, 1);
    return value + __shfl_xor_sync(0xffffffffu, value, 2);
}

/* Queries of up to 128 dimensions stay in registers; larger ones are read again each time. */
template <int D>
static constexpr __host__ __device__ int attention_kept()
{
    return D <= 128 ? D / 16 : 0;
}

/* Returns the score of a product, to base 2. */
static __device__ __forceinline__ float attention_capped(const struct attention_call *call,
                                                         float product)
{
    const float score = product * call->scale;
    return call->softcap > 0 ? call->softcap * tanhf(score / call->softcap) : score;
}

/* Scores of 64 keys ÷ W: scale × q · k, −∞ where the query does not see the key. */
template <int D, enum kv_type T, int W>
static __device__ void
attention_scores(const struct attention_call *call, const attention_halves<D> *shared,
                 const struct attention_query *queries, const uint32_t (*kept)[4],
                 uint32_t key_begin, float (*scores)[4])
{
    const uint32_t g = threadIdx.x % 32 / 4;
    const uint32_t t = threadIdx.x % 4;
    const uint32_t first = attention_way<W>() * (CUDA_PLAN_KEYS / W);
#pragma unroll
    for (int n = 0; n < ATTENTION_TILES / W; n++)
        scores[n][0] = scores[n][1] = scores[n][2] = scores[n][3] = 0;
#pragma unroll
    for (int step = 0; step < D / 16; step++) {
        uint32_t a[4];
        if (step < attention_kept<D>())
            for (int r = 0; r < 4; r++)
                a[r] = kept[step][r];
        else
            attention_rounded<D, T>(call, queries, step, a);
#pragma unroll
        for (int n = 0; n < ATTENTION_TILES / W; n++) {
            const uint16_t *k = &shared->k[first + n * 8 + g][step * 16 + 2 * t];
            const uint32_t b[2] = {*(const uint32_t *)k, *(const uint32_t *)(k + 8)};
            attention_mma<T>(scores[n], a, b);
        }
    }
#pragma unroll
    for (int n = 0; n < ATTENTION_TILES / W; n++)
#pragma unroll
        for (int i = 0; i < 4; i++) {
            const struct attention_query query = queries[i / 2];
            const uint32_t key = key_begin + first + n * 8 + 2 * t + i % 2;
            /* wraps around, to a large number, below `first` */
            const bool is_seen = key - query.first < query.count;
            scores[n][i] = is_seen ? attention_capped(call, scores[n][i]) : -INFINITY;
        }
}

/* Writes each warp's scores of the common queries for all warps to read. They may be overwritten
 * after the barrier of the next 64 keys. */
template <int W>
static __device__ void attention_show(const float (*own)[4], struct attention_shown *shown,
                                      float (*scores)[4])
{
    const uint32_t g = threadIdx.x % 32 / 4;
    const uint32_t t = threadIdx.x % 4;
    const uint32_t first = attention_way<W>() * (CUDA_PLAN_KEYS / W);
#pragma unroll
    for (int n = 0; n < ATTENTION_TILES / W; n++)
#pragma unroll
        for (int i = 0; i < 2; i++)
            shown->at[g + 8 * i][(first + n * 8) / 2 + t] =
                make_uint2(__float_as_uint(own[n][2 * i]), __float_as_uint(own[n][2 * i + 1]));
    __syncthreads();
#pragma unroll
    for (int n = 0; n < ATTENTION_TILES; n++)
#pragma unroll
        for (int i = 0; i < 2; i++) {
            const uint2 from = shown->at[g + 8 * i][n * 8 / 2 + t];
            scores[n][2 * i] = __uint_as_float(from.x);
            scores[n][2 * i + 1] = __uint_as_float(from.y);
        }
}

/* Adds 64 keys to the state. Scores become weights; the sum adds the rounded weights that multiply
 * the values. A block that a query does not see at all changes nothing. */
template <int D, enum kv_type T, int W>
static __device__ void attention_add(const attention_halves<D> *shared, float (*scores)[4],
                                     struct attention_state<D / W> *state)
{
    const uint32_t g = threadIdx.x % 32 / 4;
    const uint32_t t = threadIdx.x % 4;
    const uint32_t first = attention_way<W>() * (D / W);
    uint32_t weights[ATTENTION_TILES][2]; /* of a query, two keys each */
#pragma unroll
    for (int i = 0; i < 2; i++) {
        float max = state->max[i];
#pragma unroll
        for (int n = 0; n < ATTENTION_TILES; n++)
            max = fmaxf(max, fmaxf(scores[n][2 * i], scores[n][2 * i + 1]));
        max = attention_quad_max(max);
        const float base = max == -INFINITY ? 0 : max;
        const float shrink = exp2f(state->max[i] - base);
        float sum = 0;
#pragma unroll
        for (int n = 0; n < ATTENTION_TILES; n++) {
            weights[n][i] = attention_pair<T>(exp2f(scores[n][2 * i] - base),
                                              exp2f(scores[n][2 * i + 1] - base));
            sum += attention_float<T>((uint16_t)weights[n][i]) +
                   attention_float<T>((uint16_t)(weights[n][i] >> 16));
        }
        state->sum[i] = fmaf(state->sum[i], shrink, sum);
        state->max[i] = max;
#pragma unroll
        for (int d = 0; d < D / W / 8; d++) {
            state->mean[d][2 * i] *= shrink;
            state->mean[d][2 * i + 1] *= shrink;
        }
    }
#pragma unroll
    for (int d = 0; d < D / W / 8; d++)
#pragma unroll
        for (int step = 0; step < CUDA_PLAN_KEYS / 16; step++) {
            const uint32_t a[4] = {weights[2 * step][0], weights[2 * step][1],
                                   weights[2 * step + 1][0], weights[2 * step + 1][1]};
            const uint16_t *v = &shared->v[first + d * 8 + g][step * 16 + 2 * t];
            const uint32_t b[2] = {*(const uint32_t *)v, *(const uint32_t *)(v + 8)};
            attention_mma<T>(state->mean[d], a, b);
        }
}

/* --- states --- */

/* One step of the fold for one query: computes the factors of the earlier state and of the segment.
 */
static __device__ void attention_fold(float *max, float *sum, float of_max, float of_sum,
                                      float *before, float *of)
{
    const float both = fmaxf(*max, of_max);
    const float base = both == -INFINITY ? 0 : both;
    *before = exp2f(*max - base);
    *of = exp2f(of_max - base);
    *sum = fmaf(of_sum, *of, *sum * *before);
    *max = both;
}

/* Returns the factor of a query's means at the end: 1 ÷ the sum, which includes a sink. */
static __device__ float attention_factor(const struct attention_call *call, size_t head, float max,
                                         float sum)
{
    float before = 1;
    float of;
    if (call->sinks != NULL)
        attention_fold(&max, &sum, call->sinks[head] * ATTENTION_LOG2E, 1, &before, &of);
    return before / sum;
}

template <int S>
static __device__ void attention_merge(struct attention_state<S> *total,
                                       const struct attention_state<S> *segment, int i)
{
    float before;
    float of;
    attention_fold(&total->max[i], &total->sum[i], segment->max[i], segment->sum[i], &before, &of);
#pragma unroll
    for (int d = 0; d < S / 8; d++)
#pragma unroll
        for (int j = 2 * i; j < 2 * i + 2; j++)
            total->mean[d][j] = fmaf(segment->mean[d][j], of, total->mean[d][j] * before);
}

template <int S>
static __device__ void attention_clear(struct attention_state<S> *state)
{
#pragma unroll
    for (int i = 0; i < 2; i++) {
        state->max[i] = -INFINITY;
        state->sum[i] = 0;
    }
#pragma unroll
    for (int d = 0; d < S / 8; d++)
        state->mean[d][0] = state->mean[d][1] = state->mean[d][2] = state->mean[d][3] = 0;
}

/* Writes the result, or the state of a segment: `out` [n] of query i, each element × factor. */
template <int D, int W>
static __device__ void attention_store(const struct attention_state<D / W> *state, int i,
                                       uint32_t n, float factor, float *out)
{
#pragma unroll
    for (int d = 0; d < D / W / 8; d++) {
        const uint32_t dim = attention_way<W>() * (D / W) + d * 8 + 2 * (threadIdx.x % 4);
        if (dim < n) {
            out[dim] = state->mean[d][2 * i] * factor;
            out[dim + 1] = state->mean[d][2 * i + 1] * factor;
        }
    }
}

/* Returns the address of the state of a row's segment, for one head. */
static __device__ float *attention_partial(const struct attention_call *call,
                                           const struct cuda_tiles_row *row, uint32_t segment,
                                           uint32_t head)
{
    const size_t state = row->states + (segment - row->segment);
    return call->partials +
           (state * call->heads + head) * (CUDA_TILES_STATE + (size_t)call->layout.head_dim);
}

template <int D, int W>
static __device__ void attention_leave(const struct attention_state<D / W> *state, int i,
                                       uint32_t n, float *partial)
{
    if (threadIdx.x % 4 == 0 && attention_way<W>() == 0) {
        partial[0] = state->max[i];
        partial[1] = state->sum[i];
    }
    attention_store<D, W>(state, i, n, 1, partial + CUDA_TILES_STATE);
}

/* Returns whether a mean in one of the head's dimensions is not finite. */
template <int D, int W>
static __device__ bool attention_is_odd(const struct attention_state<D / W> *state, uint32_t n)
{
    const uint32_t first = attention_way<W>() * (D / W) + 2 * (threadIdx.x % 4);
    float zero = 0;
#pragma unroll
    for (int d = 0; d < D / W / 8; d++)
        for (int j = 0; j < 4 && first + d * 8 < n; j++)
            zero = fmaf(state->mean[d][j], 0, zero);
    return zero != 0;
}

/* --- one work --- */

/* Returns query `index` of a tile over one KV head; the rows follow each other, each with all
 * heads. */
static __device__ struct attention_query attention_query_at(const struct attention_call *call,
                                                            const struct cuda_tiles_work *work,
                                                            uint32_t index)
{
    struct attention_query query = {0, 0, 0};
    if (index >= work->rows * call->group)
        return query;
    const uint32_t row = cuda_tiles_rows(call->tiles)[work->first + index / call->group].row;
    const uint32_t keys = call->rows[row].position + 1;
    query.first = call->window > 0 && keys > call->window ? keys - call->window : 0;
    query.count = keys - query.first;
    query.at = (size_t)row * call->heads + blockIdx.y * call->group + index % call->group;
    return query;
}

/* Sets the values that row `row` does not see to zero. Some of them are not finite, and 0 × ∞ would
 * not be either. */
template <int D>
static __device__ void attention_hide(const struct attention_call *call,
                                      const struct cuda_tiles_work *work, uint32_t row,
                                      uint32_t key_begin, attention_halves<D> *shared)
{
    const struct attention_query query = attention_query_at(call, work, row * call->group);
    for (uint32_t i = threadIdx.x; i < CUDA_PLAN_KEYS * D; i += ATTENTION_THREADS)
        if (key_begin + i % CUDA_PLAN_KEYS - query.first >= query.count)
            shared->v[i / CUDA_PLAN_KEYS][i % CUDA_PLAN_KEYS] = 0;
}

/* Returns the index of this lane's first query in the tile; its second is 8 later. */
template <int W>
static __device__ uint32_t attention_index()
{
    return (W > 1 ? 0 : threadIdx.x / 32 * 16) + threadIdx.x % 32 / 4;
}

/* Called when a segment is complete: passes the state on, for all queries, or for those of one row
 * that see any key of the segment. */
template <int D, int W>
static __device__ void attention_done(const struct attention_call *call,
                                      const struct cuda_tiles_work *work, uint32_t segment,
                                      uint32_t alone, const struct attention_state<D / W> *state,
                                      struct attention_state<D / W> *total)
{
#pragma unroll
    for (int i = 0; i < 2; i++) {
        const uint32_t index = attention_index<W>() + 8 * i;
        const uint32_t row = index / call->group;
        const struct attention_query query = attention_query_at(call, work, index);
        if (query.first + query.count <= segment * CUDA_PLAN_SEGMENT ||
            query.first >= (segment + 1) * CUDA_PLAN_SEGMENT ||
            (alone != ATTENTION_ALL && alone != row))
            continue;
        if (work->is_whole)
            attention_merge<D / W>(total, state, i);
        else
            attention_leave<D, W>(
                state, i, call->layout.head_dim,
                attention_partial(call, &cuda_tiles_rows(call->tiles)[work->first + row], segment,
                                  query.at % call->heads));
    }
}

static __device__ char *attention_stages()
{
    return cuda_machine_shared() + sizeof(struct attention_shown);
}

/* Adds 64 keys, which a stage holds, to the state. Halves made from codes, and hidden values, need
 * a barrier of their own before all threads read them. */
template <int D, enum kv_type T, int W>
static __device__ void
attention_block(const struct attention_call *call, const struct cuda_tiles_work *work,
                const struct attention_query *queries, const uint32_t (*kept)[4], uint32_t key,
                uint32_t alone, char *stage, struct attention_state<D / W> *state)
{
    attention_halves<D> *shared = (attention_halves<D> *)stage;
    if (attention_has_codes(T)) {
        shared = (attention_halves<D> *)(attention_stages() +
                                         call->stages * attention_stage_bytes<D>(T));
        attention_convert<D, T>((const attention_codes<D> *)stage, shared);
        __syncthreads();
    }
    if (alone != ATTENTION_ALL) {
        attention_hide<D>(call, work, alone, key, shared);
        __syncthreads();
    }
    if (W > 1 || threadIdx.x / 32 * 16 < work->rows * call->group) { /* the warp has queries */
        float scores[ATTENTION_TILES][4];
        attention_scores<D, T, W>(call, shared, queries, kept, key, scores);
        if (W > 1)
            attention_show<W>(scores, (struct attention_shown *)cuda_machine_shared(), scores);
        attention_add<D, T, W>(shared, scores, state);
    }
}

/* Returns the first key that any row of a work sees, rounded down to a block. */
static __device__ uint32_t attention_hidden(const struct attention_call *call,
                                            const struct cuda_tiles_work *work)
{
    if (call->window == 0 || work->least < call->window)
        return 0;
    return (work->least + 1 - call->window) / CUDA_PLAN_KEYS * CUDA_PLAN_KEYS;
}

/* Processes all keys of a work, block by block, while the next block is copied. Where a segment's
 * means are not all finite, it is computed once more for each row alone, because rows see different
 * keys.
 *
 * Barriers: the one at the top of the loop comes after each thread's wait for its own copies, so
 * that all threads see the whole stage. It also comes after all reads of the other stage, of the
 * halves made from codes and of the exchanged scores of the round before, so that these may be
 * overwritten. */
template <int D, enum kv_type T, int W>
static __device__ void
attention_keys(const struct attention_call *call, const struct cuda_tiles_work *work,
               const struct attention_query *queries, const struct attention_run *run,
               struct attention_state<D / W> *total)
{
    const size_t stage_bytes = attention_stage_bytes<D>(T);
    char *stages = attention_stages();
    uint32_t kept[attention_kept<D>() > 0 ? attention_kept<D>() : 1][4];
    struct attention_state<D / W> state;
    const uint32_t hidden = attention_hidden(call, work);
    uint32_t key = work->begin * CUDA_PLAN_SEGMENT;
    uint32_t stage = 0;
    uint32_t alone = ATTENTION_ALL; /* or the one row that the segment is being computed for */
#pragma unroll
    for (int step = 0; step < attention_kept<D>(); step++)
        attention_rounded<D, T>(call, queries, step, kept[step]);
    attention_clear<D / W>(&state);
    key = key > hidden ? key : hidden;
    if (key < work->keys)
        attention_ask_stage<D, T>(run, key, stages);
    while (key < work->keys) {
        const uint32_t segment = key / CUDA_PLAN_SEGMENT;
        const uint32_t other = (stage + 1) % call->stages;
        uint32_t next = key + CUDA_PLAN_KEYS;
        bool is_asked = call->stages > 1;
        cuda_machine_copies_wait();
        __syncthreads();
        if (is_asked && next < work->keys)
            attention_ask_stage<D, T>(run, next, stages + other * stage_bytes);
        attention_block<D, T, W>(call, work, queries, kept, key, alone,
                                 stages + stage * stage_bytes, &state);
        if (next % CUDA_PLAN_SEGMENT == 0 || next >= work->keys) {
            for (int i = 0; i < 2; i++)
                state.sum[i] = attention_quad_sum(state.sum[i]);
            const bool is_odd =
                __syncthreads_or(attention_is_odd<D, W>(&state, call->layout.head_dim));
            if (!is_odd || alone != ATTENTION_ALL)
                attention_done<D, W>(call, work, segment, alone, &state, total);
            attention_clear<D / W>(&state);
            if (alone != ATTENTION_ALL)
                alone = alone + 1 < work->rows ? alone + 1 : (uint32_t)ATTENTION_ALL;
            else if (is_odd)
                alone = 0;
            /* read the segment's keys again */
            if (alone != ATTENTION_ALL) {
                next = segment * CUDA_PLAN_SEGMENT;
                next = next > hidden ? next : hidden;
                is_asked = false;
            }
        }
        if (!is_asked && next < work->keys) {
            cuda_machine_copies_wait(); /* discards copies that were requested and are not needed */
            __syncthreads();
            attention_ask_stage<D, T>(run, next, stages + other * stage_bytes);
        }
        key = next;
        stage = other;
    }
}

/* Does a whole work, with W warps for each query. */
template <int D, enum kv_type T, int W>
static __device__ void attention_work(const struct attention_call *call,
                                      const struct cuda_tiles_work *work)
{
    const struct cuda_plan_row *first = &call->rows[cuda_tiles_rows(call->tiles)[work->first].row];
    const uint32_t units = call->layout.window_units;
    const uint32_t index = attention_index<W>();
    const struct attention_query queries[2] = {attention_query_at(call, work, index),
                                               attention_query_at(call, work, index + 8)};
    const struct attention_run run = {
        call, cuda_plan_entry(first, call->unit, units, 0), call->unit == 0 ? 1 : units,
        cuda_kv_tile(&call->layout, call->layer, blockIdx.y), work->keys};
    struct attention_state<D / W> total;
    attention_clear<D / W>(&total);
    attention_keys<D, T, W>(call, work, queries, &run, &total);
    for (int i = 0; i < 2 && work->is_whole; i++)
        if (queries[i].count > 0)
            attention_store<D, W>(
                &total, i, call->layout.head_dim,
                attention_factor(call, queries[i].at % call->heads, total.max[i], total.sum[i]),
                call->out + queries[i].at * call->layout.head_dim);
}

template <int D, enum kv_type T>
__global__ void __launch_bounds__(ATTENTION_THREADS, D <= 128 ? 2 : 1)
    k_attention_paged_cuda(struct attention_call call)
{
    cuda_machine_begin();
    if (blockIdx.x >= call.tiles->works)
        return;
    const struct cuda_tiles_work work = cuda_tiles_works(call.tiles)[blockIdx.x];
    if (work.rows * call.group <= ATTENTION_FEW)
        attention_work<D, T, ATTENTION_WARPS>(&call, &work);
    else
        attention_work<D, T, 1>(&call, &work);
}

/* Uses two stages where the device has room for them and no trial asks for one. */
template <int D, enum kv_type T>
static void attention_launch_as(struct cuda_backend *backend, struct attention_call *call,
                                uint32_t works)
{
    const bool has_room = attention_bytes<D>(T, ATTENTION_STAGES) <= backend->shared_most;
    call->stages = has_room && !backend->options.trial.few_stages ? ATTENTION_STAGES : 1;
    cuda_backend_launch_early(backend, "attention",
                              dim3(cuda_tiles_bucket(works), call->layout.kv_heads),
                              ATTENTION_THREADS, k_attention_paged_cuda<D, T>, *call,
                              attention_bytes<D>(T, call->stages));
}

template <enum kv_type T>
static void attention_launch(struct cuda_backend *backend, struct attention_call *call,
                             uint32_t works)
{
    if (call->layout.head_dim <= 32)
        attention_launch_as<32, T>(backend, call, works);
    else if (call->layout.head_dim <= 64)
        attention_launch_as<64, T>(backend, call, works);
    else if (call->layout.head_dim <= 128)
        attention_launch_as<128, T>(backend, call, works);
    else
        attention_launch_as<CUDA_KV_DIM_MAX, T>(backend, call, works);
}

/* One file each; `call->layout.type` is the file's type. */
void cuda_attention_f16(struct cuda_backend *backend, struct attention_call *call, uint32_t works);
void cuda_attention_bf16(struct cuda_backend *backend, struct attention_call *call, uint32_t works);
void cuda_attention_i8(struct cuda_backend *backend, struct attention_call *call, uint32_t works);
void cuda_attention_fp8(struct cuda_backend *backend, struct attention_call *call, uint32_t works);
