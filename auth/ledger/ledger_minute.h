/* ledger_minute: the rows of the last minute, for a process that has just begun.
 *
 * Owns:     a connection of its own, during the call.
 * Thread:   the first, before anything is served: it waits for the disk.
 * Cost:     the rows of the minute and a thousand more, backwards by id: there is no index on time.
 * Not here: sums of longer times (ledger_usage), what a minute's use means (quota).
 */
#pragma once

#include "auth/ledger/ledger.h"

struct ledger_minute_row {
    char tenant_id[LIMIT_ID_BYTES];
    char key_id[LIMIT_ID_BYTES];
    int64_t prompt_tokens;
    int64_t cached_tokens;
    int64_t completion_tokens;
    bool is_text; /* of work on text alone, which has no tokens */
};

/* Calls `take` for each row that is dated less than a minute before `now_us` and not behind it,
 * newest first; LIMIT_LEDGER_MINUTE_ROWS are looked at at most. The file is one that ledger_open
 * has made or migrated. IO, CORRUPT. */
enum status ledger_minute_read(const char *path, int64_t now_us, void *context,
                               void (*take)(void *context, const struct ledger_minute_row *row));
