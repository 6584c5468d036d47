/* edge_job: one request at the engine, from its start until it is counted.
 *
 * Owns:     the exchange with the engine, its count, the ledger row. A job outlives the client's
 *           request: it ends when the engine has ended, the row is committed, the client is gone.
 * Thread:   the loop's thread.
 * Cost:     one allocation, plus the answer's bytes when it is not streamed.
 * Not here: who may ask (edge_forward), whose turn it is (edge_wait), frames (edge_stream), whole
 *           answers (edge_assemble), rows without a record (edge_replay).
 *
 *   start ─┬───────► sent ─ head 200 ─ frames ─ final record ─ row committed ─ client's end ─ over
 *          └─ wait ◄─┤ down, busy            └─ cut: client's end; the row waits for its record
 *
 * A route that is not STREAMED is work on text: the engine's answer is passed on in one piece, its
 * row has the class "text" and no tokens, and it has no record at the engine.
 *
 * Sent again is only what the engine has not accepted: nothing was sent, it answered 503, or it
 * went away before it answered at all (twice, and it is told so: a request that kills engines must
 * not kill one after the other). An engine drops a request id that it has seen.
 */
#pragma once

#include "gateway/edge/engines/edge_stream.h"
#include "gateway/edge/request/edge_body.h"
#include "gateway/edge/request/edge_route.h"
#include "gateway/edge/state/edge_access.h"
#include "gateway/edge/state/edge_hold.h"
#include "gateway/edge/state/edge_state.h"

struct edge_job_options {
    struct edge *edge;
    struct http_request *request;
    const struct principal *principal;
    struct edge_access *access; /* begun by the caller; copied, or ended when it is refused */
    struct edge_body body;
    enum service_class service_class;
    struct edge_hold hold; /* begun by the caller; the job ends it */
    struct edge_route route;
    enum edge_stream_form form; /* of a STREAMED route */
    bool is_explained;          /* its usage says how it went */
    uint32_t deadline_ms;
};

/* A generation under way, for admins: without anything of its text. */
struct edge_job_info {
    char id[LIMIT_REQUEST_ID_BYTES];
    char tenant_id[LIMIT_ID_BYTES];
    char key_id[LIMIT_ID_BYTES];
    const char *route;
    enum service_class service_class;
    const char *state; /* "held" at the edge, "sent" to the engine, "streaming", "ending" */
    bool is_stream;
    uint32_t prompt_tokens; /* 0 until the engine has admitted it, as the next two */
    uint32_t cached_tokens;
    uint32_t completion_tokens;
    int64_t age_us;
};

/* Takes the request over: whatever happens from here, the job answers it. */
void edge_job_start(const struct edge_job_options *options);

/* The one entrance for every early end. A job that waits ends here; else it half-closes towards the
 * engine and gives it a second for its final record. The reason's status and the message are what
 * the client hears if it is still there. No effect on a job that is ending. */
void edge_job_cancel(struct edge_job *job, enum edge_cancel reason, const char *message);

/* The first `count` of them, oldest first; returns how many there are in all. O(jobs). */
size_t edge_job_list(const struct edge *edge, struct edge_job_info *out, size_t count);
/* That generation, if it has not ended; O(jobs). */
bool edge_job_look(const struct edge *edge, const char *request_id, struct edge_job_info *out);
/* An admin ends it: edge_job_cancel with what the client then hears. False when it has ended. */
bool edge_job_stop(struct edge *edge, const char *request_id);

/* edge_job_cancel of every job: the server stops. */
void edge_job_cancel_all(struct edge *edge, const char *message);

/* edge_job_cancel of every job whose tenant is suspended or archived now. O(jobs). */
void edge_job_stop_closed(struct edge *edge);

/* Whether the record of that request comes with its own stream, or is on its way into the ledger.
 * O(jobs). */
bool edge_job_expects(const struct edge *edge, const char *request_id);
/* An engine before this one had begun it: if it waits, it is not sent again but told so. */
void edge_job_refuse(struct edge *edge, const char *request_id);
/* Frees what is left when the loop has stopped and ledger and client are closed. */
void edge_job_free_all(struct edge *edge);
