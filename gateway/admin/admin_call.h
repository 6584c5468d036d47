/* admin_call: one call of the config API: who makes it, with what, and its answer on the way.
 *
 * Owns:     copies of all that a function may need of its request, so that it can run on the
 *           worker's thread; the answer.
 * Thread:   one at a time: the loop's, then the worker's, then the loop's again.
 * Cost:     one allocation a call, with its body in it.
 * Not here: routes and answering (admin), shapes of lists (admin_list), of changes (admin_change).
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

/* What the config API works on; edge.c fills the first block, admin_open the second. */
struct admin {
    const struct config *config; /* the loop's alone: a reload frees it under the worker */
    const char *jwks_hosts;      /* of the first snapshot, which stays; not reloadable */
    struct auth *auth;
    struct ledger *ledger;
    struct ledger_usage *usage;
    struct edge_metrics *metrics;
    struct edge_probe *probe; /* may be NULL: no engine's metrics then */
    struct edge_prompts *prompts;
    struct edge *edge;          /* may be NULL: no requests are under way then */
    struct edge_reload *reload; /* may be NULL: options stay as they are then */
    uint32_t flush_ms;          /* how often last uses are written; 0 = LIMIT_USED_S */

    struct loop *loop;
    struct loop_worker *worker;
    struct loop_timer *flush_timer;
    struct loop_worker_task flush;
    struct failure_guard *guard;
    struct admin_call *calls; /* at the worker, or answered and not yet gone */
};

/* What a route does: fills the call's answer, or fails with the note that is the answer. */
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
    struct slice if_match;        /* bytes NULL: not sent */
    struct slice if_none_match;   /* … */
    struct slice idempotency_key; /* … */
    bool is_kept;                 /* its answer is kept under its idempotency key, as `kept` */
    struct tenant_request kept;
    struct slice model; /* that the engine serves; empty: nobody knows */

    /* The answer: functions fill it or fail. */
    struct buffer out;
    int code; /* 200 unless the function says otherwise */
    const char *content_type;
    int64_t revision;   /* its etag; 0 = none */
    char next_page[32]; /* told as x-next-page, for answers that are no JSON; "": none */
    bool is_replayed;   /* the answer that was given to the same call before */

    /* What a function leaves behind for later: all three may be NULL. */
    void (*wait)(struct admin_call *call); /* on the loop: has admin_resume called there, some time;
                                            * then the function runs again */
    void (*over)(struct admin_call *call); /* on the loop, before the answer, whatever it is */
    void *work;                            /* mem_free'd with the call, behind free_work */
    void (*free_work)(void *work);
    /* A function on the loop's thread that cannot answer yet starts one of these and returns OK:
     * a question to the engine, or its second half on the worker and its third on the loop. */
    bool is_waiting;
    struct admin_ask *ask;
    void (*free_ask)(struct admin_ask *ask);
    char subject[LIMIT_ID_BYTES]; /* an id that the first half hands to the second */
    admin_function second;
    admin_function third; /* when the second succeeded; its failure is the answer */

    /* The rest is admin.c's and the worker's. */
    struct http_request *request;
    struct edge_access access;
    enum status status;
    struct error_note note;
    bool is_done; /* answered, or there was nobody to answer */
    bool is_gone;
    struct admin_call *previous; /* in admin->calls */
    struct admin_call *next;
    struct loop_worker_task task;
};

/* A copy of the request; NULL without memory. Freed with admin_call_destroy, which wipes the
 * answer: a key's value may be in it. */
struct admin_call *admin_call_create(struct admin *admin, struct http_request *request);
void admin_call_destroy(struct admin_call *call);

/* Whose key or certificate the path is about: a tenant's or, with "", the admins' own. */
struct admin_owner {
    struct slice tenant_id;
    struct slice id; /* "": all of them, or a new one */
};
struct admin_owner admin_call_owner(const struct admin_call *call);

/* Has the call's function run again, behind its `wait`. The loop's thread. */
void admin_resume(struct admin_call *call);

/* The answer of a call that was waiting (is_waiting): what `status` and its note, or `out`, say.
 * The loop's thread; not from within the function that made it wait. */
void admin_call_end(struct admin_call *call, enum status status);

/* ,"name":seconds; null for 0. */
void admin_call_append_time(struct buffer *out, const char *name, int64_t time_s);
