/* ranks: the processes of one machine that compute one model together, each its share of it.
 *
 * Owns:     memory that they share, and a socket between rank 0 and each other rank.
 * Thread:   made by the process's only thread, before the others are forked; afterwards the engine
 *           thread of each rank.
 * Cost:     a meeting is a store, and a load for each other rank, while all are awake; 2 MiB of
 *           shared memory a rank.
 * Not here: what they compute (model_share), what they tell each other (rank_lead).
 *
 * Whoever waits for a rank that has ended is told so (UNAVAILABLE), at once or within a twentieth
 * of a second; from then on nothing of it waits any more. One that lives but does not come, stopped
 * or hung, is as one that has ended after LIMIT_RANK_WAIT_MS; rank 0 alone finds that out, since
 * all wait for it while it is idle.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "config/base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

struct ranks;

/* What one rank lays out for the others at a meeting. */
enum { RANKS_SLOT_BYTES = 1 << 20 };

/* OUT_OF_RANGE unless `count` is 2 to LIMIT_RANKS. */
enum status ranks_create(struct ranks **out, uint32_t count);
/* Once in each process, behind the forks: it is `rank`. Closes the others' ends, so that a rank's
 * end is seen. */
void ranks_become(struct ranks *ranks, uint32_t rank);
/* The others see that this one has ended. NULL is fine. */
void ranks_destroy(struct ranks *ranks);

/* 1 and 0 of NULL, which is one process alone. */
uint32_t ranks_count(const struct ranks *ranks);
uint32_t ranks_own(const struct ranks *ranks);

/* Between rank 0 and another, in order. Reading waits for all of it, for work however long; rank 0
 * ten times LIMIT_RANK_WAIT_MS for an answer, behind which are weights. */
enum status ranks_write(struct ranks *ranks, uint32_t to, const void *bytes, size_t length);
enum status ranks_read(struct ranks *ranks, uint32_t from, void *bytes, size_t length);

/* Whether all ranks that this one has a socket to are there, and nobody has said of another that it
 * is not, as this does for all of them; a poll each. Any thread. */
bool ranks_live(const struct ranks *ranks);

/* How long one wait has gone on; {0} at its beginning. */
struct ranks_wait {
    int64_t looked_ns;
    int64_t waited_ns;
};

/* To be asked at least twenty times a second by whoever waits for other ranks: OK while it is of
 * use. Time in which this process did not run itself, stopped or frozen with all others, does not
 * count. The engine thread. */
enum status ranks_wait_more(struct ranks *ranks, struct ranks_wait *wait);
/* For tests: less than LIMIT_RANK_WAIT_MS. */
void ranks_set_wait(struct ranks *ranks, uint32_t limit_ms);

/* Where `rank` lays out RANKS_SLOT_BYTES for the next meeting; 64-byte aligned. */
void *ranks_slot(struct ranks *ranks, uint32_t rank);
/* Returns when every rank is here. What was laid out may be read until the next meeting but one: so
 * `ranks_slot` of before it is asked first. */
enum status ranks_meet(struct ranks *ranks);

#ifdef __cplusplus
}
#endif
