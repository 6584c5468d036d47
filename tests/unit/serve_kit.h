/* serve_kit: what tests of rights and sandboxes share: children to lock in, a data directory.
 *
 * Owns:     a directory below the temporary one, removed at the end.
 * Not here: the tests.
 */
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "config/base/log.h"

enum { SERVE_KIT_USER = 54321, SERVE_KIT_OTHER = 54322 }; /* no need to exist */

/* In a child: leaves with the line that went wrong, so that the parent's message says it. */
#define CHILD_CHECK(expression)                                                                    \
    do {                                                                                           \
        if (!(expression)) {                                                                       \
            fprintf(stderr, "line %d: %s (errno %d)\n", __LINE__, #expression, errno);             \
            _exit(1);                                                                              \
        }                                                                                          \
    } while (0)
#define CHILD_CHECK_FAILS(call, code) CHILD_CHECK((errno = 0, (call) < 0 && errno == (code)))

/* Runs `body` in a process of its own; 0 when it came to its end. */
static inline int serve_kit_child(void (*body)(void *), void *context)
{
    fflush(NULL);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        alarm(60);
        body(context);
        _exit(0);
    }
    int status = 0;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static inline void serve_kit_become(uid_t user)
{
    if (geteuid() != 0)
        return; /* a plain user's run of the tests: it is one already */
    CHILD_CHECK(setgroups(0, NULL) == 0);
    CHILD_CHECK(setresgid(user, user, user) == 0);
    CHILD_CHECK(setresuid(user, user, user) == 0);
}

/* A directory that every user can reach and write into. */
static inline void serve_kit_folder(char folder[64])
{
    snprintf(folder, 64, "/tmp/banyan-serve-XXXXXX");
    assert_non_null(mkdtemp(folder));
    assert_int_equal(chmod(folder, 0777), 0);
}

static inline void serve_kit_remove(const char *folder)
{
    char command[128];
    snprintf(command, sizeof command, "%s", folder);
    pid_t pid = fork();
    if (pid == 0) {
        execlp("rm", "rm", "-rf", command, NULL);
        _exit(1);
    }
    int status = 0;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

static inline void serve_kit_file(const char *folder, const char *name, mode_t mode)
{
    char path[256];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    int descriptor = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
    if (descriptor < 0 || write(descriptor, "secret", 6) != 6)
        abort();
    close(descriptor);
}
