/* loop_turns: text work that would hold up the loop, in turns by tenant (config/base/turns).
 *
 * Owns:     the two threads and bounded queues to them.
 * Thread:   loop_turns_submit on the loop's; `work` runs on a text thread, `done` on the loop's.
 * Cost:     two hand-overs a job.
 * Not here: what the work is (face_job, face_text, face_prompt), work without tenants
 *           (loop_worker).
 */
#pragma once

#include "config/base/turns.h"
#include "gateway/http/loop.h"

struct loop_turns;

struct loop_turns_task {
    struct turn turn; /* first; owner and bytes are the caller's to set */
    void (*work)(struct loop_turns_task *task);
    void (*done)(struct loop_turns_task *task);
};

/* At most `waiting_max` tasks wait in all, `owner_max` of one owner. */
enum status loop_turns_create(struct loop_turns **out, struct loop *loop, uint32_t waiting_max,
                              uint32_t owner_max);
/* Finishes what is being worked on; `done` of what had not come back is not called. */
void loop_turns_destroy(struct loop_turns *turns);
/* QUEUE_FULL or BUSY, as turns_push. The task is the caller's and lives until `done`. */
enum status loop_turns_submit(struct loop_turns *turns, struct loop_turns_task *task);
