/* edge_usage: GET /v1/usage, and the query of usage that GET /v1/me makes.
 *
 *   request ─► call ─► ledger_usage (reader's thread: sums, rendering) ─ loop_post ─► answer
 *
 * Owns:     the calls that are under way. A call outlives a client that leaves.
 * Thread:   the loop's; `render` runs on the thread of ledger_usage, "the reader".
 * Cost:     one allocation a call, and its answer.
 * Not here: the query's parameters (edge_usage_form), the sums (auth/ledger/ledger_usage).
 */
#pragma once

#include "gateway/edge/pages/edge_usage_form.h"
#include "gateway/edge/state/edge_access.h"
#include "gateway/edge/state/edge_memory.h"
#include "gateway/edge/state/edge_state.h"

struct edge_usage_call {
    struct ledger_usage_task task; /* first, because the reader returns the task's address */
    struct edge_usage_call *previous;
    struct edge_usage_call *next;
    struct edge *edge;
    struct http_request *request; /* NULL once the request is gone */
    struct edge_access access;
    struct edge_usage_form form;
    struct byte_shares_hold hold; /* booked to the tenant until the client has read the answer */
    struct buffer out;            /* the answer; the caller may have appended to it already */
    bool is_over;                 /* answered; the call is freed once the request is gone */
    /* Appends the result in task.page to `out`. Runs on the reader's thread. */
    void (*render)(struct edge_usage_call *call);
};

/* Makes a call that asks about the principal's own tenant. The caller then fills `form`, `render`,
 * filters of task.query and what comes first in `out`, and calls edge_usage_start. Fails as
 * edge_memory_take does; UNAVAILABLE when the tenant has LIMIT_USAGE_CALLS_TENANT calls already,
 * unread answers included. */
enum status edge_usage_create(struct edge_usage_call **out, struct edge *edge,
                              struct http_request *request, const struct edge_access *access,
                              const struct principal *principal);
/* Gives the call to the reader. OK: the call answers the request and frees itself. Otherwise the
 * call is freed at once, and the caller answers. */
enum status edge_usage_start(struct edge_usage_call *call);
/* Frees a call that was not started. */
void edge_usage_destroy(struct edge_usage_call *call);

/* GET /v1/usage, of the principal's own tenant. OK means that the request will be answered;
 * otherwise the caller answers it with the failure. The route checks the key's scope. */
enum status edge_usage_handle(struct edge *edge, struct http_request *request,
                              const struct edge_access *access, const struct principal *principal);

/* Frees the remaining calls, after the loop has stopped and the reader is closed. */
void edge_usage_free_all(struct edge *edge);
