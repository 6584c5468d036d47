/* ledger_retention: decides up to what time rows may be deleted, without trusting the clock.
 *
 *   cutoff = wall clock − keep, with two bounds:
 *     - From the oldest row on, it advances by at most LEDGER_RETENTION_PACE seconds for each
 *       second that the process runs. So a clock that is set to 2040 costs a day of rows an hour,
 *       not the whole table.
 *     - After the clock has jumped by more than an hour against the monotonic clock, the cutoff
 *       stands still for a day of running, so that an operator can read the log and set the clock.
 *
 * Owns:     its numbers.
 * Thread:   one at a time (the ledger's second thread).
 * Cost:     –
 * Not here: deleting (ledger_rows), when to look (ledger).
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum {
    LEDGER_RETENTION_PACE = 24,
    LEDGER_RETENTION_STEP_S = 3600,
    LEDGER_RETENTION_DOUBT_S = 86400,
};

struct ledger_retention {
    int64_t keep_us;
    int64_t cutoff_us;
    int64_t mono_us;        /* monotonic time of the last step */
    int64_t offset_us;      /* wall clock − monotonic clock, when the clock was last trusted */
    int64_t doubt_until_us; /* monotonic time; 0: the clock is trusted */
    bool is_begun;
};

/* `keep_days` is at least 1. */
void ledger_retention_init(struct ledger_retention *retention, int64_t keep_days);

/* Rows whose wall time is below the result may be deleted. `front_us` is the wall time of the
 * oldest row; INT64_MAX: there is none. `has_stepped` is true when the clock has just jumped. */
int64_t ledger_retention_step(struct ledger_retention *retention, int64_t wall_us, int64_t mono_us,
                              int64_t front_us, bool *has_stepped);
