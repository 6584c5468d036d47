/* admin_ask: one question of an admin's call to the engine.
 *
 * Owns:     an exchange with the engine, its answer, a deadline; dies with its call.
 * Thread:   the loop's.
 * Cost:     one exchange; LIMIT_ADMIN_ANSWER_BYTES at most.
 * Not here: what is asked and made of it (admin_requests).
 */
#pragma once

#include "gateway/admin/admin_call.h"

/* Sends "GET <path>" and makes the call wait. `told` runs once, later: with a complete 200's body,
 * or with an empty slice when the engine did not give one in time; it ends the call. */
enum status admin_ask_start(struct admin_call *call, const char *path,
                            void (*told)(struct admin_call *call, struct slice body));
/* Nothing is told any more. NULL is fine. */
void admin_ask_destroy(struct admin_ask *ask);
