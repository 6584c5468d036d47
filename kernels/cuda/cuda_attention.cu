#include "kernels/cuda/cuda_backend.cuh"
#include "kernels/cuda/cuda_kv.h"
#include "kernels/cuda/cuda_machine.cuh"
#include "kernels/cuda/cuda_ops.h"

/* Attention over pages, of few rows and of many, by one order of sums (Dao 2023, with the order of
 * kernels.h): blocks of 64 keys with a running maximum, segments of 256 keys from an empty state,
 * merged as a left fold. Where tiles are too few to fill the device, parts of a tile's segments
 * go to blocks of their own, which leave each segment's state in memory, and a second kernel does
 * the same fold (Dao et al. 2023, Flash-Decoding): equal bits.
 *
 * A block: up to 64 queries (rows × heads over one KV head), 16 a warp, the rows of one matrix
 * instruction; keys and values of 64 tokens in shared memory for all of them. Each query's own sums
 * are its row of the fragments: in lane 4g + t, of queries g and g + 8. Exponents are of 2. */
enum {
    ATTENTION_WARPS = CUDA_PLAN_QUERIES / 16,
    ATTENTION_THREADS = ATTENTION_WARPS * 32,
    ATTENTION_PAD = 8, /* halves behind each row of shared memory: other banks for the next row */
    ATTENTION_TILES = CUDA_PLAN_KEYS / 8,
    ATTENTION_STATE = 2, /* floats before a partial result's dimensions: maximum, sum */
};

struct attention_call {
    const float *q;
    float *out;
    const struct cuda_plan_tile *tiles;
    const struct cuda_plan_row *rows;
    const uint32_t *tables;
    const char *pages;
    struct kv_layout layout;
    uint32_t heads;
    uint32_t group;
    uint32_t layer;
    float scale;              /* × log2 e */
    uint32_t segments_each;   /* of one block */
    uint32_t segments_stride; /* of a query's partial results */
    float *
        partials; /* [rows × heads][segments_stride][ATTENTION_STATE + head_dim]; NULL: not split */
};

/* 64 keys and values; what is behind the last key is zero, so that stale bytes are never summed.
 * Rows are whole times 16 bytes, and are written so. */
template <int D>
struct alignas(16) attention_shared {
    uint16_t k[CUDA_PLAN_KEYS][D + ATTENTION_PAD];
    uint16_t v[D][CUDA_PLAN_KEYS + ATTENTION_PAD];
};

/* Of one lane's two queries, over the keys of one segment. */
template <int D>
struct attention_state {
    float max[2];
    float sum[2];         /* this lane's share; all four lanes' when the segment is done */
    float mean[D / 8][4]; /* unnormed */
};

struct attention_query {
    uint32_t visible; /* keys; 0: no query here */
    size_t at;        /* row × heads + head */
};

/* Eight tokens' or dimensions' halves; of tokens those from `count` on become zero. */
static __device__ void attention_load8(uint16_t *to, const char *from, uint32_t count)
{
    uint4 words = make_uint4(0, 0, 0, 0);
    if (count > 0)
        words = *(const uint4 *)from;
    if (count < 8) {
        uint32_t *word = (uint32_t *)&words;
        for (uint32_t i = 0; i < 4; i++) {
            if (2 * i + 1 >= count)
                word[i] &= 0xffffu;
            if (2 * i >= count)
                word[i] = 0;
        }
    }
    *(uint4 *)to = words;
}

template <int D>
static __device__ void attention_load(const struct attention_call *call,
                                      struct attention_shared<D> *shared, const uint32_t *table,
                                      uint32_t key_begin, uint32_t keys, uint32_t kv_head)
{
    const struct kv_layout *layout = &call->layout;
    const uint32_t page_tokens = layout->page_tokens;
    const size_t tile = cuda_kv_tile(layout, call->layer, kv_head);
    for (uint32_t i = threadIdx.x; i < CUDA_PLAN_KEYS * D / 8; i += ATTENTION_THREADS) {
        const uint32_t key = i / (D / 8);
        const uint32_t dim = i % (D / 8) * 8;
        const uint32_t position = key_begin + key;
        const char *from = call->pages;
        if (position < keys)
            from += table[position / page_tokens] * layout->page_bytes + tile +
                    2 * cuda_kv_k_index(D, position % page_tokens, dim);
        attention_load8(&shared->k[key][dim], from, position < keys ? 8 : 0);
    }
    for (uint32_t i = threadIdx.x; i < D * CUDA_PLAN_KEYS / 8; i += ATTENTION_THREADS) {
        const uint32_t dim = i / (CUDA_PLAN_KEYS / 8);
        const uint32_t key = i % (CUDA_PLAN_KEYS / 8) * 8;
        const uint32_t position = key_begin + key;
        const uint32_t left = position < keys ? keys - position : 0;
        const char *from = call->pages;
        if (left > 0)
            from += table[position / page_tokens] * layout->page_bytes + tile + layout->tile_bytes +
                    2 * cuda_kv_v_index(page_tokens, position % page_tokens, dim);
        attention_load8(&shared->v[dim][key], from, left < 8 ? left : 8);
    }
}

/* The A side of the scores: this lane's two queries, rounded to halves. */
template <int D>
static __device__ void attention_queries(const struct attention_call *call,
                                         const struct attention_query *queries, uint32_t (*out)[4])
{
    const uint32_t t = threadIdx.x % 4;
    for (int step = 0; step < D / 16; step++)
        for (int r = 0; r < 4; r++) {
            const struct attention_query query = queries[r % 2];
            const float *q = call->q + query.at * D + step * 16 + r / 2 * 8 + 2 * t;
            out[step][r] = query.visible > 0 ? cuda_machine_half2(q[0], q[1]) : 0;
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

/* Scores of 64 keys: scale × q · k, −∞ where the query does not see the key. */
template <int D>
static __device__ void
attention_scores(const struct attention_call *call, const struct attention_shared<D> *shared,
                 const struct attention_query *queries, const uint32_t (*q)[4], uint32_t key_begin,
                 float (*scores)[4])
{
    const uint32_t g = threadIdx.x % 32 / 4;
    const uint32_t t = threadIdx.x % 4;
#pragma unroll
    for (int n = 0; n < ATTENTION_TILES; n++) {
        scores[n][0] = scores[n][1] = scores[n][2] = scores[n][3] = 0;
#pragma unroll
        for (int step = 0; step < D / 16; step++) {
            const uint16_t *k = &shared->k[n * 8 + g][step * 16 + 2 * t];
            const uint32_t b[2] = {*(const uint32_t *)k, *(const uint32_t *)(k + 8)};
            cuda_machine_mma_f16(scores[n], q[step], b);
        }
#pragma unroll
        for (int i = 0; i < 4; i++) {
            const uint32_t key = key_begin + n * 8 + 2 * t + i % 2;
            scores[n][i] = key < queries[i / 2].visible ? scores[n][i] * call->scale : -INFINITY;
        }
    }
}

/* Adds 64 keys to the state: scores become weights, of which the halves that multiply the values
 * are summed. A block that a query does not see at all changes nothing. */
template <int D>
static __device__ void attention_add(const struct attention_shared<D> *shared, float (*scores)[4],
                                     struct attention_state<D> *state)
{
    const uint32_t g = threadIdx.x % 32 / 4;
    const uint32_t t = threadIdx.x % 4;
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
            weights[n][i] = cuda_machine_half2(exp2f(scores[n][2 * i] - base),
                                               exp2f(scores[n][2 * i + 1] - base));
            sum += cuda_machine_half_float((uint16_t)weights[n][i]) +
                   cuda_machine_half_float((uint16_t)(weights[n][i] >> 16));
        }
        state->sum[i] = fmaf(state->sum[i], shrink, sum);
        state->max[i] = max;
#pragma unroll
        for (int d = 0; d < D / 8; d++) {
            state->mean[d][2 * i] *= shrink;
            state->mean[d][2 * i + 1] *= shrink;
        }
    }
#pragma unroll
    for (int d = 0; d < D / 8; d++)
#pragma unroll
        for (int step = 0; step < CUDA_PLAN_KEYS / 16; step++) {
            const uint32_t a[4] = {weights[2 * step][0], weights[2 * step][1],
                                   weights[2 * step + 1][0], weights[2 * step + 1][1]};
            const uint16_t *v = &shared->v[d * 8 + g][step * 16 + 2 * t];
            const uint32_t b[2] = {*(const uint32_t *)v, *(const uint32_t *)(v + 8)};
            cuda_machine_mma_f16(state->mean[d], a, b);
        }
}

/* One step of the fold, of one query: the factors of what was there and of the segment. */
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

template <int D>
static __device__ void attention_merge(struct attention_state<D> *total,
                                       const struct attention_state<D> *segment)
{
#pragma unroll
    for (int i = 0; i < 2; i++) {
        float before;
        float of;
        attention_fold(&total->max[i], &total->sum[i], segment->max[i], segment->sum[i], &before,
                       &of);
#pragma unroll
        for (int d = 0; d < D / 8; d++)
#pragma unroll
            for (int j = 2 * i; j < 2 * i + 2; j++)
                total->mean[d][j] = fmaf(segment->mean[d][j], of, total->mean[d][j] * before);
    }
}

template <int D>
static __device__ void attention_clear(struct attention_state<D> *state)
{
#pragma unroll
    for (int i = 0; i < 2; i++) {
        state->max[i] = -INFINITY;
        state->sum[i] = 0;
    }
#pragma unroll
    for (int d = 0; d < D / 8; d++)
        state->mean[d][0] = state->mean[d][1] = state->mean[d][2] = state->mean[d][3] = 0;
}

/* The result, or the state of a segment: `out` [D] of query i, each element × factor. */
template <int D>
static __device__ void attention_store(const struct attention_state<D> *state, int i, float factor,
                                       float *out)
{
    const uint32_t t = threadIdx.x % 4;
#pragma unroll
    for (int d = 0; d < D / 8; d++) {
        out[d * 8 + 2 * t] = state->mean[d][2 * i] * factor;
        out[d * 8 + 2 * t + 1] = state->mean[d][2 * i + 1] * factor;
    }
}

template <int D>
static __device__ void attention_leave(const struct attention_call *call,
                                       const struct attention_query *queries, uint32_t segment,
                                       const struct attention_state<D> *state)
{
    for (int i = 0; i < 2; i++) {
        if (queries[i].visible == 0)
            continue;
        float *partial = call->partials +
                         (queries[i].at * call->segments_stride + segment) * (ATTENTION_STATE + D);
        if (threadIdx.x % 4 == 0) {
            partial[0] = state->max[i];
            partial[1] = state->sum[i];
        }
        attention_store(state, i, 1, partial + ATTENTION_STATE);
    }
}

/* Query `index` of a tile over one KV head: rows one behind the other, each all heads. */
static __device__ struct attention_query attention_query_at(const struct attention_call *call,
                                                            const struct cuda_plan_tile *tile,
                                                            uint32_t kv_head, uint32_t index)
{
    struct attention_query query = {0, 0};
    if (index < tile->rows * call->group) {
        const uint32_t row = tile->first + index / call->group;
        query.visible = call->rows[row].position + 1;
        query.at = (size_t)row * call->heads + kv_head * call->group + index % call->group;
    }
    return query;
}

/* Keys of one segment, into `state`: all threads load, warps that have queries compute. */
template <int D>
static __device__ void
attention_segment(const struct attention_call *call, struct attention_shared<D> *shared,
                  const struct attention_query *queries, const uint32_t (*q)[4],
                  const uint32_t *table, uint32_t segment, uint32_t keys, bool has_queries,
                  struct attention_state<D> *state)
{
    const uint32_t end = (segment + 1) * CUDA_PLAN_SEGMENT;
    attention_clear(state);
    for (uint32_t key = segment * CUDA_PLAN_SEGMENT; key < end && key < keys;
         key += CUDA_PLAN_KEYS) {
        attention_load<D>(call, shared, table, key, keys, blockIdx.y);
        __syncthreads();
        if (has_queries) {
            float scores[ATTENTION_TILES][4];
            attention_scores<D>(call, shared, queries, q, key, scores);
            attention_add<D>(shared, scores, state);
        }
        __syncthreads();
    }
    if (has_queries)
        for (int i = 0; i < 2; i++)
            state->sum[i] = attention_quad_sum(state->sum[i]);
}

template <int D>
__global__ void __launch_bounds__(ATTENTION_THREADS)
    k_attention_paged_f16_cuda(struct attention_call call)
{
    __shared__ attention_shared<D> shared;
    const struct cuda_plan_tile tile = call.tiles[blockIdx.x];
    const uint32_t segments = (tile.keys + CUDA_PLAN_SEGMENT - 1) / CUDA_PLAN_SEGMENT;
    const uint32_t begin = blockIdx.z * call.segments_each;
    const uint32_t end = begin + call.segments_each;
    const uint32_t *table = call.tables + call.rows[tile.first].table;
    const uint32_t index = threadIdx.x / 32 * 16 + threadIdx.x % 32 / 4;
    const bool has_queries = threadIdx.x / 32 * 16 < tile.rows * call.group;
    const struct attention_query queries[2] = {
        attention_query_at(&call, &tile, blockIdx.y, index),
        attention_query_at(&call, &tile, blockIdx.y, index + 8)};
    uint32_t q[D / 16][4];
    struct attention_state<D> total;
    struct attention_state<D> state;
    attention_queries<D>(&call, queries, q);
    attention_clear(&total);
    for (uint32_t segment = begin; segment < end && segment < segments; segment++) {
        attention_segment<D>(&call, &shared, queries, q, table, segment, tile.keys, has_queries,
                             &state);
        if (call.partials != NULL)
            attention_leave<D>(&call, queries, segment, &state);
        else
            attention_merge<D>(&total, &state);
    }
    if (call.partials == NULL)
        for (int i = 0; i < 2; i++)
            if (queries[i].visible > 0)
                attention_store(&total, i, 1 / total.sum[i], call.out + queries[i].at * D);
}

/* A block of 32 threads is one query; a segment that it does not see leaves things as they are. */
__global__ void k_attention_fold_f32_cuda(struct attention_call call)
{
    const uint32_t n = call.layout.head_dim;
    const size_t at = blockIdx.x;
    const uint32_t keys = call.rows[at / call.heads].position + 1;
    const uint32_t segments = (keys + CUDA_PLAN_SEGMENT - 1) / CUDA_PLAN_SEGMENT;
    float mean[CUDA_KV_DIM_MAX / 32] = {};
    float max = -INFINITY;
    float sum = 0;
    for (uint32_t segment = 0; segment < segments; segment++) {
        const float *partial =
            call.partials + (at * call.segments_stride + segment) * (ATTENTION_STATE + n);
        float before;
        float of;
        attention_fold(&max, &sum, partial[0], partial[1], &before, &of);
#pragma unroll
        for (uint32_t i = 0; i < CUDA_KV_DIM_MAX / 32; i++)
            if (threadIdx.x + 32 * i < n)
                mean[i] =
                    fmaf(partial[ATTENTION_STATE + threadIdx.x + 32 * i], of, mean[i] * before);
    }
    const float factor = 1 / sum;
#pragma unroll
    for (uint32_t i = 0; i < CUDA_KV_DIM_MAX / 32; i++)
        if (threadIdx.x + 32 * i < n)
            call.out[at * n + threadIdx.x + 32 * i] = mean[i] * factor;
}

/* The tiles of the batch for this many heads over one, made once a batch. */
static void attention_tiles(struct cuda_backend *backend, struct cuda_backend_rows *of,
                            uint32_t group)
{
    if (backend->is_failed || of->tile_group == group)
        return;
    if (!cuda_backend_is_well(backend, cudaEventSynchronize(backend->sent), "attention"))
        return;
    of->tile_count =
        cuda_plan_tiles(of->rows_host, of->row_count, group, of->tiles_host, &of->tile_keys_max);
    of->tile_group = group;
    cuda_backend_send(backend, of->tiles, of->tiles_host, of->tile_count * sizeof *of->tiles);
}

static void attention_launch(struct cuda_backend *backend, const struct attention_call *call,
                             dim3 grid)
{
#define ATTENTION_OF(dims)                                                                         \
    case dims:                                                                                     \
        cuda_backend_launch(backend, "attention", grid, ATTENTION_THREADS,                         \
                            k_attention_paged_f16_cuda<dims>, *call);                              \
        return;
    switch (call->layout.head_dim) {
        ATTENTION_OF(16)
        ATTENTION_OF(32)
        ATTENTION_OF(48)
        ATTENTION_OF(64)
        ATTENTION_OF(80)
        ATTENTION_OF(96)
        ATTENTION_OF(112)
        ATTENTION_OF(128)
    default:
        ASSERT(!"cuda_kv_layout refuses other heads");
    }
#undef ATTENTION_OF
}

extern "C" void cuda_attention(struct cuda_backend *backend, const struct attention_args *args)
{
    const struct kv_layout *layout = args->kv.layout;
    const uint32_t group = args->heads / layout->kv_heads;
    struct cuda_backend_rows *of = args->is_wanted ? &backend->wanted : &backend->all;
    struct attention_call call = {};
    ASSERT(backend->is_failed || args->rows == of->row_count);
    ASSERT(args->heads % layout->kv_heads == 0);
    ASSERT(group >= 1);
    ASSERT(group <= CUDA_PLAN_QUERIES);
    ASSERT(args->layer < layout->layers);
    if (args->rows == 0)
        return;
    attention_tiles(backend, of, group);
    call.q = args->q;
    call.out = args->out;
    call.tiles = of->tiles;
    call.rows = of->rows;
    call.tables = backend->tables;
    call.pages = (const char *)args->kv.pages;
    call.layout = *layout;
    call.heads = args->heads;
    call.group = group;
    call.layer = args->layer;
    call.scale = args->scale * 1.44269504f;
    const uint32_t keys = of->tile_keys_max;
    const uint64_t segment_bytes =
        (uint64_t)args->rows * args->heads * (ATTENTION_STATE + layout->head_dim) * sizeof(float);
    const uint32_t splits = cuda_plan_splits(of->tile_count * layout->kv_heads, backend->processors,
                                             keys, segment_bytes, backend->options.split_bytes);
    call.segments_each = cuda_plan_split_segments(keys, splits);
    if (splits > 1) {
        call.partials = backend->partials;
        call.segments_stride = cuda_plan_split_segments(keys, 1);
    }
    attention_launch(backend, &call, dim3(of->tile_count, layout->kv_heads, splits));
    if (splits > 1)
        cuda_backend_launch(backend, "attention", dim3(args->rows * args->heads), 32,
                            k_attention_fold_f32_cuda, call);
}
