/* step_pause: preemption: sequences lose their pages to others and resume later.
 *
 * Owns:     nothing; it changes sequences, their requests' reports and the figures.
 * Thread:   engine thread only.
 * Cost:     a preemption is O(pages of the sequence); a resume is what the cache or the copy takes.
 * Not here: which sequence is preempted or resumed (scheduler); accounts (step_charge: what a
 *           sequence computes again is charged to nobody).
 *
 * A preempted sequence keeps its slot and its tokens. Its next token is the one that it would have
 * had without the preemption, since a row's result depends on nothing but the tokens before it.
 */
#pragma once

#include "engine/step/step_state.h"

/* Preempts a sequence as `grant` says, before anything of the step is computed. */
void step_pause(struct step *step, uint32_t index, const struct scheduler_grant *grant);
/* Fills in, for a sequence without pages, what it would find again and what that costs. */
void step_pause_view(struct step *step, uint32_t index, struct scheduler_sequence *view);
/* Makes `pages` pages available, which the plan has counted on, if need be from those that are
 * protected for swapped-out sequences. */
void step_pause_room(struct step *step, uint32_t pages);
/* A sequence without pages gets rows: swaps it in, or takes what the cache has for it. */
void step_pause_resume(struct step *step, uint32_t index);

/* Called once a step for each sequence, after the plan; `place` is its index in the order. Emits
 * PAUSED for a stream that has stood still for a second. */
void step_pause_tell(struct step *step, uint32_t place);
/* A sequence ends, preempted or not. */
void step_pause_end(struct step *step, uint32_t index);
