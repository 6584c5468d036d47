#include "engine/sampling/sampler.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "config/base/mem.h"
#include "config/base/rng.h"
#include "engine/sampling/sampler_order.h"

/* The noise that decides on a draft token: its "token id" is above all ids, so
 * it is independent. */
static const uint32_t judge_noise = UINT32_MAX;

/* Choices are few (LIMIT_CHOICES), so they share a stream number with the position. */
_Static_assert(LIMIT_CHOICES <= 256, "a choice takes 8 bits of the stream number");

/* Tokens examined between two updates of the best score, which rules out more of the next ones. */
enum { CHOOSE_STRETCH = 1024 };

/* No token. */
#define CHOOSE_NONE UINT32_MAX

/* The best of these first ids tell which other ids can be among the best at all. */
enum { HEAP_FIRST = 1024 };

/* More than this many best ids are found by counting (sampler_order): a heap would be sifted for
 * nearly every token of the vocabulary. */
enum { HEAP_MOST = 128 };

enum status sampler_init(struct sampler *sampler, const struct kernels *kernels, uint32_t vocab)
{
    *sampler = (struct sampler){.kernels = kernels, .vocab = vocab};
    sampler->counts = mem_zalloc(vocab, sizeof(*sampler->counts));
    sampler->adjusted = mem_zalloc(vocab, sizeof(*sampler->adjusted));
    sampler->weights = mem_zalloc(vocab, sizeof(*sampler->weights));
    sampler->order = mem_zalloc((size_t)vocab + ROW_IDS_MORE, sizeof(*sampler->order));
    sampler->scratch = mem_zalloc(vocab, sizeof(*sampler->scratch));
    if (sampler->counts == NULL || sampler->adjusted == NULL || sampler->weights == NULL ||
        sampler->order == NULL || sampler->scratch == NULL) {
        sampler_deinit(sampler);
        FAIL(STATUS_NO_MEMORY, "no memory for a sampler over %u tokens", vocab);
    }
    return STATUS_OK;
}

void sampler_deinit(struct sampler *sampler)
{
    mem_free(sampler->counts);
    mem_free(sampler->adjusted);
    mem_free(sampler->weights);
    mem_free(sampler->order);
    mem_free(sampler->scratch);
    *sampler = (struct sampler){0};
}

float sampler_logprob(const float *logits, const struct logits_stats *stats, uint32_t token)
{
    return logits[token] - stats->log_sum_exp;
}

/* Whether token a comes before token b: greater value, or equal and the lower id. */
static bool heap_before(const float *values, uint32_t a, uint32_t b)
{
    if (values[a] > values[b])
        return true;
    if (values[a] < values[b])
        return false;
    return a < b;
}

/* Restores the heap below `root`. With is_worst_up, the root is the token that comes last. */
static void heap_sift(uint32_t *heap, uint32_t count, uint32_t root, const float *values,
                      bool is_worst_up)
{
    uint32_t moved = heap[root];
    for (;;) {
        uint32_t child = 2 * root + 1;
        if (child >= count)
            break;
        if (child + 1 < count && heap_before(values, heap[child + 1], heap[child]) != is_worst_up)
            child++;
        if (heap_before(values, heap[child], moved) == is_worst_up)
            break;
        heap[root] = heap[child];
        root = child;
    }
    heap[root] = moved;
}

static void heap_make(uint32_t *heap, uint32_t count, const float *values, bool is_worst_up)
{
    for (uint32_t i = count / 2; i-- > 0;)
        heap_sift(heap, count, i, values, is_worst_up);
}

static void heap_offer(uint32_t *heap, uint32_t count, uint32_t id, const float *values)
{
    if (!heap_before(values, id, heap[0]))
        return;
    heap[0] = id;
    heap_sift(heap, count, 0, values, true);
}

/* Puts the `wanted` best ids by value into `order`, best first; returns how many. Any value below
 * the worst of the best among the first ids cannot belong to them: kernels skip it. */
static uint32_t heap_select(const struct sampler *sampler, uint32_t wanted, const float *values)
{
    const uint32_t vocab = sampler->vocab;
    const uint32_t count = wanted < vocab ? wanted : vocab;
    uint32_t first = count > HEAP_FIRST ? count : HEAP_FIRST;
    uint32_t *heap = sampler->order;
    uint32_t *others = heap + count;
    if (count == 0)
        return 0;
    first = first < vocab ? first : vocab;
    for (uint32_t i = 0; i < count; i++)
        heap[i] = i;
    heap_make(heap, count, values, true);
    for (uint32_t i = count; i < first; i++)
        heap_offer(heap, count, i, values);
    uint32_t left_over =
        kernels_row_above(sampler->kernels, values + first, vocab - first, values[heap[0]], others);
    for (uint32_t i = 0; i < left_over; i++)
        heap_offer(heap, count, first + others[i], values);
    for (uint32_t left = count; left > 1; left--) {
        uint32_t worst = heap[0];
        heap[0] = heap[left - 1];
        heap[left - 1] = worst;
        heap_sift(heap, left - 1, 0, values, true);
    }
    return count;
}

/* Puts the run that ends with `cut` at the front of `order`, by rising id; returns how many. */
static uint32_t order_run(const struct sampler *sampler, const float *values,
                          const struct sampler_order_cut *cut)
{
    uint32_t *order = sampler->order;
    uint32_t count = kernels_row_above(sampler->kernels, values, sampler->vocab, cut->value, order);
    uint32_t kept = count;
    while (kept > 0 && order[kept - 1] > cut->id)
        kept--;
    for (uint32_t i = kept; i < count; i++) { /* of later ids only greater values */
        uint32_t id = order[i];
        order[kept] = id;
        kept += values[id] > cut->value;
    }
    return kept;
}

/* As heap_select; fewer than wanted when a NaN is among them. */
static uint32_t order_select(const struct sampler *sampler, uint32_t wanted, const float *values)
{
    if (wanted <= HEAP_MOST || wanted >= sampler->vocab)
        return heap_select(sampler, wanted, values);
    const struct sampler_order_cut cut = sampler_order_find(
        sampler->kernels, values, sampler->vocab, wanted, sampler->order, sampler->scratch);
    uint32_t count = order_run(sampler, values, &cut);
    sampler_order_sort(values, sampler->order, count, sampler->scratch);
    return count;
}

uint32_t sampler_top(struct sampler *sampler, const float *logits, const struct logits_stats *stats,
                     uint32_t count, struct engine_logprob *out)
{
    ASSERT(count <= LIMIT_LOGPROBS);
    const uint32_t *best = sampler->order;
    uint32_t found = heap_select(sampler, count, logits);
    for (uint32_t i = 0; i < found; i++)
        out[i] = (struct engine_logprob){best[i], sampler_logprob(logits, stats, best[i])};
    return found;
}

static bool choose_is_adjusted(const struct sampler_args *args)
{
    const struct engine_sampling *sampling = args->sampling;
    return args->mask != NULL || sampling->bias_count > 0 ||
           (args->is_banned && args->ban_count > 0) || sampler_is_repeating(sampling) ||
           (args->generated_count > 0 &&
            (sampling->presence_penalty != 0 || sampling->frequency_penalty != 0));
}

/* Applies the repetition penalty to each of these tokens that is not counted yet. */
static void repeat_some(struct sampler *sampler, float penalty, const uint32_t *tokens,
                        uint32_t count)
{
    float *values = sampler->adjusted;
    for (uint32_t i = 0; i < count; i++) {
        const uint32_t token = tokens[i];
        if (sampler->counts[token] > 0)
            continue;
        values[token] = values[token] > 0 ? values[token] / penalty : values[token] * penalty;
        sampler->counts[token] = 1;
    }
}

static void choose_repeat(struct sampler *sampler, const struct sampler_args *args)
{
    const float penalty = args->sampling->repetition_penalty;
    repeat_some(sampler, penalty, args->prompt, args->prompt_count);
    repeat_some(sampler, penalty, args->generated, args->generated_count);
    for (uint32_t i = 0; i < args->prompt_count; i++)
        sampler->counts[args->prompt[i]] = 0;
    for (uint32_t i = 0; i < args->generated_count; i++)
        sampler->counts[args->generated[i]] = 0;
}

static void choose_adjust(struct sampler *sampler, const struct sampler_args *args)
{
    const struct engine_sampling *sampling = args->sampling;
    memcpy(sampler->adjusted, args->logits, sampler->vocab * sizeof(float));
    if (sampler_is_repeating(sampling))
        choose_repeat(sampler, args);
    for (uint32_t i = 0; i < sampling->bias_count; i++)
        sampler->adjusted[sampling->bias[i].token] += sampling->bias[i].bias;
    if (sampling->presence_penalty == 0 && sampling->frequency_penalty == 0)
        return;
    for (uint32_t i = 0; i < args->generated_count; i++)
        sampler->counts[args->generated[i]]++;
    for (uint32_t i = 0; i < args->generated_count; i++) {
        uint32_t token = args->generated[i];
        if (sampler->counts[token] == 0)
            continue; /* done at its first occurrence */
        sampler->adjusted[token] -= sampling->presence_penalty +
                                    sampling->frequency_penalty * (float)sampler->counts[token];
        sampler->counts[token] = 0;
    }
}

/* Sets the bits of `bits` to −∞ in the 32 values at `values`. */
static void mask_drop(float *values, uint32_t bits)
{
    for (; bits != 0; bits &= bits - 1)
        values[__builtin_ctz(bits)] = -INFINITY;
}

/* Leaves only the values of `bits` in the `count` values at `values`: most words of a mask allow
 * nearly all of their tokens or nearly none. */
static void mask_word(float *values, uint32_t count, uint32_t bits)
{
    const uint32_t all = count < 32 ? (1U << count) - 1 : UINT32_MAX;
    float kept[32];
    if (__builtin_popcount(bits) > 8) {
        mask_drop(values, all & ~bits);
        return;
    }
    memcpy(kept, values, count * sizeof *values);
    for (uint32_t i = 0; i < count; i++)
        values[i] = -INFINITY;
    for (bits &= all; bits != 0; bits &= bits - 1)
        values[__builtin_ctz(bits)] = kept[__builtin_ctz(bits)];
}

/* Tokens among which the guess for the greatest allowed one is looked for. The greatest of 64 has
 * few above it, and all of those are looked at. */
enum { MASK_FIRST = 64 };

/* Applies the mask to the adjusted values. Returns `guess` if it is allowed, else the best of the
 * first allowed tokens. */
static uint32_t choose_mask(struct sampler *sampler, const uint32_t *mask, uint32_t guess)
{
    const uint32_t vocab = sampler->vocab;
    float *values = sampler->adjusted;
    uint32_t best = (mask[guess / 32] >> guess % 32 & 1) != 0 ? guess : CHOOSE_NONE;
    uint32_t seen = best == guess ? MASK_FIRST : 0;
    for (uint32_t first = 0; first < vocab; first += 32) {
        const uint32_t count = vocab - first < 32 ? vocab - first : 32;
        mask_word(values + first, count, mask[first / 32]);
        for (uint32_t i = 0; i < count && seen < MASK_FIRST; i++) {
            if ((mask[first / 32] >> i & 1) == 0)
                continue;
            if (best == CHOOSE_NONE || heap_before(values, first + i, best))
                best = first + i;
            seen++;
        }
    }
    ASSERT(best != CHOOSE_NONE);
    return best;
}

/* Applies the bans. Returns `guess` if it is allowed, else the best of the first tokens. */
static uint32_t choose_ban(struct sampler *sampler, const struct sampler_args *args, uint32_t guess)
{
    float *values = sampler->adjusted;
    for (uint32_t i = 0; i < args->ban_count; i++)
        values[args->bans[i]] = -INFINITY;
    for (uint32_t id = 0; values[guess] == -INFINITY && id < sampler->vocab; id++)
        guess = id;
    for (uint32_t id = 0; id < sampler->vocab && id < MASK_FIRST; id++)
        guess = heap_before(values, id, guess) ? id : guess;
    return guess;
}

/* The first id of the greatest value, which is at least that of `guess`. */
static uint32_t choose_argmax(const struct sampler *sampler, const float *values, uint32_t guess)
{
    uint32_t best = guess;
    uint32_t count =
        kernels_row_above(sampler->kernels, values, sampler->vocab, values[guess], sampler->order);
    for (uint32_t i = 0; i < count; i++)
        if (heap_before(values, sampler->order[i], best))
            best = sampler->order[i];
    return best;
}

uint64_t sampler_stream(const struct sampler_args *args)
{
    return rng_stream(args->sampling->seed, (uint64_t)args->position << 8 | args->choice);
}

/* The best token so far, and the score that the noise must lift another one to. */
struct choose_best {
    const struct sampler_args *args;
    const float *values;
    struct row_noise_args noise;
    uint32_t token;
    double score;
};

static double choose_score(const struct choose_best *best, uint32_t token)
{
    return (double)best->values[token] / (double)best->args->sampling->temperature -
           log(-log(rng_unit(rng_of(best->noise.stream, token))));
}

static struct choose_best choose_begin(const struct sampler_args *args, const float *values,
                                       uint32_t token)
{
    struct choose_best best = {.args = args,
                               .values = values,
                               .noise = {.x = values, .stream = sampler_stream(args)},
                               .token = token};
    best.score = choose_score(&best, token);
    return best;
}

/* The greatest z + g of the tokens in `order` and of the best so far. The two logarithms are taken
 * only for tokens that could be it. */
static void choose_among(const struct sampler *sampler, struct choose_best *best, uint32_t count)
{
    bool is_new = true;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t token = sampler->order[i];
        if (is_new)
            kernels_row_noise_set(&best->noise, (double)best->args->sampling->temperature,
                                  best->score);
        is_new = false;
        if (!kernels_row_noise_reaches(&best->noise, token))
            continue;
        double score = choose_score(best, token);
        if (score > best->score || (score == best->score && token < best->token)) {
            best->score = score;
            best->token = token;
            is_new = true;
        }
    }
}

/* The greatest z + g over the whole vocabulary. */
static uint32_t choose_anywhere(const struct sampler *sampler, struct choose_best *best)
{
    struct row_noise_args *noise = &best->noise;
    while (noise->end < sampler->vocab) {
        uint32_t left = sampler->vocab - noise->end;
        noise->begin = noise->end;
        noise->end += left < CHOOSE_STRETCH ? left : CHOOSE_STRETCH;
        kernels_row_noise_set(noise, (double)best->args->sampling->temperature, best->score);
        choose_among(sampler, best, kernels_row_noise(sampler->kernels, noise, sampler->order));
    }
    return best->token;
}

/* The greatest z + g of the run that ends with `cut`, among tokens that weigh at least `least`. */
static void choose_run_best(const struct sampler *sampler, struct choose_best *best,
                            const struct sampler_order_cut *cut, float least)
{
    struct row_noise_args *noise = &best->noise;
    uint32_t *order = sampler->order;
    while (noise->end < sampler->vocab) {
        uint32_t left = sampler->vocab - noise->end;
        noise->begin = noise->end;
        noise->end += left < CHOOSE_STRETCH ? left : CHOOSE_STRETCH;
        kernels_row_noise_set(noise, (double)best->args->sampling->temperature, best->score);
        uint32_t count = kernels_row_noise(sampler->kernels, noise, order);
        uint32_t kept = 0;
        for (uint32_t i = 0; i < count; i++) {
            uint32_t id = order[i];
            order[kept] = id;
            kept += sampler_order_has(cut, best->values[id], id) &&
                    (least == 0 || sampler->weights[id] >= least);
        }
        choose_among(sampler, best, kept);
    }
}

/* Bounded: a temperature whose inverse is not a float would make weights of 0 × ∞. */
static float choose_scale(const struct engine_sampling *sampling)
{
    return fminf(1 / sampling->temperature, FLT_MAX);
}

/* Sets the weights of all tokens, where the greatest one weighs 1; returns their sum. */
static double choose_weigh(struct sampler *sampler, const struct engine_sampling *sampling,
                           const float *values, uint32_t greatest)
{
    return (double)kernels_row_exp(sampler->kernels, values, sampler->vocab, values[greatest],
                                   choose_scale(sampling), sampler->weights);
}

/* Puts into `order`, unsorted, tokens that together weigh `wanted`, and all that are heavier than
 * one of them. All tokens below the least bound tried weigh less together than what top_p drops. */
static uint32_t choose_heaviest(struct sampler *sampler, double total, double wanted,
                                const struct engine_sampling *sampling)
{
    const float *weights = sampler->weights;
    float least = sampling->min_p;
    if (sampling->top_p < 1)
        least = fmaxf(least, (float)((1 - (double)sampling->top_p) * total / sampler->vocab));
    bool is_last = sampling->top_p == 1;
    for (float above = 0x1p-2f;; above *= 0x1p-2f) {
        double sum = 0;
        is_last = is_last || !(above > least);
        uint32_t count = kernels_row_above(sampler->kernels, weights, sampler->vocab,
                                           is_last ? least : above, sampler->order);
        for (uint32_t i = 0; i < count; i++)
            sum += (double)weights[sampler->order[i]];
        if (is_last || sum >= wanted)
            return count;
    }
}

/* Brings the shortest run from the top that weighs `wanted` to the front of order[0, count),
 * unsorted; returns its length. Quickselect by weight (Hoare 1961). */
static uint32_t choose_run(const struct sampler *sampler, const float *values, uint32_t count,
                           double wanted)
{
    uint32_t *order = sampler->order;
    uint32_t from = 0; /* tokens before `from` belong to the run, those from `to` on do not */
    uint32_t to = count;
    double reached = 0;
    while (from < to) {
        uint32_t middle = from + (to - from) / 2;
        uint32_t pivot = order[middle];
        uint32_t split = from;
        double sum = 0;
        order[middle] = order[to - 1];
        for (uint32_t i = from; i < to - 1; i++) {
            uint32_t token = order[i];
            float value = values[token];
            bool is_before = (value > values[pivot]) | ((value == values[pivot]) & (token < pivot));
            order[i] = order[split]; /* no branch: half of them would be mispredicted */
            order[split] = token;
            split += is_before;
            sum += is_before ? (double)sampler->weights[token] : 0;
        }
        order[to - 1] = order[split];
        order[split] = pivot;
        if (reached + sum >= wanted) {
            to = split;
            continue;
        }
        reached += sum + (double)sampler->weights[pivot];
        from = split + 1;
        if (reached >= wanted)
            break;
    }
    return from;
}

static bool choose_has_top_k(const struct sampler *sampler, const struct engine_sampling *sampling)
{
    return sampling->top_k > 0 && sampling->top_k < sampler->vocab;
}

/* Weight of one token, where the greatest one weighs 1, as it counts behind top_k. */
static float choose_weight(const struct engine_sampling *sampling, const float *values,
                           uint32_t greatest, uint32_t token)
{
    double temperature = (double)sampling->temperature;
    double top = (double)values[greatest] / temperature;
    return expf((float)((double)values[token] / temperature - top));
}

/* Fills `order` with the tokens that top_k and top_p keep, best first after top_k;
 * returns how many. */
static uint32_t choose_keep(struct sampler *sampler, const struct engine_sampling *sampling,
                            const float *values, uint32_t greatest)
{
    float *weights = sampler->weights;
    uint32_t *order = sampler->order;

    if (choose_has_top_k(sampler, sampling)) {
        uint32_t count = order_select(sampler, sampling->top_k, values);
        double total = 0;
        for (uint32_t i = 0; i < count; i++) {
            weights[order[i]] = choose_weight(sampling, values, greatest, order[i]);
            total += (double)weights[order[i]];
        }
        double reached = 0;
        for (uint32_t i = 0; i < count && sampling->top_p < 1; i++) {
            reached += (double)weights[order[i]];
            if (reached >= (double)sampling->top_p * total)
                return i + 1;
        }
        return count;
    }

    double total = choose_weigh(sampler, sampling, values, greatest);
    double wanted = (double)sampling->top_p * total;
    uint32_t count = choose_heaviest(sampler, total, wanted, sampling);
    if (sampling->top_p == 1)
        return count;
    return choose_run(sampler, values, count, wanted);
}

static uint32_t choose_min_p(const struct sampler *sampler, float min_p, uint32_t count)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < count; i++)
        if (sampler->weights[sampler->order[i]] >= min_p)
            sampler->order[kept++] = sampler->order[i];
    return kept;
}

static const float *choose_values(struct sampler *sampler, const struct sampler_args *args,
                                  uint32_t *greatest)
{
    const float *values = args->logits;
    *greatest = args->stats->argmax;
    ASSERT(*greatest < sampler->vocab);
    if (choose_is_adjusted(args)) {
        choose_adjust(sampler, args);
        values = sampler->adjusted;
        if (args->is_banned)
            *greatest = choose_ban(sampler, args, *greatest);
        if (args->mask != NULL)
            *greatest = choose_mask(sampler, args->mask, *greatest);
        *greatest = choose_argmax(sampler, values, *greatest);
    }
    return values;
}

/* Fills `order` with the tokens that the filters keep, and sets their weights; returns how many. */
static uint32_t choose_filter(struct sampler *sampler, const struct engine_sampling *sampling,
                              const float *values, uint32_t greatest)
{
    uint32_t count = choose_keep(sampler, sampling, values, greatest);
    return sampling->min_p > 0 ? choose_min_p(sampler, sampling->min_p, count) : count;
}

/* Bound of the relative difference between weights of the kernels, of choose_weight,
 * and their sums. */
static const double weight_doubt = 1e-4;

/* Below this the kernels' weights are 0. */
static const float weight_least = 1e-37F;

/* Rounds in which a run is cut back; each leaves a random part of its weight. */
enum { CHOOSE_ROUNDS = 64 };

/* Weight of the run that ends with `cut`, where the greatest token weighs 1. */
static double choose_run_weight(const struct sampler *sampler, const float *values,
                                const struct sampler_order_cut *cut)
{
    const uint32_t *order = sampler->order;
    const float *weights = sampler->weights;
    double sums[4] = {0}; /* four, so that no addition waits for the one before it */
    uint32_t count = order_run(sampler, values, cut);
    for (uint32_t i = 0; i + 4 <= count; i += 4)
        for (uint32_t lane = 0; lane < 4; lane++)
            sums[lane] += (double)weights[order[i + lane]];
    for (uint32_t i = count & ~3U; i < count; i++)
        sums[0] += (double)weights[order[i]];
    return sums[0] + sums[1] + sums[2] + sums[3];
}

/* The run that ends with the token before `token`. */
static struct sampler_order_cut choose_cut_before(const float *values, uint32_t token)
{
    if (token > 0)
        return (struct sampler_order_cut){values[token], token - 1};
    return (struct sampler_order_cut){nextafterf(values[token], INFINITY), UINT32_MAX};
}

/* Whether min_p keeps a token. */
static bool choose_is_heavy(const struct sampler *sampler, const struct choose_best *best,
                            uint32_t greatest, uint32_t token)
{
    const struct engine_sampling *sampling = best->args->sampling;
    if (sampling->min_p == 0)
        return true;
    return (choose_has_top_k(sampler, sampling)
                ? choose_weight(sampling, best->values, greatest, token)
                : sampler->weights[token]) >= sampling->min_p;
}

/* Finds the best token that top_p and min_p keep, in the run that ends with `cut` (what top_k
 * keeps), which weighs `total`. `best` is the best of the run. If top_p drops it, top_p drops all
 * tokens from there on too, and the next to examine is the best token before it. CHOOSE_NONE when
 * the result depends on rounding. */
static uint32_t choose_cut_back(struct sampler *sampler, struct choose_best *best,
                                uint32_t greatest, struct sampler_order_cut cut, double total)
{
    const struct engine_sampling *sampling = best->args->sampling;
    const double wanted = (double)sampling->top_p * total;
    float least = sampling->min_p;
    if (sampling->top_p < 1 && wanted * (1 + weight_doubt) <= 1)
        return greatest; /* it weighs 1, so it reaches top_p alone */
    if (choose_has_top_k(sampler, sampling))
        least = least > weight_least ? least * (float)(1 - weight_doubt) : 0;
    for (uint32_t round = 0; round < CHOOSE_ROUNDS; round++) {
        if (round > 0 || !(sampler->weights[best->token] >= least)) {
            *best = choose_begin(best->args, best->values, greatest);
            choose_run_best(sampler, best, &cut, least);
        }
        uint32_t token = best->token;
        if (token == greatest)
            return token;
        if (!choose_is_heavy(sampler, best, greatest, token))
            return CHOOSE_NONE;
        if (sampling->top_p == 1)
            return token;
        cut = choose_cut_before(best->values, token);
        double before = choose_run_weight(sampler, best->values, &cut);
        if (before < wanted * (1 - weight_doubt))
            return token;
        if (!(before > wanted * (1 + weight_doubt)))
            return CHOOSE_NONE;
    }
    return CHOOSE_NONE;
}

/* Whether all filters keep the best token of all, whatever else top_k drops. */
static bool choose_is_kept_of_k(struct sampler *sampler, const struct choose_best *best,
                                uint32_t greatest, double total)
{
    const struct engine_sampling *sampling = best->args->sampling;
    const uint32_t token = best->token;
    uint32_t count = kernels_row_above(sampler->kernels, best->values, sampler->vocab,
                                       best->values[token], sampler->order);
    if (count > sampling->top_k || !choose_is_heavy(sampler, best, greatest, token))
        return false;
    if (sampling->top_p == 1)
        return true;
    /* The k greatest weigh at least as much as k average tokens. */
    double least = total * sampling->top_k / sampler->vocab * (1 - 10 * weight_doubt);
    const struct sampler_order_cut cut = choose_cut_before(best->values, token);
    double before = choose_run_weight(sampler, best->values, &cut);
    double known = before + (double)sampler->weights[token];
    total = known > least ? known : least;
    return before < (double)sampling->top_p * total * (1 - weight_doubt);
}

/* From the best token of all to the best that the filters keep. CHOOSE_NONE when the result depends
 * on rounding, or when top_k is so small that listing its tokens is faster. */
static uint32_t choose_among_kept(struct sampler *sampler, struct choose_best *best,
                                  uint32_t greatest)
{
    const struct engine_sampling *sampling = best->args->sampling;
    const float *values = best->values;
    const bool has_top_k = choose_has_top_k(sampler, sampling);
    const bool is_weighed = !has_top_k || sampling->top_p < 1 || sampling->min_p > 0;
    struct sampler_order_cut cut = {-INFINITY, UINT32_MAX};
    double total = 0;
    if (is_weighed && has_top_k && sampling->top_k <= HEAP_MOST)
        return CHOOSE_NONE;
    if (is_weighed)
        total = choose_weigh(sampler, sampling, values, greatest);
    if (has_top_k) {
        if (choose_is_kept_of_k(sampler, best, greatest, total))
            return best->token;
        if (sampling->top_k <= HEAP_MOST)
            return CHOOSE_NONE;
        cut = sampler_order_find(sampler->kernels, values, sampler->vocab, sampling->top_k,
                                 sampler->order, sampler->scratch);
        if (!sampler_order_has(&cut, values[best->token], best->token)) {
            *best = choose_begin(best->args, values, greatest);
            choose_run_best(sampler, best, &cut, 0);
        }
        if (!is_weighed)
            return best->token;
        total = choose_run_weight(sampler, values, &cut);
    }
    return choose_cut_back(sampler, best, greatest, cut, total);
}

/* If the filters keep the token with the greatest score of all, it is the result;
 * mostly they do. */
uint32_t sampler_choose(struct sampler *sampler, const struct sampler_args *args)
{
    const struct engine_sampling *sampling = args->sampling;
    uint32_t greatest;
    const float *values = choose_values(sampler, args, &greatest);
    if (sampling->temperature == 0)
        return greatest;
    struct choose_best best = choose_begin(args, values, greatest);
    uint32_t token = choose_anywhere(sampler, &best);
    if (!choose_has_top_k(sampler, sampling) && sampling->top_p == 1 && sampling->min_p == 0)
        return token;
    token = choose_among_kept(sampler, &best, greatest);
    if (token != CHOOSE_NONE)
        return token;
    best = choose_begin(args, values, greatest);
    uint32_t count = choose_filter(sampler, sampling, values, greatest);
    choose_among(sampler, &best, count); /* `greatest` is one of them */
    return best.token;
}

double sampler_work(const struct engine_sampling *sampling, uint32_t prompt_count,
                    uint32_t generated_count, uint32_t top_count)
{
    const bool is_hot = sampling->temperature > 0;
    const bool has_share = sampling->top_p < 1 || sampling->min_p > 0;
    const bool is_penalised = sampling->presence_penalty != 0 || sampling->frequency_penalty != 0;
    double work = is_hot ? 1 : 0;
    if (is_hot && sampling->top_k > 0)
        work += 0.5;
    if (is_hot && has_share)
        work += sampling->top_k > 0 ? 7 : 2;
    if (sampling->bias_count > 0 || is_penalised || sampler_is_repeating(sampling))
        work += 0.5;
    if (is_penalised)
        work += generated_count / 8192.0;
    if (sampler_is_repeating(sampling))
        work += (prompt_count + generated_count) / 8192.0;
    if (top_count > 0)
        work += 1;
    return work < SAMPLER_WORK_MOST ? work : SAMPLER_WORK_MOST;
}

uint32_t sampler_judge(struct sampler *sampler, const struct sampler_args *args, uint32_t guess)
{
    uint32_t greatest;
    const float *values = choose_values(sampler, args, &greatest);
    if (args->sampling->temperature == 0)
        return greatest;
    uint32_t count = choose_filter(sampler, args->sampling, values, greatest);
    if (count == 0)
        return greatest; /* only when all values are NaN */
    double total = 0;
    double weight = 0;
    uint32_t others = 0;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t token = sampler->order[i];
        total += (double)sampler->weights[token];
        if (token == guess)
            weight = (double)sampler->weights[token];
        else
            sampler->order[others++] = token;
    }
    struct choose_best best = choose_begin(args, values, others > 0 ? sampler->order[0] : guess);
    double unit = rng_unit(rng_of(best.noise.stream, judge_noise));
    if (others == 0 || unit * total < weight)
        return guess;
    choose_among(sampler, &best, others);
    return best.token;
}
