#include "gateway/admin/admin_requests.h"

#include <jansson.h>
#include <stdlib.h>

#include "config/base/mem.h"
#include "gateway/admin/admin_ask.h"
#include "gateway/admin/admin_body.h"
#include "gateway/admin/admin_change.h"
#include "gateway/admin/admin_list.h"
#include "gateway/edge/request/edge_job.h"

/* A job of the edge with what the engine says about it. */
struct requests_row {
    struct edge_job_info job;
    char state[16];
    uint32_t computed_tokens;
    const json_t *explain; /* borrowed; NULL = the engine says nothing */
};

struct requests_rows {
    struct requests_row *rows; /* oldest first */
    size_t count;
    json_t *by_id; /* the engine's answer, by request id */
    struct tenants *tenants;
};

/* --- rendering --- */

/* Appends the object without its closing brace. */
static void render_members(struct tenants *tenants, const struct requests_row *row,
                           struct buffer *out)
{
    const struct edge_job_info *job = &row->job;
    struct tenant tenant = {.name = ""};
    (void)tenants_get(tenants, slice_of(job->tenant_id), &tenant);
    buffer_append_text(out, "{\"id\":");
    buffer_append_json_string(out, slice_of(job->id));
    buffer_printf(out,
                  ",\"object\":\"request\",\"tenant_id\":\"%s\",\"tenant_name\":", job->tenant_id);
    buffer_append_json_string(out, slice_of(tenant.name));
    buffer_printf(out, ",\"key_id\":\"%s\",\"route\":\"%s\",\"class\":\"%s\",\"state\":\"%s\",",
                  job->key_id, job->route, service_class_name(job->service_class), row->state);
    buffer_printf(out,
                  "\"stream\":%s,\"prompt_tokens\":%u,\"computed_tokens\":%u,"
                  "\"cached_tokens\":%u,\"completion_tokens\":%u,\"age_ms\":%lld",
                  job->is_stream ? "true" : "false", job->prompt_tokens, row->computed_tokens,
                  job->cached_tokens, job->completion_tokens, (long long)(job->age_us / 1000));
    char *explain = row->explain != NULL ? json_dumps(row->explain, JSON_COMPACT) : NULL;
    buffer_append_text(out, ",\"explain\":");
    buffer_append_text(out, explain != NULL ? explain : "null");
    free(explain);
}

static void render_row(void *context, const void *row, struct buffer *out)
{
    const struct requests_rows *all = context;
    render_members(all->tenants, row, out);
    buffer_append_char(out, '}');
}

/* --- the list --- */

static void row_set(struct requests_row *row, const char *state)
{
    size_t length = strnlen(state, sizeof row->state - 1);
    memcpy(row->state, state, length);
    row->state[length] = '\0';
}

static uint32_t join_number(const json_t *told, const char *name, uint32_t known)
{
    json_int_t number = json_integer_value(json_object_get(told, name));
    return number > known && number <= UINT32_MAX ? (uint32_t)number : known;
}

/* Adds what the engine says. A job that is ending at the edge stays "ending". */
static void join_row(struct requests_row *row, const json_t *by_id)
{
    row_set(row, row->job.state);
    const json_t *told = json_object_get(by_id, row->job.id);
    const char *state = json_string_value(json_object_get(told, "state"));
    if (state == NULL || strcmp(row->job.state, "ending") == 0)
        return;
    row_set(row, state);
    row->job.prompt_tokens = join_number(told, "prompt_tokens", row->job.prompt_tokens);
    row->job.cached_tokens = join_number(told, "cached_tokens", row->job.cached_tokens);
    row->job.completion_tokens = join_number(told, "tokens", row->job.completion_tokens);
    row->computed_tokens = join_number(told, "computed_tokens", 0);
    const json_t *explain = json_object_get(told, "explain");
    row->explain = json_is_object(explain) ? explain : NULL;
}

static json_t *join_read(struct slice body)
{
    json_t *by_id = json_object();
    json_t *root = body.length > 0 ? json_loadb(body.bytes, body.length, 0, NULL) : NULL;
    json_t *data = json_object_get(root, "data");
    for (size_t i = 0; i < json_array_size(data); i++) {
        json_t *row = json_array_get(data, i);
        const char *id = json_string_value(json_object_get(row, "request_id"));
        if (id != NULL)
            json_object_set(by_id, id, row);
    }
    json_decref(root);
    return by_id;
}

static enum status rows_read(struct admin_call *call, struct slice body, struct requests_rows *out)
{
    struct edge *edge = call->admin->edge;
    size_t count = edge_job_list(edge, NULL, 0);
    struct edge_job_info *jobs = mem_zalloc(count + 1, sizeof *jobs);
    *out = (struct requests_rows){.rows = mem_zalloc(count + 1, sizeof *out->rows),
                                  .count = count,
                                  .tenants = auth_tenants(call->admin->auth)};
    if (jobs == NULL || out->rows == NULL) {
        mem_free(jobs);
        FAIL(STATUS_NO_MEMORY, "no memory for a list");
    }
    out->by_id = join_read(body);
    (void)edge_job_list(edge, jobs, count);
    for (size_t i = 0; i < count; i++) {
        out->rows[i].job = jobs[i];
        join_row(&out->rows[i], out->by_id);
    }
    mem_free(jobs);
    return STATUS_OK;
}

static enum status list_page(void *context, const char *after, void *rows, size_t capacity,
                             size_t *count, bool *has_more)
{
    const struct requests_rows *all = context;
    size_t first = 0;
    if (after[0] != '\0') {
        while (first < all->count && strcmp(all->rows[first].job.id, after) != 0)
            first++;
        if (first++ == all->count)
            FAIL_PARAM(STATUS_INVALID, "after",
                       "The request with this id has ended: read the list from its start.");
    }
    size_t left = all->count - first;
    *count = left < capacity ? left : capacity;
    *has_more = left > capacity;
    memcpy(rows, all->rows + first, *count * sizeof *all->rows);
    return STATUS_OK;
}

static void list_id(const void *row, char out[LIMIT_ID_BYTES])
{
    const char *id = ((const struct requests_row *)row)->job.id;
    size_t length = strnlen(id, LIMIT_ID_BYTES - 1); /* the edge made it: "req_" and 32 digits */
    memcpy(out, id, length);
    out[length] = '\0';
}

static enum status list_answer(struct admin_call *call, struct slice body)
{
    struct admin_query query;
    struct requests_rows all = {0};
    TRY(admin_query_read(call->query, ADMIN_QUERY_LIST, &query));
    enum status status = rows_read(call, body, &all);
    struct admin_list_source source = {sizeof *all.rows, list_page, list_id, render_row, &all};
    if (status == STATUS_OK)
        status = admin_list_render(&source, &query, &call->out);
    mem_free(all.rows);
    json_decref(all.by_id);
    return status;
}

static void list_told(struct admin_call *call, struct slice body)
{
    admin_call_end(call, list_answer(call, body));
}

/* When the engine is down, or has no connection left, the list has the states of the edge only. */
enum status admin_requests_list(struct admin_call *call)
{
    struct admin_query query;
    struct admin *admin = call->admin;
    TRY(admin_query_read(call->query, ADMIN_QUERY_LIST, &query));
    bool is_up = admin->probe != NULL && edge_probe_engine(admin->probe)->state == EDGE_PROBE_UP;
    if (admin->edge != NULL && is_up && edge_job_list(admin->edge, NULL, 0) > 0 &&
        admin_ask_start(call, "/internal/v1/requests", list_told) == STATUS_OK)
        return STATUS_OK;
    return list_answer(call, (struct slice){0});
}

/* --- cancelling --- */

/* Writes the audit row before the job is stopped, so that no cancelled request lacks one. */
static enum status cancel_note(struct admin_call *call)
{
    struct tenant_change change;
    struct buffer detail;
    TRY(admin_change_begin(call, &change));
    buffer_init(&detail, LIMIT_ADMIN_BODY_BYTES);
    buffer_append_text(&detail, "{\"tenant_id\":");
    buffer_append_json_string(&detail, slice_of(call->subject));
    buffer_append_char(&detail, '}');
    enum status status = detail.status;
    if (status == STATUS_OK)
        status = tenants_audit_add(auth_tenants(call->admin->auth), &change, "request.cancelled",
                                   call->arguments[0], buffer_slice(&detail));
    buffer_deinit(&detail);
    TRY(status);
    return admin_change_end(call, &change, 0);
}

/* Stops the job. It may have ended by itself meanwhile, which is as good. */
static enum status cancel_job(struct admin_call *call)
{
    struct admin_query query;
    char id[LIMIT_REQUEST_ID_BYTES];
    TRY(admin_query_read(call->query, ADMIN_QUERY_CHANGE, &query));
    memcpy(id, call->arguments[0].bytes, call->arguments[0].length);
    id[call->arguments[0].length] = '\0';
    if (!query.is_dry_run)
        (void)edge_job_stop(call->admin->edge, id);
    return STATUS_OK;
}

enum status admin_requests_cancel(struct admin_call *call)
{
    struct requests_row row = {0};
    struct slice given = call->arguments[0];
    char id[LIMIT_ID_BYTES] = "";
    if (given.length < sizeof id)
        memcpy(id, given.bytes, given.length);
    if (call->admin->edge == NULL || !edge_job_look(call->admin->edge, id, &row.job))
        FAIL(STATUS_NOT_FOUND, "No request with this id is running.");
    row_set(&row, row.job.state);
    render_members(auth_tenants(call->admin->auth), &row, &call->out);
    memcpy(call->subject, row.job.tenant_id, sizeof call->subject);
    TRY(admin_body_read(call->body, NULL, 0));
    call->second = cancel_note;
    call->third = cancel_job;
    return call->out.status;
}
