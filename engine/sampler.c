#include "engine/sampler.h"

#include <math.h>
#include <string.h>

#include "config/base/mem.h"
#include "config/base/rng.h"

/* rng_unit gives (k + ½) ÷ 2^52, so u ≤ 1 − 2^-53 and g ≤ −ln(−ln(1 − 2^-53)) < 36.75. */
static const double gumbel_most = 36.75;

/* Choices are few (LIMIT_CHOICES), so they share a stream number with the position. */
_Static_assert(LIMIT_CHOICES <= 256, "a choice takes 8 bits of the stream number");

enum status sampler_init(struct sampler *sampler, uint32_t vocab)
{
    *sampler = (struct sampler){.vocab = vocab};
    sampler->counts = mem_zalloc(vocab, sizeof(*sampler->counts));
    sampler->adjusted = mem_zalloc(vocab, sizeof(*sampler->adjusted));
    sampler->weights = mem_zalloc(vocab, sizeof(*sampler->weights));
    sampler->order = mem_zalloc(vocab, sizeof(*sampler->order));
    if (sampler->counts == NULL || sampler->adjusted == NULL || sampler->weights == NULL ||
        sampler->order == NULL) {
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
    *sampler = (struct sampler){0};
}

float sampler_logprob(const float *logits, const struct logits_stats *stats, uint32_t token)
{
    return logits[token] - stats->log_sum_exp;
}

/* Whether token a stands before token b: greater value, or equal and the lower id. */
static bool heap_before(const float *values, uint32_t a, uint32_t b)
{
    if (values[a] > values[b])
        return true;
    if (values[a] < values[b])
        return false;
    return a < b;
}

/* Restores the heap below `root`. With is_worst_up the root is the one that stands last. */
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

/* The `wanted` best ids of [0, vocab) by value, best first, in heap[]; returns how many. */
static uint32_t heap_select(uint32_t *heap, uint32_t wanted, const float *values, uint32_t vocab)
{
    uint32_t count = wanted < vocab ? wanted : vocab;
    if (count == 0)
        return 0;
    for (uint32_t i = 0; i < count; i++)
        heap[i] = i;
    heap_make(heap, count, values, true);
    for (uint32_t i = count; i < vocab; i++) {
        if (heap_before(values, i, heap[0])) {
            heap[0] = i;
            heap_sift(heap, count, 0, values, true);
        }
    }
    for (uint32_t left = count; left > 1; left--) {
        uint32_t worst = heap[0];
        heap[0] = heap[left - 1];
        heap[left - 1] = worst;
        heap_sift(heap, left - 1, 0, values, true);
    }
    return count;
}

uint32_t sampler_top(const float *logits, const struct logits_stats *stats, uint32_t vocab,
                     uint32_t count, struct engine_logprob *out)
{
    ASSERT(count <= LIMIT_LOGPROBS);
    uint32_t best[LIMIT_LOGPROBS];
    uint32_t found = heap_select(best, count, logits, vocab);
    for (uint32_t i = 0; i < found; i++)
        out[i] = (struct engine_logprob){best[i], sampler_logprob(logits, stats, best[i])};
    return found;
}

static bool choose_is_adjusted(const struct sampler_args *args)
{
    const struct engine_sampling *sampling = args->sampling;
    return sampling->bias_count > 0 ||
           (args->generated_count > 0 &&
            (sampling->presence_penalty != 0 || sampling->frequency_penalty != 0));
}

static void choose_adjust(struct sampler *sampler, const struct sampler_args *args)
{
    const struct engine_sampling *sampling = args->sampling;
    memcpy(sampler->adjusted, args->logits, sampler->vocab * sizeof(float));
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

static uint32_t choose_argmax(const float *values, uint32_t vocab)
{
    uint32_t best = 0;
    for (uint32_t i = 1; i < vocab; i++)
        if (values[i] > values[best])
            best = i;
    return best;
}

static uint64_t choose_stream(const struct sampler_args *args)
{
    return (uint64_t)args->position << 8 | args->choice;
}

static double choose_gumbel(const struct sampler_args *args, uint32_t token)
{
    double unit = rng_unit(rng_at(args->sampling->seed, choose_stream(args), token));
    return -log(-log(unit));
}

/* The greatest z + g over the tokens of `order`. */
static uint32_t choose_among(const struct sampler *sampler, const struct sampler_args *args,
                             const float *values, uint32_t count)
{
    double temperature = (double)args->sampling->temperature;
    uint32_t best = sampler->order[0];
    double best_score = -INFINITY;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t token = sampler->order[i];
        double score = (double)values[token] / temperature + choose_gumbel(args, token);
        if (score > best_score || (score == best_score && token < best)) {
            best_score = score;
            best = token;
        }
    }
    return best;
}

/* The greatest z + g over the whole vocabulary. A token whose z lies `gap` below the best score so
 * far needs g > gap, that is −ln u < e^-gap, and 1 − u ≤ −ln u: so one whose 1 − u is greater than
 * e^-gap cannot win, and its two logarithms are saved. e^-gap is bounded above by
 * 2^-floor(gap ÷ ln 2), widened by a half so that rounding can only keep a token, never lose one.
 */
static uint32_t choose_anywhere(const struct sampler *sampler, const struct sampler_args *args,
                                const float *values, uint32_t greatest)
{
    double temperature = (double)args->sampling->temperature;
    uint32_t best = greatest;
    double best_score = (double)values[greatest] / temperature + choose_gumbel(args, greatest);
    uint64_t stream = choose_stream(args);
    for (uint32_t token = 0; token < sampler->vocab; token++) {
        double tempered = (double)values[token] / temperature;
        double gap = best_score - tempered;
        if (!(gap <= gumbel_most))
            continue; /* also NaN, which never wins */
        uint64_t bits = rng_at(args->sampling->seed, stream, token);
        if (gap > 1) {
            double above = (double)(~bits >> 12) * 0x1p-52; /* 1 − u, less half a step */
            if (above > 1.5 / (double)((uint64_t)1 << (uint32_t)(gap * 1.4426950408889634)))
                continue;
        }
        double score = tempered - log(-log(rng_unit(bits)));
        if (score > best_score || (score == best_score && token < best)) {
            best_score = score;
            best = token;
        }
    }
    return best;
}

/* Fills `order` with the tokens that top_k and top_p keep, best first; returns how many. */
static uint32_t choose_keep(struct sampler *sampler, const struct engine_sampling *sampling,
                            const float *values, uint32_t greatest)
{
    uint32_t vocab = sampler->vocab;
    float *weights = sampler->weights;
    uint32_t *order = sampler->order;
    double temperature = (double)sampling->temperature;
    double top = (double)values[greatest] / temperature;

    if (sampling->top_k > 0 && sampling->top_k < vocab) {
        uint32_t count = heap_select(order, sampling->top_k, values, vocab);
        double total = 0;
        for (uint32_t i = 0; i < count; i++) {
            weights[order[i]] = expf((float)((double)values[order[i]] / temperature - top));
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

    double total = 0;
    for (uint32_t i = 0; i < vocab; i++) {
        weights[i] = expf((float)((double)values[i] / temperature - top));
        total += (double)weights[i];
    }
    /* All tokens below this weight together weigh less than what top_p leaves away, so the run from
     * the top ends before them. */
    double least = 0;
    if (sampling->top_p < 1)
        least = (1 - (double)sampling->top_p) * total / vocab;
    if ((double)sampling->min_p > least)
        least = (double)sampling->min_p;
    uint32_t count = 0;
    for (uint32_t i = 0; i < vocab; i++)
        if ((double)weights[i] >= least)
            order[count++] = i;
    if (sampling->top_p == 1)
        return count;
    /* The best are taken from the heap's root and put behind its shrinking end. */
    heap_make(order, count, values, false);
    double reached = 0;
    uint32_t left = count;
    while (left > 0 && reached < (double)sampling->top_p * total) {
        uint32_t next = order[0];
        reached += (double)weights[next];
        order[0] = order[left - 1];
        order[--left] = next;
        if (left > 1)
            heap_sift(order, left, 0, values, false);
    }
    for (uint32_t i = 0; i < (count - left); i++)
        order[i] = order[left + i]; /* any order: all of them are kept */
    return count - left;
}

static uint32_t choose_min_p(const struct sampler *sampler, float min_p, uint32_t count)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < count; i++)
        if (sampler->weights[sampler->order[i]] >= min_p)
            sampler->order[kept++] = sampler->order[i];
    return kept;
}

uint32_t sampler_choose(struct sampler *sampler, const struct sampler_args *args)
{
    const struct engine_sampling *sampling = args->sampling;
    const float *values = args->logits;
    uint32_t greatest = args->stats->argmax;
    if (choose_is_adjusted(args)) {
        choose_adjust(sampler, args);
        values = sampler->adjusted;
        greatest = choose_argmax(values, sampler->vocab);
    }
    ASSERT(greatest < sampler->vocab);
    if (sampling->temperature == 0)
        return greatest;
    bool has_top_k = sampling->top_k > 0 && sampling->top_k < sampler->vocab;
    if (!has_top_k && sampling->top_p == 1 && sampling->min_p == 0)
        return choose_anywhere(sampler, args, values, greatest);
    uint32_t count = choose_keep(sampler, sampling, values, greatest);
    if (sampling->min_p > 0)
        count = choose_min_p(sampler, sampling->min_p, count);
    if (count == 0)
        return greatest; /* only when rounding or NaN left nothing */
    return choose_among(sampler, args, values, count);
}
