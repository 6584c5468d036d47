/* step_explain: predicts how long a request waits, from the requests before it.
 *
 * Owns:     the average time between two admissions of a class while more of the class wait.
 * Thread:   engine thread only; other threads read the result in the figures.
 * Cost:     O(1), and one lookup in the cache for a request with a deadline.
 * Not here: which request goes next (scheduler), showing the prediction (engine), queues before the
 *           engine (edge_wait).
 */
#pragma once

#include "engine/step/step_state.h"

/* Steps, and admissions of a class, that have to be seen before anything is predicted. */
enum { STEP_EXPLAIN_STEPS = 64, STEP_EXPLAIN_REQUESTS = 8 };

/* The first choice of a request was admitted. */
void step_explain_admitted(struct step *step, const struct ticket *ticket);

/* Whether a new request can have its first token before its deadline, if no more urgent request
 * came any more. False sets the thread's error note (DEADLINE, with about how long it would take).
 * True while too little has been seen. */
bool step_explain_in_time(struct step *step, uint32_t slot);

/* Rounds down to 0, 1, 2, 4, 8, …: too coarse to tell a client what others do. */
uint32_t step_explain_coarse(uint64_t number);
