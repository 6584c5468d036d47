#include "tests/kit/rank_group.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { GROUP_SECONDS = 300, GROUP_SIGNALLED = 128 };

void rank_group_fork(struct rank_group *group, uint32_t count,
                     int (*body)(struct ranks *ranks, void *context), void *context)
{
    *group = (struct rank_group){.count = count};
    if (ranks_create(&group->ranks, count) != STATUS_OK)
        abort();
    fflush(NULL);
    for (uint32_t rank = 1; rank < count; rank++) {
        group->pids[rank] = fork();
        if (group->pids[rank] < 0)
            abort();
        if (group->pids[rank] > 0)
            continue;
        /* A rank that a failed test leaves stopped would keep the test's output open for ever. */
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        alarm(GROUP_SECONDS);
        ranks_become(group->ranks, rank);
        int code = body(group->ranks, context);
        ranks_destroy(group->ranks);
        _exit(code);
    }
    ranks_become(group->ranks, 0);
}

int rank_group_end(struct rank_group *group)
{
    int most = 0;
    ranks_destroy(group->ranks);
    for (uint32_t rank = 1; rank < group->count; rank++) {
        int status = 0;
        if (waitpid(group->pids[rank], &status, 0) != group->pids[rank])
            abort();
        int code = WIFEXITED(status) ? WEXITSTATUS(status) : GROUP_SIGNALLED;
        most = code > most ? code : most;
    }
    group->ranks = NULL;
    return most;
}
