/* turns: text work of many owners on two threads: whose turn is next, and when long work yields.
 *
 *     push ─┬─ short, and its owner within its rate ─► quick lane, nice 10
 *           └─ all others ───────────────────────────► long lane, SCHED_IDLE, in pieces
 *
 * Owns:     the two threads, the queues, an account for each owner. A turn is its caller's memory
 *           until `work` begins with it.
 * Thread:   turns_push from any; `work` runs on a thread of a lane.
 * Cost:     push and pop scan the known owners: at most `waiting_max` and those at work.
 * Not here: what the work is (engine/text/prepare, gateway/http/loop_turns).
 *
 * Within a lane the owner with the least service goes next, counted in bytes of text. An owner
 * saves up nothing while it is idle. Turns of one owner and lane run in order.
 *
 * Work in the long lane calls turns_spend as it goes. After each TURNS_QUANTUM bytes it yields:
 * turns of other owners that are at most a quarter as long run first, inside that call. Together
 * they get one quantum of bytes for each owner that waits. So a turn never waits for the remainder
 * of a long text. For each other owner it waits for at most two things: one quantum of a turn that
 * is at least four times as long, and that owner's fair share of shorter turns. Calls nest at most
 * TURNS_DEPTH deep, because each level is at most a quarter as long as the one around it.
 *
 * Neither lane has a higher priority than the compute threads (kernels/threads.h), so text work
 * never holds up a step of another tenant. The long lane runs under SCHED_IDLE, so that a compute
 * thread that wakes takes the processor at once; its nice value counts only where the system
 * refuses SCHED_IDLE. A rate for each owner keeps a flood of short texts out of the quick lane.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "config/base/clock.h"
#include "config/base/status.h"

enum {
    /* longest text of the quick lane, in bytes: some milliseconds of work */
    TURNS_SHORT = 16 * 1024,
    TURNS_QUANTUM = 32 * 1024, /* bytes of work between two checks for waiting owners */
    /* bytes a second that one owner may send to the quick lane; it saves up at most one second */
    TURNS_RATE = 256 * 1024,
    TURNS_LEAST = 256, /* bytes that a turn counts for at least */
    TURNS_DEPTH = 8,
    TURNS_OWNER_BYTES = 16,
    TURNS_NICE_QUICK = 10, /* as the compute threads */
    TURNS_NICE_LONG = 19,
};

struct turns;

struct turn {
    uint8_t owner[TURNS_OWNER_BYTES];
    size_t bytes;
    struct turn *next; /* used by the lane */
};

struct turns_options {
    void (*work)(void *context, struct turn *turn);
    void *context;
    const struct clock *clock;
    uint32_t waiting_max; /* turns that have not begun, of all owners */
    uint32_t owner_max;   /* the same, of one owner */
};

/* NO_MEMORY also when a thread cannot be started. */
enum status turns_create(struct turns **out, const struct turns_options *options);
/* Finishes the turns at work, drops those that wait, joins the threads. */
void turns_destroy(struct turns *turns);

/* Queues a turn. QUEUE_FULL when its owner has owner_max waiting, BUSY when waiting_max wait in
 * all. */
enum status turns_push(struct turns *turns, struct turn *turn);

/* The work on this thread reports that it did this many bytes more. No effect on other threads.
 * Other work may run inside this call: the caller holds no lock. status_note() is preserved. */
void turns_spend(size_t bytes);
