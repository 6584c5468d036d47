#include "kernels/cpu/avx512/avx512.h"

#include <string.h>

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
    float *q; /* [n][queries], scaled: the factors of a register block lie side by side */
    float *segment_mean;
    float *mean;
    float *segment_max;
    float *segment_sum;
    float *max;
    float *sum;
    float *p;                         /* [queries][64] scores, then weights, of the block */
    uint32_t keys[TABLE_QUERIES_MAX]; /* that a query sees */
    /* Where the block's keys lie, by groups of 16. */
    const uint16_t *k[ATTENTION_GROUPS];
    const uint16_t *v[ATTENTION_GROUPS];
    uint32_t first; /* key of the block */
    uint32_t groups;
};

/* Keys of the present block that a query sees. */
static uint32_t attention_count(const struct attention_run *run, uint32_t query)
{
    uint32_t left = run->keys[query] > run->first ? run->keys[query] - run->first : 0;
    return left < TABLE_KEYS_BLOCK ? left : TABLE_KEYS_BLOCK;
}

/* Where the call's first head of a row lies in q and out. */
static size_t attention_place(const struct table_attention *call, uint32_t row)
{
    const struct attention_args *args = call->args;
    return ((size_t)call->order[row] * args->heads + call->head) * args->kv.layout->head_dim;
}

static void attention_begin(struct attention_run *run, const struct table_attention *call)
{
    const struct attention_args *args = call->args;
    float *at = call->scratch;
    run->call = call;
    run->n = args->kv.layout->head_dim;
    run->first = 0;
    run->stride = (run->n + 15) / 16 * 16;
    run->queries = call->rows * call->heads;
    run->q = at;
    run->segment_mean = run->q + (size_t)run->queries * run->stride;
    run->mean = run->segment_mean + (size_t)run->queries * run->stride;
    run->p = run->mean + (size_t)run->queries * run->stride;
    run->segment_max = run->p + (size_t)run->queries * TABLE_KEYS_BLOCK;
    run->segment_sum = run->segment_max + TABLE_QUERIES_MAX;
    run->max = run->segment_sum + TABLE_QUERIES_MAX;
    run->sum = run->max + TABLE_QUERIES_MAX;
    for (uint32_t row = 0, i = 0; row < call->rows; row++) {
        const float *q = args->q + attention_place(call, row);
        uint32_t keys = args->kv.position[call->order[row]] + 1;
        for (uint32_t head = 0; head < call->heads; head++, i++, q += run->n) {
            run->keys[i] = keys;
            for (uint32_t d = 0; d < run->n; d++)
                run->q[(size_t)d * run->queries + i] = q[d] * args->scale;
        }
    }
}

/* Finds the block's pages in the table of a row, up to its last key; no later page is touched. */
static void attention_find(struct attention_run *run, uint32_t row)
{
    const struct table_attention *call = run->call;
    const struct kv_layout *layout = call->args->kv.layout;
    uint32_t left = attention_count(run, row * call->heads);
    run->groups = (left + KV_TILE_KEYS - 1) / KV_TILE_KEYS;
    for (uint32_t g = 0; g < run->groups; g++) {
        uint32_t key = run->first + g * KV_TILE_KEYS;
        uint32_t token = key % layout->page_tokens;
        void *page = kv_tile_page(&call->args->kv, call->order[row], key);
        const char *tile = kv_tile_at(layout, page, call->args->layer, call->kv_head);
        run->k[g] = (const uint16_t *)(const void *)tile + kv_tile_k_index(layout, token, 0);
        run->v[g] = (const uint16_t *)(const void *)(tile + layout->tile_bytes) +
                    kv_tile_v_index(layout, token, 0);
    }
    /* So that scores can be taken in twos and fours: what repeats comes after the last key. */
    for (uint32_t g = run->groups; g < ATTENTION_GROUPS; g++)
        run->k[g] = run->k[run->groups - 1];
}

static inline __m512 attention_load16(const uint16_t *halves)
{
    return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)(const void *)halves));
}

/* Scores of n queries from `query` against the first `groups` groups of 16 keys; both counts are
 * constants. Lanes beyond a query's last key hold anything: attention_softmax drops them. */
static inline __attribute__((always_inline)) void
attention_scores(const struct attention_run *run, uint32_t query, const int n, const int groups)
{
    __m512 s[ATTENTION_QUERIES][ATTENTION_GROUPS];
    const float *q = run->q + query;
    float *p = run->p + (size_t)query * TABLE_KEYS_BLOCK;
#pragma GCC unroll 6
    for (int t = 0; t < n; t++)
#pragma GCC unroll 4
        for (int g = 0; g < groups; g++)
            s[t][g] = _mm512_setzero_ps();
    for (size_t d = 0; d < run->n; d++, q += run->queries) {
        __m512 k[ATTENTION_GROUPS];
#pragma GCC unroll 4
        for (int g = 0; g < groups; g++)
            k[g] = attention_load16(run->k[g] + d * KV_TILE_KEYS);
#pragma GCC unroll 6
        for (int t = 0; t < n; t++) {
            __m512 factor = _mm512_set1_ps(q[t]);
#pragma GCC unroll 4
            for (int g = 0; g < groups; g++)
                s[t][g] = _mm512_fmadd_ps(factor, k[g], s[t][g]);
        }
    }
#pragma GCC unroll 6
    for (int t = 0; t < n; t++)
#pragma GCC unroll 4
        for (int g = 0; g < groups; g++)
            _mm512_storeu_ps(p + t * TABLE_KEYS_BLOCK + g * KV_TILE_KEYS, s[t][g]);
}

/* Scores of one query become weights; `greatest` is the new maximum. Returns their sum. */
static inline float attention_weights(struct attention_run *run, uint32_t query, float greatest)
{
    const uint32_t count = attention_count(run, query);
    const __m512 max = _mm512_set1_ps(greatest);
    float *p = run->p + (size_t)query * TABLE_KEYS_BLOCK;
    __m512 weights[ATTENTION_GROUPS];
#pragma GCC unroll 4
    for (uint32_t g = 0; g < ATTENTION_GROUPS; g++) {
        __mmask16 mask = count > g * KV_TILE_KEYS ? avx512_mask(count - g * KV_TILE_KEYS) : 0;
        weights[g] = avx512_exp(_mm512_sub_ps(_mm512_loadu_ps(p + g * KV_TILE_KEYS), max));
        weights[g] = _mm512_maskz_mov_ps(mask, weights[g]);
        _mm512_storeu_ps(p + g * KV_TILE_KEYS, weights[g]);
    }
    return avx512_fold16(_mm512_add_ps(
        _mm512_add_ps(_mm512_add_ps(weights[0], weights[1]), weights[2]), weights[3]));
}

/* The greatest of the maximum so far and the scores that a query sees. */
static inline float attention_greatest(const struct attention_run *run, uint32_t query)
{
    const uint32_t count = attention_count(run, query);
    const float *p = run->p + (size_t)query * TABLE_KEYS_BLOCK;
    __m512 max = _mm512_set1_ps(run->segment_max[query]);
#pragma GCC unroll 4
    for (uint32_t g = 0; g < ATTENTION_GROUPS; g++) {
        __mmask16 mask = count > g * KV_TILE_KEYS ? avx512_mask(count - g * KV_TILE_KEYS) : 0;
        max = _mm512_mask_max_ps(max, mask, _mm512_maskz_loadu_ps(mask, p + g * KV_TILE_KEYS), max);
    }
    return _mm512_reduce_max_ps(max);
}

/* Scores of n queries become weights; shrink[t] is what the state so far shrinks by. One operation
 * after the other for all queries, so that none waits for the last one's latency. */
static inline __attribute__((always_inline)) void
attention_softmax(struct attention_run *run, uint32_t query, const int n, float shrink[16])
{
    const __mmask16 mask = avx512_mask((uint32_t)n);
    float greatest[16];
    float sums[16];
#pragma GCC unroll 6
    for (int t = 0; t < n; t++)
        greatest[t] = attention_greatest(run, query + (uint32_t)t);
    __m512 max = _mm512_maskz_loadu_ps(mask, greatest);
    __m512 before = _mm512_maskz_loadu_ps(mask, run->segment_max + query);
    __m512 by = avx512_exp(_mm512_sub_ps(before, max));
    _mm512_storeu_ps(shrink, by);
#pragma GCC unroll 6
    for (int t = 0; t < n; t++)
        sums[t] = attention_weights(run, query + (uint32_t)t, greatest[t]);
    __m512 sum = _mm512_maskz_loadu_ps(mask, run->segment_sum + query);
    sum = _mm512_fmadd_ps(sum, by, _mm512_maskz_loadu_ps(mask, sums));
    _mm512_mask_storeu_ps(run->segment_sum + query, mask, sum);
    _mm512_mask_storeu_ps(run->segment_max + query, mask, max);
}

/* mean = mean × shrink + Σ p × v over `keys` keys, dimensions [16 × part, 16 × (part + parts)). */
static inline __attribute__((always_inline)) void
attention_values(const struct attention_run *run, uint32_t query, const int n, uint32_t part,
                 const int parts, const float *shrink, uint32_t keys)
{
    __m512 a[ATTENTION_QUERIES][4];
    const uint32_t d = part * 16;
    const __mmask16 mask = avx512_mask(run->n - d); /* all lanes when parts is 4 */
    float *mean = run->segment_mean + (size_t)query * run->stride + d;
#pragma GCC unroll 6
    for (int t = 0; t < n; t++)
#pragma GCC unroll 4
        for (int i = 0; i < parts; i++)
            a[t][i] = _mm512_mul_ps(_mm512_loadu_ps(mean + (size_t)t * run->stride + 16 * i),
                                    _mm512_set1_ps(shrink[t]));
    const float *p = run->p + (size_t)query * TABLE_KEYS_BLOCK;
    const uint16_t *at = NULL;
    for (uint32_t j = 0; j < keys; j++, p++, at += run->n) {
        __m512 v[4];
        if (j % KV_TILE_KEYS == 0)
            at = run->v[j / KV_TILE_KEYS] + d;
#pragma GCC unroll 4
        for (int i = 0; i < parts; i++)
            v[i] = parts == 4 ? attention_load16(at + 16 * i)
                              : _mm512_cvtph_ps(_mm256_maskz_loadu_epi16(mask, at));
#pragma GCC unroll 6
        for (int t = 0; t < n; t++) {
            __m512 factor = _mm512_set1_ps(p[t * TABLE_KEYS_BLOCK]);
#pragma GCC unroll 4
            for (int i = 0; i < parts; i++)
                a[t][i] = _mm512_fmadd_ps(factor, v[i], a[t][i]);
        }
    }
#pragma GCC unroll 6
    for (int t = 0; t < n; t++)
#pragma GCC unroll 4
        for (int i = 0; i < parts; i++)
            _mm512_storeu_ps(mean + (size_t)t * run->stride + 16 * i, a[t][i]);
}

/* The keys of one query that its neighbours in the register block do not all see. */
static void attention_values_rest(const struct attention_run *run, uint32_t query, uint32_t from,
                                  uint32_t to)
{
    for (uint32_t j = from; j < to; j++) {
        const uint16_t *v = run->v[j / KV_TILE_KEYS] + (size_t)(j % KV_TILE_KEYS) * run->n;
        float *mean = run->segment_mean + (size_t)query * run->stride;
        __m512 factor = _mm512_set1_ps(run->p[(size_t)query * TABLE_KEYS_BLOCK + j]);
        for (uint32_t d = 0; d < run->n; d += 16) {
            __m256i halves = _mm256_maskz_loadu_epi16(avx512_mask(run->n - d), v + d);
            __m512 a = _mm512_loadu_ps(mean + d);
            _mm512_storeu_ps(mean + d, _mm512_fmadd_ps(factor, _mm512_cvtph_ps(halves), a));
        }
    }
}

static inline __attribute__((always_inline)) void attention_queries(struct attention_run *run,
                                                                    uint32_t query, const int n)
{
    float shrink[16];
    const uint32_t keys = attention_count(run, query); /* rows rise: the first sees the fewest */
    const uint32_t parts = (run->n + 15) / 16;
    if (run->groups > 2)
        attention_scores(run, query, n, 4);
    else
        attention_scores(run, query, n, 2);
    attention_softmax(run, query, n, shrink);
    uint32_t part = 0;
    for (; part + 4 <= parts && (part + 4) * 16 <= run->n; part += 4)
        attention_values(run, query, n, part, 4, shrink, keys);
    for (; part < parts; part++)
        attention_values(run, query, n, part, 1, shrink, keys);
    for (int t = 0; t < n; t++)
        attention_values_rest(run, query + (uint32_t)t, keys,
                              attention_count(run, query + (uint32_t)t));
}

static void k_attention_block_avx512(struct attention_run *run, uint32_t query, uint32_t n)
{
    switch (n) {
    case 1:
        attention_queries(run, query, 1);
        break;
    case 2:
        attention_queries(run, query, 2);
        break;
    case 3:
        attention_queries(run, query, 3);
        break;
    case 4:
        attention_queries(run, query, 4);
        break;
    case 5:
        attention_queries(run, query, 5);
        break;
    default:
        attention_queries(run, query, ATTENTION_QUERIES);
        break;
    }
}

/* The segment's state goes into the whole one: taken as it is the first time. */
static void attention_merge(struct attention_run *run, uint32_t query, bool is_first)
{
    float *mean = run->mean + (size_t)query * run->stride;
    const float *from = run->segment_mean + (size_t)query * run->stride;
    if (is_first) {
        run->max[query] = run->segment_max[query];
        run->sum[query] = run->segment_sum[query];
        memcpy(mean, from, run->stride * sizeof *mean);
        return;
    }
    float max = fixed_math_max(run->max[query], run->segment_max[query]);
    float e = fixed_math_exp(run->max[query] - max);
    float f = fixed_math_exp(run->segment_max[query] - max);
    run->max[query] = max;
    run->sum[query] = fmaf(run->segment_sum[query], f, run->sum[query] * e);
    for (uint32_t d = 0; d < run->n; d++)
        mean[d] = fmaf(from[d], f, mean[d] * e);
}

static void attention_segment_begin(struct attention_run *run, uint32_t query)
{
    if (run->first > 0)
        attention_merge(run, query, run->first == TABLE_KEYS_SEGMENT);
    run->segment_max[query] = -INFINITY;
    run->segment_sum[query] = 0;
    memset(run->segment_mean + (size_t)query * run->stride, 0, run->stride * sizeof(float));
}

/* The present block for rows [row, end), which all read it from the same pages. Those that it comes
 * too late for stand first. */
static void attention_rows(struct attention_run *run, uint32_t row, uint32_t end)
{
    const uint32_t queries = end * run->call->heads;
    uint32_t query = row * run->call->heads;
    while (query < queries && attention_count(run, query) == 0)
        query++;
    if (query == queries)
        return;
    attention_find(run, end - 1); /* it sees the most keys */
    if (run->first % TABLE_KEYS_SEGMENT == 0)
        for (uint32_t i = query; i < queries; i++)
            attention_segment_begin(run, i);
    for (; query < queries; query += ATTENTION_QUERIES) {
        uint32_t left = queries - query;
        k_attention_block_avx512(run, query, left < ATTENTION_QUERIES ? left : ATTENTION_QUERIES);
    }
}

/* Block by block for all rows: neighbours go together as long as they share, then each sequence
 * goes on by itself. */
void k_attention_avx512(const struct table_attention *call)
{
    struct attention_run run;
    uint32_t keys = 0;
    attention_begin(&run, call);
    for (uint32_t i = 0; i < run.queries; i++)
        keys = run.keys[i] > keys ? run.keys[i] : keys;
    for (; run.first < keys; run.first += TABLE_KEYS_BLOCK)
        for (uint32_t row = 0, end; row < call->rows; row = end) {
            for (end = row + 1; end < call->rows && call->shared[end] > run.first;)
                end++;
            attention_rows(&run, row, end);
        }
    for (uint32_t row = 0, i = 0; row < call->rows; row++) {
        float *out = call->args->out + attention_place(call, row);
        for (uint32_t head = 0; head < call->heads; head++, i++, out += run.n) {
            const float *mean = run.mean + (size_t)i * run.stride;
            attention_merge(&run, i, run.keys[i] <= TABLE_KEYS_SEGMENT);
            float inverse = 1.0f / run.sum[i];
            for (uint32_t d = 0; d < run.n; d++)
                out[d] = mean[d] * inverse;
        }
    }
}
