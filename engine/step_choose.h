/* step_choose: the tokens of all rows of a step that draw one, on the compute threads.
 *
 * Owns:     a sampler a thread; the tokens drawn, until the next step.
 * Thread:   the engine thread asks; the kernels' threads draw, and only read the step.
 * Cost:     the samplers' work ÷ threads (at most STEP_CHOOSE_THREADS); 16 bytes a token of the
 *           vocabulary and thread; no allocation after step_choose_init.
 * Not here: drawing (sampler), what becomes of a token (step_token).
 *
 * A row behind a guess is drawn as if the guess were right: when it is not, nobody asks for it.
 */
#pragma once

#include "engine/sampler.h"

struct step;

/* More would wait for memory. */
enum { STEP_CHOOSE_THREADS = 8 };

struct step_draw {
    uint32_t sequence; /* place */
    uint32_t row;      /* of the batch's logits */
    uint32_t ahead;    /* guesses before it */
    uint32_t guess;    /* of this token, where it is judged by chance (sampler_judge) */
    bool is_judged;
};

struct step_choose {
    struct sampler samplers[STEP_CHOOSE_THREADS];
    uint32_t sampler_count;
    struct step_draw *draws; /* [logit_rows_max], of this step: */
    uint32_t draw_count;
    uint32_t *tokens; /* [logit_rows_max] by row of logits */
};

/* NO_MEMORY. */
enum status step_choose_init(struct step_choose *choose, const struct kernels *kernels,
                             uint32_t vocab, uint32_t logit_rows_max);
void step_choose_deinit(struct step_choose *choose);

/* The first `parts` parts have been computed and nothing is told yet: `tokens` of their rows of
 * `logits` that draw one. */
void step_choose_all(struct step *step, uint32_t parts, const float *logits);
