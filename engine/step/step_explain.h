/* step_explain: how long a request waits, foretold from those before it.
 *
 * Owns:     the time between two that come in, by class, while more of the class wait.
 * Thread:   engine thread only; what it says is read through the figures.
 * Cost:     O(1), and one look into the cache for a request with a deadline.
 * Not here: who goes next (scheduler), showing it (engine), queues before the engine (edge_wait).
 */
#pragma once

#include "engine/step/step_state.h"

/* Steps and requests of a class after which something is foretold. */
enum { STEP_EXPLAIN_STEPS = 64, STEP_EXPLAIN_REQUESTS = 8 };

/* The first choice of a request comes in. */
void step_explain_admitted(struct step *step, const struct ticket *ticket);

/* A request has come: false, with the thread's error note (DEADLINE, and about how
 * long it would take), when it cannot have its first token in time, even if nobody more urgent came
 * any more. Nothing is foretold before enough was seen. */
bool step_explain_in_time(struct step *step, uint32_t slot);

/* Coarse enough to tell nobody what others do: 0, 1, 2, 4, 8, … */
uint32_t step_explain_coarse(uint64_t number);
