/* scheduler: which sequences compute what in the next step; a pure function of the state it is
 * shown.
 *
 * Owns:     nothing: the caller's arrays in, the caller's plan out.
 * Thread:   any; no clock, no allocation, no hidden state.
 * Cost:     O(sequences × (sequences taken + candidates)), some tens of microseconds.
 * Not here: carrying the plan out (step), pages themselves (kv_pool), what a step costs
 *           (step_cost), accounts (scheduler_fair), whose pages are taken (scheduler_take).
 *
 * Classes are strict, except for their floors. Inside a class the clients that are not over (see
 * scheduler_fair) come before those that are. Among each of these the order is: running decodes,
 * partly prefilled prompts in chunks, preempted sequences, new sequences, until the rows or the
 * predicted time are used up. A client's first prompt goes before the many decodes of another
 * client. The time of the decodes of a step is shared by the clients that compute (shared_us).
 *
 * Tokens are the truth: a sequence that lacks a page may take it from one that comes after it. That
 * one is preempted: it loses its pages and resumes later. Inside a class and among clients that are
 * not over, a sequence takes pages only from younger or throttled ones. So the oldest can always go
 * on, and all finish. The modes WINDOW and STATIC know no classes and no clients: first come, first
 * served.
 */
#pragma once

#include "engine/scheduler/scheduler_types.h"

/* Makes a plan. `grants` has room for running_count + waiting_count entries: the running sequences
 * in order, then the waiting ones. The caller preempts before it computes any row, and takes what
 * the cache has for all before it fills any page. */
void scheduler_plan(const struct scheduler_input *input, struct scheduler_plan *plan,
                    struct scheduler_grant *grants);
