/* ledger_minute: reads the rows of the last minute, for a process that has just started.
 *
 * Owns:     a connection of its own, during the call.
 * Thread:   any thread that may wait for the disk; called before anything is served.
 * Cost:     reads the rows of the minute and a thousand older ones, backwards by id, because there
 *           is no index on time.
 * Not here: sums of longer times (ledger_usage), what the use of a minute means (quota).
 */
#pragma once

#include "auth/ledger/ledger.h"

struct ledger_minute_row {
    char tenant_id[LIMIT_ID_BYTES];
    char key_id[LIMIT_ID_BYTES];
    int64_t prompt_tokens;
    int64_t cached_tokens;
    int64_t completion_tokens;
    bool is_text; /* the request was work on text alone, which has no tokens */
};

/* Calls `take` for each row whose time is at most `now_us` and less than a minute before it, newest
 * first. It reads at most LIMIT_LEDGER_MINUTE_ROWS rows. ledger_open must have made or migrated the
 * file. Fails as the store does (IO, CORRUPT). */
enum status ledger_minute_read(const char *path, int64_t now_us, void *context,
                               void (*take)(void *context, const struct ledger_minute_row *row));
