/* rank_group: processes for the ranks beside a test's own.
 *
 * Owns:     the other processes, and this one's end of the ranks.
 * Thread:   the test's only one: forks come before threads.
 * Cost:     a fork a rank.
 * Not here: what the ranks do.
 */
#pragma once

#include <sys/types.h>

#include "config/base/limits.h"
#include "kernels/ranks.h"

struct rank_group {
    struct ranks *ranks; /* this process is rank 0 */
    uint32_t count;
    pid_t pids[LIMIT_RANKS];
};

/* Each other rank runs `body`, whose result is its exit code; it is ended after five minutes. */
void rank_group_fork(struct rank_group *group, uint32_t count,
                     int (*body)(struct ranks *ranks, void *context), void *context);
/* Rank 0's end is gone from here on; waits for the others. Greatest of their exit codes, 128 for a
 * signal. */
int rank_group_end(struct rank_group *group);
