/* watchdog: measures how long a process has given no sign of life.
 *
 * Owns:     what it saw at its last look.
 * Thread:   the parent's only one.
 * Cost:     a look compares PULSE_PLACES numbers.
 * Not here: when to look and when to kill (serve), the signs of life (config/base/pulse).
 *
 * Between two looks at most 2 × WATCHDOG_LOOK_MS count as silence. If the machine slept, or this
 * process was stopped, no look took place, and the child is not to blame.
 */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

#include "config/base/pulse.h"

enum { WATCHDOG_LOOK_MS = 500 };

struct watchdog {
    const struct pulse *pulse;
    int64_t looked_us;
    int64_t stopped_us; /* how long it has been stopped, before its first sign of life */
    uint32_t seen[PULSE_PLACES];
    int64_t silent_us[PULSE_PLACES];
};

/* The state of a process, from /proc. */
struct watchdog_process {
    bool is_stopped; /* by a signal */
    bool is_traced;  /* by a debugger */
};

void watchdog_begin(struct watchdog *watchdog, const struct pulse *pulse, int64_t now_us);
/* The longest silence, in microseconds, of the threads that have given a sign before. While there
 * was no sign at all (the engine loads its model), the time for which the process has been
 * stopped. */
int64_t watchdog_look(struct watchdog *watchdog, int64_t now_us, bool is_stopped);
/* Both fields are false when /proc cannot be read. */
struct watchdog_process watchdog_process_look(pid_t pid);
