/* sim_order: classes come in order, and a resumed sequence gets to compute.
 *
 * Owns:     nothing; looks at an account before and after each step.
 * Thread:   one.
 * Cost:     O(slots² + slots × tickets) a step; also the last second's steps where a floor may be
 *           an exception.
 * Not here: what was served (sim_account), floors themselves (sim_account).
 */
#pragma once

#include "tests/sim/sim_account.h"

/* Called before a step: records what each sequence has. */
void sim_order_before(struct sim_account *account);
/* Called in its pass, whose rows are counted: records what each sequence has then. */
void sim_order_pass(struct sim_account *account);
/* Called after a step. Returns false when a property does not hold, which `wrong` names: no
 * sequence comes in, or resumes, past a more urgent one that waits for pages, unless its floor
 * still asks. */
bool sim_order_after(struct sim_account *account, char *wrong, size_t room);
/* Called after that. No sequence loses its pages to its own class or a lower one before it has had
 * its quantum. The lowest class gives pages first, except what its floor keeps, or still asks for.
 */
bool sim_order_quantum(struct sim_account *account, char *wrong, size_t room);
bool sim_order_victims(const struct sim_account *account, char *wrong, size_t room);
