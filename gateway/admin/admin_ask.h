/* admin_ask: one request that a call of the config API makes to the engine.
 *
 * Owns:     the exchange with the engine, its answer and its deadline; the call owns the admin_ask.
 * Thread:   the loop's.
 * Cost:     one exchange; an answer of at most LIMIT_ADMIN_ANSWER_BYTES.
 * Not here: what is asked and what the answer means (admin_requests).
 */
#pragma once

#include "gateway/admin/admin_call.h"

/* Sends "GET <path>" and makes the call wait. `told` is called once, later: with the body of a
 * complete 200, or with an empty slice when none came in time. It must end the call. NO_MEMORY,
 * LIMIT (path too long) or BUSY (no connection is free) when nothing was sent. */
enum status admin_ask_start(struct admin_call *call, const char *path,
                            void (*told)(struct admin_call *call, struct slice body));
/* Cancels the request; `told` is not called any more. NULL is fine. */
void admin_ask_destroy(struct admin_ask *ask);
