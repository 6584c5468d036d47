/* Which test programs start threads: they are those that the race detector has something to see in.
 * Every program with the kit is linked with --wrap=pthread_create (tests/CMakeLists.txt). The first
 * thread of a process adds the program's name, a line, to the file that BANYAN_THREADS_SEEN names.
 * tests/run names one for the unit tests of the release build, and gives TSan what stands in it. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

// The names are the linker's.
int __real_pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*run)(void *),
                          void *arg);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*run)(void *),
                          void *arg);

static void mark(const char *path)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    if (fd < 0)
        return;
    dprintf(fd, "%s\n", program_invocation_short_name);
    close(fd);
}

int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*run)(void *),
                          void *arg)
{
    static atomic_flag is_marked = ATOMIC_FLAG_INIT;
    const char *path = getenv("BANYAN_THREADS_SEEN");
    if (path != NULL && !atomic_flag_test_and_set(&is_marked))
        mark(path);
    return __real_pthread_create(thread, attr, run, arg);
}
