/* step_plan: carries out what the scheduler has planned.
 *
 * Owns:     nothing; it admits, pauses, takes from the cache, grows and fills the batch.
 * Thread:   engine thread only.
 * Cost:     O(running + candidates).
 * Not here: who goes first (scheduler), what it is shown (step_view).
 */
#pragma once

#include "engine/step/step_state.h"

/* Fills the batch; returns how many sequences are in it. `has_moved` is false when there was
 * nothing to do: a step that only drops or admits has moved, and the next one goes on. */
uint32_t step_plan(struct step *step, bool *has_moved);
