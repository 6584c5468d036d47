/* loop_worker: one thread for work that would block the loop: large bodies, tokens to verify,
 * commits of the config API.
 *
 * Owns:     the thread and its bounded queue of tasks.
 * Thread:   loop_worker_submit on the loop's thread; `work` runs on the worker's thread, `done` on
 *           the loop's.
 * Cost:     a task changes threads twice.
 * Not here: the work itself (edge_forward, edge_proof, edge_keys, admin), work in turns of tenants
 *           (loop_turns).
 */
#pragma once

#include "gateway/http/loop.h"

struct loop_worker;

struct loop_worker_task {
    void (*work)(struct loop_worker_task *task);
    void (*done)(struct loop_worker_task *task);
    struct loop_worker *worker; /* filled by loop_worker_submit */
};

/* `capacity` tasks may wait, at least 1. NO_MEMORY. */
enum status loop_worker_create(struct loop_worker **out, struct loop *loop, uint32_t capacity);
/* Does the work of all tasks that wait. A `done` that has not run then may not run at all. NULL is
 * allowed. */
void loop_worker_destroy(struct loop_worker *worker);
/* BUSY when the queue is full. The caller keeps the task until `done` has run. */
enum status loop_worker_submit(struct loop_worker *worker, struct loop_worker_task *task);
