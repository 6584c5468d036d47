/* sim_order: classes come in order, and whoever came back is let compute.
 *
 * Owns:     nothing; looks at an account before and after each step.
 * Thread:   one.
 * Cost:     O(places² + places × tickets) a step, the last second's steps where a floor may excuse.
 * Not here: what was served (sim_account), floors themselves (sim_account).
 */
#pragma once

#include "tests/sim/sim_account.h"

/* Before a step: what everybody has. */
void sim_order_before(struct sim_account *account);
/* In its pass, whose rows are counted: what everybody has then. */
void sim_order_pass(struct sim_account *account);
/* After a step: false when something does not hold, and `wrong` has the sentence. Nobody comes in,
 * or comes back, past a more urgent one that waits for pages, but for what a floor still asks. */
bool sim_order_after(struct sim_account *account, char *wrong, size_t room);
/* After that: nobody loses its pages to its own class or a lower one before it has had its quantum;
 * the lowest class gives pages first, but for what its floor keeps, or still asks. */
bool sim_order_quantum(struct sim_account *account, char *wrong, size_t room);
bool sim_order_victims(const struct sim_account *account, char *wrong, size_t room);
