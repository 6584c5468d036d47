/* step_plan: the planner's view of the step, and what becomes of its plan.
 *
 * Owns:     nothing; it admits, drops, takes from the cache, grows and fills the batch.
 * Thread:   engine thread only.
 * Cost:     O(running + candidates + followers); under want of pages O(pages of the running) too.
 * Not here: who goes first (scheduler), who follows whom (step_prefix).
 */
#pragma once

#include "engine/step.h"

/* Fills the batch; returns how many sequences are in it. `has_moved` is false when there was
 * nothing to do: a step that only drops or admits has moved, and the next one goes on. */
uint32_t step_plan(struct step *step, bool *has_moved);
