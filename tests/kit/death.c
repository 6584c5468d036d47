#include "tests/kit/death.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

bool death_by(void (*body)(void *context), void *context)
{
    pid_t child = fork();
    if (child < 0)
        abort();
    if (child == 0) {
        fclose(stderr);
        signal(SIGABRT, SIG_DFL);
        body(context);
        _exit(0);
    }
    int how = 0;
    if (waitpid(child, &how, 0) != child)
        abort();
    return WIFSIGNALED(how) && WTERMSIG(how) == SIGABRT;
}
