/* draft_guess: the rows in which a draft model guesses, for all sequences of a step together.
 *
 * Owns:     nothing; fills a draft_model's batch and pages.
 * Thread:   engine thread only.
 * Cost:     a forward pass of the small model a guess, for all who guess together; one more row for
 *           each token that it has not seen. No allocation.
 * Not here: who guesses and how far (step_draft), what becomes of a guess (step_token).
 *
 *     tokens   [prompt … | generated … t] g1 g2 g3
 *     rows     [not seen yet …        t ]              first pass: gives g1
 *                                         [g1]         second:     gives g2
 *                                             [g2]     third:      gives g3
 *
 * Each guess is what the request's own sampling makes of the small model's logits with the noise
 * of that position: the more alike the models, the more often it is what the large one draws.
 */
#pragma once

#include "engine/draft_model.h"
#include "engine/sampler.h"
#include "engine/sequence.h"

enum { DRAFT_GUESS_MOST = 3 };

struct draft_guess_ask {
    struct sequence *sequence;
    uint32_t place;
    const struct engine_sampling *sampling;
    uint32_t guesses; /* wanted, 1 … DRAFT_GUESS_MOST; then how many there are */
};

/* Writes guesses behind the tokens of each sequence, which have room for them. */
void draft_guess_model(struct draft_model *draft, struct sampler *sampler,
                       struct draft_guess_ask *asks, uint32_t count);

/* Of the last guesses of a place only those before token `true_count` were right. */
void draft_guess_judged(struct draft_model *draft, uint32_t place, uint32_t true_count);
