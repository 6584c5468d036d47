/* edge_job: one request at the engine, from its start until it is counted.
 *
 * Owns:     the exchange with the engine, the token count, the ledger row. A job outlives the
 *           client's request: it ends when the exchange has ended, the row is committed and the
 *           client's request is gone.
 * Thread:   the loop's thread.
 * Cost:     one allocation for the job and two for its timers, plus the answer's bytes when it is
 *           not streamed.
 * Not here: who may ask (edge_forward), whose turn it is (edge_wait), frames (edge_stream), answers
 *           in one piece (edge_assemble), rows without a record (edge_replay).
 *
 *   start ─┬───────► sent ─ head 200 ─ frames ─ final record ─ row committed ─ client's end ─ over
 *          └─ wait ◄─┤ down, busy            └─ cut: client's end; the row waits for its record
 *
 * A route that is not STREAMED is work on text (tokenize, detokenize). The engine's answer is
 * passed on in one piece, the row has the class "text" and no tokens, and the engine keeps no
 * record of it.
 *
 * A request is sent again only if no engine has accepted it: nothing was sent, the engine answered
 * 503, or it went away before it answered. After the second engine that went away, the request
 * fails, so that a request that crashes engines does not crash one after the other. An engine
 * refuses (409) a request id that it knows, also from the records of its predecessor.
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
    bool is_explained;          /* x-banyan-explain: the usage has the member "banyan" */
    uint32_t deadline_ms;
};

/* A running generation as admins see it, without its text. */
struct edge_job_info {
    char id[LIMIT_REQUEST_ID_BYTES];
    char tenant_id[LIMIT_ID_BYTES];
    char key_id[LIMIT_ID_BYTES];
    const char *route;
    enum service_class service_class;
    const char *state; /* "held" at the edge, "sent" to the engine, "streaming", "ending" */
    bool is_stream;
    uint32_t prompt_tokens; /* this and the next two are 0 until the engine has admitted it */
    uint32_t cached_tokens;
    uint32_t completion_tokens;
    int64_t age_us;
};

/* Starts a job. From here on the job answers the request, whatever happens. */
void edge_job_start(const struct edge_job_options *options);

/* Cancels a job. A job that waits ends at once. A job at the engine half-closes its exchange and
 * gives the engine a second for its final record. A client that is still connected gets the
 * reason's status and the message. No effect on a job that is already ending. */
void edge_job_cancel(struct edge_job *job, enum edge_cancel reason, const char *message);

/* Fills in the oldest `count` generations, oldest first; returns how many there are in all.
 * O(jobs). */
size_t edge_job_list(const struct edge *edge, struct edge_job_info *out, size_t count);
/* Fills in the generation of that request id; false when there is none or it has ended. O(jobs). */
bool edge_job_look(const struct edge *edge, const char *request_id, struct edge_job_info *out);
/* An admin cancels the request. False when there is none of that id, or it is ending already. */
bool edge_job_stop(struct edge *edge, const char *request_id);

/* Cancels every job, because the server stops. */
void edge_job_cancel_all(struct edge *edge, const char *message);

/* Cancels every job whose tenant is suspended or archived now. O(jobs), with a look-up for each. */
void edge_job_stop_closed(struct edge *edge);

/* Whether the request's record will come with its own stream, or its row is on its way into the
 * ledger. O(jobs). */
bool edge_job_expects(const struct edge *edge, const char *request_id);
/* An earlier engine had begun the request: if it waits to be sent again, it fails instead. */
void edge_job_refuse(struct edge *edge, const char *request_id);
/* Frees the remaining jobs, after the loop has stopped and ledger and client are closed. */
void edge_job_free_all(struct edge *edge);
