/* step_lower: a request that goes on in the lowest class.
 *
 * Owns:     nothing; it writes tickets, the queue and who is charged.
 * Thread:   engine thread only.
 * Cost:     a load a step; all requests once whenever one was lowered.
 * Not here: who is lowered and why (the edge's limits), what a class gets (scheduler).
 *
 * What it was charged so far stays with its client in the class it leaves; it begins anew as a
 * client of the lowest class. A request that waits goes to the end of its client's line there. What
 * was moved to host memory for it is kept there as of its old class until it comes back.
 */
#pragma once

#include "engine/step/step_state.h"

/* Before it is entered: it is of the lowest class already if it was lowered on its way. */
void step_lower_arrived(struct step *step, uint32_t slot);
/* All that were lowered since the last step. */
void step_lower_all(struct step *step);
