/* edge_replay: records that the engine has and the ledger has not: read, counted, acknowledged.
 *
 * Owns:     the reading of /internal/v1/finals, the acknowledgements, and the rows of cut streams
 *           until the engine's record of them has come.
 * Thread:   the loop's thread.
 * Cost:     a page of records at a time; at most LIMIT_ROWS_AWAITED rows.
 * Not here: which records are counted (edge_ack), the row's commit (edge_settle).
 *
 *   engine's record ─┬─ with the stream's end ── job's row committed ──┐
 *                    └─ read again: at the start of the edge or of an  ├─► edge_ack ─► POST ack
 *                       engine, behind a cut, behind a gap ── row ─────┘
 *
 * A cut stream's row waits for its record up to `replay_wait_s`, then it is committed from what was
 * seen, marked estimated. Nothing new is sent to an engine before what an engine before it has left
 * was read: whoever has a record there was accepted, and is not sent again.
 */
#pragma once

#include "gateway/edge/engines/edge_probe.h"
#include "gateway/edge/state/edge_state.h"

/* What a record that is read again means for a request under way; both are required. */
struct edge_replay_jobs {
    /* Whether the record comes with its own stream, or is on its way into the ledger. */
    bool (*expects)(const struct edge *edge, const char *request_id);
    /* An engine before this one had begun the request: it is not sent again. */
    void (*refuse)(struct edge *edge, const char *request_id);
};

/* `jobs` outlives it. */
enum status edge_replay_create(struct edge_replay **out, struct edge *edge,
                               const struct edge_replay_jobs *jobs);
/* Rows that still wait are committed as estimated, later ones at once; nothing more is read. Before
 * probe, client and ledger are closed. */
void edge_replay_close(struct edge_replay *replay);
/* Behind the ledger, whose thread may still have held pointers. */
void edge_replay_destroy(struct edge_replay *replay);

/* The listener of edge_probe: reads again when it is another engine or something is owed, then
 * opens the queue (edge_wait). */
void edge_replay_checked(void *context, const struct edge_probe_engine *engine);
/* The row of a stream that ended without its record (copied); it is committed later, once. */
void edge_replay_await(struct edge_replay *replay, const struct ledger_row *row);
/* The row of that record is committed. */
void edge_replay_counted(struct edge_replay *replay, uint64_t record_seq);
/* Something was cut: there may be a record that nobody was told of. */
void edge_replay_suspect(struct edge_replay *replay);
/* Rows that wait for their record. */
uint32_t edge_replay_waiting(const struct edge_replay *replay);
