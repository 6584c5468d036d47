/* sampler: samples the next token from one row of logits; a pure function.
 *
 * Owns:     scratch for one vocabulary.
 * Thread:   one at a time (the scratch); equal arguments give equal results on any thread.
 * Cost:     greedy: O(1), or one pass over the row when logits are adjusted; top log-probabilities
 *           take one pass. With a temperature: a pass with one hash a token, and logarithms for a
 *           handful. top_k adds a pass; top_p and min_p add a pass with an exp a token and one that
 *           compares. If the filters drop the best token, each further token that they drop takes
 *           two passes, and a large top_k takes a search for its end. Tokens are listed one by one
 *           only when a small top_k meets top_p or min_p, or when a token is within a
 *           ten-thousandth of where these end. The kernels do the passes. Measured by
 *           tests/bench/bench_sampler.
 * Not here: softmax statistics (kernels_logits_stats), end tokens and stop strings (step_token).
 */
#pragma once

#include "engine/request/engine_request.h"
#include "kernels/kernels.h"

/* From logits l of position t, in this order:
 *
 *   repeat    l ÷ repetition if l > 0, else l × repetition, for tokens of the prompt or generated
 *   adjust    l + bias − presence × [generated before] − frequency × (times generated before)
 *   ban       −∞ for tokens that would end the answer too early
 *   mask      −∞ for tokens that the answer's grammar does not allow
 *   greedy    temperature 0: the greatest, the lowest id among equals
 *   temper    z = l ÷ temperature
 *   top_k     the k greatest z
 *   top_p     of those, the shortest run from the top whose share of e^z reaches top_p
 *   min_p     of those, e^z ≥ min_p × the greatest e^z
 *   choose    the greatest z + g, g = −ln(−ln u) (Gumbel 1954): distributed exactly as softmax(z)
 *
 * u is rng_unit(rng_of(sampler_stream, token)): the noise of a (seed, choice, position, token) is
 * the same whatever else is in the batch, after a recompute, and with any filters. Reported
 * log-probabilities are the model's own: before adjusting, mask, temperature and filters.
 */
struct sampler {
    const struct kernels *kernels;
    uint32_t vocab;
    uint32_t *counts;  /* [vocab] zero between calls */
    float *adjusted;   /* [vocab] */
    float *weights;    /* [vocab] e^(z − greatest z) */
    uint32_t *order;   /* [vocab + ROW_IDS_MORE] ids, or a heap of them */
    uint32_t *scratch; /* [vocab] ids */
};

/* `kernels` must outlive the sampler. NO_MEMORY. */
enum status sampler_init(struct sampler *sampler, const struct kernels *kernels, uint32_t vocab);
void sampler_deinit(struct sampler *sampler);

struct sampler_args {
    const float *logits;              /* [vocab] */
    const struct logits_stats *stats; /* of `logits` */
    const struct engine_sampling *sampling;
    uint32_t choice;
    uint32_t position;      /* of the token to be sampled */
    const uint32_t *prompt; /* [prompt_count], for repetition_penalty */
    uint32_t prompt_count;
    const uint32_t *generated; /* [generated_count] tokens of this choice so far */
    uint32_t generated_count;
    /* [ban_count] tokens that an answer may not have before a position; the same for all
     * positions of a sequence. */
    const uint32_t *bans;
    uint32_t ban_count;
    bool is_banned; /* this position is before it */
    /* A bit for each token, bit id % 32 of word id / 32: 1 if it is allowed. At least one is. NULL:
     * all are. */
    const uint32_t *mask;
};

/* Stream of the noise: rng_unit(rng_of(stream, token)) is the u of a token. */
uint64_t sampler_stream(const struct sampler_args *args);

/* Samples the next token. */
uint32_t sampler_choose(struct sampler *sampler, const struct sampler_args *args);

/* Verifies a draft token by rejection sampling (Leviathan et al. 2023). A draft token sampled from
 * q is kept with probability min(1, p ÷ q), and else a token is sampled from (p − q)⁺. Here the
 * draft is taken as certain, q(guess) = 1: it is kept with probability p(guess), and else the token
 * is sampled from p without it. The result is distributed as p, what the filters leave of
 * softmax(z), but which token it is depends on the draft. The draft must not depend on the noise of
 * this position. One pass with an exp a token. */
uint32_t sampler_judge(struct sampler *sampler, const struct sampler_args *args, uint32_t guess);

/* Cost of sampling a token and reporting it, where a temperature alone costs 1: the means measured
 * by tests/bench/bench_sampler. At most SAMPLER_WORK_MOST. */
#define SAMPLER_WORK_MOST 12.0
#define SAMPLER_WORK_MASK 0.5 /* of a mask, on top */
double sampler_work(const struct engine_sampling *sampling, uint32_t prompt_count,
                    uint32_t generated_count, uint32_t top_count);

/* Whether the setting changes anything. */
static inline bool sampler_is_repeating(const struct engine_sampling *sampling)
{
    return sampling->repetition_penalty > 0 && sampling->repetition_penalty != 1;
}

/* The model's own log-probability of a token. */
float sampler_logprob(const float *logits, const struct logits_stats *stats, uint32_t token);

/* The `count` (≤ LIMIT_LOGPROBS) likeliest tokens, likeliest first, the lower id among equals;
 * returns how many there are (fewer only when the vocabulary is smaller). */
uint32_t sampler_top(struct sampler *sampler, const float *logits, const struct logits_stats *stats,
                     uint32_t count, struct engine_logprob *out);
