/* scheduler: who computes what in the next step; a pure function of the state it is shown.
 *
 * Owns:     nothing: the caller's arrays in, the caller's plan out.
 * Thread:   any; no clock, no allocation, no hidden state.
 * Cost:     O(sequences × (sequences taken + candidates)), some tens of microseconds.
 * Not here: doing it (step), pages themselves (kv_pool), what a step costs (step_cost), accounts
 *           (scheduler_fair), whose pages are taken (scheduler_take).
 *
 * Classes are strict, but for their floors. Inside a class come those who are not over (see
 * scheduler_fair), then those who are; of each: running decodes, then partly prefilled prompts in
 * chunks, then those that are paused, then new ones, until the rows or the predicted time are used
 * up. A client's first prompt goes before another's many decodes. The time that decodes of a step
 * take is shared by the clients that compute (shared_us). Tokens are the truth: a sequence that
 * lacks a page may take it from one that comes after it, which loses its pages and comes back later
 * ("paused" while it has none). Inside a class and among clients that are not over that order
 * is age, so the oldest can always go on, and all finish. In modes WINDOW and STATIC there are no
 * classes and no clients: first come, first served.
 */
#pragma once

#include "engine/scheduler/scheduler_types.h"

/* `grants` has room for running_count + waiting_count: those running, in order, then those waiting.
 * All pauses come before all rows; what the cache has is taken before any page is filled. */
void scheduler_plan(const struct scheduler_input *input, struct scheduler_plan *plan,
                    struct scheduler_grant *grants);
