/* step_end: how a choice and its request end, by themselves or from outside.
 *
 * Owns:     nothing; it changes the lists of running sequences and waiting requests.
 * Thread:   engine thread only.
 * Cost:     O(running) for each end.
 * Not here: whether they should end (step, step_token).
 */
#pragma once

#include "engine/step/step_state.h"

/* Ends a running choice: its full pages are in the cache, its partial page goes there, and it
 * releases its pages. Ends the request too when this was its last choice. */
void step_end_own(struct step *step, uint32_t index, enum engine_finish finish);
/* Ends a request with all its choices, whether it runs or waits, for a reason from outside. */
void step_end_request(struct step *step, uint32_t slot, enum engine_finish finish);
/* Answers a request that has not started with the thread's error note, as an ERROR event. */
void step_end_refuse(struct step *step, uint32_t slot);
