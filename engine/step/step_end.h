/* step_end: how a choice and its request end, by themselves or from outside.
 *
 * Owns:     nothing; it changes the step's lists of running and waiting.
 * Thread:   engine thread only.
 * Cost:     O(running) an end.
 * Not here: whether they should (step, step_token).
 */
#pragma once

#include "engine/step/step_state.h"

/* A running choice is over; what it computed goes to the cache, its pages back. Its request is over
 * with its last choice, which step_end_own says and an end from outside says itself. */
void step_end_own(struct step *step, uint32_t index, enum engine_finish finish);
/* A request ends from outside, wherever it stands. */
void step_end_request(struct step *step, uint32_t slot, enum engine_finish finish);
/* A request that has not started is answered with the thread's error note. */
void step_end_refuse(struct step *step, uint32_t slot);
