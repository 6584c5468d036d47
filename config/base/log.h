/* log: one JSON line for each event, to standard error or a file; never a key, a token or prompt
 * text.
 *
 * Owns:     the output, the lowest level written, the access log's output.
 * Thread:   any. log_open before the second thread; log_start and log_stop by one at a time.
 * Cost:     formats on the stack, about 0.7 µs a line, then a copy (log_writer); without log_start
 *           one system call a line. Below the level, one compare.
 * Not here: the thread that writes (log_writer), metrics.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "config/base/status.h"

enum log_level { LOG_DEBUG, LOG_INFO, LOG_WARN, LOG_ERROR };

/* Sets the output. `component` is "edge", "engine" or "serve"; it must outlive the last line. */
void log_open(int descriptor, enum log_level level, const char *component);
enum status log_level_parse(enum log_level *out, const char *text);

/* Starts a thread that writes the lines until log_stop, so that no caller waits for a reader. A
 * line that finds no room is dropped and counted; a later line "log_dropped" gives the number. Call
 * it in the process that logs, not before a fork. `access_log` says where access lines go: "on": to
 * the same output; "off": nowhere; otherwise to the file of that path, which is appended to. Starts
 * are counted: the last log_stop ends the thread, after it has written what waits, for at most a
 * second against a reader that does not read. */
enum status log_start(const char *access_log);
void log_stop(void);
/* Opens the access log's path again, after logrotate moved the file; no effect without a path. */
void log_reopen(void);
/* Returns the lines dropped since the process began. */
uint64_t log_dropped(void);

/* A field of a line: a text if `text` is not NULL, otherwise a number. */
struct log_field {
    const char *name;
    const char *text;
    int64_t number;
};
#define LOG_TEXT(name, value)   ((struct log_field){(name), (value), 0})
#define LOG_NUMBER(name, value) ((struct log_field){(name), NULL, (int64_t)(value)})

/* Writes one line:
 *
 *     {"time":"2026-11-21T04:00:00.000Z","level":"info","component":"edge","event":"…", fields…}
 *
 * `event` is a fixed word such as "engine_started". A line longer than 4 KiB is cut and stays valid
 * JSON. */
void log_event(enum log_level level, const char *event, const struct log_field *fields,
               size_t count);
#define LOG(level, event, ...)                                                                     \
    log_event((level), (event), (const struct log_field[]){__VA_ARGS__},                           \
              sizeof((const struct log_field[]){__VA_ARGS__}) / sizeof(struct log_field))

/* Logs the thread's error note under `event`, with status, message, file and line. */
void log_failure(enum log_level level, const char *event);

/* A rate limit for lines of one kind that clients can cause at any rate. The caller locks. */
struct log_share {
    int64_t second_us; /* when the present second began */
    uint32_t lines;    /* logged in it */
    uint32_t unsaid;   /* not logged since the last line that was */
};
enum { LOG_SHARE_A_SECOND = 10 };
/* Returns whether the line may be logged. `*unsaid` is the number of lines suppressed since the
 * last one that was logged. */
bool log_share_take(struct log_share *share, int64_t now_us, uint32_t *unsaid);

/* Writes a line to the access log, at LOG_INFO. */
void log_access(const char *event, const struct log_field *fields, size_t count);
/* Returns false when log_access would do nothing. */
bool log_access_is_on(void);
