/* step_lower: moves a request to the lowest class.
 *
 * Owns:     nothing; it writes tickets, the queue, accounts and the owner of swap lists.
 * Thread:   engine thread only.
 * Cost:     one load a step; O(requests + those lowered × running) after a call of engine_lower.
 * Not here: which request is lowered and why (the edge's limits), what a class gets (scheduler).
 *
 * What the request was charged so far stays with its client in the class it leaves; from then on it
 * belongs to the tenant's client in the lowest class. A waiting request goes to the end of that
 * client's queue. Pages that were swapped out for it are kept as those of the lowest class.
 */
#pragma once

#include "engine/step/step_state.h"

/* For a request that is not in the queue yet: applies a call that came while it was prepared. */
void step_lower_arrived(struct step *step, uint32_t slot);
/* Applies all calls since the last step. */
void step_lower_all(struct step *step);
