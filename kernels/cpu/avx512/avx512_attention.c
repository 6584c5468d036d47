#include "kernels/cpu/avx512/avx512_attention.h"

/* Returns how many keys of the present block a query sees. */
static uint32_t attention_count(const struct attention_run *run, uint32_t query)
{
    uint32_t left = run->keys[query] > run->first ? run->keys[query] - run->first : 0;
    return left < TABLE_KEYS_BLOCK ? left : TABLE_KEYS_BLOCK;
}

/* Returns the offset of a row in q and out, from the call's first head on. */
static size_t attention_place(const struct table_attention *call, uint32_t row)
{
    const struct attention_args *args = call->args;
    return ((size_t)call->order[row] * args->heads + call->head) * args->kv.layout->head_dim;
}

/* Transposes the queries, rows of the call's q, into columns of the run's q, 4 × 4 at a time.
 * Storing single floats, each into another cache line, would take longer than the multiply-adds of
 * a short prompt. */
static void attention_turn(struct attention_run *run)
{
    const struct table_attention *call = run->call;
    const size_t width = run->width;
    const float scale = call->args->scale;
    const __m128 scales = _mm_set1_ps(scale);
    const float *from[TABLE_QUERIES_MAX + 3] = {NULL};
    const float *last = NULL;
    uint32_t i = 0;
    for (uint32_t row = 0; row < call->rows; row++)
        for (uint32_t head = 0; head < call->heads; head++) {
            last = call->args->q + attention_place(call, row) + (size_t)head * run->n;
            from[i++] = last;
        }
    for (; i < width; i++) /* columns that no query reads */
        from[i] = last;
    for (i = 0; i < width; i += 4) {
        const float *const *q = from + i;
        float *to = run->q + i;
        uint32_t d = 0;
        for (; d + 4 <= run->n; d += 4, to += 4 * width) {
            __m128 a = _mm_mul_ps(_mm_loadu_ps(q[0] + d), scales);
            __m128 b = _mm_mul_ps(_mm_loadu_ps(q[1] + d), scales);
            __m128 c = _mm_mul_ps(_mm_loadu_ps(q[2] + d), scales);
            __m128 e = _mm_mul_ps(_mm_loadu_ps(q[3] + d), scales);
            _MM_TRANSPOSE4_PS(a, b, c, e);
            _mm_storeu_ps(to, a);
            _mm_storeu_ps(to + width, b);
            _mm_storeu_ps(to + 2 * width, c);
            _mm_storeu_ps(to + 3 * width, e);
        }
        for (; d < run->n; d++, to += width)
            for (uint32_t t = 0; t < 4; t++)
                to[t] = q[t][d] * scale;
    }
}

static void attention_begin(struct attention_run *run, const struct table_attention *call)
{
    const struct attention_args *args = call->args;
    float *at = call->scratch;
    run->call = call;
    run->n = args->kv.layout->head_dim;
    run->hidden = table_first_key(args, call->order[0]) % TABLE_KEYS_BLOCK;
    run->begin = table_first_key(args, call->order[0]) - run->hidden;
    run->second = (run->begin / TABLE_KEYS_SEGMENT + 1) * TABLE_KEYS_SEGMENT;
    run->first = run->begin;
    run->stride = (run->n + 15) / 16 * 16;
    run->queries = call->rows * call->heads;
    run->width = (run->queries + 3) / 4 * 4;
    run->q = at;
    run->codes = (int8_t *)run->q;
    run->quads = (run->n + KV_TILE_QUAD - 1) / KV_TILE_QUAD;
    run->value_bytes =
        kv_tile_width(args->kv.layout) * (uint32_t)kv_tile_element_bytes(args->kv.layout);
    run->segment_mean = run->q + (size_t)run->width * run->stride;
    run->mean = run->segment_mean + (size_t)run->queries * run->stride;
    run->p = run->mean + (size_t)run->queries * run->stride;
    run->segment_max = run->p + (size_t)run->queries * TABLE_KEYS_BLOCK;
    run->segment_sum = run->segment_max + TABLE_QUERIES_MAX;
    run->max = run->segment_sum + TABLE_QUERIES_MAX;
    run->sum = run->max + TABLE_QUERIES_MAX;
    run->block = (char *)(run->sum + TABLE_QUERIES_MAX);
    for (uint32_t row = 0, i = 0; row < call->rows; row++) {
        uint32_t keys = args->kv.position[call->order[row]] + 1;
        const float *q = args->q + attention_place(call, row);
        for (uint32_t head = 0; head < call->heads; head++, i++, q += run->n) {
            run->keys[i] = keys;
            if (kv_tile_scores_codes(args->kv.layout))
                attention_codes(run, i, q);
        }
    }
    if (!kv_tile_scores_codes(args->kv.layout))
        attention_turn(run);
}

/* Finds the addresses of the block that begins at key `first`, as far as row `row` of q sees it.
 * Returns the number of keys it sees. */
static uint32_t attention_locate(const struct attention_args *args, uint32_t row, uint32_t kv_head,
                                 uint32_t first, const char **k, const char **v)
{
    const struct kv_layout *layout = args->kv.layout;
    const uint32_t *page =
        args->kv.page_tables[args->kv.sequence[row]] + first / layout->page_tokens;
    const char *tiles = kv_tile_at(layout, args->kv.pages, args->layer, kv_head);
    const size_t keys = kv_tile_keys_bytes(layout);
    const size_t values = kv_tile_group_bytes(layout);
    const uint32_t groups = layout->page_tokens / KV_TILE_KEYS;
    const uint32_t left = args->kv.position[row] + 1 - first;
    const uint32_t count = left < TABLE_KEYS_BLOCK ? left : TABLE_KEYS_BLOCK;
    uint32_t in_page = first % layout->page_tokens / KV_TILE_KEYS;
    for (uint32_t g = 0; g * KV_TILE_KEYS < count; g++, in_page++) {
        if (in_page == groups) {
            page++;
            in_page = 0;
        }
        const char *tile = tiles + *page * layout->page_bytes;
        k[g] = tile + in_page * keys;
        v[g] = tile + layout->tile_bytes + in_page * values;
    }
    return count;
}

/* Looks up the pages of this block and of the next one in the table of a row, up to the row's last
 * key; touches no later page. The next block of the last one is the first block of this thread's
 * next call. Where there is no next block, its addresses are this block's, which are cached
 * already. */
static void attention_find(struct attention_run *run, uint32_t row)
{
    const struct table_attention *call = run->call;
    const uint32_t index = call->order[row];
    const uint32_t next = run->first + TABLE_KEYS_BLOCK;
    run->count = attention_locate(call->args, index, call->kv_head, run->first, run->k, run->v);
    for (uint32_t g = 0; g < ATTENTION_GROUPS; g++) {
        run->next_k[g] = run->k[0];
        run->next_v[g] = run->v[0];
    }
    if (next < run->keys[row * call->heads])
        (void)attention_locate(call->args, index, call->kv_head, next, run->next_k, run->next_v);
    else if (call->next_row != TABLE_NO_ROW)
        (void)attention_locate(call->args, call->next_row, call->next_kv_head,
                               table_first_key(call->args, call->next_row) / TABLE_KEYS_BLOCK *
                                   TABLE_KEYS_BLOCK,
                               run->next_k, run->next_v);
}

/* Converts the keys of the present block to halves for one row, whose own group is open. Prefetches
 * the next block's keys meanwhile. */
static void attention_open(struct attention_run *run, uint32_t row)
{
    const struct table_attention *call = run->call;
    const struct kv_rows *kv = &call->args->kv;
    const uint32_t r = call->order[row];
    const uint32_t own = kv->position[r] / KV_TILE_KEYS - run->first / KV_TILE_KEYS;
    for (uint32_t g = 0; g * KV_TILE_KEYS < run->count; g++) {
        uint16_t *to = (uint16_t *)(void *)run->block + (size_t)g * KV_TILE_KEYS * run->n;
        for (size_t at = 0; at < kv_tile_keys_bytes(kv->layout); at += 64)
            _mm_prefetch(run->next_k[g] + at, _MM_HINT_T0);
        if (g == own)
            to = kv_tile_open(kv, r, call->args->layer, call->kv_head);
        else
            k_keys_unpack_avx512(run->k[g], run->n, to);
        run->k[g] = (const char *)to;
        run->next_k[g] = run->k[g]; /* prefetched already */
    }
}

/* The same for its packed values. */
static void attention_open_values(struct attention_run *run)
{
    const struct kv_layout *layout = run->call->args->kv.layout;
    uint16_t *to = (uint16_t *)(void *)run->block + (size_t)TABLE_KEYS_BLOCK * run->n;
    for (uint32_t g = 0; g * KV_TILE_KEYS < run->count; g++, to += (size_t)KV_TILE_KEYS * run->n) {
        const uint32_t left = run->count - g * KV_TILE_KEYS;
        for (size_t at = 0; at < kv_tile_group_bytes(layout); at += 64)
            _mm_prefetch(run->next_v[g] + at, _MM_HINT_T0);
        k_values_unpack_avx512(run->v[g], run->n, left < KV_TILE_KEYS ? left : KV_TILE_KEYS, to);
        run->v[g] = (const char *)to;
        run->next_v[g] = run->v[g]; /* prefetched already */
    }
}

/* Loads 16 values of a page, bytes or halves: all, or those of `mask`. */
static inline __attribute__((always_inline)) __m512
attention_load16(const char *at, const bool is_bytes, const bool is_whole, __mmask16 mask)
{
    if (is_bytes)
        return _mm512_cvtepi32_ps(
            _mm512_cvtepi8_epi32(is_whole ? _mm_loadu_si128((const __m128i *)(const void *)at)
                                          : _mm_maskz_loadu_epi8(mask, at)));
    return is_whole ? attention_halves(at) : _mm512_cvtph_ps(_mm256_maskz_loadu_epi16(mask, at));
}

/* Scores of n queries from `query` against the first `groups` groups of 16 keys; all but `query`
 * are constants. Lanes behind a query's last key have undefined scores, which attention_softmax
 * drops. */
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
    for (size_t d = 0; d < run->n; d++, q += run->width) {
        __m512 k[ATTENTION_GROUPS];
#pragma GCC unroll 4
        for (int g = 0; g < groups; g++)
            k[g] = attention_halves(run->k[g] + d * KV_TILE_KEYS * sizeof(uint16_t));
        if (d % 2 == 0) { /* two dimensions fill a cache line */
#pragma GCC unroll 4
            for (int g = 0; g < groups; g++)
                _mm_prefetch(run->next_k[g] + d * KV_TILE_KEYS * sizeof(uint16_t), _MM_HINT_T0);
        }
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

/* Returns a bit for each key of the present block that a query sees. */
static inline uint64_t attention_seen(const struct attention_run *run, uint32_t query)
{
    const uint32_t count = attention_count(run, query);
    const uint64_t hidden = run->first == run->begin ? ((uint64_t)1 << run->hidden) - 1 : 0;
    return (count < 64 ? ((uint64_t)1 << count) - 1 : UINT64_MAX) & ~hidden;
}

/* Turns the scores of one query into weights. Returns their sums, lane by lane. */
static inline __attribute__((always_inline)) __m512
attention_weights(struct attention_run *run, uint32_t query, __m512 max, const bool is_full)
{
    const uint64_t seen = is_full ? UINT64_MAX : attention_seen(run, query);
    float *p = run->p + (size_t)query * TABLE_KEYS_BLOCK;
    __m512 weights[ATTENTION_GROUPS];
#pragma GCC unroll 4
    for (uint32_t g = 0; g < ATTENTION_GROUPS; g++) {
        weights[g] = avx512_exp(_mm512_sub_ps(_mm512_loadu_ps(p + g * KV_TILE_KEYS), max));
        if (!is_full)
            weights[g] = _mm512_maskz_mov_ps((__mmask16)(seen >> (g * KV_TILE_KEYS)), weights[g]);
        _mm512_storeu_ps(p + g * KV_TILE_KEYS, weights[g]);
    }
    return _mm512_add_ps(_mm512_add_ps(_mm512_add_ps(weights[0], weights[1]), weights[2]),
                         weights[3]);
}

/* Returns in each lane the greatest of the maximum so far and the lane's visible scores. */
static inline __attribute__((always_inline)) __m512
attention_greatest(const struct attention_run *run, uint32_t query, const bool is_full)
{
    const uint64_t seen = is_full ? UINT64_MAX : attention_seen(run, query);
    const float *p = run->p + (size_t)query * TABLE_KEYS_BLOCK;
    __m512 max = _mm512_set1_ps(run->segment_max[query]);
#pragma GCC unroll 4
    for (uint32_t g = 0; g < ATTENTION_GROUPS; g++) {
        __mmask16 mask = (__mmask16)(seen >> (g * KV_TILE_KEYS));
        if (is_full)
            max = _mm512_max_ps(_mm512_loadu_ps(p + g * KV_TILE_KEYS), max);
        else
            max = _mm512_mask_max_ps(max, mask, _mm512_maskz_loadu_ps(mask, p + g * KV_TILE_KEYS),
                                     max);
    }
    return max;
}

/* Loads n floats, 1 to 4, followed by zeros. */
static inline __m128 attention_load_few(const float *from, const int n)
{
    return _mm_maskz_loadu_ps((__mmask8)((1 << n) - 1), from);
}

static inline void attention_store_few(float *to, __m128 a, const int n)
{
    _mm_mask_storeu_ps(to, (__mmask8)((1 << n) - 1), a);
}

/* Computes the new maxima of n queries, 1 to 4, and the factors by which their earlier states
 * shrink. */
static inline __attribute__((always_inline)) __m128
attention_maxima_few(struct attention_run *run, uint32_t query, const int n, const bool is_full)
{
    __m512 lanes[4];
#pragma GCC unroll 4
    for (int t = 0; t < 4; t++)
        lanes[t] =
            t < n ? attention_greatest(run, query + (uint32_t)t, is_full) : _mm512_setzero_ps();
    __m128 max = avx512_max16x4(lanes);
    __m128 fall = _mm_sub_ps(attention_load_few(run->segment_max + query, n), max);
    __m512 shrink = avx512_exp(_mm512_castps128_ps512(fall));
    attention_store_few(run->segment_max + query, max, n);
    attention_store_few(run->shrink + query, _mm512_castps512_ps128(shrink), n);
    return max;
}

/* Turns the scores of n queries, 1 to 4, into weights. */
static inline __attribute__((always_inline)) void attention_weigh_few(struct attention_run *run,
                                                                      uint32_t query, const int n,
                                                                      __m128 max,
                                                                      const bool is_full)
{
    const __m512 all = _mm512_castps128_ps512(max);
    __m512 lanes[4];
#pragma GCC unroll 4
    for (int t = 0; t < 4; t++)
        lanes[t] =
            t < n ? attention_weights(run, query + (uint32_t)t,
                                      _mm512_permutexvar_ps(_mm512_set1_epi32(t), all), is_full)
                  : _mm512_setzero_ps();
    __m128 sum = attention_load_few(run->segment_sum + query, n);
    __m128 shrink = attention_load_few(run->shrink + query, n);
    sum = _mm_fmadd_ps(sum, shrink, avx512_fold16x4(lanes));
    attention_store_few(run->segment_sum + query, sum, n);
}

/* Does both steps at once: maxima stored with a mask are slow to load again. */
static inline __attribute__((always_inline)) void
attention_softmax_few(struct attention_run *run, uint32_t query, const int n, const bool is_full)
{
    attention_weigh_few(run, query, n, attention_maxima_few(run, query, n, is_full), is_full);
}

/* Turns the scores of queries [query, end) into weights. Four queries share their folds. With many
 * queries, all maxima come before all weights, so that none waits for the latency of the one before
 * it. */
static inline __attribute__((always_inline)) void
attention_softmax(struct attention_run *run, uint32_t query, uint32_t end, const bool is_full)
{
    uint32_t i = query;
    for (; i + 4 <= end; i += 4)
        attention_maxima_few(run, i, 4, is_full);
    for (i = query; i + 4 <= end; i += 4)
        attention_weigh_few(run, i, 4, attention_load_few(run->segment_max + i, 4), is_full);
    switch (end - i) {
    case 1:
        attention_softmax_few(run, i, 1, is_full);
        break;
    case 2:
        attention_softmax_few(run, i, 2, is_full);
        break;
    case 3:
        attention_softmax_few(run, i, 3, is_full);
        break;
    default:
        break;
    }
}

/* mean = mean × shrink + Σ p × v over `keys` keys, dimensions [16 × part, 16 × (part + parts)). */
static inline __attribute__((always_inline)) void
attention_values(const struct attention_run *run, uint32_t query, const int n, const bool is_bytes,
                 uint32_t part, const int parts, uint32_t keys)
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
                                    _mm512_set1_ps(run->shrink[query + (uint32_t)t]));
    const float *p = run->p + (size_t)query * TABLE_KEYS_BLOCK;
    const size_t element = is_bytes ? 1 : sizeof(uint16_t);
    const char *at = run->v[0];
    const char *next = run->next_v[0];
    for (uint32_t j = 0; j < keys; j++, p++, at += run->value_bytes, next += run->value_bytes) {
        __m512 v[4];
        if (j % KV_TILE_KEYS == 0) {
            at = run->v[j / KV_TILE_KEYS] + d * element;
            next = run->next_v[j / KV_TILE_KEYS] + d * element;
        }
        _mm_prefetch(next, _MM_HINT_T0);
        if (parts == 4 && !is_bytes)
            _mm_prefetch(next + 64, _MM_HINT_T0);
#pragma GCC unroll 4
        for (int i = 0; i < parts; i++)
            v[i] = attention_load16(at + 16 * (size_t)i * element, is_bytes, parts == 4, mask);
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

/* Adds the keys of one query that the others in the register block do not all see. */
static inline void attention_values_rest(const struct attention_run *run, uint32_t query,
                                         const bool is_bytes, uint32_t from, uint32_t to)
{
    const size_t vector = is_bytes ? 16 : 16 * sizeof(uint16_t);
    for (uint32_t j = from; j < to; j++) {
        const char *v = run->v[j / KV_TILE_KEYS] + (size_t)(j % KV_TILE_KEYS) * run->value_bytes;
        float *mean = run->segment_mean + (size_t)query * run->stride;
        __m512 factor = _mm512_set1_ps(run->p[(size_t)query * TABLE_KEYS_BLOCK + j]);
        for (uint32_t d = 0; d < run->n; d += 16, v += vector) {
            __m512 value = attention_load16(v, is_bytes, false, avx512_mask(run->n - d));
            __m512 a = _mm512_loadu_ps(mean + d);
            _mm512_storeu_ps(mean + d, _mm512_fmadd_ps(factor, value, a));
        }
    }
}

/* Computes the scores of n queries, as far as the last of them sees; rows rise. */
static inline __attribute__((always_inline)) void
attention_score(struct attention_run *run, uint32_t query, const int n, const bool is_bytes)
{
    const uint32_t keys = attention_count(run, query + (uint32_t)n - 1);
    switch ((keys + KV_TILE_KEYS - 1) / KV_TILE_KEYS + (is_bytes ? ATTENTION_GROUPS : 0)) {
    case 1:
        attention_scores(run, query, n, 1);
        break;
    case 2:
        attention_scores(run, query, n, 2);
        break;
    case 3:
        attention_scores(run, query, n, 3);
        break;
    case 4:
        attention_scores(run, query, n, 4);
        break;
    case ATTENTION_GROUPS + 1:
        attention_scores_int8(run, query, n, 1);
        break;
    case ATTENTION_GROUPS + 2:
        attention_scores_int8(run, query, n, 2);
        break;
    case ATTENTION_GROUPS + 3:
        attention_scores_int8(run, query, n, 3);
        break;
    default:
        attention_scores_int8(run, query, n, 4);
        break;
    }
}

/* Averages the values of n queries: together as far as the first sees, then each alone. */
static inline __attribute__((always_inline)) void
attention_average(struct attention_run *run, uint32_t query, const int n, const bool is_bytes)
{
    const uint32_t keys = attention_count(run, query);
    const uint32_t parts = (run->n + 15) / 16;
    uint32_t part = 0;
    for (; part + 4 <= parts && (part + 4) * 16 <= run->n; part += 4)
        attention_values(run, query, n, is_bytes, part, 4, keys);
    for (; part < parts; part++)
        attention_values(run, query, n, is_bytes, part, 1, keys);
    for (int t = 0; t < n; t++)
        attention_values_rest(run, query + (uint32_t)t, is_bytes, keys,
                              attention_count(run, query + (uint32_t)t));
}

/* Calls `step` for n queries, with n a constant in it. */
#define ATTENTION_WITH(step, run, query, n, is_bytes)                                              \
    switch (n) {                                                                                   \
    case 1:                                                                                        \
        step(run, query, 1, is_bytes);                                                             \
        break;                                                                                     \
    case 2:                                                                                        \
        step(run, query, 2, is_bytes);                                                             \
        break;                                                                                     \
    case 3:                                                                                        \
        step(run, query, 3, is_bytes);                                                             \
        break;                                                                                     \
    case 4:                                                                                        \
        step(run, query, 4, is_bytes);                                                             \
        break;                                                                                     \
    case 5:                                                                                        \
        step(run, query, 5, is_bytes);                                                             \
        break;                                                                                     \
    default:                                                                                       \
        step(run, query, ATTENTION_QUERIES, is_bytes);                                             \
        break;                                                                                     \
    }

static void attention_softmax_all(struct attention_run *run, uint32_t query, uint32_t end)
{
    /* Rows rise, so the first query sees the fewest keys. */
    if (attention_seen(run, query) == UINT64_MAX)
        attention_softmax(run, query, end, true);
    else
        attention_softmax(run, query, end, false);
}

static void k_attention_scores_avx512(struct attention_run *run, uint32_t query, uint32_t end)
{
    for (uint32_t i = query; i < end; i += ATTENTION_QUERIES)
        ATTENTION_WITH(attention_score, run, i, end - i, false);
}

static void k_attention_scores_int8_avx512(struct attention_run *run, uint32_t query, uint32_t end)
{
    for (uint32_t i = query; i < end; i += ATTENTION_QUERIES)
        ATTENTION_WITH(attention_score, run, i, end - i, true);
}

static void k_attention_values_avx512(struct attention_run *run, uint32_t query, uint32_t end)
{
    for (uint32_t i = query; i < end; i += ATTENTION_QUERIES)
        ATTENTION_WITH(attention_average, run, i, end - i, false);
}

static void k_attention_values_int8_avx512(struct attention_run *run, uint32_t query, uint32_t end)
{
    attention_weights_int8(run, query, end);
    for (uint32_t i = query; i < end; i += ATTENTION_QUERIES)
        ATTENTION_WITH(attention_average, run, i, end - i, true);
}

/* Applies the soft cap to the scores of queries [query, end). Those behind a query's last key are
 * undefined before and after. */
static void attention_cap(struct attention_run *run, uint32_t query, uint32_t end)
{
    const __m512 cap = _mm512_set1_ps(run->call->args->softcap);
    const __m512 inverse = _mm512_set1_ps(1.0f / run->call->args->softcap);
    for (; query < end; query++) {
        float *p = run->p + (size_t)query * TABLE_KEYS_BLOCK;
        for (uint32_t j = 0; j < attention_count(run, query); j += KV_TILE_KEYS)
            _mm512_storeu_ps(p + j, avx512_softcap(_mm512_loadu_ps(p + j), cap, inverse));
    }
}

/* Computes scores, weights, then values of all queries; the data of each loop stays in the
 * first-level cache. */
static void attention_block(struct attention_run *run, uint32_t query, uint32_t end)
{
    const struct kv_layout *layout = run->call->args->kv.layout;
    if (layout->type == KV_TYPE_F16Q)
        attention_round(run);
    if (kv_tile_scores_codes(layout))
        k_attention_scores_int8_avx512(run, query, end);
    else
        k_attention_scores_avx512(run, query, end);
    if (run->call->args->softcap > 0)
        attention_cap(run, query, end);
    attention_softmax_all(run, query, end);
    if (kv_tile_values_codes(layout))
        k_attention_values_int8_avx512(run, query, end);
    else
        k_attention_values_avx512(run, query, end);
}

/* Merges the segment's means of at most 16 queries into the totals. For queries in `is_first`,
 * whose first segment it is, copies them. */
static void attention_merge_means(struct attention_run *run, uint32_t query, uint32_t n,
                                  const float e[16], const float f[16], __mmask16 is_first)
{
    float *mean = run->mean + (size_t)query * run->stride;
    const float *from = run->segment_mean + (size_t)query * run->stride;
    for (uint32_t t = 0; t < n; t++, mean += run->stride, from += run->stride) {
        if ((is_first >> t & 1) != 0) {
            memcpy(mean, from, run->stride * sizeof *mean);
            continue;
        }
        for (uint32_t d = 0; d < run->stride; d += 16) {
            __m512 a = _mm512_mul_ps(_mm512_loadu_ps(mean + d), _mm512_set1_ps(e[t]));
            a = _mm512_fmadd_ps(_mm512_loadu_ps(from + d), _mm512_set1_ps(f[t]), a);
            _mm512_storeu_ps(mean + d, a);
        }
    }
}

/* Merges the segment's state of queries [query, end) into the total, 16 at a time. */
static void attention_merge(struct attention_run *run, uint32_t query, uint32_t end)
{
    for (; query < end; query += 16) {
        const uint32_t n = end - query < 16 ? end - query : 16;
        const __mmask16 mask = avx512_mask(n);
        __mmask16 is_first = 0;
        float e[16];
        float f[16];
        for (uint32_t t = 0; t < n; t++) {
            uint32_t keys = run->keys[query + t];
            uint32_t taken = keys < run->first ? keys : run->first;
            is_first |= (__mmask16)((taken <= run->second) << t);
        }
        __m512 before = _mm512_maskz_loadu_ps(mask, run->max + query);
        __m512 segment = _mm512_maskz_loadu_ps(mask, run->segment_max + query);
        __m512 max = _mm512_max_ps(before, segment);
        __m512 by_before = avx512_exp(_mm512_sub_ps(before, max));
        __m512 by_segment = avx512_exp(_mm512_sub_ps(segment, max));
        __m512 segment_sum = _mm512_maskz_loadu_ps(mask, run->segment_sum + query);
        __m512 sum = _mm512_mul_ps(_mm512_maskz_loadu_ps(mask, run->sum + query), by_before);
        sum = _mm512_fmadd_ps(segment_sum, by_segment, sum);
        _mm512_mask_storeu_ps(run->max + query, mask, _mm512_mask_mov_ps(max, is_first, segment));
        _mm512_mask_storeu_ps(run->sum + query, mask,
                              _mm512_mask_mov_ps(sum, is_first, segment_sum));
        _mm512_storeu_ps(e, by_before);
        _mm512_storeu_ps(f, by_segment);
        attention_merge_means(run, query, n, e, f, is_first);
    }
}

/* Begins a segment of queries [query, end) from an empty state. */
static void attention_segment_begin(struct attention_run *run, uint32_t query, uint32_t end)
{
    if (run->first > run->begin)
        attention_merge(run, query, end);
    memset(run->segment_mean + (size_t)query * run->stride, 0,
           (size_t)(end - query) * run->stride * sizeof(float));
    for (; query < end; query++) {
        run->segment_sum[query] = 0;
        run->segment_max[query] = -INFINITY;
    }
}

/* Processes the present block for rows [row, end), which all read it from the same pages. Rows that
 * end before this block come first and are skipped. */
static void attention_rows(struct attention_run *run, uint32_t row, uint32_t end)
{
    const uint32_t queries = end * run->call->heads;
    uint32_t query = row * run->call->heads;
    while (query < queries && attention_count(run, query) == 0)
        query++;
    if (query == queries)
        return;
    attention_find(run, end - 1); /* the last row sees the most keys */
    if (run->call->args->kv.layout->open_bytes > 0)
        attention_open(run, end - 1);
    if (kv_tile_values_packed(run->call->args->kv.layout))
        attention_open_values(run);
    if (run->first % TABLE_KEYS_SEGMENT == 0 || run->first == run->begin)
        attention_segment_begin(run, query, queries);
    attention_block(run, query, queries);
}

/* Processes all rows block by block. Neighbours stay together as long as they share pages; then
 * each sequence continues alone. */
void k_attention_avx512(const struct table_attention *call)
{
    struct attention_run run;
    uint32_t keys = 0;
    attention_begin(&run, call);
    for (uint32_t i = 0; i < run.queries; i++)
        keys = run.keys[i] > keys ? run.keys[i] : keys;
    for (; run.first < keys; run.first += TABLE_KEYS_BLOCK)
        for (uint32_t row = 0, end; row < call->rows; row = end) {
            for (end = row + 1; end < call->rows && call->shared[end] > run.first &&
                                kv_tile_reads_alike(&call->args->kv, call->order[end - 1],
                                                    call->order[end], run.first);)
                end++;
            attention_rows(&run, row, end);
        }
    attention_merge(&run, 0, run.queries);
    for (uint32_t row = 0, i = 0; row < call->rows; row++) {
        float *out = call->args->out + attention_place(call, row);
        for (uint32_t head = 0; head < call->heads; head++, i++, out += run.n) {
            const float *mean = run.mean + (size_t)i * run.stride;
            const float *sinks = call->args->sinks;
            float inverse = fixed_math_softmax_factor(
                sinks != NULL ? &sinks[call->head + head] : NULL, run.max[i], run.sum[i]);
            for (uint32_t d = 0; d < run.n; d++)
                out[d] = mean[d] * inverse;
            if (kv_tile_values_packed(call->args->kv.layout))
                k_hadamard_avx512(out, run.n);
        }
    }
}
