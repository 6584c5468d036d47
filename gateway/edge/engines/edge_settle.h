/* edge_settle: brings one row into the ledger and counts its tokens in the metrics.
 *
 * Owns:     the row until `done` was called; the timer for a full ledger queue.
 * Thread:   the loop's thread. The ledger's thread only appends to edge->told.
 * Cost:     one push into the ledger's queue.
 * Not here: filling the row (edge_job, edge_replay), writing the file (ledger).
 */
#pragma once

#include "auth/ledger/ledger.h"
#include "gateway/edge/engines/edge_stream.h"
#include "gateway/edge/state/edge_state.h"

struct edge_settle {
    struct ledger_row row;
    /* Called once, from the loop. `is_recorded`: the row is in the file. Otherwise its counts are
     * in the log, and the ledger may still be trying to write it. */
    void (*done)(void *context, bool is_recorded);
    void *context;
    bool is_replayed; /* the metrics leave its tokens out: an earlier edge may have counted them */
    struct edge *edge;
    struct loop_timer *again;      /* NULL until the ledger's queue was full */
    struct edge_settle *next_told; /* the next one in edge->told */
    uint32_t tries;
    enum status status;
};

/* Copies a text of a row, cut to `capacity`. */
void edge_settle_text(char *out, size_t capacity, const char *text);
/* Copies tokens, times and finish of a final record into a row. */
void edge_settle_fill(struct ledger_row *row, const struct edge_final *final);
/* Queues the row. The caller has set `row`, `done` and `context`; the storage must live until
 * `done` was called, or until loop and ledger are closed. */
void edge_settle_begin(struct edge_settle *settle, struct edge *edge);
/* The ledger's batch_told, with the edge as its context: wakes the loop once for all rows of a
 * commit. The ledger's thread. */
void edge_settle_told(void *context);
/* The callback of edge.settle_timer, with the edge as its context: has the rows of this turn
 * committed. */
void edge_settle_wake(void *context);
void edge_settle_deinit(struct edge_settle *settle);
