#include "gateway/edge/engines/edge_settle.h"

#include <stdio.h>
#include <string.h>

#include "config/base/clock.h"
#include "config/base/log.h"

enum {
    AGAIN_MS = 20,
    TRIES_MAX = 250, /* after 5 s of a full ledger queue the row is only logged */
    /* With at most so many jobs the loop commits their rows itself, so that no answer waits for
     * another thread. With more, the ledger's thread puts rows that end together into one commit.
     * */
    COMMIT_HERE_JOBS = 2,
    MINUTE_US = 60000000,
};

void edge_settle_text(char *out, size_t capacity, const char *text)
{
    size_t length = strnlen(text, capacity - 1);
    memcpy(out, text, length);
    out[length] = '\0';
}

void edge_settle_fill(struct ledger_row *row, const struct edge_final *final)
{
    row->prompt_tokens = final->prompt_tokens;
    row->cached_tokens = final->cached_tokens;
    row->completion_tokens = final->completion_tokens;
    row->reasoning_tokens = final->reasoning_tokens;
    row->is_estimated = final->is_estimated;
    row->queue_us = final->queue_us;
    row->prefill_us = final->prefill_us;
    row->decode_us = final->decode_us;
    snprintf(row->finish, sizeof row->finish, "%s", final->finish);
}

/* Logs the counts of a row that could not be committed in time, or not even be queued, so that
 * nothing is lost silently. */
static void settle_log(const struct ledger_row *row, const char *event)
{
    LOG(LOG_ERROR, event, LOG_TEXT("request_id", row->request_id),
        LOG_TEXT("tenant", row->tenant_id), LOG_TEXT("key", row->key_id),
        LOG_TEXT("model", row->model), LOG_TEXT("finish", row->finish),
        LOG_NUMBER("prompt_tokens", row->prompt_tokens),
        LOG_NUMBER("cached_tokens", row->cached_tokens),
        LOG_NUMBER("completion_tokens", row->completion_tokens), LOG_NUMBER("at_us", row->at_us));
}

static void settle_committed(struct edge_settle *settle)
{
    const struct ledger_row *row = &settle->row;
    struct quota *quota = settle->edge->quota;
    bool is_late = settle->status != STATUS_OK && settle->status != STATUS_EXISTS;
    if (is_late)
        settle_log(row, "ledger_row_late");
    /* Counts the row against budgets. The ledger goes on trying to write a late row, and a repeated
     * record of it will then be EXISTS, so it is counted now. EXISTS: it was counted the first
     * time. */
    if (settle->status == STATUS_OK || (is_late && !settle->is_replayed))
        quota_count(quota, row->tenant_id, row->key_id,
                    &(struct quota_use){.requests = 1,
                                        .prompt = row->prompt_tokens,
                                        .cached = row->cached_tokens,
                                        .output = row->completion_tokens,
                                        .cost_nano = row->cost_nano});
    bool is_recent = clock_wall_us(clock_system()) - row->at_us < MINUTE_US;
    if (settle->status == STATUS_OK && settle->is_replayed && is_recent)
        quota_recall(quota, row->tenant_id, row->key_id, row->prompt_tokens, row->cached_tokens,
                     row->completion_tokens);
    settle->done(settle->context, !is_late);
}

/* The row is committed, or the ledger reports a failure. On the ledger's thread or the loop's;
 * told_settle follows on the loop's. */
static void settle_written(void *context, enum status status, int64_t cost_nano)
{
    struct edge_settle *settle = context;
    struct edge *edge = settle->edge;
    settle->status = status;
    settle->row.cost_nano = cost_nano;
    settle->next_told = atomic_load(&edge->told);
    while (!atomic_compare_exchange_weak(&edge->told, &settle->next_told, settle))
        ;
}

/* Handles all rows that the ledger has reported on, in their order. */
static void told_settle(void *context)
{
    struct edge *edge = context;
    struct edge_settle *last_first = atomic_exchange(&edge->told, NULL);
    struct edge_settle *settle = NULL;
    while (last_first != NULL) {
        struct edge_settle *next = last_first->next_told;
        last_first->next_told = settle;
        settle = last_first;
        last_first = next;
    }
    while (settle != NULL) {
        struct edge_settle *next = settle->next_told;
        settle_committed(settle);
        settle = next;
    }
}

void edge_settle_told(void *context)
{
    struct edge *edge = context;
    if (atomic_load(&edge->told) != NULL)
        loop_post(edge->loop, told_settle, edge);
}

static void settle_lost(void *context)
{
    struct edge_settle *settle = context;
    settle_log(&settle->row, "ledger_row_lost");
    settle->done(settle->context, false);
}

/* Has the rows committed at the end of this turn of the loop, so that all rows of a turn are one
 * commit. */
static void append_wake(struct edge *edge)
{
    if (edge->settle_timer == NULL)
        ledger_wake(edge->ledger);
    else if (!edge->has_queued)
        loop_timer_arm(edge->settle_timer, 0);
    edge->has_queued = true;
}

void edge_settle_wake(void *context)
{
    struct edge *edge = context;
    edge->has_queued = false;
    bool is_done = edge->jobs_running <= COMMIT_HERE_JOBS && ledger_commit_here(edge->ledger);
    if (!is_done)
        ledger_wake(edge->ledger);
    told_settle(edge);
}

static void settle_append(void *context)
{
    struct edge_settle *settle = context;
    if (ledger_queue(settle->edge->ledger, &settle->row, settle_written, settle) == STATUS_OK) {
        append_wake(settle->edge);
        return;
    }
    if (settle->again == NULL)
        settle->again = loop_timer_create(settle->edge->loop, settle_append, settle);
    if (++settle->tries < TRIES_MAX && settle->again != NULL)
        loop_timer_arm(settle->again, AGAIN_MS);
    else
        loop_post(settle->edge->loop, settle_lost, settle);
}

static void settle_count(const struct edge_settle *settle)
{
    struct edge_metrics *metrics = &settle->edge->metrics;
    const struct ledger_row *row = &settle->row;
    if (settle->is_replayed)
        return;
    metric_add(metrics->tokens_prompt, row->prompt_tokens);
    metric_add(metrics->tokens_cached, row->cached_tokens);
    metric_add(metrics->tokens_generated, row->completion_tokens);
    if (row->is_estimated)
        metric_add(metrics->estimated_total, 1);
}

void edge_settle_begin(struct edge_settle *settle, struct edge *edge)
{
    settle->edge = edge;
    settle->tries = 0;
    settle_count(settle);
    settle_append(settle);
}

void edge_settle_deinit(struct edge_settle *settle)
{
    if (settle->again != NULL)
        loop_timer_destroy(settle->again);
    settle->again = NULL;
}
