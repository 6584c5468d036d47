/* edge_replay: reads the records that the engine has and the ledger lacks, counts them, and
 * acknowledges them to the engine.
 *
 * Owns:     the reading of /internal/v1/finals, the acknowledgements, and the rows of cut streams
 *           until the engine's record of them has come.
 * Thread:   the loop's thread.
 * Cost:     a page of records at a time; at most LIMIT_ROWS_AWAITED waiting rows.
 * Not here: which records are counted (edge_ack), the row's commit (edge_settle).
 *
 *   engine's record ─┬─ with the stream's end ── job's row committed ──┐
 *                    └─ read again: at the start of the edge or of an  ├─► edge_ack ─► POST ack
 *                       engine, after a cut, at a gap ──── row ────────┘
 *
 * A cut stream's row waits for its record for at most `replay_wait_s`. Then it is committed with
 * the tokens that the edge has seen, and marked estimated. No request is sent to a new engine
 * before the records that its predecessor left are read: a request with a record there was
 * accepted, and must not be sent again.
 */
#pragma once

#include "gateway/edge/engines/edge_probe.h"
#include "gateway/edge/state/edge_state.h"

/* What edge_replay asks about requests under way; both functions are required. */
struct edge_replay_jobs {
    /* Whether the request's record will come with its own stream, or its row is on its way into the
     * ledger. */
    bool (*expects)(const struct edge *edge, const char *request_id);
    /* An earlier engine had begun the request, so it must not be sent again. */
    void (*refuse)(struct edge *edge, const char *request_id);
};

/* `edge` and `jobs` must outlive it. NO_MEMORY. */
enum status edge_replay_create(struct edge_replay **out, struct edge *edge,
                               const struct edge_replay_jobs *jobs);
/* Commits the waiting rows as estimated, and later ones at once; reads nothing more. Call it before
 * probe, client and ledger are closed. */
void edge_replay_close(struct edge_replay *replay);
/* Call it after the ledger is closed, because its thread may hold pointers until then. */
void edge_replay_destroy(struct edge_replay *replay);

/* Call it after each health check; `context` is the replay. Reads records when the engine is a new
 * one or may hold uncounted records, and then opens the queue (edge_wait). Shuts the queue while
 * the engine is not up. */
void edge_replay_checked(void *context, const struct edge_probe_engine *engine);
/* Takes a copy of the row of a stream that ended without its record. The row is committed once,
 * later. */
void edge_replay_await(struct edge_replay *replay, const struct ledger_row *row);
/* The row of that record is committed. */
void edge_replay_counted(struct edge_replay *replay, uint64_t record_seq);
/* An exchange was cut, so the engine may hold a record that this edge has not seen. */
void edge_replay_suspect(struct edge_replay *replay);
/* How many rows wait for their record; 0 for NULL. */
uint32_t edge_replay_waiting(const struct edge_replay *replay);
