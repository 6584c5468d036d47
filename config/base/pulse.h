/* pulse: heartbeats of a process's threads, in memory shared with the process that watches it.
 *
 * Owns:     the mapping, which a fork inherits.
 * Thread:   each place has one writer; any thread may read.
 * Cost:     a beat is a load and a store.
 * Not here: who watches, how long a silence may be and what follows (gateway/serve/watchdog).
 */
#pragma once

#include <stdint.h>

#include "config/base/limits.h"
#include "config/base/status.h"

struct pulse;

/* The threads that a process cannot work without; each engine has one of its own. */
enum { PULSE_LOOP, PULSE_ENGINE, PULSE_PLACES = PULSE_ENGINE + LIMIT_ENGINES };

/* Every thread with a place beats at least this often, also when it has nothing to do. */
enum { PULSE_EVERY_MS = 500 };

enum status pulse_create(struct pulse **out);
/* Unmaps it in this process alone. */
void pulse_destroy(struct pulse *pulse);

/* Clears all beats. Call it before a new process is started. */
void pulse_clear(struct pulse *pulse);
/* No effect when `pulse` is NULL, that is, when no process watches. */
void pulse_beat(struct pulse *pulse, uint32_t place);
/* Returns the number of beats so far, 0 before the first one. It wraps around to 1. */
uint32_t pulse_read(const struct pulse *pulse, uint32_t place);
