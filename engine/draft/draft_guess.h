/* draft_guess: the passes that compute draft tokens, for all sequences of a step together.
 *
 * Owns:     the batch of such a pass; it fills the pages of a draft model.
 * Thread:   engine thread only.
 * Cost:     one forward pass of the drafter for each draft token, for all sequences together; a
 *           draft model's first pass has one more row for each token that it has not read. No
 *           allocation after init.
 * Not here: which sequences get drafts and how many (step_draft), verification (step_token).
 *
 *     tokens   [prompt … | generated … t] g1 g2 g3
 *     rows     [not read yet …        t ]              first pass: gives g1
 *                                         [g1]         second:     gives g2
 *                                             [g2]     third:      gives g3
 *
 * Each draft token is sampled from the drafter's logits with the request's own sampling and the
 * noise of that position: the more alike drafter and model, the more often it is what the model
 * samples.
 *
 * The drafter is a model of its own with its own pages (draft_model), or the model's first layers
 * followed by its output norm and output (early exit). With early exit the keys and values of all
 * tokens but t are in the request's pages already. Those that drafts write after them are written
 * again, with the same bits in these layers, when the model verifies the drafts.
 */
#pragma once

#include "engine/sampling/drawer.h"
#include "engine/sequence/batch.h"
#include "engine/sequence/sequence.h"

enum { DRAFT_GUESS_MOST = 3 };

struct draft_guess {
    struct model *model;
    uint32_t layers;    /* as model_batch.layers */
    bool has_own_noise; /* drafts are verified by sampler_judge, so their noise must be another */
    struct batch batch;
    struct engine_sampling *samplings; /* [sequences_max] scratch, with has_own_noise */
    uint32_t *asked;                   /* [sequences_max] of each row of logits: index of its ask */
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
    uint32_t place; /* slot of the sequence */
    const struct engine_sampling *sampling;
    /* As those of the step's own asks, because the drawer keeps one list for both. */
    const uint32_t *bans;
    uint32_t ban_count;
    uint32_t banned_before; /* generated tokens */
    uint32_t guesses; /* draft tokens wanted, 1 to DRAFT_GUESS_MOST; then how many there are */
};

/* Adds the rows of one sequence to a pass, which begins with batch_begin. If `is_whole`, the last
 * row gives the draft token of ask `which`. */
void draft_guess_add(struct draft_guess *guess, const struct kv_pool *pool,
                     const struct batch_part *rows, const struct sequence *sequence, uint32_t which,
                     bool is_whole);
/* Runs the pass, and writes draft token `index` of each sequence in it after its tokens. */
void draft_guess_run(struct draft_guess *guess, struct drawer *drawer, struct draft_guess_ask *asks,
                     uint32_t index);

/* Early exit: writes draft tokens after the tokens of each sequence, which need room for them.
 * `drawer` is the step's, before anything is asked of it. The sequences' own pages, of `pool`, need
 * room for the drafts too; `open` has their open groups. */
void draft_guess_exit(struct draft_guess *guess, const struct kv_pool *pool, struct kv_open *open,
                      struct drawer *drawer, struct draft_guess_ask *asks, uint32_t count);
