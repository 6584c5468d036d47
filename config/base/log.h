/* log: one JSON line an event, to standard error or a file; never a key, a token or prompt text.
 *
 * Owns:     the output, the least level written, the access log's output.
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

/* `component` is "edge", "engine", "serve"; it must outlive the process's last line. */
void log_open(int descriptor, enum log_level level, const char *component);
enum status log_level_parse(enum log_level *out, const char *text);

/* From here until log_stop a thread writes, so that no caller ever waits for a reader: lines that
 * find no room are dropped, counted, and told of by a line "log_dropped". Call it in the process
 * that logs, not before a fork. `access_log`: "on": access lines go where the others go; "off":
 * nowhere; else the path of a file that they are appended to. Starts count: the last stop ends the
 * thread, after writing what waits (at most a second against a reader that does not read). */
enum status log_start(const char *access_log);
void log_stop(void);
/* Opens the access log's path again (logrotate); nothing when it has none. */
void log_reopen(void);
/* Lines dropped since the process began. */
uint64_t log_dropped(void);

/* A field of a line: exactly one of text (when not NULL) or number. */
struct log_field {
    const char *name;
    const char *text;
    int64_t number;
};
#define LOG_TEXT(name, value)   ((struct log_field){(name), (value), 0})
#define LOG_NUMBER(name, value) ((struct log_field){(name), NULL, (int64_t)(value)})

/* {"time":"2026-11-21T04:00:00.000Z","level":"info","component":"edge","event":"…", fields…}
 * `event` is a fixed word such as "engine_started". A line longer than 4 KiB is cut, kept valid. */
void log_event(enum log_level level, const char *event, const struct log_field *fields,
               size_t count);
#define LOG(level, event, ...)                                                                     \
    log_event((level), (event), (const struct log_field[]){__VA_ARGS__},                           \
              sizeof((const struct log_field[]){__VA_ARGS__}) / sizeof(struct log_field))

/* Logs the thread's error note under `event`, with status, message and place. */
void log_failure(enum log_level level, const char *event);

/* Lines of one kind that strangers can cause as fast as they like. The caller locks. */
struct log_share {
    int64_t second_us; /* when the present second began */
    uint32_t lines;    /* said in it */
    uint32_t unsaid;   /* since the last one that was said */
};
enum { LOG_SHARE_A_SECOND = 10 };
/* Whether this line may be said. `*unsaid`: how many were not, since the last one that was. */
bool log_share_take(struct log_share *share, int64_t now_us, uint32_t *unsaid);

/* A line of the access log, at LOG_INFO. */
void log_access(const char *event, const struct log_field *fields, size_t count);
/* False when log_access would do nothing. */
bool log_access_is_on(void);
