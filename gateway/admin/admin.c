#include "gateway/admin/admin.h"

#include "config/base/log.h"
#include "gateway/admin/admin_keys.h"
#include "gateway/admin/admin_state.h"
#include "gateway/admin/admin_tenants.h"
#include "gateway/edge/edge_access.h"
#include "gateway/edge/edge_credential.h"
#include "gateway/http/http_error.h"
#include "gateway/http/router.h"

/* A list of 100 audit rows is 100 KiB; every series at its bound is 1.5 MiB. */
enum { ANSWER_BYTES_MAX = 4 * 1024 * 1024 };

static const struct route routes[] = {
#define ROUTE(method, path, function, scope) {method, path, NULL},
#include "gateway/admin/routes.def"
#undef ROUTE
};
static const struct {
    admin_function function;
    uint32_t scope;
} acts[] = {
#define ROUTE(method, path, function, scope) {function, scope},
#include "gateway/admin/routes.def"
#undef ROUTE
};
enum { ROUTES = sizeof routes / sizeof routes[0] };

static void handle_actor(struct admin_call *call, const struct edge_access *access)
{
    memcpy(call->actor.key_id, call->principal.key_id, sizeof call->actor.key_id);
    memcpy(call->actor.request_id, access->request_id, sizeof call->actor.request_id);
    http_peer_name(call->request, call->actor.peer, sizeof call->actor.peer);
}

static enum status handle_call(struct admin_call *call, size_t index, struct edge_access *access)
{
    uint32_t scope = acts[index].scope;
    if (scope != 0) {
        TRY(edge_credential_check(call->admin->auth, call->request, true, &call->principal));
        edge_access_principal(access, &call->principal);
        if ((call->principal.scopes & scope) == 0)
            FAIL(STATUS_FORBIDDEN, "This key does not have the scope that this call needs.");
        handle_actor(call, access);
    }
    return acts[index].function(call);
}

void admin_handle(struct http_request *request, void *context)
{
    struct admin *admin = context;
    struct loop *loop = http_loop(request);
    struct edge_access access;
    edge_access_begin(&access, request, "other");
    size_t index = 0;
    bool is_known = router_knows(routes, ROUTES, http_path(request));
    if (router_find(routes, ROUTES, request, &index) == NULL) {
        access.code = is_known ? 405 : 404;
        edge_access_end(&access, admin->metrics, loop_now_us(loop));
        return;
    }
    access.route = routes[index].path;
    access.is_quiet = acts[index].scope == 0 || acts[index].scope == AUTH_SCOPE_METRICS_READ;
    struct admin_call call = {
        .admin = admin, .request = request, .code = 200, .content_type = "application/json"};
    buffer_init(&call.out, ANSWER_BYTES_MAX);
    if (handle_call(&call, index, &access) == STATUS_OK) {
        struct http_header type = {"content-type", slice_of(call.content_type)};
        struct http_header cache = {"cache-control", SLICE("no-store")};
        http_respond(request, call.code, (struct http_header[]){type, cache}, 2,
                     buffer_slice(&call.out));
        access.code = call.code;
    } else {
        access.code = http_error_of(status_note()->status)->http_code;
        http_respond_failure(request);
    }
    if (call.out.length != 0)
        explicit_bzero(call.out.bytes, call.out.length); /* a key's value may be in it */
    buffer_deinit(&call.out);
    edge_access_end(&access, admin->metrics, loop_now_us(loop));
}
