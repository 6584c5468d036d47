/* step_pause: sequences that lose their pages to others and go on later, in the same stream.
 *
 * Owns:     nothing; it changes sequences, their requests' reports and the figures.
 * Thread:   engine thread only.
 * Cost:     a pause is O(its pages), a resume what the cache or the copy takes.
 * Not here: who is paused, and who comes back when (scheduler); what others are charged for it
 *           (step_charge: nobody is).
 *
 * A paused sequence keeps its place and its tokens; the next token is the one that it would have
 * had, since a row's result depends on nothing but the tokens before it.
 */
#pragma once

#include "engine/step/step_state.h"

/* As the plan says, before anything of the step is computed. */
void step_pause(struct step *step, uint32_t index, const struct scheduler_grant *grant);
/* What a sequence without pages is shown as: what there is for it, and what that costs. */
void step_pause_view(struct step *step, uint32_t index, struct scheduler_sequence *view);
/* Makes so many pages available, if need be of those protected for paused sequences: the plan has
 * counted on them. */
void step_pause_room(struct step *step, uint32_t pages);
/* A sequence that had no pages has rows: takes what there is for it. */
void step_pause_resume(struct step *step, uint32_t index);

/* Once a step, behind the plan: a stream that stands still is told so, and when it goes on. */
void step_pause_tell(struct step *step, uint32_t place);
/* A sequence ends, paused or not. */
void step_pause_end(struct step *step, uint32_t index);
