#include "config/base/log_writer.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "config/base/clock.h"
#include "config/base/mem.h"

enum {
    URGENT_BYTES = LIMIT_LOG_RING_BYTES / 4, /* room kept for urgent lines */
    /* from here on the thread writes without waiting for the window's end */
    HALF_BYTES = LIMIT_LOG_RING_BYTES / 2,
    POLL_MS = 50,      /* longest time between two checks whether to stop */
    PIPE_BYTES = 4096, /* PIPE_BUF: a pipe that polls writable takes this much at once */
};

static int64_t now_ms(void)
{
    return clock_mono_us(clock_system()) / 1000;
}

static uint64_t lines_in(const char *bytes, size_t length)
{
    uint64_t lines = 0;
    for (const char *at = memchr(bytes, '\n', length); at != NULL;
         at = memchr(at + 1, '\n', (size_t)(bytes + length - at - 1)))
        lines++;
    return lines;
}

/* Returns how many bytes go into one write(): whole lines that a pipe takes without blocking and
 * without mixing them with another process's lines. */
static size_t chunk_bytes(const char *bytes, size_t length, bool is_file)
{
    if (is_file || length <= PIPE_BYTES)
        return length;
    const char *end = memrchr(bytes, '\n', PIPE_BYTES);
    return end != NULL ? (size_t)(end - bytes) + 1 : PIPE_BYTES;
}

/* Makes one attempt. Returns the bytes written, 0 when the output takes nothing now, -1 when it has
 * failed. */
static ssize_t write_some(int descriptor, const char *bytes, size_t length, bool is_file)
{
    if (!is_file) {
        struct pollfd ready = {.fd = descriptor, .events = POLLOUT};
        if (poll(&ready, 1, POLL_MS) <= 0)
            return 0;
    }
    ssize_t wrote = write(descriptor, bytes, chunk_bytes(bytes, length, is_file));
    if (wrote < 0 && (errno == EINTR || errno == EAGAIN))
        return 0;
    return wrote <= 0 ? -1 : wrote;
}

bool log_writer_now(int descriptor, const char *line, size_t length)
{
    int64_t until_ms = now_ms() + LOG_WRITER_CLOSE_MS;
    for (size_t done = 0; done < length;) {
        ssize_t wrote = write_some(descriptor, line + done, length - done, false);
        if (wrote < 0 || (wrote == 0 && now_ms() >= until_ms))
            return false;
        done += (size_t)wrote;
    }
    return true;
}

/* --- the thread --- */

static bool thread_must_give_up(struct log_writer *writer, int64_t *until_ms)
{
    pthread_mutex_lock(&writer->lock);
    bool must_stop = writer->must_stop;
    pthread_mutex_unlock(&writer->lock);
    if (must_stop && *until_ms == 0)
        *until_ms = now_ms() + LOG_WRITER_CLOSE_MS;
    return must_stop && now_ms() >= *until_ms;
}

/* Writes `length` bytes and returns the lines not written, because the output failed or because the
 * writer must stop and the reader does not read. */
static uint64_t thread_write(struct log_writer *writer, const char *bytes, size_t length,
                             int64_t *until_ms)
{
    size_t done = 0;
    while (done < length) {
        ssize_t wrote =
            write_some(writer->descriptor, bytes + done, length - done, writer->is_file);
        if (wrote < 0 || (wrote == 0 && thread_must_give_up(writer, until_ms)))
            return lines_in(bytes + done, length - done);
        done += (size_t)wrote;
    }
    return 0;
}

/* Writes the line that reports dropped lines. Returns their number when it could not be written, so
 * that the next report includes them. */
static uint64_t thread_report(struct log_writer *writer, uint64_t dropped, int64_t *until_ms)
{
    char line[LOG_WRITER_REPORT_MAX];
    if (dropped == 0)
        return 0;
    size_t length = writer->report(line, dropped);
    return thread_write(writer, line, length, until_ms) != 0 ? dropped : 0;
}

static int open_path(const char *path)
{
    return open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOCTTY, 0600);
}

static void open_look(struct log_writer *writer)
{
    struct stat about;
    writer->is_file = fstat(writer->descriptor, &about) == 0 && S_ISREG(about.st_mode);
}

static void thread_reopen(struct log_writer *writer)
{
    int descriptor = writer->path[0] != '\0' ? open_path(writer->path) : -1;
    if (descriptor < 0)
        return;
    close(writer->descriptor);
    writer->descriptor = descriptor;
    open_look(writer);
}

static void thread_sleep(struct log_writer *writer)
{
    while (writer->front_length == 0 && !writer->must_stop && !writer->must_reopen) {
        writer->is_asleep = true;
        pthread_cond_wait(&writer->wake, &writer->lock);
    }
    writer->is_asleep = false;
    int64_t until_us = clock_mono_us(clock_system()) + LOG_WRITER_WINDOW_MS * 1000;
    struct timespec until = {.tv_sec = until_us / 1000000, .tv_nsec = until_us % 1000000 * 1000};
    int timed_out = 0;
    while (timed_out == 0 && !writer->must_stop && !writer->must_reopen && !writer->is_urgent &&
           writer->front_length < HALF_BYTES)
        timed_out = pthread_cond_timedwait(&writer->wake, &writer->lock, &until);
}

static void *thread_main(void *context)
{
    struct log_writer *writer = context;
    int64_t until_ms = 0; /* once the writer must stop: when to give up on the reader; 0 before */
    pthread_mutex_lock(&writer->lock);
    while (!writer->must_stop || writer->front_length != 0) {
        thread_sleep(writer);
        char *full = writer->front;
        size_t length = writer->front_length;
        uint64_t dropped = writer->dropped;
        bool must_reopen = writer->must_reopen;
        writer->front = writer->back;
        writer->back = full;
        writer->front_length = 0;
        writer->dropped = 0;
        writer->is_urgent = false;
        writer->must_reopen = false;
        pthread_mutex_unlock(&writer->lock);
        if (must_reopen)
            thread_reopen(writer);
        uint64_t lost = thread_report(writer, dropped, &until_ms);
        uint64_t unwritten = thread_write(writer, full, length, &until_ms);
        pthread_mutex_lock(&writer->lock);
        writer->dropped += unwritten + lost;
        writer->dropped_total += unwritten;
    }
    uint64_t dropped = writer->dropped;
    pthread_mutex_unlock(&writer->lock);
    (void)thread_report(writer, dropped, &until_ms);
    return NULL;
}

/* --- the callers' side --- */

bool log_writer_put(struct log_writer *writer, const char *line, size_t length, bool is_urgent)
{
    size_t capacity = is_urgent ? LIMIT_LOG_RING_BYTES : LIMIT_LOG_RING_BYTES - URGENT_BYTES;
    pthread_mutex_lock(&writer->lock);
    bool is_open = writer->is_open;
    bool must_wake = false;
    if (is_open && writer->front_length + length > capacity) {
        writer->dropped++;
        writer->dropped_total++;
    } else if (is_open) {
        bool was_half = writer->front_length >= HALF_BYTES;
        memcpy(writer->front + writer->front_length, line, length);
        writer->front_length += length;
        must_wake = writer->is_asleep || (is_urgent && !writer->is_urgent) ||
                    (!was_half && writer->front_length >= HALF_BYTES);
        writer->is_urgent = writer->is_urgent || is_urgent;
        writer->is_asleep = false; /* one wake-up is enough */
    }
    if (must_wake)
        pthread_cond_signal(&writer->wake);
    pthread_mutex_unlock(&writer->lock);
    return is_open;
}

void log_writer_reopen(struct log_writer *writer)
{
    pthread_mutex_lock(&writer->lock);
    if (writer->is_open) {
        writer->must_reopen = true;
        pthread_cond_signal(&writer->wake);
    }
    pthread_mutex_unlock(&writer->lock);
}

uint64_t log_writer_dropped(struct log_writer *writer)
{
    pthread_mutex_lock(&writer->lock);
    uint64_t dropped = writer->dropped_total;
    pthread_mutex_unlock(&writer->lock);
    return dropped;
}

static enum status open_output(struct log_writer *writer, int descriptor, const char *path)
{
    writer->path[0] = '\0';
    writer->descriptor = descriptor;
    if (path != NULL) {
        int length = snprintf(writer->path, sizeof writer->path, "%s", path);
        if (length < 0 || (size_t)length >= sizeof writer->path)
            FAIL(STATUS_LIMIT, "the path of the log file is too long");
        writer->descriptor = open_path(path);
        if (writer->descriptor < 0)
            FAIL(STATUS_IO, "log file %s: %s", path, strerror(errno));
    }
    open_look(writer);
    return STATUS_OK;
}

static void close_parts(struct log_writer *writer)
{
    mem_free(writer->front);
    mem_free(writer->back);
    writer->front = NULL;
    writer->back = NULL;
    if (writer->path[0] != '\0' && writer->descriptor >= 0)
        close(writer->descriptor);
    writer->descriptor = -1;
}

static enum status open_parts(struct log_writer *writer, int descriptor, const char *path)
{
    TRY(open_output(writer, descriptor, path));
    writer->front = mem_alloc(LIMIT_LOG_RING_BYTES);
    writer->back = mem_alloc(LIMIT_LOG_RING_BYTES);
    if (writer->front == NULL || writer->back == NULL)
        FAIL(STATUS_NO_MEMORY, "no memory for the log");
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&writer->wake, &monotonic);
    pthread_condattr_destroy(&monotonic);
    sigset_t all; /* signals are for the thread that waits for them */
    sigset_t before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int failed = pthread_create(&writer->thread, NULL, thread_main, writer);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (failed != 0) {
        pthread_cond_destroy(&writer->wake);
        FAIL(STATUS_NO_MEMORY, "no thread for the log");
    }
    return STATUS_OK;
}

enum status log_writer_open(struct log_writer *writer, int descriptor, const char *path,
                            log_writer_report report)
{
    enum status status = STATUS_OK;
    pthread_mutex_lock(&writer->lock);
    if (writer->is_open || writer->is_left) {
        pthread_mutex_unlock(&writer->lock);
        FAIL(STATUS_CONFLICT, "the log's writer is open already");
    }
    writer->report = report;
    writer->front_length = 0;
    writer->dropped = 0;
    writer->must_stop = false;
    writer->must_reopen = false;
    writer->is_asleep = false;
    writer->is_urgent = false;
    status = open_parts(writer, descriptor, path);
    if (status != STATUS_OK)
        close_parts(writer);
    writer->is_open = status == STATUS_OK;
    pthread_mutex_unlock(&writer->lock);
    return status;
}

/* Lines that come while the last ones are written are written by their callers, because `is_open`
 * is cleared first. A thread that a terminal blocks in write() is abandoned together with its
 * buffers. */
void log_writer_close(struct log_writer *writer)
{
    pthread_mutex_lock(&writer->lock);
    bool was_open = writer->is_open;
    writer->is_open = false;
    writer->must_stop = true;
    if (was_open)
        pthread_cond_signal(&writer->wake);
    pthread_mutex_unlock(&writer->lock);
    if (!was_open)
        return;
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += 3 * LOG_WRITER_CLOSE_MS / 1000;
    if (pthread_timedjoin_np(writer->thread, NULL, &until) != 0) {
        pthread_detach(writer->thread);
        writer->is_left = true;
        return;
    }
    pthread_cond_destroy(&writer->wake);
    close_parts(writer);
}
