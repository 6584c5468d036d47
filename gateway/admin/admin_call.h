/* admin_call: one call of the config API: its request, its principal and its answer.
 *
 * Owns:     copies of everything of the request that a function may need, so that it can run on the
 *           worker's thread; the answer.
 * Thread:   one at a time: the loop's, then the worker's, then the loop's again.
 * Cost:     one allocation for a call with its body.
 * Not here: routes and answering (admin), the form of lists (admin_list) and changes
 *           (admin_change).
 */
#pragma once

#include "auth/auth.h"
#include "auth/ledger/ledger.h"
#include "auth/ledger/ledger_usage.h"
#include "config/config.h"
#include "gateway/edge/engines/edge_probe.h"
#include "gateway/edge/engines/edge_prompts.h"
#include "gateway/edge/state/edge_access.h"
#include "gateway/edge/state/edge_metrics.h"
#include "gateway/http/loop_worker.h"
#include "gateway/http/request.h"

struct admin_ask;
struct admin_call;
struct edge_reload;
struct failure_guard;
struct edge;

/* The state of the config API. edge.c fills the first block, admin_open() the second. */
struct admin {
    const struct config *config; /* only for the loop's thread: a reload there frees it */
    const char *jwks_hosts;      /* of the first snapshot, which is never freed; not reloadable */
    struct auth *auth;
    struct ledger *ledger;
    struct ledger_usage *usage;
    struct edge_metrics *metrics;
    struct edge_probe *probe; /* NULL = no metrics of the engine */
    struct edge_prompts *prompts;
    struct edge *edge;          /* NULL = no running requests */
    struct edge_reload *reload; /* NULL = options cannot be reloaded */
    uint32_t flush_ms;          /* time between two writes of last uses; 0 = LIMIT_USED_S */

    struct loop *loop;
    struct loop_worker *worker;
    struct loop_timer *flush_timer;
    struct loop_worker_task flush;
    struct failure_guard *guard;
    struct admin_call *calls; /* not answered yet, or answered and not freed yet */
};

/* The function of a route: it fills the call's answer, or fails with the note of the error. */
typedef enum status (*admin_function)(struct admin_call *call);

struct admin_call {
    struct admin *admin;
    size_t route; /* row of routes.def */
    struct principal principal;
    struct audit_actor actor;

    /* The request. */
    struct slice method;
    struct slice path;
    struct slice arguments[2];
    struct slice query;
    struct slice body;
    struct slice if_match;        /* bytes NULL = not sent */
    struct slice if_none_match;   /* bytes NULL = not sent */
    struct slice idempotency_key; /* bytes NULL = not sent */
    bool is_kept;                 /* the answer is kept under the idempotency key, as `kept` */
    struct tenant_request kept;
    struct slice model; /* names of models that are served, each with \n; empty = unknown */

    /* The answer, which the function fills. */
    struct buffer out;
    int code; /* 200 by default */
    const char *content_type;
    int64_t revision;   /* its ETag; 0 = none */
    char next_page[32]; /* x-next-page, for answers that are no JSON; "" = none */
    bool is_replayed;   /* it is the answer that the same call got before */

    /* What a function on the worker's thread may set, each NULL by default. */
    /* Runs on the loop after the function, and starts something that calls admin_resume() in the
     * end. Then the function runs again. */
    void (*wait)(struct admin_call *call);
    /* Runs on the loop before the answer, also when the call failed. */
    void (*over)(struct admin_call *call);
    void *work; /* freed with the call: first free_work(), then mem_free() */
    void (*free_work)(void *work);

    /* A function on the loop's thread that cannot answer yet returns OK and sets one of these: a
     * request to the engine (is_waiting), or a second part on the worker and a third on the
     * loop. */
    bool is_waiting;
    struct admin_ask *ask;
    void (*free_ask)(struct admin_ask *ask);
    char subject[LIMIT_ID_BYTES]; /* an id that the function passes to its second part */
    admin_function second;
    admin_function third; /* runs when `second` succeeded */

    /* The rest belongs to admin.c. */
    struct http_request *request;
    struct edge_access access;
    enum status status;
    struct error_note note;
    bool is_done;                /* it was answered, or its client had left */
    bool is_gone;                /* the request has ended */
    struct admin_call *previous; /* in admin->calls */
    struct admin_call *next;
    struct loop_worker_task task;
};

/* Makes a call with a copy of the request; NULL without memory. */
struct admin_call *admin_call_create(struct admin *admin, struct http_request *request);
/* Frees a call, and wipes its body and its answer, which may have keys. */
void admin_call_destroy(struct admin_call *call);

/* The owner of the keys or certificates that the path names, and one of them. */
struct admin_owner {
    struct slice tenant_id; /* "" = the admins */
    struct slice id;        /* "" = all of them, or a new one */
};
struct admin_owner admin_call_owner(const struct admin_call *call);

/* Runs the call's function again on the worker, after its `wait`. On the loop's thread. */
void admin_resume(struct admin_call *call);

/* Answers a call that was waiting (is_waiting): with `out`, or with the note when `status` is a
 * failure. On the loop's thread, but not inside the function that made the call wait. */
void admin_call_end(struct admin_call *call, enum status status);

/* Appends ,"name":seconds with null for 0. */
void admin_call_append_time(struct buffer *out, const char *name, int64_t time_s);
