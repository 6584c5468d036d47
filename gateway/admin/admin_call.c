#include "gateway/admin/admin_call.h"

#include <stdio.h>

#include "config/base/mem.h"

/* Copies a slice to `*at`, which it moves behind the copy. A slice without bytes stays one. */
static struct slice create_copy(char **at, struct slice from)
{
    if (from.bytes == NULL)
        return from;
    struct slice copy = {*at, from.length};
    if (from.length != 0)
        memcpy(*at, from.bytes, from.length);
    *at += from.length;
    return copy;
}

/* The names of all models that are served, each with a line's end. */
static struct slice create_models(const struct admin *admin, char *out, size_t capacity)
{
    size_t length = 0;
    const struct edge_probe_engine *engine =
        admin->probe != NULL ? edge_probe_engine(admin->probe) : NULL;
    for (uint32_t i = 0; engine != NULL && i < engine->model_count; i++) {
        const char *id = engine->models[i].id;
        if (id[0] != '\0' && length + strlen(id) + 2 <= capacity)
            length += (size_t)snprintf(out + length, capacity - length, "%s\n", id);
    }
    return (struct slice){out, length};
}

struct admin_call *admin_call_create(struct admin *admin, struct http_request *request)
{
    char models[LIMIT_POOL_ENGINES * LEDGER_MODEL_BYTES];
    struct slice from[] = {
        http_method(request),
        http_path(request),
        http_path_argument(request, 0),
        http_path_argument(request, 1),
        http_query(request),
        http_body(request),
        http_header_get(request, "if-match"),
        http_header_get(request, "if-none-match"),
        http_header_get(request, "idempotency-key"),
        create_models(admin, models, sizeof models),
    };
    enum { COUNT = sizeof from / sizeof from[0] };
    size_t bytes = sizeof(struct admin_call);
    for (size_t i = 0; i < COUNT; i++)
        bytes += from[i].length;
    struct admin_call *call = mem_zalloc(1, bytes);
    if (call == NULL)
        return NULL;
    char *at = (char *)(call + 1);
    struct slice *to[COUNT] = {
        &call->method, &call->path,     &call->arguments[0],  &call->arguments[1],    &call->query,
        &call->body,   &call->if_match, &call->if_none_match, &call->idempotency_key, &call->model};
    for (size_t i = 0; i < COUNT; i++)
        *to[i] = create_copy(&at, from[i]);
    call->admin = admin;
    call->request = request;
    call->code = 200;
    call->content_type = "application/json";
    buffer_init(&call->out, LIMIT_ADMIN_ANSWER_BYTES);
    return call;
}

void admin_call_destroy(struct admin_call *call)
{
    if (call == NULL)
        return;
    if (call->ask != NULL)
        call->free_ask(call->ask);
    if (call->body.length > 0) /* it may have a key set */
        explicit_bzero((char *)(uintptr_t)call->body.bytes, call->body.length);
    if (call->out.bytes != NULL)
        explicit_bzero(call->out.bytes, call->out.capacity);
    buffer_deinit(&call->out);
    if (call->free_work != NULL)
        call->free_work(call->work);
    mem_free(call->work);
    mem_free(call);
}

struct admin_owner admin_call_owner(const struct admin_call *call)
{
    if (slice_starts_with(call->path, SLICE("/admin/v1/certificates")) ||
        slice_starts_with(call->path, SLICE("/admin/v1/admin-keys")))
        return (struct admin_owner){{0}, call->arguments[0]};
    ASSERT(call->arguments[0].length > 0); /* else it would mean the admins' own */
    return (struct admin_owner){call->arguments[0], call->arguments[1]};
}

void admin_call_append_time(struct buffer *out, const char *name, int64_t time_s)
{
    if (time_s != 0)
        buffer_printf(out, ",\"%s\":%lld", name, (long long)time_s);
    else
        buffer_printf(out, ",\"%s\":null", name);
}
