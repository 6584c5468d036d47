/* log_writer: a thread that writes lines to a descriptor or a file, so that callers do not wait.
 *
 *     put ─► front [■■■■··········]  swapped under the lock   back ─► poll, write
 *            full: the line is dropped and counted; the next batch begins with a line that says so
 *
 * Owns:     two buffers of LIMIT_LOG_RING_BYTES, the thread, and the file when it has a path.
 * Thread:   put and reopen from any; open and close by one at a time, not across fork.
 * Cost:     a put is a lock and a copy (about 0.1 µs). A line waits at most LOG_WRITER_WINDOW_MS,
 *           an urgent one not at all. kill -9 loses the lines that wait and may tear the line being
 *           written.
 * Not here: how a line looks, levels (log).
 */
#pragma once

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "config/base/limits.h"
#include "config/base/status.h"

enum {
    LOG_WRITER_WINDOW_MS = 10, /* lines that arrive within this time share one write() */
    /* log_writer_close drops what the reader has not taken after this time */
    LOG_WRITER_CLOSE_MS = 1000,
    LOG_WRITER_REPORT_MAX = 512, /* bytes of the line that reports dropped lines */
};

/* Writes the line that reports `lines` dropped lines; returns its bytes. */
typedef size_t (*log_writer_report)(char out[LOG_WRITER_REPORT_MAX], uint64_t lines);

/* Lives in static storage and starts as {.lock = PTHREAD_MUTEX_INITIALIZER}, so that a late caller
 * finds a closed writer and not freed memory. */
struct log_writer {
    pthread_mutex_t lock; /* guards all fields but `back`, `descriptor` and `path` */
    pthread_cond_t wake;
    pthread_t thread;
    bool is_open;
    bool is_left; /* the thread of an earlier opening never ended */
    bool must_stop;
    bool must_reopen;
    bool is_asleep; /* the thread waits without a timeout: the next line must wake it */
    bool is_urgent; /* `front` has a line that must not wait for the window */
    char *front;
    size_t front_length;
    uint64_t dropped; /* not reported yet */
    uint64_t dropped_total;
    log_writer_report report;
    char *back;     /* used by the thread alone */
    int descriptor; /* used by the thread alone */
    bool is_file;   /* a regular file takes any length in one write() */
    char path[LIMIT_OPTION_BYTES + 1];
};

/* Starts the thread. With `path` NULL it writes to `descriptor`, which stays the caller's.
 * Otherwise it appends to the file, which is created with mode 0600 if missing. CONFLICT when it is
 * open already; IO when the file cannot be opened; LIMIT when the path is too long; NO_MEMORY. */
enum status log_writer_open(struct log_writer *writer, int descriptor, const char *path,
                            log_writer_report report);
/* Writes what waits, for at most LOG_WRITER_CLOSE_MS against a reader that does not read. */
void log_writer_close(struct log_writer *writer);

/* Copies one line with its newline. Returns false when the writer is not open: the caller then
 * writes the line. A line that finds no room is dropped and counted, and the result is true. The
 * last quarter of the room is kept for urgent lines. */
bool log_writer_put(struct log_writer *writer, const char *line, size_t length, bool is_urgent);
/* Makes the thread open the path again before its next write, as logrotate needs. When that fails,
 * the old file stays in use. No effect without a path. */
void log_writer_reopen(struct log_writer *writer);
/* Returns the lines dropped since the process began. */
uint64_t log_writer_dropped(struct log_writer *writer);

/* Writes one line from the calling thread, for a process without a writer. Waits up to
 * LOG_WRITER_CLOSE_MS for a reader, then gives up. Returns true when the whole line was written. */
bool log_writer_now(int descriptor, const char *line, size_t length);
