#include "gateway/admin/admin_usage.h"

#include <stdio.h>

#include "auth/tenants/price.h"
#include "config/base/clock.h"
#include "config/base/mem.h"
#include "gateway/edge/pages/edge_usage_render.h"

struct usage_work {
    struct ledger_usage_task task; /* first member: work_done gets it */
    struct admin_call *call;
    struct edge_usage_form form;
    struct ledger_usage_filter filter;
    struct ledger_requests requests;
};

static void work_free(void *work)
{
    struct usage_work *usage = work;
    ledger_usage_page_deinit(&usage->task.page);
    ledger_requests_deinit(&usage->requests);
}

static void work_end(void *context)
{
    struct usage_work *work = context;
    status_note_set(&work->task.note);
    admin_call_end(work->call, work->task.note.status);
}

static void done_render(struct usage_work *work)
{
    struct admin_call *call = work->call;
    char currency[PRICE_CURRENCY_BYTES];
    price_currency(auth_tenants(call->admin->auth), currency);
    if (work->form.is_csv)
        call->content_type = "text/csv; charset=utf-8; header=present";
    if (work->task.requests != NULL) {
        edge_usage_render_requests(&work->form, &work->requests, currency, &call->out);
        if (work->requests.has_more)
            snprintf(call->next_page, sizeof call->next_page, "row_%lld",
                     (long long)work->requests.last);
    } else {
        edge_usage_render(&work->form, &work->task.page, currency, &call->out);
        edge_usage_render_next(&work->form, &work->task.page, call->next_page);
    }
}

/* Runs on the reader's thread. */
static void work_done(struct ledger_usage_task *task)
{
    struct usage_work *work = (struct usage_work *)task;
    if (task->note.status == STATUS_OK) {
        done_render(work);
        work_free(work); /* a slow client then keeps the answer in memory, but not its rows */
        if (work->call->out.status != STATUS_OK) {
            (void)status_fail(work->call->out.status, __FILE__, __LINE__, NULL,
                              "The answer is too long; ask for fewer buckets.");
            task->note = *status_note();
        }
    }
    loop_post(work->call->admin->loop, work_end, work);
}

static enum status ask(struct admin_call *call, enum edge_usage_kind kind)
{
    int64_t now_s = clock_wall_us(clock_system()) / 1000000;
    struct usage_work *work = mem_zalloc(1, sizeof *work);
    if (work == NULL)
        FAIL(STATUS_NO_MEMORY, "no memory for another request");
    call->work = work; /* the call frees it */
    call->free_work = work_free;
    work->call = call;
    work->task.done = work_done;
    TRY(edge_usage_form_read(kind, call->query, now_s, &work->form, &work->filter));
    if (kind == EDGE_USAGE_REQUESTS) {
        work->requests = (struct ledger_requests){.start_us = work->form.start_s * 1000000,
                                                  .end_us = work->form.end_s * 1000000,
                                                  .after = work->form.after,
                                                  .is_descending = work->form.is_descending,
                                                  .limit = work->form.buckets,
                                                  .filter = &work->filter};
        work->task.requests = &work->requests;
    } else {
        edge_usage_form_fill(&work->form, &work->task.query);
        work->task.query.filter = &work->filter;
    }
    TRY(ledger_usage_ask(call->admin->usage, &work->task));
    call->is_waiting = true;
    return STATUS_OK;
}

enum status admin_usage_all(struct admin_call *call)
{
    return ask(call, EDGE_USAGE_ALL);
}

enum status admin_usage_requests(struct admin_call *call)
{
    return ask(call, EDGE_USAGE_REQUESTS);
}

enum status admin_usage_organization(struct admin_call *call)
{
    return ask(call, EDGE_USAGE_ORGANIZATION);
}

enum status admin_usage_costs(struct admin_call *call)
{
    return ask(call, EDGE_USAGE_COSTS);
}
