/* face_worker: one thread for work that would hold up the loop: large JSON, tokenising.
 *
 * Owns:     the thread and a bounded queue to it.
 * Thread:   face_worker_submit on the loop's; `work` runs on the worker's, `done` on the loop's.
 * Cost:     two hand-overs a job.
 * Not here: what the work is (face_job, face_text).
 */
#pragma once

#include "gateway/http/loop.h"

struct face_worker;

struct face_task {
    void (*work)(struct face_task *task);
    void (*done)(struct face_task *task);
    struct face_worker *worker; /* filled by face_worker_submit */
};

enum status face_worker_create(struct face_worker **out, struct loop *loop, uint32_t capacity);
/* Finishes the queue; `done` of what had not come back is not called. */
void face_worker_destroy(struct face_worker *worker);
/* BUSY when the queue is full. The task is the caller's and lives until `done`. */
enum status face_worker_submit(struct face_worker *worker, struct face_task *task);
