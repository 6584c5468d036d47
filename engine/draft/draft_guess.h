/* draft_guess: the rows in which a draft is computed, for all sequences of a step together.
 *
 * Owns:     the batch of such rows; the pages of a draft model are filled here.
 * Thread:   engine thread only.
 * Cost:     a forward pass of the draft a guess, for all who guess together; a draft model's first
 *           pass has one more row for each token that it has not seen. No allocation after init.
 * Not here: who guesses and how far (step_draft), what becomes of a guess (step_token).
 *
 *     tokens   [prompt … | generated … t] g1 g2 g3
 *     rows     [not seen yet …        t ]              first pass: gives g1
 *                                         [g1]         second:     gives g2
 *                                             [g2]     third:      gives g3
 *
 * Each guess is what the request's own sampling makes of the draft's logits with the noise of that
 * position: the more alike the two, the more often it is what the model draws.
 *
 * The draft is a model of its own, with its own pages (draft_model), or the model's first layers,
 * then its output norm and output (early exit). Those have seen what the model has seen: K and V of
 * all tokens but t stand in the request's pages, and what guesses write behind them is written
 * again, with the same bits in those layers, when the model judges them.
 */
#pragma once

#include "engine/sampling/drawer.h"
#include "engine/sequence/batch.h"
#include "engine/sequence/sequence.h"

enum { DRAFT_GUESS_MOST = 3 };

struct draft_guess {
    struct model *model;
    uint32_t layers;    /* as model_batch */
    bool has_own_noise; /* guesses are judged by sampler_judge */
    struct batch batch;
    struct engine_sampling *samplings; /* [sequences_max] scratch, where has_own_noise */
    uint32_t *asked;                   /* [sequences_max] of the rows of logits: whose they are */
};

struct draft_guess_options {
    struct model *model;
    uint32_t layers;
    bool has_own_noise;
    uint32_t rows_max;
    uint32_t sequences_max;
};

/* NO_MEMORY. */
enum status draft_guess_init(struct draft_guess *guess, const struct draft_guess_options *options);
void draft_guess_deinit(struct draft_guess *guess);

struct draft_guess_ask {
    struct sequence *sequence;
    uint32_t place;
    const struct engine_sampling *sampling;
    uint32_t guesses; /* wanted, 1 … DRAFT_GUESS_MOST; then how many there are */
};

/* Adds the rows `rows` of one sequence to a pass. The last of them gives its guess if `is_whole`;
 * `which` is its place among the asks. batch_begin comes before the first of a pass. */
void draft_guess_add(struct draft_guess *guess, const struct kv_pool *pool,
                     const struct batch_part *rows, const struct sequence *sequence, uint32_t which,
                     bool is_whole);
/* Then guess `index` of each that was added goes behind its tokens. */
void draft_guess_run(struct draft_guess *guess, struct drawer *drawer, struct draft_guess_ask *asks,
                     uint32_t index);

/* Writes guesses of the first layers behind the tokens of each sequence, which have room for them.
 * `drawer` is the step's, of which nothing is asked yet. The sequences' own pages, of `pool`, have
 * room for the guesses too, and what is open of them is in `open`. */
void draft_guess_exit(struct draft_guess *guess, const struct kv_pool *pool, struct kv_open *open,
                      struct drawer *drawer, struct draft_guess_ask *asks, uint32_t count);
