/* ranks: the processes of one machine that compute one model together, each a part of it.
 *
 * Owns:     memory that they share, and a socket between rank 0 and each other rank.
 * Thread:   made by the process's only thread, before the others are forked; afterwards the engine
 *           thread of each rank.
 * Cost:     a meeting is a store, and a load for each other rank, while all are awake; 2 MiB of
 *           shared memory a rank.
 * Not here: what they compute (model_share), what they tell each other (rank_lead).
 *
 * A rank that waits for one that has ended gets UNAVAILABLE, at once or within a twentieth of a
 * second. From then on none of its calls waits any more. A rank that lives but does not respond,
 * stopped or hung, counts as ended after LIMIT_RANK_WAIT_MS. Only rank 0 detects that, because all
 * others wait for rank 0 while it is idle.
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

/* Makes the shared memory and the sockets. OUT_OF_RANGE unless `count` is 2 to LIMIT_RANKS;
 * NO_MEMORY. */
enum status ranks_create(struct ranks **out, uint32_t count);
/* Called once in each process after the forks, with its rank. Closes the other ranks' ends, so that
 * a rank's death is seen. */
void ranks_become(struct ranks *ranks, uint32_t rank);
/* The other ranks see that this one has ended. NULL has no effect. */
void ranks_destroy(struct ranks *ranks);

/* Return 1 and 0 for NULL, which means one process alone. */
uint32_t ranks_count(const struct ranks *ranks);
uint32_t ranks_own(const struct ranks *ranks);

/* Send and receive bytes between rank 0 and another rank, in order. Reading waits for all bytes:
 * other ranks wait for work without a limit, rank 0 waits ten times LIMIT_RANK_WAIT_MS for an
 * answer, because loading weights may precede it. UNAVAILABLE when the other rank has ended. */
enum status ranks_write(struct ranks *ranks, uint32_t to, const void *bytes, size_t length);
enum status ranks_read(struct ranks *ranks, uint32_t from, void *bytes, size_t length);

/* Returns whether all ranks that this one has a socket to live, and no rank has reported that
 * another one ended. Reports what it finds to all. Costs a poll for each. Any thread. */
bool ranks_live(const struct ranks *ranks);

/* How long one wait has lasted; {0} at its beginning. */
struct ranks_wait {
    int64_t looked_ns;
    int64_t waited_ns;
};

/* Called at least twenty times a second while waiting for other ranks: OK while waiting makes
 * sense, UNAVAILABLE afterwards. Time in which this process itself did not run, stopped or frozen
 * together with the others, does not count. Engine thread. */
enum status ranks_wait_more(struct ranks *ranks, struct ranks_wait *wait);
/* For tests: less than LIMIT_RANK_WAIT_MS. */
void ranks_set_wait(struct ranks *ranks, uint32_t limit_ms);

/* Returns where `rank` lays out RANKS_SLOT_BYTES for the next meeting; 64-byte aligned. */
void *ranks_slot(struct ranks *ranks, uint32_t rank);
/* Returns when every rank has come. The slots asked for before the meeting may be read until the
 * next meeting but one. UNAVAILABLE when a rank has ended. */
enum status ranks_meet(struct ranks *ranks);

#ifdef __cplusplus
}
#endif
