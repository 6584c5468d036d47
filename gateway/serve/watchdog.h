/* watchdog: how long a process has given no sign of life.
 *
 * Owns:     what it saw at its last look.
 * Thread:   the parent's only one.
 * Cost:     a look compares PULSE_PLACES numbers.
 * Not here: how often it looks, what a silence ends (serve), the signs (config/base/pulse).
 *
 * Only time between looks that lie close together counts as silence: when the whole machine, or
 * this process, stood still, the watcher itself was silent.
 */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

#include "config/base/pulse.h"

enum { WATCHDOG_LOOK_MS = 500 };

struct watchdog {
    const struct pulse *pulse;
    int64_t looked_us;
    int64_t stopped_us; /* before the first sign of life: while it is stopped */
    uint32_t seen[PULSE_PLACES];
    int64_t silent_us[PULSE_PLACES];
};

/* What the system says of a process. */
struct watchdog_process {
    bool is_stopped; /* by a signal */
    bool is_traced;  /* a debugger holds it */
};

void watchdog_begin(struct watchdog *watchdog, const struct pulse *pulse, int64_t now_us);
/* The longest silence of a thread that has given a sign before. A process that loads its model
 * gives no signs: then only the time counts for which it was stopped. */
int64_t watchdog_look(struct watchdog *watchdog, int64_t now_us, bool is_stopped);
/* Neither, when the system does not say. */
struct watchdog_process watchdog_process_look(pid_t pid);
