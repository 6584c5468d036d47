/* edge_usage: requests that ask what was used: GET /v1/usage, and the question of GET /v1/me.
 *
 *   request ─► call ─► ledger_usage (reader's thread: sums, rendering) ─ loop_post ─► answer
 *
 * Owns:     calls on their way; a call outlives a client that leaves.
 * Thread:   the loop's; `render` runs on the reader's.
 * Cost:     one allocation a call, and its answer.
 * Not here: the query's form (edge_usage_form), the sums (auth/ledger/ledger_usage).
 */
#pragma once

#include "gateway/edge/pages/edge_usage_form.h"
#include "gateway/edge/state/edge_access.h"
#include "gateway/edge/state/edge_memory.h"
#include "gateway/edge/state/edge_state.h"

struct edge_usage_call {
    struct ledger_usage_task task; /* first: the reader gives back its address */
    struct edge_usage_call *previous;
    struct edge_usage_call *next;
    struct edge *edge;
    struct http_request *request; /* NULL once gone */
    struct edge_access access;
    struct edge_usage_form form;
    struct byte_shares_hold hold; /* its tenant's, until the client has read the answer */
    struct buffer out;            /* the answer; may have been begun by the caller */
    bool is_over;                 /* answered, or nobody waits: freed once the request is gone */
    /* Appends to `out` from the page of the task; the reader's thread. */
    void (*render)(struct edge_usage_call *call);
};

/* A call for this principal's own tenant, nothing asked yet: fill form, filters of task.query,
 * `render`, `out`, then edge_usage_start. NO_MEMORY; UNAVAILABLE when the tenant has
 * LIMIT_USAGE_CALLS_TENANT of them, unread answers included. */
enum status edge_usage_create(struct edge_usage_call **out, struct edge *edge,
                              struct http_request *request, const struct edge_access *access,
                              const struct principal *principal);
/* Asks. OK: the call answers the request and ends by itself. Otherwise it is gone, and the caller
 * answers. */
enum status edge_usage_start(struct edge_usage_call *call);
/* Frees a call that was not started. */
void edge_usage_destroy(struct edge_usage_call *call);

/* GET /v1/usage; as edge_usage_start. FORBIDDEN without the scope. */
enum status edge_usage_handle(struct edge *edge, struct http_request *request,
                              const struct edge_access *access, const struct principal *principal);

/* Frees what is left when the loop has stopped and the reader is closed. */
void edge_usage_free_all(struct edge *edge);
