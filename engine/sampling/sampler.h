/* sampler: the next token from one row of logits; a pure function.
 *
 * Owns:     scratch for one vocabulary.
 * Thread:   one at a time (the scratch); equal arguments give equal results on any.
 * Cost:     greedy: one pass over the row when it is adjusted or top log-probabilities are asked,
 *           else O(1). Temperature: a pass with one hash a token, logarithms for a handful. top_k:
 *           a pass more; top_p, min_p: one with an exp a token, and one that compares. Where the
 *           filters drop that token: two passes for each time that they drop another, and for a
 *           large top_k its place in the order is looked up. Nothing is put in order, unless a
 *           token stands within a ten-thousandth of where top_p or min_p ends. Passes are the
 *           kernels'. Measured: tests/bench/bench_sampler.
 * Not here: softmax statistics (kernels_logits_stats), end tokens and stop strings (sequence).
 */
#pragma once

#include "engine/request/engine_request.h"
#include "kernels/kernels.h"

/* From logits l of position t, in this order:
 *
 *   adjust    l + bias − presence × [generated before] − frequency × (times generated before)
 *   greedy    temperature 0: the greatest, the lowest id among equals
 *   temper    z = l ÷ temperature
 *   top_k     the k greatest z
 *   top_p     of those, the shortest run from the top whose share of e^z reaches top_p
 *   min_p     of those, e^z ≥ min_p × the greatest e^z
 *   choose    the greatest z + g, g = −ln(−ln u) (Gumbel 1954): drawn exactly as softmax(z) says
 *
 * u is rng_at(seed, stream of choice and position, token): noise of a (seed, choice, position,
 * token) is the same whatever else is in the batch, after a recompute, and whatever the filters.
 * Reported log-probabilities are the model's own: before adjusting, temperature and filters.
 */
struct sampler {
    const struct kernels *kernels;
    uint32_t vocab;
    uint32_t *counts;  /* [vocab] zero between calls */
    float *adjusted;   /* [vocab] */
    float *weights;    /* [vocab] e^(z − greatest z) */
    uint32_t *order;   /* [vocab] ids, a heap; ROW_IDS_MORE more */
    uint32_t *scratch; /* [vocab] ids */
};

/* `kernels` is used until the end. */
enum status sampler_init(struct sampler *sampler, const struct kernels *kernels, uint32_t vocab);
void sampler_deinit(struct sampler *sampler);

struct sampler_args {
    const float *logits;              /* [vocab] */
    const struct logits_stats *stats; /* of `logits` */
    const struct engine_sampling *sampling;
    uint32_t choice;
    uint32_t position;         /* of the token to be chosen */
    const uint32_t *generated; /* [generated_count] tokens of this choice so far */
    uint32_t generated_count;
};

/* Of the noise: rng_unit(rng_of(stream, token)) is a token's u. */
uint64_t sampler_stream(const struct sampler_args *args);

uint32_t sampler_choose(struct sampler *sampler, const struct sampler_args *args);

/* The other way to a token where one was guessed (Leviathan et al. 2023): a guess drawn from q is
 * kept with the chance min(1, p ÷ q), else the token comes from (p − q)⁺. A guess that was looked
 * up is certain, q(guess) = 1: it is kept with the chance p(guess), else the token is drawn from p
 * without it. Either way it is distributed as p, what the filters leave of softmax(z); but which
 * one it is depends on the guess. The guess must not depend on the noise of this position. A pass
 * with an exp a token. */
uint32_t sampler_judge(struct sampler *sampler, const struct sampler_args *args, uint32_t guess);

/* What a token costs to choose and to tell, 1 for one with a temperature alone: measured by
 * tests/bench/bench_sampler, the mean of each kind. SAMPLER_WORK_MOST at most. */
#define SAMPLER_WORK_MOST 12.0
double sampler_work(const struct engine_sampling *sampling, uint32_t generated_count,
                    uint32_t top_count);

/* The model's own log-probability of a token. */
float sampler_logprob(const float *logits, const struct logits_stats *stats, uint32_t token);

/* The `count` (≤ LIMIT_LOGPROBS) likeliest tokens, likeliest first, the lower id among equals;
 * returns how many there are (fewer only when the vocabulary is smaller). */
uint32_t sampler_top(struct sampler *sampler, const float *logits, const struct logits_stats *stats,
                     uint32_t count, struct engine_logprob *out);
