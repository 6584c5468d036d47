/* loop_turns: threads for long text work, which would block the loop; tenants take turns
 * (config/base/turns).
 *
 * Owns:     the threads and the bounded queue of tasks.
 * Thread:   loop_turns_submit on the loop's thread; `work` runs on a text thread, `done` on the
 *           loop's.
 * Cost:     a task changes threads twice.
 * Not here: the work itself (face_job, face_text, face_prompt), work without tenants
 *           (loop_worker).
 */
#pragma once

#include "config/base/turns.h"
#include "gateway/http/loop.h"

struct loop_turns;

struct loop_turns_task {
    struct turn turn; /* the first member; the caller sets owner and bytes */
    void (*work)(struct loop_turns_task *task);
    void (*done)(struct loop_turns_task *task);
};

/* At most `waiting_max` tasks wait in all, and `owner_max` of one owner. NO_MEMORY. */
enum status loop_turns_create(struct loop_turns **out, struct loop *loop, uint32_t waiting_max,
                              uint32_t owner_max);
/* Waits for work that runs. `done` is not called any more. */
void loop_turns_destroy(struct loop_turns *turns);
/* QUEUE_FULL or BUSY, as turns_push. The caller keeps the task until `done` has run. */
enum status loop_turns_submit(struct loop_turns *turns, struct loop_turns_task *task);
