/* admin_worker: the one thread that makes admins' changes, so that no commit holds up the loop.
 *
 *   loop ─► queue of calls (LIMIT_ADMIN_CALLS) ─► worker: work(call) ─ loop_post ─► done(call)
 *
 * Owns:     the thread and its queue; calls belong to whoever pushes them.
 * Thread:   push and close: the loop's. `work` and `idle` run on the worker's thread, `done` on the
 *           loop's, in the order of the pushes.
 * Cost:     a mutex and a wake-up a call.
 * Not here: what a call does (admin).
 */
#pragma once

#include "gateway/admin/admin_call.h"

struct admin_worker_options {
    struct loop *loop;
    void (*work)(struct admin_call *call);
    void (*done)(void *call); /* a struct admin_call */
    void (*idle)(void *context);
    void *context;
    uint32_t idle_ms; /* how often `idle` runs, between calls; once more at the end */
};

enum status admin_worker_open(struct admin_worker **out,
                              const struct admin_worker_options *options);
/* Ends the thread behind the call that it is at. Calls that wait, and `done`s that are posted and
 * not run, are dropped: the caller knows all its calls. */
void admin_worker_close(struct admin_worker *worker);
/* UNAVAILABLE when LIMIT_ADMIN_CALLS wait already. */
enum status admin_worker_push(struct admin_worker *worker, struct admin_call *call);
