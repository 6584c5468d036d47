/* loop_worker: one thread for work that would hold up the loop: large bodies, tokenising,
 * admins' commits.
 *
 * Owns:     the thread and a bounded queue to it.
 * Thread:   loop_worker_submit on the loop's; `work` runs on the worker's, `done` on the loop's.
 * Cost:     two hand-overs a job.
 * Not here: what the work is (edge_forward, face_job, face_text, admin).
 */
#pragma once

#include "gateway/http/loop.h"

struct loop_worker;

struct loop_worker_task {
    void (*work)(struct loop_worker_task *task);
    void (*done)(struct loop_worker_task *task);
    struct loop_worker *worker; /* filled by loop_worker_submit */
};

enum status loop_worker_create(struct loop_worker **out, struct loop *loop, uint32_t capacity);
/* Finishes the queue; `done` of what had not come back is not called. */
void loop_worker_destroy(struct loop_worker *worker);
/* BUSY when the queue is full. The task is the caller's and lives until `done`. */
enum status loop_worker_submit(struct loop_worker *worker, struct loop_worker_task *task);
