/* edge_settle: one row on its way into the ledger, and what it adds to the counters.
 *
 * Owns:     the row until it is told of; the timer of a full ledger queue.
 * Thread:   the loop's thread; the ledger's own thread only leaves word.
 * Cost:     one push into the ledger's queue.
 * Not here: what is in the row (edge_job, edge_replay), the file (ledger).
 */
#pragma once

#include "auth/ledger/ledger.h"
#include "gateway/edge/engines/edge_stream.h"
#include "gateway/edge/state/edge_state.h"

struct edge_settle {
    struct ledger_row row;
    /* Once, from the loop: the row is in the file; or it is not, and its counts are in the log. */
    void (*done)(void *context, bool is_recorded);
    void *context;
    bool is_replayed; /* an earlier edge may have counted its tokens */
    struct edge *edge;
    struct loop_timer *again;      /* NULL until the ledger's queue was full */
    struct edge_settle *next_told; /* in edge->told */
    uint32_t tries;
    enum status status;
};

/* A text of a row; what is longer is cut. */
void edge_settle_text(char *out, size_t capacity, const char *text);
/* The counts of a final record. */
void edge_settle_fill(struct ledger_row *row, const struct edge_final *final);
/* `row`, `done` and `context` are set by the caller; the storage must live until `done`, or until
 * loop and ledger are closed. Counts the row's tokens unless it is replayed. */
void edge_settle_begin(struct edge_settle *settle, struct edge *edge);
/* For ledger_options.batch_told, with the edge as its context: wakes the loop once for all rows
 * that were told of. The ledger's thread. */
void edge_settle_told(void *context);
/* For edge.settle_timer, with the edge as its context: has the rows of this turn committed. */
void edge_settle_wake(void *context);
void edge_settle_deinit(struct edge_settle *settle);
