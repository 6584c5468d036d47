/* rank_group: processes for the ranks beside a test's own.
 *
 * Owns:     the other processes, and this one's end of the ranks.
 * Thread:   the test's only thread: forks come before threads.
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

/* Forks the other ranks. Each runs `body`, whose result is its exit code, and is ended after five
 * minutes. */
void rank_group_fork(struct rank_group *group, uint32_t count,
                     int (*body)(struct ranks *ranks, void *context), void *context);
/* Closes rank 0's end and waits for the others. Returns the greatest exit code, 128 for a signal.
 */
int rank_group_end(struct rank_group *group);
