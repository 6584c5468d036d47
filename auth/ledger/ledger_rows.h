/* ledger_rows: the SQL of the ledger: rows of requests and the sums they add to.
 *
 *   requests       id = edge id × 2^48 + sequence, no other index: an index costs ten times the row
 *   usage_minutes  minute, tenant, key, model, class → requests, tokens, cost; for ever
 *
 * Owns:     the connection that writes, its prepared statements, the last sequence.
 * Thread:   one (the ledger's writer); checkpoint and expire have a second one.
 * Cost:     2 to 3 µs a row in a batch, 6 to 90 µs a commit.
 * Not here: queue and retry (ledger).
 */
#pragma once

#include "auth/ledger/ledger_types.h"
#include "config/base/slice.h"

struct ledger_rows;

/* Pages (4 KiB) of the write-ahead log after which a checkpoint is due beside the writer; after
 * which the writer makes one itself, since under unbroken load a passive one never gets to the end
 * and the log would grow without bound. */
enum { LEDGER_ROWS_WAL_PAGES = 1000, LEDGER_ROWS_WAL_PAGES_MAX = 16000 };

/* `is_full`: each commit is an fsync. */
enum status ledger_rows_open(struct ledger_rows **out, const char *path, bool is_full);
void ledger_rows_close(struct ledger_rows *rows);

/* One transaction: begin, any number of adds (each gets the next sequence), end. After a failure
 * call ledger_rows_end with `commit` false; sequences of a transaction that was rolled back are
 * given again. */
enum status ledger_rows_begin(struct ledger_rows *rows);
enum status ledger_rows_add(struct ledger_rows *rows, const struct ledger_row *row);
enum status ledger_rows_end(struct ledger_rows *rows, bool commit);

/* False: a transaction that another connection holds up is not waited for, but IO or BUSY at once
 * (a microsecond); true, as it is begun: for as long as every connection of the store. */
void ledger_rows_set_patience(struct ledger_rows *rows, bool waits);

/* Pages in the write-ahead log after the last commit. */
int ledger_rows_wal_pages(const struct ledger_rows *rows);
/* Moves what it can into the file, never waiting for a writer or reader; OK too when another
 * connection is at it. `by_writer`: on the writer's connection and thread. */
enum status ledger_rows_checkpoint(struct ledger_rows *rows, bool by_writer);

/* Calls `take` with the request ids of the last `count` rows, oldest first. */
enum status ledger_rows_recent(struct ledger_rows *rows, uint32_t count, void *context,
                               void (*take)(void *context, struct slice request_id));

/* Where deleting old rows stands. The walk goes by id, since there is no index on time: rows of the
 * future (the clock was wrong, or is) are passed over until one of them is of the past; a row that
 * is to stay ends it. */
struct ledger_expiry {
    int64_t cutoff_us; /* in: rows before it go */
    int64_t now_us;    /* in: rows behind it are of the future */
    int64_t cursor;    /* begun as 0, kept between calls */
    int64_t passed_id; /* begun as 0, kept: the first row that was passed over; 0: none */
    int64_t passed_us; /* kept: the earliest time of such a row */
    int64_t front_us;  /* out: wall time of the row that ended the walk; INT64_MAX: none */
    bool is_done;      /* out: nothing more to delete now */
    uint64_t deleted;  /* rises */
};

/* Looks at the next LEDGER_ROWS_EXPIRE rows and deletes the old ones among them: one transaction of
 * about 0.2 ms, on the second connection and thread. The newest row always stays. */
enum { LEDGER_ROWS_EXPIRE = 256 };
enum status ledger_rows_expire(struct ledger_rows *rows, struct ledger_expiry *expiry);
