/* turns: text work of many owners on two threads: whose turn it is, and when work gives way.
 *
 *   push ─┬─ short, and its owner within its rate ─► quick lane, nice 10
 *         └─ the rest ─────────────────────────────► long lane, SCHED_IDLE, in pieces
 *
 * Owns:     the two threads, the queues, an account for each owner. A turn is its caller's memory
 *           until `work` begins with it.
 * Thread:   turns_push from any; `work` runs on a thread of a lane.
 * Cost:     push and pop scan the owners that are known: at most `waiting_max` and those at work.
 * Not here: what the work is (engine/text/prepare, gateway/http/loop_turns).
 *
 * Within a lane the owner that has had the least goes next, counted in bytes of text; an
 * owner saves nothing up while it is idle. Turns of one owner and lane are worked in order.
 *
 * Work in the long lane calls turns_spend as it goes. After each TURNS_QUANTUM bytes it gives way:
 * turns of other owners that are at most a quarter as long run first, inside that call. They run
 * for one quantum of bytes for each owner that waits. So a turn never waits for the rest of a long
 * text. For each other owner it waits for at most one quantum of a turn that is at least four times
 * as long, and for that owner's fair share of shorter turns. Calls nest at most TURNS_DEPTH deep,
 * because each level is at most a quarter as long as the one around it.
 *
 * Both lanes run at or below the level of the compute threads (kernels/cpu/threads.h): text work
 * never holds up a step of another tenant. The long lane runs under SCHED_IDLE, so that a compute
 * thread which wakes up takes the processor at once; its nice value counts only where the system
 * refuses that. A rate for each owner keeps a flood of short texts out of the quick lane.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "config/base/clock.h"
#include "config/base/status.h"

enum {
    TURNS_SHORT = 16 * 1024,   /* bytes of a text for the quick lane: some milliseconds */
    TURNS_QUANTUM = 32 * 1024, /* bytes worked on between two looks at who waits */
    TURNS_RATE = 256 * 1024,   /* bytes a second of one owner in the quick lane, saved up for one */
    TURNS_LEAST = 256,         /* bytes that the shortest turn counts for */
    TURNS_DEPTH = 8,
    TURNS_OWNER_BYTES = 16,
    TURNS_NICE_QUICK = 10, /* as the compute threads */
    TURNS_NICE_LONG = 19,
};

struct turns;

struct turn {
    uint8_t owner[TURNS_OWNER_BYTES];
    size_t bytes;
    struct turn *next; /* the lane's */
};

struct turns_options {
    void (*work)(void *context, struct turn *turn);
    void *context;
    const struct clock *clock;
    uint32_t waiting_max; /* turns in all that have not begun */
    uint32_t owner_max;   /* of one owner */
};

/* NO_MEMORY also when a thread cannot be started. */
enum status turns_create(struct turns **out, const struct turns_options *options);
/* Finishes what is being worked on, drops what waits, joins. */
void turns_destroy(struct turns *turns);

/* QUEUE_FULL when the owner has as many waiting as it may, BUSY when all have. */
enum status turns_push(struct turns *turns, struct turn *turn);

/* The work under way on this thread has done so many bytes more. No effect on a thread of no lane.
 * Other work may run inside this call; no lock may be held, and status_note() is kept. */
void turns_spend(size_t bytes);
