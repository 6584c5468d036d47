/* ledger: one row for each request, committed before the client sees the end of its answer.
 *
 * Owns:     ledger.db in the data directory, the one thread that writes it ("the writer"), and a
 *           second one that checkpoints its write-ahead log and deletes old rows.
 * Thread:   any, unless a function says otherwise. `committed` runs on the writer's thread, or on
 *           that of ledger_commit_here, and must not wait.
 * Cost:     an append is one push into a ring. The writer commits all rows that are queued, at
 *           once.
 * Not here: prices (price), copies in Redis (usage_redis).
 */
#pragma once

#include "auth/ledger/ledger_types.h"
#include "config/base/status.h"

struct ledger;
struct metrics;

struct ledger_options {
    const char *path;
    struct metrics *metrics; /* where commits are counted; may be NULL */
    /* Runs on the writer's thread, once after the `committed` of all rows of a commit or of a
     * failure, so that one wake-up can hand on all of them. Must not wait. May be NULL. */
    void (*batch_told)(void *context);
    void *batch_context;
    /* Returns the cost of a row in nano-units, at least 0. Runs just before the commit, on the
     * thread that commits, and must not wait. A row keeps its cost when prices change. NULL: rows
     * cost nothing. */
    int64_t (*price)(void *context, const struct ledger_row *row);
    void *price_context;
    bool is_full;       /* each commit is an fsync, so it survives a power cut */
    uint32_t keep_days; /* older rows are deleted, their sums stay; 0: all rows are kept */
    uint32_t expire_ms; /* between two searches for old rows; 0: a minute */
};

/* Opens or makes the file, migrates its schema, and starts both threads. LIMIT when the path is too
 * long; NO_MEMORY; otherwise fails as the store does. */
enum status ledger_open(struct ledger **out, const struct ledger_options *options);
/* Commits what is queued, then stops. Rows that cannot be written within a second are lost, and
 * logged (ledger_rows_lost). NULL is allowed. */
void ledger_close(struct ledger *ledger);

/* False while rows cannot be written (full disk, I/O error), or while the oldest row has waited for
 * more than LIMIT_LEDGER_BEHIND_MS. New requests are then refused, because they could not be
 * counted. */
bool ledger_is_writable(struct ledger *ledger);

/* Told once for each row: OK, EXISTS or a failure (see ledger_append), and the cost of the row. */
typedef void (*ledger_committed)(void *context, enum status status, int64_t cost_nano);

/* Queues a copy of a row, whose request id must not be empty, and wakes the writer. `committed`,
 * unless NULL, runs once: with OK after the commit, or with STORAGE_FULL or IO after a second of
 * failed attempts, so that a client need not wait for ever. The row is kept in that case and tried
 * again until it is in the file or the ledger is closed. A request id among the last
 * LIMIT_LEDGER_RECENT is counted once: a later row of it is dropped, and its `committed` gets
 * EXISTS when the first row is in the file. BUSY when the queue is full; then `committed` never
 * runs. */
enum status ledger_append(struct ledger *ledger, const struct ledger_row *row,
                          ledger_committed committed, void *context);

/* The same in two steps. A caller with several rows queues all of them and then wakes the writer,
 * so that they are one commit (17 µs and 1.5 µs a row). A row that is queued without a wake-up is
 * committed with the next one, or at ledger_close. */
enum status ledger_queue(struct ledger *ledger, const struct ledger_row *row,
                         ledger_committed committed, void *context);
void ledger_wake(struct ledger *ledger);

/* Commits what is queued on the caller's thread, instead of ledger_wake. This is for one or two
 * rows at a time, where two changes of threads (90 µs) cost more than the commit (20 µs). When it
 * returns true, each `committed` has run, and batch_told has not.
 *
 * When it returns false, the caller must call ledger_wake. It does so while the writer is
 * committing, while commits are fsyncs or fail, while another process holds the file, or for a time
 * after a slow commit here: after one of more than a millisecond it returns false for a second,
 * after the next slow one for twice as long, up to 64 s, until 64 commits in a row were fast. */
bool ledger_commit_here(struct ledger *ledger);

/* Counts since ledger_open, for metrics and tests. */
struct ledger_totals {
    uint64_t rows; /* rows that were committed, and their tokens */
    uint64_t prompt_tokens;
    uint64_t completion_tokens;
    uint64_t queued;       /* rows that wait for a commit now */
    uint64_t deleted;      /* rows that were deleted because of their age */
    int64_t kept_since_us; /* rows before this time are deleted (wall clock); 0: none are */
    int64_t file_bytes;    /* the size of the file and its write-ahead log now */
};
void ledger_totals(struct ledger *ledger, struct ledger_totals *out);
