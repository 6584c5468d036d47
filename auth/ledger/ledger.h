/* ledger: one row a request, committed before the client sees the end of its answer.
 *
 * Owns:     D/ledger.db, the one thread that writes it, and the one that checkpoints its log.
 * Thread:   ledger_append from any; `committed` runs on the writer's thread, or on that of
 *           ledger_commit_here, and must not wait.
 * Cost:     an append is a ring push; the writer commits whatever has queued, without a timer.
 * Not here: what tokens cost (price), Redis.
 */
#pragma once

#include "auth/ledger/ledger_types.h"
#include "config/base/status.h"

struct ledger;
struct metrics;

struct ledger_options {
    const char *path;
    struct metrics *metrics; /* where commits are counted; may be NULL */
    /* Runs on the writer's thread after the `committed` of all rows of a commit, and after those
     * that are told of a failure: once a batch, so that what they left can be handed on by one
     * wake-up. Must not wait. May be NULL. */
    void (*batch_told)(void *context);
    void *batch_context;
    /* What a row costs in nano-units, not negative; runs just before its commit, on the thread that
     * commits, and must not wait. A row keeps what it cost when prices change. NULL: nothing. */
    int64_t (*price)(void *context, const struct ledger_row *row);
    void *price_context;
    bool is_full;       /* a commit survives a power cut, not only the process: an fsync each */
    uint32_t keep_days; /* rows older than that go, their roll-ups stay; 0: all are kept */
    uint32_t expire_ms; /* between two looks for old rows; 0: a minute */
};

/* Opens or makes the file, migrates its schema, starts the writer. */
enum status ledger_open(struct ledger **out, const struct ledger_options *options);
/* Commits what has queued, then stops. */
void ledger_close(struct ledger *ledger);

/* False once rows cannot be written (full disk, I/O error) or the writer is more than 250 ms
 * behind: new requests are then refused rather than go uncounted. Recovers by itself. */
bool ledger_is_writable(struct ledger *ledger);

/* Of a commit: `cost_nano` is what the row costs. */
typedef void (*ledger_committed)(void *context, enum status status, int64_t cost_nano);

/* Queues a row (copied; its request id is not empty). `committed`, unless NULL, runs once: after
 * the commit, or after a second of failing attempts (STORAGE_FULL, IO) so that a client need not
 * wait for ever. The row itself is kept and tried again until it is in the file or the ledger is
 * closed. A request id among the last LIMIT_LEDGER_RECENT is counted once: later rows
 * of it are dropped and told EXISTS, when the first one is in the file. BUSY when the queue is full
 * (then `committed` never runs). */
enum status ledger_append(struct ledger *ledger, const struct ledger_row *row,
                          ledger_committed committed, void *context);

/* The same in two steps: whoever has several rows at hand queues them all and then wakes the
 * writer, so that they are one commit (17 µs and 1.5 µs a row) instead of many. A row that is
 * queued and never woken for is committed with the next one, or at ledger_close. */
enum status ledger_queue(struct ledger *ledger, const struct ledger_row *row,
                         ledger_committed committed, void *context);
void ledger_wake(struct ledger *ledger);

/* Commits what has queued on the caller's thread, instead of ledger_wake: for one row or two at a
 * time, where two changes of threads (90 µs) cost more than the commit (20 µs). Each `committed`
 * has run when it returns true, batch_told has not. False, and ledger_wake must be called: the
 * writer is at it, commits are fsyncs or fail, another process has the file, or commits here have
 * been slow: after one of more than a millisecond there is none for a second, and twice as long
 * after the next, up to a minute, until 64 in a row were fast. */
bool ledger_commit_here(struct ledger *ledger);

/* Rows that wait for a commit; rows and tokens written since ledger_open (tests and metrics). */
struct ledger_totals {
    uint64_t rows;
    uint64_t prompt_tokens;
    uint64_t completion_tokens;
    uint64_t queued;
    uint64_t deleted;      /* rows that grew too old */
    int64_t kept_since_us; /* wall clock; 0: all rows are kept */
    int64_t file_bytes;    /* of the file and its write-ahead log */
};
void ledger_totals(struct ledger *ledger, struct ledger_totals *out);
