#include "gateway/admin/admin.h"

#include <stddef.h>
#include <stdio.h>

#include "auth/tenants/certificate.h"
#include "auth/tenants/issuer.h"
#include "config/base/log.h"
#include "config/base/mem.h"
#include "gateway/admin/admin_certificates.h"
#include "gateway/admin/admin_change.h"
#include "gateway/admin/admin_config.h"
#include "gateway/admin/admin_export.h"
#include "gateway/admin/admin_groups.h"
#include "gateway/admin/admin_import.h"
#include "gateway/admin/admin_issuers.h"
#include "gateway/admin/admin_keys.h"
#include "gateway/admin/admin_limits.h"
#include "gateway/admin/admin_prices.h"
#include "gateway/admin/admin_prompts.h"
#include "gateway/admin/admin_requests.h"
#include "gateway/admin/admin_state.h"
#include "gateway/admin/admin_tenants.h"
#include "gateway/admin/admin_usage.h"
#include "gateway/edge/request/edge_credential.h"
#include "gateway/http/failure_guard.h"
#include "gateway/http/http_error.h"
#include "gateway/http/router.h"

enum where { HERE, WORKER }; /* HERE: on the loop's thread */

/* A row that contradicts itself does not compile; the message begins with its name. */
#define IS_ONE_BIT(scope) ((scope) != 0 && ((scope) & ((scope)-1)) == 0)
#define ROUTE(method, path, function, where, scope)                                                \
    ROUTER_ROW_ONCE(method, path)                                                                  \
    _Static_assert(IS_ONE_BIT(scope) || (scope) == 0,                                              \
                   "route " method " " path ": it needs one scope, or none");                      \
    _Static_assert((scope) != 0 || ((where) == HERE && sizeof(method) == sizeof("GET")),           \
                   "route " method " " path                                                        \
                   ": what needs no key must be a GET that is answered HERE");
#include "gateway/admin/routes.def"
#undef ROUTE

static const struct route routes[] = {
#define ROUTE(method, path, function, where, scope) {method, path, NULL},
#include "gateway/admin/routes.def"
#undef ROUTE
};
static const struct {
    admin_function function;
    enum where where;
    uint32_t scope;
} acts[] = {
#define ROUTE(method, path, function, where, scope) {function, where, scope},
#include "gateway/admin/routes.def"
#undef ROUTE
};
enum { ROUTES = sizeof routes / sizeof routes[0] };

/* --- calls that are not answered yet, or not freed yet --- */

static void calls_add(struct admin *admin, struct admin_call *call)
{
    call->next = admin->calls;
    if (call->next != NULL)
        call->next->previous = call;
    admin->calls = call;
}

static void calls_remove(struct admin *admin, struct admin_call *call)
{
    if (call->previous != NULL)
        call->previous->next = call->next;
    else
        admin->calls = call->next;
    if (call->next != NULL)
        call->next->previous = call->previous;
    admin_call_destroy(call);
}

/* Whether a call of the same admin with the same idempotency key is not answered yet. It compares
 * `actor`, because the worker may be writing `principal`. */
static bool calls_has_running(const struct admin *admin, const struct admin_call *call)
{
    for (const struct admin_call *other = admin->calls; other != NULL; other = other->next) {
        if (!other->is_done && other->is_kept &&
            slice_equals(other->idempotency_key, call->idempotency_key) &&
            strcmp(other->actor.key_id, call->actor.key_id) == 0)
            return true;
    }
    return false;
}

/* --- the answer --- */

static void answer(struct admin_call *call)
{
    if (call->status != STATUS_OK) {
        call->access.code = http_error_of(call->status)->http_code;
        status_note_set(&call->note);
        http_respond_failure(call->request);
        return;
    }
    struct http_header headers[5] = {{"cache-control", SLICE("no-store")}};
    size_t count = 1;
    char etag[32];
    if (call->code != 304)
        headers[count++] = (struct http_header){"content-type", slice_of(call->content_type)};
    if (call->revision != 0) {
        snprintf(etag, sizeof etag, "\"%lld\"", (long long)call->revision);
        headers[count++] = (struct http_header){"etag", slice_of(etag)};
    }
    if (call->is_replayed)
        headers[count++] = (struct http_header){"idempotent-replayed", SLICE("true")};
    if (call->next_page[0] != '\0')
        headers[count++] = (struct http_header){"x-next-page", slice_of(call->next_page)};
    call->access.code = call->code;
    http_respond(call->request, call->code, headers, count, buffer_slice(&call->out));
}

/* A refusal changes nothing, so it has no audit row; the log says who tried. */
static void answer_log(struct admin_call *call)
{
    if (call->access.code != 401 && call->access.code != 403 && call->access.code != 429)
        return;
    LOG(call->access.is_quiet ? LOG_DEBUG : LOG_WARN, "admin_denied",
        LOG_TEXT("request_id", call->access.request_id), LOG_TEXT("peer", call->actor.peer),
        LOG_TEXT("key", call->principal.key_id), LOG_TEXT("route", call->access.route),
        LOG_NUMBER("code", call->access.code));
}

static void answer_end(struct admin_call *call)
{
    struct admin *admin = call->admin;
    answer_log(call);
    edge_access_end(&call->access, admin->metrics, loop_now_us(admin->loop));
}

/* --- on the worker --- */

/* Checks the key again, which may have been revoked or have lost the scope while the call waited;
 * then runs the call's function. */
static enum status work_call(struct admin_call *call)
{
    TRY(auth_refresh(call->admin->auth, &call->principal));
    if ((call->principal.scopes & acts[call->route].scope) == 0)
        FAIL(STATUS_FORBIDDEN, "This key does not have the scope that this call needs.");
    call->actor.scopes = call->principal.scopes;
    if (call->is_kept) {
        enum status status = admin_change_replay(call);
        if (status != STATUS_NOT_FOUND)
            return status;
    }
    return call->second != NULL ? call->second(call) : acts[call->route].function(call);
}

static struct admin_call *work_of(struct loop_worker_task *task)
{
    return (struct admin_call *)(void *)((char *)task - offsetof(struct admin_call, task));
}

static void work(struct loop_worker_task *task)
{
    struct admin_call *call = work_of(task);
    call->status = work_call(call);
    if (call->status == STATUS_BUSY) /* here it means that another process locks the database */
        call->status = status_fail(STATUS_UNAVAILABLE, __FILE__, __LINE__, NULL,
                                   "The configuration is locked by another process; try again.");
    if (call->status != STATUS_OK)
        call->note = *status_note();
}

static void flush(const struct admin *admin)
{
    if (tenants_used_flush(auth_tenants(admin->auth)) != STATUS_OK)
        log_failure(LOG_WARN, "last_use_unwritten");
    if (certificates_used_flush(auth_certificates(admin->auth)) != STATUS_OK)
        log_failure(LOG_WARN, "last_use_unwritten");
    issuers_refresh(auth_issuers(admin->auth));
}

static struct admin *flush_of(struct loop_worker_task *task)
{
    return (struct admin *)(void *)((char *)task - offsetof(struct admin, flush));
}

static void flush_work(struct loop_worker_task *task)
{
    flush(flush_of(task));
}

/* --- on the loop --- */

static void flush_arm(struct admin *admin)
{
    loop_timer_arm(admin->flush_timer,
                   admin->flush_ms != 0 ? admin->flush_ms : LIMIT_USED_S * 1000);
}

static void flush_done(struct loop_worker_task *task)
{
    flush_arm(flush_of(task));
}

static void flush_due(void *context)
{
    struct admin *admin = context;
    admin->flush = (struct loop_worker_task){.work = flush_work, .done = flush_done};
    if (loop_worker_submit(admin->worker, &admin->flush) != STATUS_OK)
        flush_arm(admin);
}

static void call_over(struct admin_call *call)
{
    if (call->over != NULL)
        call->over(call);
    if (call->is_gone)
        call->access.code = 499; /* the change stays; a repeated idempotency key gets its answer */
    else
        answer(call);
    answer_end(call);
    call->is_done = true;
    if (call->is_gone)
        calls_remove(call->admin, call);
}

void admin_call_end(struct admin_call *call, enum status status)
{
    call->status = status;
    if (status != STATUS_OK)
        call->note = *status_note();
    call_over(call);
}

/* Goes on after the worker, even if the client has left meanwhile. */
static void call_done(struct loop_worker_task *task)
{
    struct admin_call *call = work_of(task);
    void (*wait)(struct admin_call *) = call->wait;
    call->wait = NULL;
    if (call->status == STATUS_OK && wait != NULL)
        wait(call);
    else if (call->status == STATUS_OK && call->third != NULL)
        admin_call_end(call, call->third(call));
    else
        call_over(call);
}

void admin_resume(struct admin_call *call)
{
    call->task = (struct loop_worker_task){.work = work, .done = call_done};
    if (loop_worker_submit(call->admin->worker, &call->task) == STATUS_OK)
        return;
    call->status = status_fail(STATUS_UNAVAILABLE, __FILE__, __LINE__, NULL,
                               "Too many changes wait; try again shortly.");
    call->note = *status_note();
    call_over(call);
}

static void call_gone(void *context, bool is_early)
{
    struct admin_call *call = context;
    (void)is_early;
    call->is_gone = true;
    if (call->is_done)
        calls_remove(call->admin, call);
}

static void handle_keep(struct admin_call *call)
{
    calls_add(call->admin, call);
    http_on_gone(call->request, call_gone, call);
}

static enum status handle_push(struct admin_call *call)
{
    struct admin *admin = call->admin;
    if (call->is_kept && calls_has_running(admin, call))
        FAIL_PARAM(STATUS_RUNNING, "idempotency-key",
                   "A call with this Idempotency-Key is running; ask again when it is answered.");
    call->task = (struct loop_worker_task){.work = work, .done = call_done};
    if (loop_worker_submit(admin->worker, &call->task) != STATUS_OK)
        FAIL(STATUS_UNAVAILABLE, "Too many changes wait; try again shortly.");
    handle_keep(call);
    return STATUS_OK;
}

/* Checks the credential. A wrong key counts against its address; a missing key does not. */
static enum status handle_credential(struct admin_call *call)
{
    bool is_first = false;
    struct admin *admin = call->admin;
    http_peer_name(call->request, call->actor.peer, sizeof call->actor.peer);
    enum status status = edge_credential_check(admin->auth, call->request, true, &call->principal);
    if (status == STATUS_OK)
        http_prove(call->request);
    if (status != STATUS_KEY_INVALID ||
        !failure_guard_fail(admin->guard, slice_of(call->actor.peer), loop_now_us(admin->loop),
                            &is_first))
        return status;
    call->access.is_quiet = !is_first; /* one warning for a series of wrong keys */
    memset(&call->principal, 0, sizeof call->principal);
    FAIL(STATUS_TOO_MANY, "Too many wrong keys came from this address; try again later.");
}

static enum status handle_check(struct admin_call *call)
{
    uint32_t scope = acts[call->route].scope;
    if (scope == 0)
        return STATUS_OK;
    TRY(handle_credential(call));
    edge_access_principal(&call->access, &call->principal);
    if ((call->principal.scopes & scope) == 0)
        FAIL(STATUS_FORBIDDEN, "This key does not have the scope that this call needs.");
    memcpy(call->actor.key_id, call->principal.key_id, sizeof call->actor.key_id);
    memcpy(call->actor.subject, call->principal.subject, sizeof call->actor.subject);
    memcpy(call->actor.request_id, call->access.request_id, sizeof call->actor.request_id);
    call->actor.scopes = call->principal.scopes;
    return admin_change_check_headers(call->request);
}

static void handle_call(struct admin_call *call)
{
    bool is_here = acts[call->route].where == HERE;
    enum status status = handle_check(call);
    if (status == STATUS_OK && is_here)
        status = acts[call->route].function(call);
    bool has_work = !is_here || call->second != NULL;
    if (status == STATUS_OK && has_work)
        status = handle_push(call);
    if (status == STATUS_OK && has_work)
        return;
    if (status == STATUS_OK && call->is_waiting) {
        handle_keep(call);
        return;
    }
    call->status = status;
    if (status != STATUS_OK)
        call->note = *status_note();
    answer(call);
    answer_end(call);
    admin_call_destroy(call);
}

/* An import may have a longer body, which it checks itself. */
static bool handle_is_too_long(size_t route, struct slice body)
{
    return body.length > LIMIT_ADMIN_BODY_BYTES && acts[route].function != admin_import_post;
}

static void handle_refused(struct admin *admin, struct edge_access *access, int code)
{
    access->code = code;
    edge_access_end(access, admin->metrics, loop_now_us(admin->loop));
}

void admin_handle(struct http_request *request, void *context)
{
    struct admin *admin = context;
    struct edge_access access;
    edge_access_begin(&access, request, "other");
    if (admin->config->access_log_peer)
        http_peer_name(request, access.peer, sizeof access.peer);
    size_t index = 0;
    int refusal = router_refusal(routes, ROUTES, request);
    if (router_find(routes, ROUTES, request, &index) == NULL) {
        handle_refused(admin, &access, refusal);
        return;
    }
    access.route = routes[index].path;
    if (handle_is_too_long(index, http_body(request))) {
        http_respond_error(request, STATUS_LIMIT, NULL, "The body is longer than 262,144 bytes.");
        handle_refused(admin, &access, http_error_of(STATUS_LIMIT)->http_code);
        return;
    }
    access.is_quiet = acts[index].scope == 0 || acts[index].scope == AUTH_SCOPE_METRICS_READ;
    struct admin_call *call = admin_call_create(admin, request);
    if (call == NULL) {
        http_respond_error(request, STATUS_NO_MEMORY, NULL, "no memory for a call");
        handle_refused(admin, &access, http_error_of(STATUS_NO_MEMORY)->http_code);
        return;
    }
    call->route = index;
    call->access = access;
    /* Answers of the loop's routes are not kept: a reload that is sent twice reads twice. */
    call->is_kept = acts[index].where == WORKER && admin_change_wants_kept(call);
    handle_call(call);
}

/* --- start and end --- */

enum status admin_open(struct admin *admin, struct loop *loop)
{
    admin->loop = loop;
    admin->guard = failure_guard_create(LIMIT_ADMIN_FAILURES, 1);
    if (admin->guard == NULL)
        FAIL(STATUS_NO_MEMORY, "no memory for the admins' guard");
    TRY(loop_worker_create(&admin->worker, loop, LIMIT_ADMIN_CALLS));
    admin->flush_timer = loop_timer_create(loop, flush_due, admin);
    if (admin->flush_timer == NULL)
        FAIL(STATUS_NO_MEMORY, "no memory for a timer");
    flush_arm(admin);
    return STATUS_OK;
}

void admin_close(struct admin *admin)
{
    if (admin->worker != NULL) {
        loop_worker_destroy(admin->worker);
        flush(admin);
    }
    if (admin->flush_timer != NULL)
        loop_timer_destroy(admin->flush_timer);
    admin->worker = NULL;
    admin->flush_timer = NULL;
    while (admin->calls != NULL)
        calls_remove(admin, admin->calls);
    failure_guard_destroy(admin->guard);
    admin->guard = NULL;
}
