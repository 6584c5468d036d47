/* log: one JSON line an event, to standard error or a file; never a key, a token or prompt text.
 *
 * Owns:     the output descriptor and the least level written.
 * Thread:   any; a line is written by one write().
 * Cost:     formats on the stack, one system call a line; below the level, one compare.
 * Not here: the access log's own thread (a later concern), metrics.
 */
#pragma once

#include <stdint.h>

#include "config/base/status.h"

enum log_level { LOG_DEBUG, LOG_INFO, LOG_WARN, LOG_ERROR };

/* `component` is "edge", "engine", "serve"; it must outlive the process's last line. */
void log_open(int descriptor, enum log_level level, const char *component);
enum status log_level_parse(enum log_level *out, const char *text);

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
