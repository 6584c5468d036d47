/* step_load: what a step has to compute: its rows, its rows of logits, and the keys that they read.
 *
 * Owns:     nothing.
 * Thread:   engine thread only.
 * Cost:     O(parts) for a whole step.
 * Not here: the time that a load takes (step_cost), rows behind the planned ones (step_force,
 *           step_draft).
 */
#pragma once

#include "engine/step/step_state.h"

struct step_load {
    uint32_t rows;
    uint32_t logit_rows;
    double keys;
    double tokens;    /* that the step is expected to generate */
    uint32_t passes;  /* of the draft model */
    bool is_declined; /* a sequence could have had drafts, and they would not have paid */
};

/* The load of the first `parts` parts, without drafts. A row of logits is counted for each forced
 * row, although only requests that want log-probabilities need it. */
struct step_load step_load_planned(const struct step *step, uint32_t parts);
/* Keys that `rows` rows from position `first` on read. */
double step_load_keys(const struct step *step, uint32_t first, uint32_t rows);
/* What the step may take with rows behind the planned ones, where `limit_us` bounds the planned
 * ones; 0 = no bound. */
double step_load_limit_us(const struct step *step, const struct step_load *planned,
                          double limit_us);
