/* ledger_retention: up to when rows may be deleted, by a clock that is not trusted.
 *
 *   cutoff = wall clock − keep, but
 *     - it goes forward by at most LEDGER_RETENTION_PACE seconds a second that the process runs,
 *       from the oldest row on: a clock set to 2040 costs a day of rows an hour, not the table;
 *     - after a step of more than an hour against the monotonic clock it stands still for a day of
 *       running, so that somebody can read the log and set the clock right.
 *
 * Owns:     nothing but its numbers.
 * Thread:   one (the ledger's second).
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
    int64_t mono_us;        /* of the last step */
    int64_t offset_us;      /* wall − monotonic, as it was believed last */
    int64_t doubt_until_us; /* monotonic; 0: the clock is believed */
    bool is_begun;
};

void ledger_retention_init(struct ledger_retention *retention, int64_t keep_days);

/* Rows whose wall time is below the result may be deleted. `front_us`: wall time of the oldest row,
 * INT64_MAX when there is none. `has_stepped` tells that the clock has just begun to be doubted. */
int64_t ledger_retention_step(struct ledger_retention *retention, int64_t wall_us, int64_t mono_us,
                              int64_t front_us, bool *has_stepped);
