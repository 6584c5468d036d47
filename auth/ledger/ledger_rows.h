/* ledger_rows: the SQL of the ledger: rows of requests, and the sums that they are added to.
 *
 *   requests       id = edge id × 2^48 + sequence; no other index, because one costs ten times
 *                  as much as the row
 *   usage_minutes  minute, tenant, key, model, class → requests, tokens, cost; kept for ever
 *
 * Owns:     the connection that writes, its prepared statements, the last sequence.
 * Thread:   one at a time (the ledger's writer); checkpoint and expire run on a second one, on a
 *           connection of their own.
 * Cost:     2 to 3 µs a row in a batch, 6 to 90 µs a commit.
 * Not here: queue and retry (ledger).
 */
#pragma once

#include "auth/ledger/ledger_types.h"
#include "config/base/slice.h"

struct ledger_rows;

/* Lengths of the write-ahead log in pages of 4 KiB. From the first on, the second thread makes a
 * checkpoint beside the writer. From the second on, the writer makes one itself: under unbroken
 * load a passive checkpoint never reaches the end, and the log would grow without bound. */
enum { LEDGER_ROWS_WAL_PAGES = 1000, LEDGER_ROWS_WAL_PAGES_MAX = 16000 };

/* Opens or makes the file and migrates it. `is_full`: each commit is an fsync. NO_MEMORY; otherwise
 * fails as the store does. */
enum status ledger_rows_open(struct ledger_rows **out, const char *path, bool is_full);
void ledger_rows_close(struct ledger_rows *rows);

/* One transaction: begin, any number of adds, end. Each row that is added gets the next sequence
 * and must live until the end. After a failure call ledger_rows_end with `commit` false. Sequences
 * of a transaction that was rolled back are given again. */
enum status ledger_rows_begin(struct ledger_rows *rows);
enum status ledger_rows_add(struct ledger_rows *rows, const struct ledger_row *row);
enum status ledger_rows_end(struct ledger_rows *rows, bool commit);

/* Whether a transaction waits for another connection that holds the file: true, the default, waits
 * as long as every connection of the store; false fails at once. */
void ledger_rows_set_patience(struct ledger_rows *rows, bool waits);

/* Pages in the write-ahead log after the last commit. */
int ledger_rows_wal_pages(const struct ledger_rows *rows);
/* Moves what it can from the write-ahead log into the file, without waiting for a writer or reader.
 * OK also when another connection is making a checkpoint. `by_writer`: uses the writer's
 * connection, on the writer's thread. */
enum status ledger_rows_checkpoint(struct ledger_rows *rows, bool by_writer);

/* Calls `take` with the request ids of the last `count` rows, oldest first. */
enum status ledger_rows_recent(struct ledger_rows *rows, uint32_t count, void *context,
                               void (*take)(void *context, struct slice request_id));

/* The state of deleting old rows. There is no index on time, so the walk goes by id and ends at the
 * first row that is young enough to stay. Rows from the future, written while the clock was ahead,
 * are passed over; the walk returns to them once their time is past. Zero it, set the two inputs,
 * and keep it between calls. */
struct ledger_expiry {
    int64_t cutoff_us; /* in: rows before this time are deleted */
    int64_t now_us;    /* in: rows after this time are from the future */
    int64_t cursor;    /* kept: the next row id to look at */
    int64_t passed_id; /* kept: the first row that was passed over; 0: none */
    int64_t passed_us; /* kept: the earliest time of a row that was passed over */
    int64_t front_us;  /* out: wall time of the row that ended the walk; INT64_MAX: none */
    bool is_done;      /* out: nothing more to delete now */
    uint64_t deleted;  /* out: rows deleted in all calls */
};

/* Looks at the next LEDGER_ROWS_EXPIRE rows and deletes the old ones among them, in one transaction
 * of about 0.2 ms, on the second thread and connection. The newest row always stays, because the
 * next sequence is read from it. */
enum { LEDGER_ROWS_EXPIRE = 256 };
enum status ledger_rows_expire(struct ledger_rows *rows, struct ledger_expiry *expiry);
