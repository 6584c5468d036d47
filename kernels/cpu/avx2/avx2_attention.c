#include "kernels/cpu/avx2/avx2.h"

#include <string.h>

#include "kernels/cpu/avx2/avx2_vectors.h"
#include "kernels/cpu/kv_tile.h"

enum {
    ATTENTION_QUERIES =
        3, /* × 4 vectors = 12 accumulators, 3 factors, 1 vector of keys or values: 16 registers */
    ATTENTION_GROUPS = TABLE_KEYS_BLOCK / KV_TILE_KEYS,
};

/* The running softmax of each query of the call; `stride` floats between queries. Query i is row i
 * ÷ heads, head i mod heads. */
struct attention_run {
    const struct table_attention *call;
    uint32_t n; /* head_dim */
    uint32_t stride;
    uint32_t queries;
    float *q; /* [n][queries], scaled: the factors of a register block are adjacent */
    float *segment_mean;
    float *mean;
    float *segment_max;
    float *segment_sum;
    float *max;
    float *sum;
    uint32_t keys[TABLE_QUERIES_MAX]; /* that a query sees */
    /* Addresses of the block's keys and values, by groups of 16; v_stride is the distance between
     * two values. */
    const char *k[ATTENTION_GROUPS];
    const char *v[ATTENTION_GROUPS];
    uint32_t v_stride;
    uint32_t first;  /* index of the block's first key */
    uint32_t begin;  /* first key of the first block that is read */
    uint32_t hidden; /* number of keys in that block that a window hides */
    uint32_t second; /* first key of the second segment */
    uint32_t groups;
    bool is_bytes;  /* values are codes */
    bool has_codes; /* keys are codes, as in pages of bytes, and q too */
    uint32_t quads; /* groups of four dimensions in such keys */
    int8_t *codes;  /* [queries][4 × quads], instead of q */
    char *block;    /* keys converted when they are read: to codes, or from 4 bits to halves; then
                       packed values, to halves */
    float q_scale[TABLE_QUERIES_MAX];
    float k_scale[TABLE_KEYS_BLOCK];
    float v_scale[TABLE_KEYS_BLOCK];
    float p[ATTENTION_QUERIES][TABLE_KEYS_BLOCK]; /* scores, then weights, of a register block */
};

/* Returns how many keys of the present block a query sees. */
static uint32_t attention_count(const struct attention_run *run, uint32_t query)
{
    uint32_t left = avx2_left(run->keys[query], run->first);
    return left < TABLE_KEYS_BLOCK ? left : TABLE_KEYS_BLOCK;
}

/* Returns the offset of a row in q and out, from the call's first head on. */
static size_t attention_place(const struct table_attention *call, uint32_t row)
{
    const struct attention_args *args = call->args;
    return ((size_t)call->order[row] * args->heads + call->head) * args->kv.layout->head_dim;
}

/* Writes one query, scaled, into its column of q, or rounded into its row of codes. */
static void attention_turn(struct attention_run *run, uint32_t query, const float *q)
{
    const float scale = run->call->args->scale;
    if (run->has_codes) {
        int8_t codes[LIMIT_HEAD_DIM + 8];
        const size_t bytes = (size_t)run->quads * KV_TILE_QUAD;
        run->q_scale[query] = avx2_codes(q, run->n, scale, codes);
        memcpy(run->codes + query * bytes, codes, bytes);
        return;
    }
    for (uint32_t d = 0; d < run->n; d++)
        run->q[(size_t)d * run->queries + query] = q[d] * scale;
}

static void attention_begin(struct attention_run *run, const struct table_attention *call)
{
    const struct attention_args *args = call->args;
    run->call = call;
    run->n = args->kv.layout->head_dim;
    run->hidden = table_first_key(args, call->order[0]) % TABLE_KEYS_BLOCK;
    run->begin = table_first_key(args, call->order[0]) - run->hidden;
    run->second = (run->begin / TABLE_KEYS_SEGMENT + 1) * TABLE_KEYS_SEGMENT;
    run->first = run->begin;
    run->stride = (run->n + 7) / 8 * 8;
    run->queries = call->rows * call->heads;
    run->q = call->scratch;
    run->segment_mean = run->q + (size_t)run->queries * run->stride;
    run->mean = run->segment_mean + (size_t)run->queries * run->stride;
    run->segment_max = run->mean + (size_t)run->queries * run->stride;
    run->segment_sum = run->segment_max + TABLE_QUERIES_MAX;
    run->max = run->segment_sum + TABLE_QUERIES_MAX;
    run->sum = run->max + TABLE_QUERIES_MAX;
    run->block = (char *)(run->sum + TABLE_QUERIES_MAX);
    run->is_bytes = kv_tile_values_codes(args->kv.layout);
    run->v_stride = run->is_bytes ? kv_tile_width(args->kv.layout) : run->n * sizeof(uint16_t);
    run->has_codes = kv_tile_scores_codes(args->kv.layout);
    run->quads = (run->n + KV_TILE_QUAD - 1) / KV_TILE_QUAD;
    run->codes = (int8_t *)run->q;
    for (uint32_t row = 0, i = 0; row < call->rows; row++) {
        const float *q = args->q + attention_place(call, row);
        uint32_t keys = args->kv.position[call->order[row]] + 1;
        for (uint32_t head = 0; head < call->heads; head++, i++, q += run->n) {
            run->keys[i] = keys;
            attention_turn(run, i, q);
        }
    }
}

/* Returns the codes of dimension d of 8 keys of halves, in the lowest byte of each lane. */
static inline __m256i attention_code(const uint16_t *keys, size_t d, __m256 inverse,
                                     __m256 has_codes)
{
    const __m256 x = _mm256_mul_ps(avx2_halves(keys + d * KV_TILE_KEYS), inverse);
    const __m256 code = _mm256_add_ps(x, _mm256_set1_ps(FIXED_MATH_ROUND));
    return _mm256_and_si256(_mm256_castps_si256(_mm256_and_ps(code, has_codes)),
                            _mm256_set1_epi32(255));
}

/* Converts group g of 16 keys from halves to codes and scales, as in a page of bytes. A lane is a
 * key. */
static void attention_round(struct attention_run *run, uint32_t g)
{
    const __m256 most = _mm256_set1_ps(127.0f);
    const uint16_t *from = (const uint16_t *)(const void *)run->k[g];
    char *to = run->block + (size_t)g * KV_TILE_KEYS * KV_TILE_QUAD * run->quads;
    run->k[g] = to;
    for (uint32_t key = 0; key < KV_TILE_KEYS; key += 8, from += 8, to += 8 * KV_TILE_QUAD) {
        /* compared as integers: magnitudes rise with their bits, and NaN is above all */
        __m256i bits = _mm256_setzero_si256();
        for (size_t d = 0; d < run->n; d++) {
            __m256i x = _mm256_castps_si256(avx2_halves(from + d * KV_TILE_KEYS));
            bits = _mm256_max_epi32(bits, _mm256_and_si256(x, _mm256_set1_epi32(INT32_MAX)));
        }
        const __m256 max = _mm256_castsi256_ps(bits);
        const __m256 is_finite = _mm256_cmp_ps(max, _mm256_set1_ps(INFINITY), _CMP_LT_OQ);
        const __m256 has_codes =
            _mm256_and_ps(is_finite, _mm256_cmp_ps(max, _mm256_set1_ps(1e-30f), _CMP_GE_OQ));
        const __m256 inverse = _mm256_div_ps(most, max);
        for (size_t quad = 0; quad < run->quads; quad++) {
            __m256i codes = _mm256_setzero_si256();
            for (size_t i = KV_TILE_QUAD; i-- > 0;) {
                const size_t d = KV_TILE_QUAD * quad + i;
                codes = _mm256_slli_epi32(codes, 8);
                if (d < run->n)
                    codes = _mm256_or_si256(codes, attention_code(from, d, inverse, has_codes));
            }
            codes = _mm256_xor_si256(codes, _mm256_set1_epi8((char)KV_TILE_BIAS));
            _mm256_storeu_si256((__m256i *)(void *)(to + quad * KV_TILE_KEYS * KV_TILE_QUAD),
                                codes);
        }
        __m256 scale = _mm256_and_ps(_mm256_div_ps(max, most), has_codes);
        scale = _mm256_blendv_ps(_mm256_set1_ps(NAN), scale, is_finite);
        _mm256_storeu_ps(run->k_scale + g * KV_TILE_KEYS + key, scale);
    }
}

/* Provides group g of 16 keys as halves for row `r` of q: the row's own group is open, earlier ones
 * are unpacked. */
static void attention_open(struct attention_run *run, uint32_t r, uint32_t g)
{
    const struct table_attention *call = run->call;
    const struct kv_rows *kv = &call->args->kv;
    uint16_t *to = (uint16_t *)(void *)run->block + (size_t)g * KV_TILE_KEYS * run->n;
    if (run->first / KV_TILE_KEYS + g == kv->position[r] / KV_TILE_KEYS)
        to = kv_tile_open(kv, r, call->args->layer, call->kv_head);
    else
        k_keys_unpack_avx2(run->k[g], run->n, to);
    run->k[g] = (const char *)to;
}

/* Provides packed values of up to `left` tokens of group g as halves. */
static void attention_open_values(struct attention_run *run, uint32_t g, uint32_t left)
{
    uint16_t *to = (uint16_t *)(void *)run->block + (size_t)TABLE_KEYS_BLOCK * run->n;
    to += (size_t)g * KV_TILE_KEYS * run->n;
    k_values_unpack_avx2(run->v[g], run->n, left < KV_TILE_KEYS ? left : KV_TILE_KEYS, to);
    run->v[g] = (const char *)to;
}

/* Looks up the block's pages in the table of a row, up to the row's last key; touches no later
 * page. */
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
        run->k[g] = tile + token / KV_TILE_KEYS * kv_tile_keys_bytes(layout);
        run->v[g] = tile + layout->tile_bytes + token / KV_TILE_KEYS * kv_tile_group_bytes(layout);
        const size_t scales = kv_tile_scale_offset(layout, 0);
        if (run->is_bytes)
            memcpy(run->v_scale + g * KV_TILE_KEYS, run->v[g] + scales,
                   sizeof(float[KV_TILE_KEYS]));
        if (run->is_bytes && run->has_codes) {
            memcpy(run->k_scale + g * KV_TILE_KEYS, run->k[g] + scales,
                   sizeof(float[KV_TILE_KEYS]));
        } else if (run->has_codes) {
            attention_round(run, g);
        } else if (layout->open_bytes > 0) {
            attention_open(run, call->order[row], g);
        }
        if (kv_tile_values_packed(layout))
            attention_open_values(run, g, left - g * KV_TILE_KEYS);
    }
    /* Scores are computed for two groups at a time; the repeated group is behind the last key. */
    for (uint32_t g = run->groups; g < ATTENTION_GROUPS; g++)
        run->k[g] = run->k[run->groups - 1];
}

/* Scores of n queries (a constant) from `query` against groups g and g + 1. Lanes behind a query's
 * last key have undefined scores, which attention_softmax drops. */
static inline __attribute__((always_inline)) void
attention_scores(struct attention_run *run, uint32_t query, const int n, uint32_t g)
{
    __m256 s[ATTENTION_QUERIES][4];
    const float *q = run->q + query;
    const uint16_t *low = (const uint16_t *)(const void *)run->k[g];
    const uint16_t *high = (const uint16_t *)(const void *)run->k[g + 1];
#pragma GCC unroll 3
    for (int t = 0; t < n; t++)
#pragma GCC unroll 4
        for (int i = 0; i < 4; i++)
            s[t][i] = _mm256_setzero_ps();
    for (uint32_t d = 0; d < run->n; d++) {
        __m256 factor[ATTENTION_QUERIES];
#pragma GCC unroll 3
        for (int t = 0; t < n; t++)
            factor[t] = _mm256_set1_ps(q[t]);
#pragma GCC unroll 4
        for (int i = 0; i < 4; i++) {
            const __m256 k = avx2_halves((i < 2 ? low : high) + 8 * (i % 2));
#pragma GCC unroll 3
            for (int t = 0; t < n; t++)
                s[t][i] = _mm256_fmadd_ps(factor[t], k, s[t][i]);
        }
        q += run->queries;
        low += KV_TILE_KEYS;
        high += KV_TILE_KEYS;
    }
#pragma GCC unroll 3
    for (int t = 0; t < n; t++)
#pragma GCC unroll 4
        for (int i = 0; i < 4; i++)
            _mm256_storeu_ps(run->p[t] + (size_t)g * KV_TILE_KEYS + 8 * (size_t)i, s[t][i]);
}

/* The same for codes against group g: |k| times q with k's sign, as in linear layers of 8 bits. */
static inline __attribute__((always_inline)) void
attention_scores_codes(struct attention_run *run, uint32_t query, const int n, uint32_t g)
{
    const size_t stride = (size_t)run->quads * KV_TILE_QUAD;
    const int8_t *q = run->codes + query * stride;
    const char *at = run->k[g];
    __m256i s[ATTENTION_QUERIES][2];
#pragma GCC unroll 3
    for (int t = 0; t < n; t++)
        s[t][0] = s[t][1] = _mm256_setzero_si256();
    for (uint32_t quad = 0; quad < run->quads; quad++, q += KV_TILE_QUAD, at += 64) {
#pragma GCC unroll 2
        for (int i = 0; i < 2; i++) {
            __m256i k = _mm256_loadu_si256((const __m256i *)(const void *)(at + 32 * i));
            k = _mm256_xor_si256(k, _mm256_set1_epi8((char)KV_TILE_BIAS));
            const __m256i size = _mm256_abs_epi8(k);
#pragma GCC unroll 3
            for (int t = 0; t < n; t++) {
                int32_t four;
                memcpy(&four, q + (size_t)t * stride, sizeof four);
                __m256i pairs =
                    _mm256_maddubs_epi16(size, _mm256_sign_epi8(_mm256_set1_epi32(four), k));
                s[t][i] = _mm256_add_epi32(s[t][i], _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
            }
        }
    }
#pragma GCC unroll 3
    for (int t = 0; t < n; t++)
#pragma GCC unroll 2
        for (int i = 0; i < 2; i++) {
            const size_t key = (size_t)g * KV_TILE_KEYS + 8 * (size_t)i;
            const __m256 scale = _mm256_mul_ps(_mm256_set1_ps(run->q_scale[query + (uint32_t)t]),
                                               _mm256_loadu_ps(run->k_scale + key));
            _mm256_storeu_ps(run->p[t] + key, _mm256_mul_ps(_mm256_cvtepi32_ps(s[t][i]), scale));
        }
}

/* Applies the soft cap to `count` scores, and to undefined ones up to a multiple of 8. */
static void attention_cap(float softcap, uint32_t count, float *p)
{
    const __m256 cap = _mm256_set1_ps(softcap);
    const __m256 inverse = _mm256_set1_ps(1.0f / softcap);
    for (uint32_t j = 0; j < count; j += 8)
        _mm256_storeu_ps(p + j, avx2_softcap(_mm256_loadu_ps(p + j), cap, inverse));
}

/* Turns the scores p of one query into weights; hidden keys get weight e^−∞ = 0. Returns the factor
 * by which the query's earlier state shrinks. */
static float attention_softmax(struct attention_run *run, uint32_t query, float *p)
{
    __m256 most = _mm256_set1_ps(run->segment_max[query]);
    __m256 low = _mm256_setzero_ps();
    __m256 high = _mm256_setzero_ps();
    if (run->call->args->softcap > 0)
        attention_cap(run->call->args->softcap, attention_count(run, query), p);
    for (uint32_t j = attention_count(run, query); j < TABLE_KEYS_BLOCK; j++)
        p[j] = -INFINITY;
    for (uint32_t j = 0; run->first == run->begin && j < run->hidden; j++)
        p[j] = -INFINITY;
    for (uint32_t j = 0; j < TABLE_KEYS_BLOCK; j += 8)
        most = _mm256_max_ps(_mm256_loadu_ps(p + j), most);
    const float greatest = avx2_greatest(most);
    const __m256 max = _mm256_set1_ps(greatest);
    for (uint32_t j = 0; j < TABLE_KEYS_BLOCK; j += 16) {
        __m256 first = avx2_exp(_mm256_sub_ps(_mm256_loadu_ps(p + j), max));
        __m256 second = avx2_exp(_mm256_sub_ps(_mm256_loadu_ps(p + j + 8), max));
        _mm256_storeu_ps(p + j, first);
        _mm256_storeu_ps(p + j + 8, second);
        low = _mm256_add_ps(low, first);
        high = _mm256_add_ps(high, second);
    }
    const float shrink = fixed_math_exp(run->segment_max[query] - greatest);
    run->segment_sum[query] = fmaf(run->segment_sum[query], shrink, avx2_fold16(low, high));
    run->segment_max[query] = greatest;
    return shrink;
}

/* Keys [from, to) of the block for the queries from `query`, whose weights are p[0], p[1] …. */
struct attention_part {
    uint32_t query;
    uint32_t from;
    uint32_t to;
    const float (*p)[TABLE_KEYS_BLOCK];
    const float *shrink;
};

/* Returns the address of a key's values, bytes or halves. */
static inline __attribute__((always_inline)) const char *
attention_value(const struct attention_run *run, uint32_t j)
{
    return run->v[j / KV_TILE_KEYS] + (size_t)(j % KV_TILE_KEYS) * run->v_stride;
}

static inline __attribute__((always_inline)) __m256 attention_load8(const char *value,
                                                                    const bool is_bytes, uint32_t d)
{
    if (is_bytes)
        return _mm256_cvtepi32_ps(
            _mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i *)(const void *)(value + d))));
    return avx2_halves((const uint16_t *)(const void *)value + d);
}

/* mean = mean × shrink + Σ p × v in dimensions [d, d + 8 × vectors). The counts and `is_bytes` are
 * constants. */
static inline __attribute__((always_inline)) void
attention_values(const struct attention_run *run, const struct attention_part *part,
                 const bool is_bytes, const int n, uint32_t d, const int vectors)
{
    __m256 a[ATTENTION_QUERIES][4];
    float *mean = run->segment_mean + (size_t)part->query * run->stride + d;
#pragma GCC unroll 3
    for (int t = 0; t < n; t++)
#pragma GCC unroll 4
        for (int i = 0; i < vectors; i++)
            a[t][i] = _mm256_mul_ps(_mm256_loadu_ps(mean + (size_t)t * run->stride + 8 * i),
                                    _mm256_set1_ps(part->shrink[t]));
    for (uint32_t j = part->from; j < part->to; j++) {
        const char *value = attention_value(run, j);
        __m256 factor[ATTENTION_QUERIES];
#pragma GCC unroll 3
        for (int t = 0; t < n; t++)
            factor[t] = _mm256_set1_ps(part->p[t][j]);
#pragma GCC unroll 4
        for (int i = 0; i < vectors; i++) {
            const __m256 v = attention_load8(value, is_bytes, d + 8 * (uint32_t)i);
#pragma GCC unroll 3
            for (int t = 0; t < n; t++)
                a[t][i] = _mm256_fmadd_ps(factor[t], v, a[t][i]);
        }
    }
#pragma GCC unroll 3
    for (int t = 0; t < n; t++)
#pragma GCC unroll 4
        for (int i = 0; i < vectors; i++)
            _mm256_storeu_ps(mean + (size_t)t * run->stride + 8 * i, a[t][i]);
}

/* Handles one dimension at the end of a head whose size is not a multiple of 8; a vector would read
 * beyond the page. */
static void attention_values_one(const struct attention_run *run, const struct attention_part *part,
                                 uint32_t t, uint32_t d)
{
    float *mean = run->segment_mean + (size_t)(part->query + t) * run->stride + d;
    float a = *mean * part->shrink[t];
    for (uint32_t j = part->from; j < part->to; j++) {
        const char *value = attention_value(run, j);
        const uint16_t *halves = (const uint16_t *)(const void *)value;
        a = fmaf(part->p[t][j], run->is_bytes ? (float)(int8_t)value[d] : half_to_float(halves[d]),
                 a);
    }
    *mean = a;
}

static inline __attribute__((always_inline)) void
attention_values_all(const struct attention_run *run, const struct attention_part *part,
                     const bool is_bytes, const int n)
{
    uint32_t d = 0;
    for (; d + 32 <= run->n; d += 32)
        attention_values(run, part, is_bytes, n, d, 4);
    for (; d + 8 <= run->n; d += 8)
        attention_values(run, part, is_bytes, n, d, 1);
    for (; d < run->n; d++)
        for (uint32_t t = 0; t < (uint32_t)n; t++)
            attention_values_one(run, part, t, d);
}

/* The kinds of keys and values, and n, are constants in every call. */
static inline __attribute__((always_inline)) void attention_queries(struct attention_run *run,
                                                                    const bool has_codes,
                                                                    const bool is_bytes,
                                                                    uint32_t query, const int n)
{
    static const float whole = 1;
    float shrink[ATTENTION_QUERIES];
    /* Rows rise, so the first query sees the fewest keys. */
    struct attention_part part = {query, 0, attention_count(run, query), run->p, shrink};
    for (uint32_t g = 0; g < run->groups; g += has_codes ? 1 : 2)
        (has_codes ? attention_scores_codes : attention_scores)(run, query, n, g);
    for (int t = 0; t < n; t++)
        shrink[t] = attention_softmax(run, query + (uint32_t)t, run->p[t]);
    /* The weights take up the scales of the values, which are codes. */
    for (int t = 0; t < n && is_bytes; t++)
        for (uint32_t j = 0; j < run->groups * KV_TILE_KEYS; j++)
            run->p[t][j] *= run->v_scale[j];
    attention_values_all(run, &part, is_bytes, n);
    /* The keys of one query that the others in the register block do not all see. */
    for (int t = 1; t < n; t++) {
        struct attention_part rest = {query + (uint32_t)t, part.to,
                                      attention_count(run, query + (uint32_t)t), run->p + t,
                                      &whole};
        if (rest.from < rest.to)
            attention_values_all(run, &rest, is_bytes, 1);
    }
}

static inline __attribute__((always_inline)) void attention_sized(struct attention_run *run,
                                                                  const bool has_codes,
                                                                  const bool is_bytes,
                                                                  uint32_t query, uint32_t n)
{
    switch (n) {
    case 1:
        attention_queries(run, has_codes, is_bytes, query, 1);
        break;
    case 2:
        attention_queries(run, has_codes, is_bytes, query, 2);
        break;
    default:
        attention_queries(run, has_codes, is_bytes, query, ATTENTION_QUERIES);
        break;
    }
}

static void k_attention_block_avx2(struct attention_run *run, uint32_t query, uint32_t n)
{
    if (run->is_bytes && run->has_codes)
        attention_sized(run, true, true, query, n);
    else if (run->is_bytes)
        attention_sized(run, false, true, query, n);
    else if (run->has_codes)
        attention_sized(run, true, false, query, n);
    else
        attention_sized(run, false, false, query, n);
}

/* Merges the segment's state into the total; the first segment is copied. */
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
    if (run->first > run->begin)
        attention_merge(run, query, run->first == run->second);
    run->segment_max[query] = -INFINITY;
    run->segment_sum[query] = 0;
    memset(run->segment_mean + (size_t)query * run->stride, 0, run->stride * sizeof(float));
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
    if (run->first % TABLE_KEYS_SEGMENT == 0 || run->first == run->begin)
        for (uint32_t i = query; i < queries; i++)
            attention_segment_begin(run, i);
    for (; query < queries; query += ATTENTION_QUERIES) {
        uint32_t left = queries - query;
        k_attention_block_avx2(run, query, left < ATTENTION_QUERIES ? left : ATTENTION_QUERIES);
    }
}

/* Processes all rows block by block. Neighbours stay together as long as they share pages; then
 * each sequence continues alone. */
void k_attention_avx2(const struct table_attention *call)
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
    for (uint32_t row = 0, i = 0; row < call->rows; row++) {
        float *out = call->args->out + attention_place(call, row);
        for (uint32_t head = 0; head < call->heads; head++, i++, out += run.n) {
            const float *mean = run.mean + (size_t)i * run.stride;
            const float *sinks = call->args->sinks;
            attention_merge(&run, i, run.keys[i] <= run.second);
            float inverse = fixed_math_softmax_factor(
                sinks != NULL ? &sinks[call->head + head] : NULL, run.max[i], run.sum[i]);
            for (uint32_t d = 0; d < run.n; d++)
                out[d] = mean[d] * inverse;
            if (kv_tile_values_packed(call->args->kv.layout))
                k_hadamard_avx2(out, run.n);
        }
    }
}
