#include "gateway/edge/edge_forward.h"

#include <stdio.h>

#include "config/base/limits.h"
#include "config/base/log.h"
#include "config/base/mem.h"
#include "gateway/edge/engines/edge_probe.h"
#include "gateway/edge/engines/edge_prompts.h"
#include "gateway/edge/pages/edge_me.h"
#include "gateway/edge/pages/edge_models.h"
#include "gateway/edge/pages/edge_usage.h"
#include "gateway/edge/request/edge_credential.h"
#include "gateway/edge/request/edge_head.h"
#include "gateway/edge/request/edge_job.h"
#include "gateway/edge/state/edge_hold.h"
#include "gateway/edge/state/edge_pace.h"
#include "gateway/http/cors.h"
#include "gateway/http/cors_preflight.h"
#include "gateway/http/http_error.h"
#include "gateway/http/loop_worker.h"

enum { MODELS_BYTES = 4096, SCOPE_BYTES = 256 };
static const char METHODS[] = "GET, POST"; /* of all routes */

/* What a route's handler gets. */
struct forward_call {
    struct edge *edge;
    struct http_request *request;
    struct edge_access *access;
    struct edge_route route;
    struct principal principal; /* not set on an OPEN route */
    size_t index;               /* of the route */
    int refusal;                /* what the router answers; 0: there is a route */
};

/* A request that waits for the next health check of the engine, and what happens then. */
struct probe_wait {
    struct edge *edge;
    struct http_request *request;
    struct edge_access access;
    struct principal principal;
    void (*then)(struct probe_wait *wait, bool is_up);
    struct edge_probe_waiter waiter;
};

/* The end of a request that needed no job: counts it and logs it. */
static void handle_over(struct edge *edge, struct edge_access *access, int code)
{
    access->code = code;
    edge_access_end(access, &edge->metrics, loop_now_us(edge->loop));
}

static void handle_failure(struct edge *edge, struct http_request *request,
                           struct edge_access *access)
{
    int code = http_error_of(status_note()->status)->http_code;
    if (access->tenant_id[0] != '\0' && status_note()->status != STATUS_QUEUE_FULL)
        edge_pace_refused(edge->pace, access->pace_owner, access->body_bytes,
                          loop_now_us(edge->loop));
    http_respond_failure(request);
    handle_over(edge, access, code);
}

static void wait_told(void *context, bool is_up)
{
    struct probe_wait *wait = context;
    wait->waiter.told = NULL;
    wait->then(wait, is_up);
}

static void wait_gone(void *context, bool is_early)
{
    struct probe_wait *wait = context;
    (void)is_early;
    if (wait->waiter.told == NULL)
        return;
    edge_probe_leave(wait->edge->probe, &wait->waiter);
    handle_over(wait->edge, &wait->access, 499);
}

static void wait_for_probe(const struct forward_call *call,
                           void (*then)(struct probe_wait *wait, bool is_up))
{
    struct probe_wait *wait = http_alloc(call->request, sizeof *wait);
    *wait = (struct probe_wait){.edge = call->edge,
                                .request = call->request,
                                .access = *call->access,
                                .principal = call->principal,
                                .then = then};
    wait->waiter.told = wait_told;
    wait->waiter.context = wait;
    http_on_gone(call->request, wait_gone, wait);
    edge_probe_ask(call->edge->probe, &wait->waiter);
}

/* The edge is ready when it could serve one more request now. */
static void ready_answer(struct probe_wait *wait, bool is_up)
{
    struct edge *edge = wait->edge;
    bool is_writable = ledger_is_writable(edge->ledger);
    bool is_full = listener_connections(edge->public_listener) >= edge->connections_max;
    bool is_computed = edge_prompts_is_ready(edge->prompts);
    bool is_ready = is_up && is_writable && !is_full && is_computed && !edge->is_leaving;
    struct buffer body;
    buffer_init(&body, 512);
    buffer_printf(&body,
                  "{\"status\":\"%s\",\"engine\":\"%s\",\"ledger\":\"%s\",\"connections\":\"%s\","
                  "\"prompts\":\"%s\",\"draining\":%s,\"sandbox\":\"%s\",\"redis\":\"%s\"}",
                  is_ready ? "ready" : "not ready", edge_probe_word(edge->probe),
                  is_writable ? "writable" : "not writable", is_full ? "full" : "room",
                  is_computed ? "computed" : "computing", edge->is_leaving ? "true" : "false",
                  edge->sandbox, usage_redis_word(edge->redis));
    struct edge_access access = wait->access;
    http_respond_json(wait->request, is_ready ? 200 : 503, buffer_slice(&body));
    handle_over(edge, &access, is_ready ? 200 : 503);
    buffer_deinit(&body);
}

static void handle_ready(struct forward_call *call)
{
    wait_for_probe(call, ready_answer);
}

static void handle_health(struct forward_call *call)
{
    http_respond_json(call->request, 200, SLICE("{\"status\":\"ok\"}"));
    handle_over(call->edge, call->access, 200);
}

static void handle_me(struct forward_call *call)
{
    if (edge_me_handle(call->edge, call->request, call->access, &call->principal) != STATUS_OK)
        handle_failure(call->edge, call->request, call->access);
}

static void handle_usage(struct forward_call *call)
{
    if (edge_usage_handle(call->edge, call->request, call->access, &call->principal) != STATUS_OK)
        handle_failure(call->edge, call->request, call->access);
}

static void models_answer(struct probe_wait *wait, bool is_up)
{
    struct slice id = http_path_argument(wait->request, 0);
    struct buffer body;
    (void)is_up; /* while the engine is down, the model that it served last is still listed */
    buffer_init(&body, MODELS_BYTES);
    if (edge_models_append(wait->edge, &wait->principal, id, &body) == STATUS_OK) {
        http_respond_json(wait->request, 200, buffer_slice(&body));
        handle_over(wait->edge, &wait->access, 200);
    } else {
        handle_failure(wait->edge, wait->request, &wait->access);
    }
    buffer_deinit(&body);
}

static void handle_models(struct forward_call *call)
{
    struct probe_wait wait = {.edge = call->edge,
                              .request = call->request,
                              .access = *call->access,
                              .principal = call->principal};
    if (edge_models_is_known(call->edge))
        models_answer(&wait, true);
    else
        wait_for_probe(call, models_answer);
}

/* Checks all that can refuse a request before its body is read, and books its memory. */
static enum status forward_admit(const struct forward_call *call, struct edge_job_options *options)
{
    struct edge *edge = call->edge;
    if (edge->is_draining)
        FAIL(STATUS_UNAVAILABLE, "The server is about to stop; try again shortly.");
    TRY(edge_head_deadline(http_header_get(call->request, "x-request-timeout-ms"),
                           (uint32_t)(edge->config->request_timeout_s * 1000),
                           &options->deadline_ms));
    if ((call->route.flags & EDGE_ROUTE_STREAMED) != 0)
        TRY(edge_head_explain(http_header_get(call->request, "x-banyan-explain"),
                              &options->is_explained));
    if ((call->route.flags & EDGE_ROUTE_READS_BODY) != 0)
        TRY(edge_hold_begin(&options->hold, edge->memory, call->request,
                            call->principal.tenant_hash));
    return STATUS_OK;
}

/* Checks that the tenant may use the request's model. A body without a model gets the engine's
 * first one here, so that the model that is checked is also the one that is priced and that runs,
 * whatever the engine serves by then. */
static enum status forward_model(struct edge *edge, struct edge_job_options *options)
{
    bool is_allowed;
    char *model = options->body.model;
    if (model[0] == '\0') {
        snprintf(model, sizeof options->body.model, "%s", edge_probe_engine(edge->probe)->model);
        options->body.has_default_model = model[0] != '\0';
    }
    if (!options->principal->has_models)
        return STATUS_OK;
    if (model[0] == '\0')
        FAIL(STATUS_UNAVAILABLE, "The engine is not available now; try again shortly.");
    TRY(edge_models_check(edge, options->principal, slice_of(model), &is_allowed));
    if (!is_allowed)
        FAIL_PARAM(STATUS_MODEL_FORBIDDEN, "model",
                   "This model is not among those that this tenant may use; /v1/me names them.");
    return STATUS_OK;
}

/* Checks the model that the body names, and decides the request's class. */
static enum status forward_class(struct edge *edge, struct edge_job_options *options)
{
    struct edge_class found;
    if (options->form == EDGE_STREAM_EMBEDDINGS) /* the engine refuses `stream` by its name */
        options->body.is_stream = false;
    TRY(forward_model(edge, options));
    TRY(edge_body_class(&options->body, options->principal, &found));
    options->service_class = found.service_class;
    if (found.is_downgraded)
        metric_add(edge->metrics.downgrades, 1);
    return STATUS_OK;
}

/* Whether a budget's sums must be read from the ledger first. Reading waits for the disk, so
 * another thread does it. */
static bool forward_reads_sums(const struct edge_job_options *options)
{
    return (options->route.flags & EDGE_ROUTE_LIMITED) != 0 &&
           quota_wants_sums(options->edge->quota, options->principal->tenant_id,
                            options->principal->key_id);
}

/* A request that a worker's thread prepares, because its body is large or sums must be read. The
 * body is taken from the request, because the client may leave meanwhile. */
struct forward_scan {
    struct loop_worker_task task;
    struct forward_scan *previous;
    struct forward_scan *next;
    struct edge *edge;
    struct http_request *request; /* NULL once the request is gone */
    struct edge_access access;
    struct principal principal;
    struct edge_job_options options;
    bool reads_sums; /* needed once a day for a tenant or key with a budget */
    struct quota_sums sums;
    enum status status;
    struct error_note note;
};

static void scan_free(struct forward_scan *scan)
{
    if (scan->next != NULL)
        scan->next->previous = scan->previous;
    if (scan->previous != NULL)
        scan->previous->next = scan->next;
    else
        scan->edge->scans = scan->next;
    edge_hold_end(&scan->options.hold, scan->edge->memory);
    mem_free(scan);
}

/* On a worker's thread. */
static void scan_work(struct loop_worker_task *task)
{
    struct forward_scan *scan = (struct forward_scan *)task;
    scan->status = edge_body_read(buffer_slice(&scan->options.hold.body), &scan->options.body);
    if (scan->status == STATUS_OK && scan->reads_sums &&
        quota_sums_read(&scan->sums) != STATUS_OK) {
        log_failure(LOG_WARN, "quota_sums_unread");
        scan->status = status_fail(STATUS_UNAVAILABLE, __FILE__, __LINE__, NULL,
                                   "What was used today cannot be read now; try again shortly.");
    }
    if (scan->status != STATUS_OK)
        scan->note = *status_note();
}

static void scan_gone(void *context, bool is_early)
{
    struct forward_scan *scan = context;
    (void)is_early;
    scan->request = NULL;
}

/* Suspending a tenant cancels its jobs. This request was not a job yet, so it is checked here. */
static enum status scan_check_open(const struct forward_scan *scan)
{
    struct tenant tenant;
    if (tenants_get(auth_tenants(scan->edge->auth), slice_of(scan->principal.tenant_id), &tenant) ==
            STATUS_OK &&
        tenant.state != TENANT_ACTIVE)
        FAIL(STATUS_FORBIDDEN, "The tenant of this request was suspended.");
    return STATUS_OK;
}

static void scan_done(struct loop_worker_task *task)
{
    struct forward_scan *scan = (struct forward_scan *)task;
    struct edge *edge = scan->edge;
    if (scan->status != STATUS_OK)
        status_note_set(&scan->note);
    else if (scan->reads_sums)
        quota_sums_end(edge->quota, &scan->sums);
    if (scan->status == STATUS_OK && scan->request != NULL)
        scan->status = scan_check_open(scan);
    if (scan->status == STATUS_OK && scan->request != NULL)
        scan->status = forward_class(edge, &scan->options);
    if (scan->request != NULL) /* from here on, edge_job or nobody watches the request */
        http_on_gone(scan->request, NULL, NULL);
    if (scan->request == NULL) {
        handle_over(edge, &scan->access, 499);
    } else if (scan->status != STATUS_OK) {
        handle_failure(edge, scan->request, &scan->access);
    } else {
        edge_job_start(&scan->options);
        scan->options.hold = (struct edge_hold){0};
    }
    scan_free(scan);
}

/* On OK the scan owns options->hold; on a failure the caller keeps it. */
static enum status scan_start(struct edge_job_options *options)
{
    struct edge *edge = options->edge;
    struct forward_scan *scan = mem_zalloc(1, sizeof *scan);
    if (scan == NULL || edge_hold_take_body(&options->hold, options->request) != STATUS_OK) {
        mem_free(scan);
        FAIL(STATUS_NO_MEMORY, "no memory for a large request");
    }
    *scan = (struct forward_scan){.task = {.work = scan_work, .done = scan_done},
                                  .next = edge->scans,
                                  .edge = edge,
                                  .request = options->request,
                                  .access = *options->access,
                                  .principal = *options->principal,
                                  .options = *options};
    scan->options.principal = &scan->principal;
    scan->options.access = &scan->access;
    scan->reads_sums = forward_reads_sums(options);
    if (scan->reads_sums)
        quota_sums_begin(edge->quota, scan->principal.tenant_id, scan->principal.key_id,
                         &scan->sums);
    if (edge->scans != NULL)
        edge->scans->previous = scan;
    edge->scans = scan;
    struct loop_worker *worker = scan->reads_sums ? edge->sums_worker : edge->scanner;
    enum status status = loop_worker_submit(worker, &scan->task);
    if (status != STATUS_OK) {
        scan->options.hold = (struct edge_hold){0};
        scan_free(scan);
    } else {
        http_on_gone(options->request, scan_gone, scan);
    }
    return status;
}

void edge_forward_free_all(struct edge *edge)
{
    while (edge->scans != NULL)
        scan_free(edge->scans);
}

static void forward(struct forward_call *call, enum edge_stream_form form)
{
    struct edge *edge = call->edge;
    bool reads_body = (call->route.flags & EDGE_ROUTE_READS_BODY) != 0;
    struct slice body = reads_body ? http_body(call->request) : (struct slice){NULL, 0};
    struct edge_job_options options = {.edge = edge,
                                       .request = call->request,
                                       .principal = &call->principal,
                                       .access = call->access,
                                       .route = call->route,
                                       .form = form};
    enum status status = forward_admit(call, &options);
    bool is_large = status == STATUS_OK && body.length > 0 &&
                    (body.length > LIMIT_SMALL_BODY_BYTES || forward_reads_sums(&options));
    if (is_large)
        status = scan_start(&options);
    else if (status == STATUS_OK && reads_body)
        status = edge_body_read(body, &options.body);
    if (status == STATUS_OK && !is_large)
        status = forward_class(edge, &options);
    if (status != STATUS_OK) {
        edge_hold_end(&options.hold, edge->memory);
        handle_failure(edge, call->request, call->access);
    } else if (!is_large) {
        edge_job_start(&options);
    }
}

static void handle_chat(struct forward_call *call)
{
    forward(call, EDGE_STREAM_CHAT);
}

static void handle_completion(struct forward_call *call)
{
    forward(call, EDGE_STREAM_TEXT);
}

static void handle_generation(struct forward_call *call)
{
    forward(call, EDGE_STREAM_GENERATION);
}

static void handle_embeddings(struct forward_call *call)
{
    forward(call, EDGE_STREAM_EMBEDDINGS);
}

/* Tokenizing and detokenizing: the engine's answer is not a stream, so the form is not used. */
static void handle_text(struct forward_call *call)
{
    forward(call, EDGE_STREAM_GENERATION);
}

enum {
    OPEN = EDGE_ROUTE_OPEN,
    COUNTED = EDGE_ROUTE_COUNTED,
    LIMITED = EDGE_ROUTE_LIMITED,
    STREAMED = EDGE_ROUTE_STREAMED,
    READS_BODY = EDGE_ROUTE_READS_BODY,
    QUIET = EDGE_ROUTE_QUIET,
};

/* A row that contradicts itself does not compile; the message begins with its name. */
#define HAS_ALL(flags, wanted) (((flags) & (wanted)) == (wanted))
#define ROUTE(method, path, handler, scope, flags)                                                 \
    ROUTER_ROW_ONCE(method, path)                                                                  \
    _Static_assert(((flags)&OPEN) == 0 || ((scope) == 0 && ((flags) & (COUNTED | LIMITED)) == 0),  \
                   "route " method " " path                                                        \
                   ": OPEN has no key to count, to limit or to ask for a scope");                  \
    _Static_assert(((flags)&LIMITED) == 0 || ((flags)&COUNTED) != 0,                               \
                   "route " method " " path ": LIMITED must be COUNTED, or its budgets are lost"); \
    _Static_assert(((flags)&STREAMED) == 0 || HAS_ALL(flags, COUNTED | LIMITED | READS_BODY),      \
                   "route " method " " path ": STREAMED must be COUNTED, LIMITED and READS_BODY"); \
    _Static_assert(((flags)&READS_BODY) == 0 || sizeof(method) != sizeof("GET"),                   \
                   "route " method " " path ": a GET does not READS_BODY");                        \
    _Static_assert(((flags)&QUIET) == 0 || ((flags)&COUNTED) == 0,                                 \
                   "route " method " " path ": what is COUNTED is not QUIET");
#include "gateway/edge/routes.def"
#undef ROUTE

static const struct route routes[] = {
#define ROUTE(method, path, handler, scope, flags) {method, path, NULL},
#include "gateway/edge/routes.def"
#undef ROUTE
};
static const struct {
    void (*handle)(struct forward_call *call);
    struct edge_route route;
} acts[] = {
#define ROUTE(method, path, handler, scope, flags) {handler, {scope, flags}},
#include "gateway/edge/routes.def"
#undef ROUTE
};
enum { ROUTES = sizeof routes / sizeof routes[0] };

/* Authenticates the caller, checks the route's scope, and refuses a counted route while the ledger
 * cannot be written. */
static enum status handle_check(struct forward_call *call)
{
    if ((call->route.flags & EDGE_ROUTE_OPEN) != 0)
        return STATUS_OK;
    TRY(edge_credential_check(call->edge->auth, call->request, false, &call->principal));
    http_prove(call->request);
    edge_access_principal(call->access, &call->principal);
    call->access->pace_owner = edge_pace_tenant(call->principal.tenant_hash);
    if ((call->principal.scopes & call->route.scope) != call->route.scope) {
        struct buffer words;
        buffer_init(&words, SCOPE_BYTES);
        auth_scopes_append_words(call->route.scope, &words);
        buffer_append_char(&words, '\0');
        enum status status = status_fail(STATUS_FORBIDDEN, __FILE__, __LINE__, NULL,
                                         "This key does not have the scope %s.",
                                         words.bytes != NULL ? words.bytes : "");
        buffer_deinit(&words);
        return status;
    }
    if ((call->route.flags & EDGE_ROUTE_COUNTED) != 0 && !ledger_is_writable(call->edge->ledger))
        FAIL(STATUS_UNAVAILABLE, "Usage cannot be recorded now; try again shortly.");
    return STATUS_OK;
}

/* --- the way of a request --- */

/* A request that waits because its owner asks a lot (edge_pace). */
struct forward_paced {
    struct forward_call call;
    struct edge_access access;
    struct edge_hold hold; /* what it holds meanwhile is its tenant's */
    struct loop_timer *timer;
    bool is_booked;
    enum status status; /* not OK: what it is refused with when the time is over */
    struct error_note note;
};

/* `status` is what the check said, or the pace. */
static void handle_go(struct forward_call *call, enum status status)
{
    if (call->refusal != 0) {
        (void)router_find(routes, ROUTES, call->request, NULL); /* answers it */
        handle_over(call->edge, call->access, call->refusal);
    } else if (status != STATUS_OK) {
        handle_failure(call->edge, call->request, call->access);
    } else {
        acts[call->index].handle(call);
    }
}

static void paced_end(struct forward_paced *paced)
{
    paced->call.edge->paced_unbooked -= !paced->is_booked;
    loop_timer_destroy(paced->timer);
    edge_hold_end(&paced->hold, paced->call.edge->memory);
}

static void paced_gone(void *context, bool is_early)
{
    struct forward_paced *paced = context;
    (void)is_early;
    paced_end(paced);
    handle_over(paced->call.edge, &paced->access, 499);
}

/* Its key may have been revoked meanwhile. */
static void paced_go(void *context)
{
    struct forward_paced *paced = context;
    enum status status = paced->status;
    http_on_gone(paced->call.request, NULL, NULL);
    paced_end(paced);
    if (status != STATUS_OK)
        status_note_set(&paced->note);
    else
        status = handle_check(&paced->call);
    handle_go(&paced->call, status);
}

/* Lets a request wait. What it holds meanwhile is booked to its tenant. A request that will be
 * refused, or that has no tenant, does not need its body, so the body is freed before the wait. */
static void paced_start(const struct forward_call *call, enum status status, uint32_t wait_ms)
{
    struct edge *edge = call->edge;
    struct edge_hold hold = {0};
    bool is_booked =
        status == STATUS_OK && call->refusal == 0 && call->access->tenant_id[0] != '\0';
    if (is_booked && edge_hold_begin(&hold, edge->memory, call->request,
                                     call->principal.tenant_hash) != STATUS_OK) {
        handle_failure(edge, call->request, call->access);
        return;
    }
    if (!is_booked) {
        if (edge->paced_unbooked >= LIMIT_PACED_UNBOOKED) {
            struct forward_call now = *call;
            handle_go(&now, status);
            return;
        }
        http_body_drop(call->request);
    }
    struct forward_paced *paced = http_alloc(call->request, sizeof *paced);
    *paced = (struct forward_paced){.call = *call,
                                    .access = *call->access,
                                    .hold = hold,
                                    .timer = loop_timer_create(edge->loop, paced_go, paced),
                                    .is_booked = is_booked,
                                    .status = status,
                                    .note = *status_note()};
    paced->call.access = &paced->access;
    if (paced->timer == NULL) {
        edge_hold_end(&paced->hold, edge->memory);
        (void)status_fail(STATUS_NO_MEMORY, __FILE__, __LINE__, NULL, "no memory for a timer");
        handle_failure(edge, call->request, call->access);
        return;
    }
    edge->paced_unbooked += !is_booked;
    metric_add(edge->metrics.requests_paced, 1);
    http_on_gone(call->request, paced_gone, paced);
    loop_timer_arm(paced->timer, wait_ms);
}

/* How long the request waits for its owner's pace. `*status` becomes QUEUE_FULL when as many of its
 * tenant wait already as may. */
static uint32_t pace_ms(const struct forward_call *call, enum status *status)
{
    struct edge_pace *pace = call->edge->pace;
    int64_t now_us = loop_now_us(call->edge->loop);
    bool is_over = false;
    if (call->access->tenant_id[0] == '\0') { /* nobody known: an open route, or a refusal */
        char peer[64];
        bool is_open = call->refusal == 0 && *status == STATUS_OK;
        http_peer_name(call->request, peer, sizeof peer);
        return edge_pace_wait_ms(pace, edge_pace_address(slice_of(peer)), EDGE_PACE_SMALL,
                                 is_open ? EDGE_PACE_OPEN_MS : EDGE_PACE_MOST_MS, now_us, NULL);
    }
    uint32_t owner = call->access->pace_owner;
    if (*status == STATUS_OK && (call->route.flags & EDGE_ROUTE_STREAMED) != 0)
        return edge_pace_wait_ms(pace, owner, EDGE_PACE_GENERATION, EDGE_PACE_MOST_MS, now_us,
                                 NULL);
    uint32_t wait_ms =
        edge_pace_wait_ms(pace, owner, EDGE_PACE_SMALL, EDGE_PACE_MOST_MS, now_us, &is_over);
    if (is_over && *status == STATUS_OK)
        *status = status_fail(STATUS_QUEUE_FULL, __FILE__, __LINE__, NULL,
                              "Too many small requests of this tenant wait already; send fewer at "
                              "once.");
    return wait_ms;
}

void edge_forward_handle(struct http_request *request, void *context)
{
    struct edge *edge = context;
    struct edge_access access;
    struct forward_call call = {.edge = edge, .request = request, .access = &access};
    edge_access_begin(&access, request, "other");
    if (edge->config->access_log_peer)
        http_peer_name(request, access.peer, sizeof access.peer);
    call.refusal = router_refusal(routes, ROUTES, request);
    if (call.refusal == 405 && cors_preflight(edge->cors, request, METHODS)) {
        handle_over(edge, &access, 204);
        return;
    }
    enum status status = STATUS_OK;
    if (call.refusal == 0 && router_find(routes, ROUTES, request, &call.index) != NULL) {
        call.route = acts[call.index].route;
        access.route = routes[call.index].path;
        access.is_quiet = (call.route.flags & EDGE_ROUTE_QUIET) != 0;
        status = handle_check(&call);
    }
    uint32_t wait_ms = pace_ms(&call, &status);
    if (wait_ms > 0)
        paced_start(&call, status, wait_ms);
    else
        handle_go(&call, status);
}
