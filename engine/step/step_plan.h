/* step_plan: carries out what the scheduler has planned.
 *
 * Owns:     nothing; it admits, preempts, takes pages from the cache and fills the batch.
 * Thread:   engine thread only.
 * Cost:     O(running + candidates).
 * Not here: which sequence goes first (scheduler), what the scheduler is shown (step_view).
 */
#pragma once

#include "engine/step/step_state.h"

/* Fills the batch; returns the number of its parts. `has_moved` is false when there was nothing to
 * do; it is true for a step that only preempts or admits, since the next step may compute. */
uint32_t step_plan(struct step *step, bool *has_moved);
