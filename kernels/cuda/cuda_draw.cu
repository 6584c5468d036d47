#include "kernels/cuda/cuda_draw.h"

#include <float.h>
#include <string.h>

#include "config/base/mem.h"
#include "kernels/cpu/fixed_math.h"
#include "kernels/cuda/cuda_backend.cuh"
#include "kernels/cuda/cuda_machine.cuh"

/* Sampling takes two kernels. The first divides each row into segments, a block each, and finds the
 * greatest values, the sum of all e^x and the greatest value + noise. The second, a block a row,
 * combines the segments. That is enough unless filters may drop the token it found.
 *
 * The filters keep a prefix of the order (value falling, id rising), so each filter has a last
 * token that it keeps. Tokens are numbered by that order in 63 bits (draw_order), and the number of
 * the last token is found 11 bits at a time: tokens are counted, or weighed, for each value of
 * those bits, and the filter's goal is reached within one of them. This reads the row six times,
 * whatever the settings. Weights are whole multiples of 2^-43, so that sums are exact in any order
 * of threads. */
enum {
    DRAW_SEGMENT = 4096,
    DRAW_SEGMENTS_MAX = LIMIT_VOCAB / DRAW_SEGMENT,
    DRAW_THREADS_MAX = 1024,
    DRAW_ID_BITS = 20,
    DRAW_DIGIT_BITS = 11,
    DRAW_DIGITS = 1 << DRAW_DIGIT_BITS,
    DRAW_ORDER_BITS = DRAW_DIGIT_BITS + 32 + DRAW_ID_BITS,
    DRAW_LANE_DIGITS = DRAW_DIGITS / 32, /* summed by each lane of the first warp */
};

static_assert(LIMIT_VOCAB <= 1 << DRAW_ID_BITS, "an id must fit its bits of the order");
static_assert(LIMIT_VOCAB % DRAW_SEGMENT == 0, "segments must divide the largest vocabulary");

static constexpr float DRAW_ONE = 0x1p43f; /* the weight 1 */
static constexpr uint32_t DRAW_NONE = UINT32_MAX;
static constexpr uint32_t DRAW_OF_PROMPT = 1u << 31; /* in a count: the prompt has the token, too */
static constexpr uint64_t DRAW_ALL = UINT64_MAX;     /* after all tokens in the order */

/* A token and its score; among equals the lower id comes first. */
struct draw_best {
    double score;
    uint32_t token;
};

struct draw_part {
    struct draw_best own;      /* greatest logit */
    struct draw_best greatest; /* greatest value */
    struct draw_best noisy;    /* greatest value ÷ temperature + noise */
    uint64_t sum;              /* of e^(logit − greatest logit) */
};

/* A draw in the form that is sent to the device: its mask is in device memory. */
struct draw_sent {
    struct draw draw;
    uint32_t was_first; /* index of its adjustments' first entry among the saved logits */
};

struct draw_call {
    float *logits;
    uint32_t vocab;
    uint32_t segments;
    const struct draw_sent *draws;
    const struct draw_adjust *adjusts;
    float *was;              /* logits as they were before adjustments */
    struct draw_part *parts; /* [draws][segments] */
    struct draw_best *tops;  /* [draws][segments][LIMIT_LOGPROBS] */
    struct draw_result *out; /* [draws] */
};

/* --- operations of a whole block; every thread gets the result --- */

static __device__ bool draw_before(const struct draw_best &a, const struct draw_best &b)
{
    return a.score > b.score || (a.score == b.score && a.token < b.token);
}

/* What threads exchange, one kind at a time; all kinds together would exceed a block's memory. */
union draw_shared {
    struct draw_best best[DRAW_THREADS_MAX];
    uint64_t sums[DRAW_THREADS_MAX];
    uint32_t counts[DRAW_SEGMENT]; /* how often each token was generated */
};

static __device__ union draw_shared *draw_shared_of_block()
{
    __shared__ union draw_shared shared;
    return &shared;
}

static __device__ struct draw_best draw_first(struct draw_best mine)
{
    struct draw_best *lanes = draw_shared_of_block()->best;
    lanes[threadIdx.x] = mine;
    __syncthreads();
    if (threadIdx.x < 32) {
        for (uint32_t i = threadIdx.x + 32; i < blockDim.x; i += 32)
            if (draw_before(lanes[i], mine))
                mine = lanes[i];
        lanes[threadIdx.x] = mine;
    }
    __syncthreads();
    for (uint32_t i = 0; i < 32; i++)
        if (draw_before(lanes[i], mine))
            mine = lanes[i];
    __syncthreads();
    return mine;
}

static __device__ uint64_t draw_sum(uint64_t mine)
{
    uint64_t *lanes = draw_shared_of_block()->sums;
    lanes[threadIdx.x] = mine;
    __syncthreads();
    if (threadIdx.x < 32) {
        for (uint32_t i = threadIdx.x + 32; i < blockDim.x; i += 32)
            mine += lanes[i];
        lanes[threadIdx.x] = mine;
    }
    __syncthreads();
    mine = 0;
    for (uint32_t i = 0; i < 32; i++)
        mine += lanes[i];
    __syncthreads();
    return mine;
}

/* --- weights, noise, order: as on the host --- */

/* fixed_math_exp */
static __device__ float draw_exp(float x)
{
    const float t = fmaf(x, FIXED_MATH_LOG2E, FIXED_MATH_ROUND);
    const float n = t - FIXED_MATH_ROUND;
    float r = fmaf(n, -FIXED_MATH_LN2_HI, x);
    r = fmaf(n, -FIXED_MATH_LN2_LO, r);
    float q = fmaf(FIXED_MATH_Q4, r, FIXED_MATH_Q3);
    q = fmaf(q, r, FIXED_MATH_Q2);
    q = fmaf(q, r, FIXED_MATH_Q1);
    q = fmaf(q, r, FIXED_MATH_Q0);
    const float y = fmaf(q, r * r, r) + 1.0f;
    if (!(x >= FIXED_MATH_EXP_MIN))
        return 0; /* also for a NaN */
    return __uint_as_float(__float_as_uint(y) + (__float_as_uint(t) << 23));
}

/* Converts a weight of up to 1. */
static __device__ uint64_t draw_fixed(float weight)
{
    return (uint64_t)(weight * DRAW_ONE);
}

/* rng_of */
static __device__ uint64_t draw_bits(uint64_t stream, uint32_t id)
{
    uint64_t value = stream + 0x9e3779b97f4a7c15u * ((uint64_t)id + 1);
    value = (value ^ value >> 30) * 0xbf58476d1ce4e5b9u;
    value = (value ^ value >> 27) * 0x94d049bb133111ebu;
    return value ^ value >> 31;
}

/* rng_unit */
static __device__ double draw_unit(uint64_t bits)
{
    return ((double)(bits >> 12) + 0.5) * 0x1p-52;
}

static __device__ double draw_score(double temperature, float value, uint64_t bits)
{
    return (double)value / temperature - log(-log(draw_unit(bits)));
}

/* kernels_row_noise_set and kernels_row_noise_reaches */
struct draw_reach {
    float step, floor;
};

static __device__ struct draw_reach draw_reach_set(double temperature, double score)
{
    const double ln2 = 0.69314718055994531;
    const double wanted = score * temperature;
    return {(float)(temperature * ln2 * 0x1p-23),
            (float)(wanted - (24 + 127) * temperature * ln2 - 1e-4 * temperature -
                    1e-6 * fabs(wanted))};
}

static __device__ bool draw_reaches(const struct draw_reach &reach, float value, uint64_t bits)
{
    const float upper = (float)(uint32_t)(~bits >> 40);
    return value - (float)(int32_t)__float_as_uint(upper) * reach.step >= reach.floor;
}

/* What the filters keep: the prefix as far as `last`, and of it the tokens that weigh min_p, except
 * one token. */
struct draw_keep {
    float max;   /* greatest value */
    float scale; /* 1 ÷ temperature */
    float min_p;
    uint64_t last;
    uint32_t without;
    const uint32_t *mask; /* NULL: the values are masked already, or all tokens are allowed */
};

/* Returns the value that is sampled from: −∞ for a token that the mask forbids. */
static __device__ float draw_value(const struct draw_keep &keep, const float *values,
                                   uint32_t begin, uint32_t id)
{
    const bool is_allowed = keep.mask == NULL || (keep.mask[id / 32] >> id % 32 & 1) != 0;
    return is_allowed ? values[id - begin] : -INFINITY;
}

static __device__ float draw_weight(const struct draw_keep &keep, float value)
{
    return draw_exp((value - keep.max) * keep.scale);
}

/* Returns a token's number in the order: its distance from the greatest value in coarse steps, then
 * the value, then the id. The coarse steps do not change the order; they spread tokens over the
 * counters. */
static __device__ uint64_t draw_order(const struct draw_keep &keep, float value, uint32_t id)
{
    const float far = fminf((keep.max - value) * 16, (float)(DRAW_DIGITS - 1));
    const uint32_t bits = __float_as_uint(value + 0.0f); /* turns −0 into 0 */
    const uint32_t falling = bits >> 31 ? bits : ~(bits | 0x80000000u);
    return (uint64_t)far << (32 + DRAW_ID_BITS) | (uint64_t)falling << DRAW_ID_BITS | id;
}

/* --- passes over values --- */

/* Returns the greatest value ÷ temperature + noise among the kept tokens and `mine`. */
static __device__ struct draw_best draw_noisy(const float *values, uint32_t begin, uint32_t count,
                                              const struct draw &draw, const struct draw_keep &keep,
                                              struct draw_best mine)
{
    const double temperature = (double)draw.temperature;
    struct draw_reach reach = draw_reach_set(temperature, mine.score);
    for (uint32_t i = threadIdx.x; i < count; i += blockDim.x) {
        const uint32_t id = begin + i;
        const float value = draw_value(keep, values, begin, id);
        if (keep.last != DRAW_ALL && draw_order(keep, value, id) > keep.last)
            continue;
        const uint64_t bits = draw_bits(draw.stream, id);
        if (!draw_reaches(reach, value, bits) || id == keep.without ||
            (keep.min_p > 0 && !(draw_weight(keep, value) >= keep.min_p)))
            continue;
        const struct draw_best other = {draw_score(temperature, value, bits), id};
        if (draw_before(other, mine)) {
            mine = other;
            reach = draw_reach_set(temperature, mine.score);
        }
    }
    return draw_first(mine);
}

/* Counts, or weighs, the tokens of the prefix: all of them, and those before `order`. */
static __device__ void draw_amounts(const float *row, uint32_t vocab, const struct draw_keep &keep,
                                    bool is_weighed, uint64_t order, uint64_t *all,
                                    uint64_t *before)
{
    uint64_t sum = 0;
    uint64_t sum_before = 0;
    for (uint32_t i = threadIdx.x; i < vocab; i += blockDim.x) {
        const float value = draw_value(keep, row, 0, i);
        const uint64_t at = draw_order(keep, value, i);
        const float weight = draw_weight(keep, value);
        if (at > keep.last || (keep.min_p > 0 && !(weight >= keep.min_p)))
            continue;
        const uint64_t amount = is_weighed ? draw_fixed(weight) : 1;
        sum += amount;
        sum_before += at < order ? amount : 0;
    }
    *all = draw_sum(sum);
    *before = draw_sum(sum_before);
}

/* Amounts by digit. A lane sums DRAW_LANE_DIGITS of them; the padding puts the next lane's in other
 * banks. */
struct draw_digits {
    uint32_t low[DRAW_DIGITS + 32];
    uint32_t high[DRAW_DIGITS + 32];
    uint64_t lanes[32];
    uint32_t found;
    uint64_t before;
};

static __device__ uint64_t draw_digit(const struct draw_digits &digits, uint32_t digit)
{
    const uint32_t at = digit + digit / DRAW_LANE_DIGITS;
    return (uint64_t)digits.high[at] << 32 | digits.low[at];
}

/* Finds the digit in which the running amount, `before` for all earlier tokens, reaches `goal`. */
static __device__ void draw_digit_find(struct draw_digits *digits, uint64_t before, uint64_t goal)
{
    const uint32_t lane = threadIdx.x;
    uint64_t sum = 0;
    if (lane < 32)
        for (uint32_t i = 0; i < DRAW_LANE_DIGITS; i++)
            sum += draw_digit(*digits, lane * DRAW_LANE_DIGITS + i);
    if (lane < 32)
        digits->lanes[lane] = sum;
    if (lane == 0)
        digits->found = DRAW_NONE;
    __syncthreads();
    if (lane < 32) {
        for (uint32_t i = 0; i < lane; i++)
            before += digits->lanes[i];
        if (before < goal && before + sum >= goal) { /* true in one lane only */
            uint32_t digit = lane * DRAW_LANE_DIGITS;
            while (before + draw_digit(*digits, digit) < goal)
                before += draw_digit(*digits, digit++);
            digits->found = digit;
            digits->before = before;
        }
    }
    __syncthreads();
}

/* Returns the number of the token with which the prefix amounts to `goal`. */
static __device__ uint64_t draw_last(const float *row, uint32_t vocab, const struct draw_keep &keep,
                                     bool is_weighed, uint64_t goal)
{
    __shared__ struct draw_digits digits;
    uint64_t prefix = 0;
    uint64_t before = 0;
    for (uint32_t left = DRAW_ORDER_BITS; left > 0;) {
        const uint32_t bits = left < DRAW_DIGIT_BITS ? left : (uint32_t)DRAW_DIGIT_BITS;
        const uint32_t shift = left - bits;
        for (uint32_t i = threadIdx.x; i < DRAW_DIGITS + 32; i += blockDim.x)
            digits.low[i] = digits.high[i] = 0;
        __syncthreads();
        for (uint32_t i = threadIdx.x; i < vocab; i += blockDim.x) {
            const float value = draw_value(keep, row, 0, i);
            const uint64_t order = draw_order(keep, value, i);
            if (order > keep.last || order >> left != prefix)
                continue;
            const uint64_t amount = is_weighed ? draw_fixed(draw_weight(keep, value)) : 1;
            const uint32_t digit = (uint32_t)(order >> shift) & ((1u << bits) - 1);
            const uint32_t at = digit + digit / DRAW_LANE_DIGITS;
            const uint32_t low = (uint32_t)amount;
            if (amount == 0)
                continue;
            const uint32_t old = atomicAdd(&digits.low[at], low);
            const uint32_t high = (uint32_t)(amount >> 32) + (old + low < low ? 1 : 0);
            if (high > 0)
                atomicAdd(&digits.high[at], high);
        }
        __syncthreads();
        draw_digit_find(&digits, before, goal);
        if (digits.found == DRAW_NONE)
            return keep.last; /* all tokens together amount to less */
        prefix = prefix << bits | digits.found;
        before = digits.before;
        left = shift;
        __syncthreads();
    }
    return prefix;
}

/* --- first kernel: a segment of a row --- */

static __device__ struct draw_best draw_greatest(const float *values, uint32_t begin,
                                                 uint32_t count)
{
    struct draw_best mine = {-INFINITY, DRAW_NONE};
    for (uint32_t i = threadIdx.x; i < count; i += blockDim.x) {
        const struct draw_best other = {(double)values[i], begin + i};
        if (draw_before(other, mine))
            mine = other;
    }
    return draw_first(mine);
}

/* Writes the first `wanted` of a list, in order; DRAW_NONE after the last. */
static __device__ void draw_tops(const struct draw_best *list, const float *values, uint32_t begin,
                                 uint32_t count, uint32_t wanted, struct draw_best *out)
{
    struct draw_best last = {INFINITY, 0};
    for (uint32_t n = 0; n < wanted; n++) {
        struct draw_best mine = {-INFINITY, DRAW_NONE};
        for (uint32_t i = threadIdx.x; i < count; i += blockDim.x) {
            const struct draw_best other =
                list != NULL ? list[i] : draw_best{(double)values[i], begin + i};
            if ((n == 0 || draw_before(last, other)) && draw_before(other, mine))
                mine = other;
        }
        last = draw_first(mine);
        if (threadIdx.x == 0)
            out[n] = last;
    }
}

/* The lists of a draw's segments follow each other. */
static __device__ struct draw_best *draw_segment_tops(const struct draw_call &call,
                                                      const struct draw &draw, uint32_t which,
                                                      uint32_t segment)
{
    return call.tops + (size_t)which * call.segments * LIMIT_LOGPROBS + segment * draw.top_count;
}

static __host__ __device__ uint32_t draw_adjust_count(const struct draw &draw)
{
    return draw.ban_count + draw.bias_count + draw.prompt_count + draw.generated_count;
}

/* Adjusts the values of tokens from `begin` on, in the row and in its copy. */
static __device__ void draw_adjust_all(const struct draw_call &call, const struct draw_sent &sent,
                                       uint32_t begin, uint32_t count, float *values, float *row)
{
    const struct draw &draw = sent.draw;
    const struct draw_adjust *adjusts = call.adjusts + draw.adjust_first;
    uint32_t *counts = draw_shared_of_block()->counts;
    const uint32_t bias_end = draw.ban_count + draw.bias_count;
    const uint32_t prompt_end = bias_end + draw.prompt_count;
    const bool is_repeating = draw.repetition_penalty > 0 && draw.repetition_penalty != 1;
    for (uint32_t i = threadIdx.x; i < count; i += blockDim.x)
        counts[i] = 0;
    __syncthreads();
    for (uint32_t i = threadIdx.x; i < draw_adjust_count(draw); i += blockDim.x) {
        /* wraps around, to a large number, for a lower token */
        const uint32_t place = adjusts[i].token - begin;
        if (place >= count)
            continue;
        call.was[sent.was_first + i] = values[place];
        if (i >= prompt_end)
            (void)atomicAdd(&counts[place], 1u);
        else if (i >= bias_end)
            (void)atomicOr(&counts[place], DRAW_OF_PROMPT);
    }
    __syncthreads();
    for (uint32_t i = threadIdx.x; i < count && is_repeating; i += blockDim.x)
        if (counts[i] > 0)
            values[i] = values[i] > 0 ? values[i] / draw.repetition_penalty
                                      : values[i] * draw.repetition_penalty;
    __syncthreads();
    for (uint32_t i = draw.ban_count + threadIdx.x; i < bias_end; i += blockDim.x)
        if (adjusts[i].token - begin < count)
            values[adjusts[i].token - begin] += adjusts[i].bias;
    __syncthreads();
    for (uint32_t i = threadIdx.x; i < count; i += blockDim.x) {
        const uint32_t times = counts[i] & ~DRAW_OF_PROMPT;
        if (times > 0)
            values[i] -= draw.presence_penalty + draw.frequency_penalty * (float)times;
    }
    __syncthreads();
    for (uint32_t i = threadIdx.x; i < draw.ban_count; i += blockDim.x)
        if (adjusts[i].token - begin < count)
            values[adjusts[i].token - begin] = -INFINITY;
    __syncthreads();
    for (uint32_t i = threadIdx.x; i < draw_adjust_count(draw); i += blockDim.x)
        if (adjusts[i].token - begin < count)
            row[adjusts[i].token] = values[adjusts[i].token - begin];
}

/* Sets the values of a segment's forbidden tokens to −∞. */
static __device__ void draw_mask_all(const uint32_t *mask, uint32_t begin, uint32_t count,
                                     float *values)
{
    static_assert(DRAW_SEGMENT % 32 == 0, "a segment must begin with a word of the mask");
    __syncthreads(); /* adjustments read the values */
    for (uint32_t i = threadIdx.x; i < count; i += blockDim.x)
        if ((mask[(begin + i) / 32] >> i % 32 & 1) == 0)
            values[i] = -INFINITY;
    __syncthreads();
}

static __device__ bool draw_is_finite(const struct draw_best &best)
{
    return fabs(best.score) <= (double)FLT_MAX;
}

struct draw_changes_call {
    struct draw_adjust *adjusts;
    const struct draw_change *changes;
    uint32_t count;
};

__global__ void k_draw_change_cuda(struct draw_changes_call call)
{
    const uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < call.count)
        call.adjusts[call.changes[i].place] = call.changes[i].adjust;
}

__global__ void __launch_bounds__(DRAW_THREADS_MAX) k_draw_scan_f32_cuda(struct draw_call call)
{
    __shared__ float values[DRAW_SEGMENT];
    const struct draw_sent sent = call.draws[blockIdx.y];
    const struct draw &draw = sent.draw;
    const uint32_t begin = blockIdx.x * DRAW_SEGMENT;
    const uint32_t count =
        call.vocab - begin < DRAW_SEGMENT ? call.vocab - begin : (uint32_t)DRAW_SEGMENT;
    const size_t at = (size_t)blockIdx.y * call.segments + blockIdx.x;
    float *row = call.logits + (size_t)draw.row * call.vocab;
    for (uint32_t i = threadIdx.x; i < count; i += blockDim.x)
        values[i] = row[begin + i];
    __syncthreads();
    struct draw_part part;
    part.own = draw_greatest(values, begin, count);
    uint64_t sum = 0;
    if (draw_is_finite(part.own))
        for (uint32_t i = threadIdx.x; i < count; i += blockDim.x)
            sum += draw_fixed(draw_exp(values[i] - (float)part.own.score));
    part.sum = draw_sum(sum);
    if (draw.top_count > 0)
        draw_tops(NULL, values, begin, count, draw.top_count,
                  draw_segment_tops(call, draw, blockIdx.y, blockIdx.x));
    part.greatest = part.own;
    if (draw_adjust_count(draw) > 0)
        draw_adjust_all(call, sent, begin, count, values, row);
    if (draw.mask != NULL)
        draw_mask_all(draw.mask, begin, count, values);
    if (draw_adjust_count(draw) > 0 || draw.mask != NULL)
        part.greatest = draw_greatest(values, begin, count);
    part.noisy = part.greatest;
    if (draw.kind == DRAW_CHOOSE && draw.temperature > 0 && draw_is_finite(part.greatest)) {
        const struct draw_keep all = {0, 0, 0, DRAW_ALL, DRAW_NONE, NULL};
        part.noisy.score = draw_score((double)draw.temperature, (float)part.greatest.score,
                                      draw_bits(draw.stream, part.greatest.token));
        part.noisy = draw_noisy(values, begin, count, draw, all, part.noisy);
    }
    if (threadIdx.x == 0)
        call.parts[at] = part;
}

/* --- second kernel: a row --- */

/* `noisy` would be sampled without filters. It is the result if the filters keep it, which is usual
 * and can be checked without finding the last token that they keep. */
static __device__ uint32_t draw_filtered(const float *row, uint32_t vocab, const struct draw &draw,
                                         const struct draw_best &greatest, uint32_t noisy)
{
    struct draw_keep keep = {(float)greatest.score,
                             fminf(1 / draw.temperature, FLT_MAX),
                             0,
                             DRAW_ALL,
                             DRAW_NONE,
                             draw.mask};
    const bool has_top_k = draw.top_k > 0 && draw.top_k < vocab;
    const bool is_judged = draw.kind == DRAW_JUDGE;
    const uint32_t looked_for = is_judged ? draw.token : noisy;
    const float value = draw_value(keep, row, 0, looked_for);
    const float weight = draw_weight(keep, value);
    const uint64_t order = draw_order(keep, value, looked_for);
    const bool may_do = !is_judged && weight >= draw.min_p;
    uint64_t all;
    uint64_t before;
    if (has_top_k && may_do && draw.top_p == 1) {
        draw_amounts(row, vocab, keep, false, order, &all, &before);
        if (before < draw.top_k)
            return looked_for;
    }
    if (has_top_k)
        keep.last = draw_last(row, vocab, keep, false, draw.top_k);
    if (draw.top_p < 1) {
        draw_amounts(row, vocab, keep, true, order, &all, &before);
        const uint64_t goal = (uint64_t)ceil((double)draw.top_p * (double)all);
        if (may_do && order <= keep.last && before < goal)
            return looked_for;
        keep.last = draw_last(row, vocab, keep, true, goal);
    } else if (may_do && order <= keep.last) {
        return looked_for;
    }
    keep.min_p = draw.min_p;
    struct draw_best start = greatest;
    if (is_judged) {
        /* a counter above all ids */
        const double unit = draw_unit(draw_bits(draw.stream, DRAW_NONE));
        draw_amounts(row, vocab, keep, true, order, &all, &before);
        if (order <= keep.last && weight >= keep.min_p &&
            unit * (double)all < (double)draw_fixed(weight))
            return looked_for;
        keep.without = looked_for;
    }
    start.score = draw_score((double)draw.temperature, draw_value(keep, row, 0, start.token),
                             draw_bits(draw.stream, start.token));
    if (start.token == keep.without)
        start = {-INFINITY, DRAW_NONE};
    start = draw_noisy(row, 0, vocab, draw, keep, start);
    return start.token == DRAW_NONE ? looked_for : start.token; /* no other token is kept */
}

/* Returns log Σ e^logit, summed over the segments in order. */
static __device__ float draw_log_sum_exp(const struct draw_part *parts, uint32_t segments,
                                         double max)
{
    __shared__ double terms[DRAW_SEGMENTS_MAX];
    double sum = 0;
    for (uint32_t i = threadIdx.x; i < segments; i += blockDim.x)
        terms[i] = parts[i].sum == 0 ? 0
                                     : (double)parts[i].sum * (1 / (double)DRAW_ONE) *
                                           exp(parts[i].own.score - max);
    __syncthreads();
    for (uint32_t i = 0; i < segments; i++)
        sum += terms[i];
    return (float)(max + log(sum));
}

__global__ void __launch_bounds__(DRAW_THREADS_MAX) k_draw_row_f32_cuda(struct draw_call call)
{
    __shared__ struct draw_best tops[LIMIT_LOGPROBS];
    const struct draw_sent sent = call.draws[blockIdx.x];
    const struct draw &draw = sent.draw;
    const struct draw_part *parts = call.parts + (size_t)blockIdx.x * call.segments;
    float *row = call.logits + (size_t)draw.row * call.vocab;
    struct draw_best own = {-INFINITY, DRAW_NONE};
    struct draw_best greatest = own;
    struct draw_best noisy = own;
    for (uint32_t i = threadIdx.x; i < call.segments; i += blockDim.x) {
        own = draw_before(parts[i].own, own) ? parts[i].own : own;
        greatest = draw_before(parts[i].greatest, greatest) ? parts[i].greatest : greatest;
        noisy = draw_before(parts[i].noisy, noisy) ? parts[i].noisy : noisy;
    }
    own = draw_first(own);
    greatest = draw_first(greatest);
    noisy = draw_first(noisy);
    const float log_sum_exp = draw_log_sum_exp(parts, call.segments, own.score);
    uint32_t token = greatest.token;
    if (draw.kind == DRAW_TELL)
        token = draw.token;
    else if (draw.temperature > 0 && draw_is_finite(greatest))
        token = draw_filtered(row, call.vocab, draw, greatest, noisy.token);
    token = token < call.vocab ? token : 0; /* NONE only where all logits are NaN */
    if (draw.top_count > 0)
        draw_tops(draw_segment_tops(call, draw, blockIdx.x, 0), NULL, 0,
                  call.segments * draw.top_count, draw.top_count, tops);
    __syncthreads(); /* the row is not read any more */
    for (uint32_t i = threadIdx.x; i < draw_adjust_count(draw); i += blockDim.x)
        row[call.adjusts[draw.adjust_first + i].token] = call.was[sent.was_first + i];
    __syncthreads();
    if (threadIdx.x != 0)
        return;
    struct draw_result *out = call.out + blockIdx.x;
    out->token = token;
    out->logprob = row[token] - log_sum_exp;
    out->top_count = 0;
    for (uint32_t n = 0; n < draw.top_count && tops[n].token != DRAW_NONE; n++)
        out->top[out->top_count++] = {tops[n].token, (float)tops[n].score - log_sum_exp};
}

/* --- host side --- */

/* The buffer sent to the device has draws, then changes. The masks of a launch are sent by a copy
 * of their own, which a launch without masks does not make. */
struct cuda_draw {
    struct cuda_backend *backend;
    uint32_t vocab;
    uint32_t segments;
    uint32_t mask_words; /* of one mask */
    uint32_t adjusts_max;
    struct draw_sent *draws_host;
    struct draw_sent *draws;
    uint32_t *masks_host; /* [CUDA_DRAW_AT_ONCE][mask_words] */
    uint32_t *masks;
    struct draw_adjust *adjusts; /* [adjusts_max] */
    float *was;                  /* [adjusts_max] */
    struct draw_part *parts;
    struct draw_best *tops;
    struct draw_result *results_host;
    struct draw_result *results;
};

static enum status draw_open_memory(struct cuda_draw *draw)
{
    struct cuda_backend *backend = draw->backend;
    const size_t segments = (size_t)CUDA_DRAW_AT_ONCE * draw->segments;
    const size_t sent =
        CUDA_DRAW_AT_ONCE * sizeof *draw->draws + draw->adjusts_max * sizeof(struct draw_change);
    const size_t masks = (size_t)CUDA_DRAW_AT_ONCE * draw->mask_words * sizeof *draw->masks;
    const size_t results = CUDA_DRAW_AT_ONCE * sizeof *draw->results;
    const char *what = "sampling tokens";
    TRY(cuda_backend_alloc_host(backend, (void **)&draw->draws_host, sent, what));
    TRY(cuda_backend_alloc(backend, (void **)&draw->draws, sent, what));
    TRY(cuda_backend_alloc_host(backend, (void **)&draw->masks_host, masks, what));
    TRY(cuda_backend_alloc(backend, (void **)&draw->masks, masks, what));
    TRY(cuda_backend_alloc(backend, (void **)&draw->adjusts,
                           draw->adjusts_max * sizeof *draw->adjusts, what));
    TRY(cuda_backend_alloc(backend, (void **)&draw->was, draw->adjusts_max * sizeof(float), what));
    TRY(cuda_backend_alloc(backend, (void **)&draw->parts, segments * sizeof *draw->parts, what));
    TRY(cuda_backend_alloc(backend, (void **)&draw->tops,
                           segments * LIMIT_LOGPROBS * sizeof *draw->tops, what));
    TRY(cuda_backend_alloc_host(backend, (void **)&draw->results_host, results, what));
    return cuda_backend_alloc(backend, (void **)&draw->results, results, what);
}

extern "C" enum status cuda_draw_open(struct cuda_backend *backend, struct cuda_draw **out,
                                      uint32_t vocab, uint32_t adjusts_max)
{
    *out = NULL;
    ASSERT(vocab >= 1);
    ASSERT(vocab <= LIMIT_VOCAB);
    struct cuda_draw *draw = (struct cuda_draw *)mem_zalloc(1, sizeof *draw);
    if (draw == NULL)
        FAIL(STATUS_NO_MEMORY, "no memory for sampling tokens on the device");
    draw->backend = backend;
    draw->vocab = vocab;
    draw->segments = (vocab + DRAW_SEGMENT - 1) / DRAW_SEGMENT;
    draw->mask_words = (vocab + 31) / 32;
    draw->adjusts_max = adjusts_max;
    const enum status status = draw_open_memory(draw);
    if (status != STATUS_OK) {
        cuda_draw_close(draw);
        return status;
    }
    *out = draw;
    return STATUS_OK;
}

extern "C" void cuda_draw_close(struct cuda_draw *draw)
{
    if (draw == NULL)
        return;
    void *const device[] = {draw->draws, draw->masks, draw->adjusts, draw->was,
                            draw->parts, draw->tops,  draw->results};
    for (void *memory : device)
        cuda_backend_free(draw->backend, memory);
    cuda_backend_free_host(draw->backend, draw->draws_host);
    cuda_backend_free_host(draw->backend, draw->masks_host);
    cuda_backend_free_host(draw->backend, draw->results_host);
    mem_free(draw);
}

/* Takes as many draws from `first` on as fit; returns their number, and that of their masks. */
static uint32_t draw_take(struct cuda_draw *draw, const struct draw_args *args, uint32_t first,
                          uint32_t *mask_count)
{
    uint32_t count = 0;
    uint32_t used = 0;
    while (count < CUDA_DRAW_AT_ONCE && first + count < args->count) {
        const struct draw *from = &args->draws[first + count];
        ASSERT(draw_adjust_count(*from) <= draw->adjusts_max);
        ASSERT(from->top_count <= LIMIT_LOGPROBS);
        ASSERT(from->kind == DRAW_CHOOSE || from->token < draw->vocab);
        if (draw_adjust_count(*from) > draw->adjusts_max - used)
            break;
        struct draw_sent *sent = &draw->draws_host[count++];
        *sent = {*from, used};
        used += draw_adjust_count(*from);
        if (from->mask == NULL)
            continue;
        const size_t at = (size_t)(*mask_count)++ * draw->mask_words;
        memcpy(draw->masks_host + at, from->mask, draw->mask_words * sizeof *from->mask);
        sent->draw.mask = draw->masks + at;
    }
    return count;
}

/* Returns the threads for a block; more than a short row needs would only wait for each other. */
static uint32_t draw_threads(uint32_t values, uint32_t most)
{
    const uint32_t wanted = (values / 8 + 31) / 32 * 32;
    return wanted < 32 ? 32u : wanted < most ? wanted : most;
}

static void draw_copy(struct cuda_backend *backend, void *to, const void *from, size_t bytes)
{
    if (!backend->is_failed)
        cuda_backend_is_well(
            backend, cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, backend->stream), "draw");
}

/* Sends `count` draws and their masks to the device, and with the first of them all changes. */
static void draw_send(struct cuda_draw *draw, const struct draw_args *args, uint32_t count,
                      uint32_t mask_count, uint32_t change_count)
{
    struct cuda_backend *backend = draw->backend;
    struct draw_change *changes = (struct draw_change *)(draw->draws_host + CUDA_DRAW_AT_ONCE);
    const struct draw_changes_call call = {
        draw->adjusts, (const struct draw_change *)(draw->draws + CUDA_DRAW_AT_ONCE), change_count};
    const size_t draws_bytes = CUDA_DRAW_AT_ONCE * sizeof *draw->draws;
    ASSERT(change_count <= draw->adjusts_max);
    if (change_count > 0)
        memcpy(changes, args->changes, change_count * sizeof *changes);
    draw_copy(backend, draw->draws, draw->draws_host,
              change_count > 0 ? draws_bytes + change_count * sizeof *changes
                               : count * sizeof *draw->draws);
    if (mask_count > 0)
        draw_copy(backend, draw->masks, draw->masks_host,
                  (size_t)mask_count * draw->mask_words * sizeof *draw->masks);
    cuda_backend_launch(backend, "draw", dim3((change_count + 255) / 256), 256, k_draw_change_cuda,
                        call);
}

static void draw_launch(struct cuda_draw *draw, const struct draw_args *args, uint32_t count)
{
    struct cuda_backend *backend = draw->backend;
    const struct draw_call call = {(float *)args->logits, draw->vocab,   draw->segments,
                                   draw->draws,           draw->adjusts, draw->was,
                                   draw->parts,           draw->tops,    draw->results};
    cuda_backend_launch(backend, "draw", dim3(draw->segments, count),
                        draw_threads(draw->vocab, CUDA_MACHINE_BLOCK), k_draw_scan_f32_cuda, call);
    cuda_backend_launch(backend, "draw", dim3(count), draw_threads(draw->vocab, DRAW_THREADS_MAX),
                        k_draw_row_f32_cuda, call);
    draw_copy(backend, draw->results_host, draw->results, count * sizeof *draw->results);
}

extern "C" enum status cuda_draw_run(struct cuda_draw *draw, const struct draw_args *args)
{
    for (uint32_t first = 0; first < args->count;) {
        uint32_t mask_count = 0;
        const uint32_t count = draw_take(draw, args, first, &mask_count);
        draw_send(draw, args, count, mask_count, first == 0 ? args->change_count : 0);
        draw_launch(draw, args, count);
        TRY(cuda_backend_end(draw->backend));
        for (uint32_t i = 0; i < count; i++)
            args->out[args->draws[first + i].row] = draw->results_host[i];
        first += count;
    }
    return cuda_backend_end(draw->backend);
}
