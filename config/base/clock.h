/* clock: time as an argument: the system's clock, or one that a test advances.
 *
 * Owns:     nothing; reads clock_gettime or the test's number.
 * Thread:   any; clock_manual_advance is safe beside readers.
 * Cost:     one vDSO call.
 * Not here: timers (gateway/http/loop), sleeping.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct clock {
    bool is_manual;
    _Atomic int64_t manual_us;
};

/* The system's clock; never NULL, never freed. */
const struct clock *clock_system(void);

void clock_manual_init(struct clock *clock, int64_t start_us);
void clock_manual_advance(struct clock *clock, int64_t by_us);

/* Microseconds since an arbitrary start; never goes back. */
int64_t clock_mono_us(const struct clock *clock);
/* The same clock in nanoseconds. */
int64_t clock_mono_ns(const struct clock *clock);
/* Microseconds since 1970 by the system's wall clock, which may jump. */
int64_t clock_wall_us(const struct clock *clock);
