/* log_writer: lines on their way to a descriptor or a file, written by a thread of their own.
 *
 *   put ─► front [■■■■··········]  swapped under the lock   back ─► poll, write
 *          full: the line is dropped and counted; the next batch begins with a line that says so
 *
 * Owns:     two buffers of LIMIT_LOG_RING_BYTES, the thread, and the file when it has a path.
 * Thread:   put and reopen from any; open and close by one at a time, not across fork.
 * Cost:     a put is a lock and a copy (about 0.1 µs). A line waits at most LOG_WRITER_WINDOW_MS,
 *           an urgent one not at all; kill -9 loses what waits, never half a line before the last.
 * Not here: how a line looks, levels (log).
 */
#pragma once

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "config/base/limits.h"
#include "config/base/status.h"

enum {
    LOG_WRITER_WINDOW_MS = 10,   /* lines of so long a time are one write() */
    LOG_WRITER_CLOSE_MS = 1000,  /* then what a reader has not taken is dropped */
    LOG_WRITER_REPORT_MAX = 512, /* bytes of the line that tells of dropped ones */
};

/* Writes the line that says how many lines are missing before it; returns its bytes. */
typedef size_t (*log_writer_report)(char out[LOG_WRITER_REPORT_MAX], uint64_t lines);

/* Lives in static storage, begun as {.lock = PTHREAD_MUTEX_INITIALIZER}: whoever logs late finds a
 * closed writer, not a freed one. */
struct log_writer {
    pthread_mutex_t lock; /* everything below but `back`, `descriptor` and `path` */
    pthread_cond_t wake;
    pthread_t thread;
    bool is_open;
    bool is_left; /* the thread of an earlier opening never came back */
    bool must_stop;
    bool must_reopen;
    bool is_asleep; /* for longer than the window: the next line must wake it */
    bool is_urgent; /* something in `front` must not wait for the window */
    char *front;
    size_t front_length;
    uint64_t dropped; /* not yet told */
    uint64_t dropped_total;
    log_writer_report report;
    char *back;     /* the thread's */
    int descriptor; /* the thread's */
    bool is_file;   /* a regular file takes any length at once */
    char path[LIMIT_OPTION_BYTES + 1];
};

/* Starts the thread. `path` NULL: writes to `descriptor`, which stays the caller's; else the file
 * is appended to, made with mode 0600. CONFLICT when it is open already; IO says why for a path. */
enum status log_writer_open(struct log_writer *writer, int descriptor, const char *path,
                            log_writer_report report);
/* Writes what waits, for at most LOG_WRITER_CLOSE_MS against a reader that does not read. */
void log_writer_close(struct log_writer *writer);

/* Takes a copy of one line (its end included). False when the writer is not open: the line is then
 * the caller's to write. A line that finds no room is dropped and counted, and that is true. The
 * last quarter of the room is kept for urgent lines. */
bool log_writer_put(struct log_writer *writer, const char *line, size_t length, bool is_urgent);
/* Opens the path again before the next write, as logrotate asks. When that fails the old file stays
 * in use. Without a path: nothing. */
void log_writer_reopen(struct log_writer *writer);
/* Lines dropped since the process began. */
uint64_t log_writer_dropped(struct log_writer *writer);

/* One line at once, for a process or a moment without a writer: waits up to LOG_WRITER_CLOSE_MS for
 * a reader, then gives the line up. True when all of it was written. */
bool log_writer_now(int descriptor, const char *line, size_t length);
