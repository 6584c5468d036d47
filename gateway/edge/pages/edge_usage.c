#include "gateway/edge/pages/edge_usage.h"

#include <stdio.h>
#include <string.h>

#include "auth/tenants/price.h"
#include "config/base/clock.h"
#include "config/base/mem.h"
#include "gateway/edge/pages/edge_usage_render.h"
#include "gateway/http/http_error.h"

void edge_usage_destroy(struct edge_usage_call *call)
{
    struct edge *edge = call->edge;
    if (call->next != NULL)
        call->next->previous = call->previous;
    if (call->previous != NULL)
        call->previous->next = call->next;
    else
        edge->usage_calls = call->next;
    edge_memory_leave(edge->memory, &call->hold);
    ledger_usage_page_deinit(&call->task.page);
    buffer_deinit(&call->out);
    mem_free(call);
}

/* --- the answer --- */

static void answer_request(struct edge_usage_call *call)
{
    if (call->task.note.status == STATUS_OK &&
        edge_memory_set(call->edge->memory, &call->hold,
                        LIMIT_MEMORY_REQUEST_BYTES + call->out.capacity) != STATUS_OK) {
        metric_add(call->edge->metrics.memory_share_refused, 1);
        call->task.note = *status_note();
    }
    if (call->task.note.status != STATUS_OK) {
        call->access.code = http_error_of(call->task.note.status)->http_code;
        status_note_set(&call->task.note);
        http_respond_failure(call->request);
        return;
    }
    const struct http_header headers[] = {{"content-type", SLICE("application/json")},
                                          {"cache-control", SLICE("no-store")}};
    call->access.code = 200;
    http_respond_take(call->request, 200, headers, 2, &call->out);
}

static void call_answer(void *context)
{
    struct edge_usage_call *call = context;
    struct edge *edge = call->edge;
    if (call->request != NULL)
        answer_request(call);
    edge_access_end(&call->access, &edge->metrics, loop_now_us(edge->loop));
    call->is_over = true;
    if (call->request == NULL)
        edge_usage_destroy(call);
}

/* On the reader's thread. */
static void call_done(struct ledger_usage_task *task)
{
    struct edge_usage_call *call = (struct edge_usage_call *)task;
    if (task->note.status == STATUS_OK) {
        call->render(call);
        ledger_usage_page_deinit(&task->page);
        if (call->out.status != STATUS_OK) {
            (void)status_fail(call->out.status, __FILE__, __LINE__, NULL,
                              "The answer is too long; ask for fewer buckets.");
            task->note = *status_note();
        }
    }
    loop_post(call->edge->loop, call_answer, call);
}

static void call_gone(void *context, bool is_early)
{
    struct edge_usage_call *call = context;
    call->request = NULL;
    if (is_early && !call->is_over)
        call->access.code = 499;
    if (call->is_over)
        edge_usage_destroy(call);
}

/* --- from the handlers --- */

/* Bounds the calls of a tenant, because a client can leave the answer on each of its HTTP/2 streams
 * unread for as long as it likes. */
static enum status create_check_room(const struct edge *edge, const char *tenant_id)
{
    uint32_t own = 0;
    for (const struct edge_usage_call *call = edge->usage_calls; call != NULL; call = call->next)
        own += strcmp(call->task.asker, tenant_id) == 0;
    if (own >= LIMIT_USAGE_CALLS_TENANT)
        FAIL(STATUS_UNAVAILABLE,
             "Too many answers about usage wait to be read; read them and try again.");
    return STATUS_OK;
}

enum status edge_usage_create(struct edge_usage_call **out, struct edge *edge,
                              struct http_request *request, const struct edge_access *access,
                              const struct principal *principal)
{
    *out = NULL;
    TRY(create_check_room(edge, principal->tenant_id));
    struct byte_shares_hold hold = {0};
    TRY(edge_memory_take(edge->memory, &hold, principal->tenant_hash, LIMIT_MEMORY_REQUEST_BYTES));
    struct edge_usage_call *call = mem_zalloc(1, sizeof *call);
    if (call == NULL) {
        edge_memory_leave(edge->memory, &hold);
        FAIL(STATUS_NO_MEMORY, "no memory for another request");
    }
    call->hold = hold;
    call->edge = edge;
    call->request = request;
    call->access = *access;
    buffer_init(&call->out, EDGE_USAGE_RENDER_BYTES);
    snprintf(call->task.query.tenant_id, sizeof call->task.query.tenant_id, "%s",
             principal->tenant_id);
    snprintf(call->task.asker, sizeof call->task.asker, "%s", principal->tenant_id);
    call->next = edge->usage_calls;
    if (call->next != NULL)
        call->next->previous = call;
    edge->usage_calls = call;
    *out = call;
    return STATUS_OK;
}

enum status edge_usage_start(struct edge_usage_call *call)
{
    /* Without a tenant the reader would return the sums of all tenants. */
    ASSERT(call->task.query.tenant_id[0] != '\0');
    edge_usage_form_fill(&call->form, &call->task.query);
    call->task.done = call_done;
    enum status status = ledger_usage_ask(call->edge->usage, &call->task);
    if (status == STATUS_OK)
        http_on_gone(call->request, call_gone, call); /* loop_post runs call_answer later */
    else
        edge_usage_destroy(call);
    return status;
}

static void handle_render(struct edge_usage_call *call)
{
    char currency[PRICE_CURRENCY_BYTES];
    price_currency(auth_tenants(call->edge->auth), currency);
    edge_usage_render(&call->form, &call->task.page, currency, &call->out);
}

enum status edge_usage_handle(struct edge *edge, struct http_request *request,
                              const struct edge_access *access, const struct principal *principal)
{
    struct edge_usage_form form;
    TRY(edge_usage_form_read(EDGE_USAGE_OWN, http_query(request),
                             clock_wall_us(clock_system()) / 1000000, &form, NULL));
    struct edge_usage_call *call = NULL;
    TRY(edge_usage_create(&call, edge, request, access, principal));
    call->form = form;
    call->render = handle_render;
    return edge_usage_start(call);
}

void edge_usage_free_all(struct edge *edge)
{
    while (edge->usage_calls != NULL)
        edge_usage_destroy(edge->usage_calls);
}
