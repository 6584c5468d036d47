/* edge_job: one request at the engine, from its start until it is counted.
 *
 * Owns:     the exchange with the engine, its count, the ledger row. A job outlives the client's
 *           request: it ends when the engine has ended, the row is committed and the client is
 * gone. Thread:   the loop's thread. Cost:     one allocation, plus the answer's bytes when it is
 * not streamed. Not here: who may ask (edge_forward), frames (edge_stream), whole answers
 * (edge_assemble).
 *
 *   start ─ head 200 ─ frames ─ final record ─ row committed ─ client's end ─ over
 *                            └─ cut or cancelled: row marked estimated ┘
 */
#pragma once

#include "gateway/edge/edge_access.h"
#include "gateway/edge/edge_body.h"
#include "gateway/edge/edge_state.h"
#include "gateway/edge/edge_stream.h"

struct edge_job_options {
    struct edge *edge;
    struct http_request *request;
    const struct principal *principal;
    const struct edge_access *access; /* begun by the caller; copied */
    struct edge_body body;
    bool is_generation;         /* the answer is a stream that is counted */
    enum edge_stream_form form; /* of a generation */
    uint32_t deadline_ms;
};

/* Takes the request over: whatever happens from here, the job answers it. */
void edge_job_start(const struct edge_job_options *options);

/* The one entrance for every early end: the client left, a deadline, shutdown, an answer that is
 * too long. Half-closes towards the engine and gives it a second for its final record; `status` and
 * the message are what the client hears if it is still there. No effect on a job that is ending. */
void edge_job_cancel(struct edge_job *job, enum status status, const char *message);

/* For ledger_options.batch_told, with the edge as its context: wakes the loop once for all jobs
 * whose rows were told of. The ledger's thread. */
void edge_job_told(void *context);

/* edge_job_cancel of every job. */
void edge_job_cancel_all(struct edge *edge, enum status status, const char *message);
/* Frees what is left when the loop has stopped and ledger and client are closed. */
void edge_job_free_all(struct edge *edge);
