#include "gateway/pool/pool.h"

#include <stdio.h>
#include <string.h>

#include "config/base/log.h"
#include "config/base/mem.h"
#include "config/base/random_bytes.h"
#include "gateway/http/loop_worker.h"
#include "gateway/pool/pool_copy.h"
#include "gateway/pool/pool_health.h"

enum {
    LOOK_MS = 500,     /* how often servers are looked at */
    AWAY_MS = 1000,    /* between two questions to a server that is away or silent */
    CALM_MS = 5000,    /* between two questions to any other: it may be another one meanwhile */
    SILENT_MS = 2000,  /* without a part of an answer, a server that owes one is asked */
    MISSES = 2,        /* unanswered questions that make a server count as down */
    RETRY_MS = 50,     /* when a request may come again that no server has room for */
    RETRIES_SPARE = 3, /* beside a tenth of the requests of the last ten seconds */
    RETRY_SECONDS = 10,
    REQUESTS_DEFAULT = 64,
};

struct member {
    struct loop_worker_task task; /* first member: look_work and look_done get it */
    struct pool *pool;
    const struct pool_upstream *upstream;
    struct source *source; /* NULL until it has answered */
    struct adapter_found found;
    struct pool_health health;
    struct source_model model;
    char labels[LIMIT_NAME_BYTES + 16];
    uint32_t room;    /* requests that it can run at once */
    uint32_t running; /* choices of requests that have not ended */
    uint32_t misses;
    bool is_trying;    /* a trial's answer has not begun */
    bool is_other;     /* it has come back as another model or kind */
    int64_t quiet_us;  /* since when it owes a part of an answer; 0 = it does not */
    int64_t looked_us; /* of the last question */
    bool is_looking;
    enum status look_status;
    struct adapter_found looked; /* the worker's */
    struct metric *up, *requests, *failures;
};

struct pool_request {
    struct pool_request *next, *previous;
    struct member *member;
    engine_request_id id, inner; /* the pool's, and the member's */
    void *context;
    struct pool_copy *copy; /* NULL once the answer has begun, or nothing may be sent again */
    uint32_t choices;
    bool is_retried;
    bool is_trial; /* of its member, and its answer has not begun */
};

struct pool {
    struct source source;
    struct pool_options options;
    struct loop_worker *worker;
    struct loop_timer *timer;
    struct pool_request *requests; /* newest first */
    uint32_t request_count;
    engine_request_id next_id;
    uint32_t turn; /* the member that was chosen last */
    struct {
        int64_t second;
        uint32_t requests, retries;
    } recent[RETRY_SECONDS];
    struct metric *retries;
    char default_model[LIMIT_NAME_BYTES];
    _Atomic bool is_closing; /* the worker reads it too */
    uint32_t count;
    struct member members[];
};

static struct pool *pool_of(const struct source *source)
{
    return (struct pool *)(uintptr_t)(const void *)source;
}

/* --- members ------------------------------------------------------------------------------- */

static struct adapter_options options_of(struct member *member)
{
    const struct pool_options *options = &member->pool->options;
    const struct pool_upstream *upstream = member->upstream;
    return (struct adapter_options){.loop = options->loop,
                                    .url = upstream->row.url,
                                    .addresses = &upstream->addresses,
                                    .kind = upstream->row.kind,
                                    .key = upstream->key,
                                    .model_name = upstream->row.model,
                                    .requests_max = upstream->row.requests,
                                    .idle_ms = options->idle_ms,
                                    .accepts_shared = upstream->row.accepts_shared,
                                    .metrics = options->metrics,
                                    .labels = member->labels,
                                    .wake = options->wake,
                                    .wake_context = options->wake_context};
}

static void member_show(const struct member *member)
{
    metric_set(member->up,
               member->source != NULL && member->health.state == POOL_HEALTH_UP ? 1 : 0);
    metric_set(member->requests, member->running);
}

static enum status member_open(struct member *member, const struct adapter_found *found)
{
    struct engine_info info;
    const struct adapter_options options = options_of(member);
    TRY(adapter_open(&member->source, &options, found));
    member->found = *found;
    member->source->ops->info(member->source, &info);
    snprintf(member->model.name, sizeof member->model.name, "%s", info.model_name);
    member->model.context = info.context;
    member->model.created_s = info.created_wall_s;
    member->room = member->upstream->row.requests;
    if (member->room == 0)
        member->room = found->facts.requests > 0 ? found->facts.requests : REQUESTS_DEFAULT;
    if (member->pool->default_model[0] == '\0')
        memcpy(member->pool->default_model, member->model.name, sizeof member->model.name);
    LOG(LOG_INFO, "pool_engine", LOG_TEXT("name", member->upstream->row.name),
        LOG_TEXT("model", member->model.name), LOG_TEXT("kind", found->facts.kind->name));
    return STATUS_OK;
}

static bool has_model(const struct member *member, struct slice model)
{
    return member->source != NULL && slice_is(model, member->model.name);
}

/* At most half of a model's engines are ejected. */
static bool may_eject(const struct pool *pool, const struct member *member)
{
    uint32_t all = 0;
    uint32_t out = 0;
    for (uint32_t i = 0; i < pool->count; i++) {
        const struct member *one = &pool->members[i];
        if (!has_model(one, slice_of(member->model.name)))
            continue;
        all++;
        out += one->health.state != POOL_HEALTH_UP;
    }
    return (out + 1) * 2 <= all;
}

static void member_down(struct member *member)
{
    if (member->health.state == POOL_HEALTH_DOWN)
        return;
    pool_health_down(&member->health);
    LOG(LOG_WARN, "pool_engine_out", LOG_TEXT("name", member->upstream->row.name),
        LOG_TEXT("state", pool_health_name(&member->health)));
}

static void member_failed(struct member *member, enum source_fault fault)
{
    uint32_t chance = 0;
    const int64_t now_us = loop_now_us(member->pool->options.loop);
    const enum pool_health_state before = member->health.state;
    random_bytes(&chance, sizeof chance);
    metric_add(member->failures, 1);
    pool_health_failed(&member->health, now_us, may_eject(member->pool, member), chance);
    if (fault == SOURCE_GONE)
        member_down(member);
    else if (member->health.state != before)
        LOG(LOG_WARN, "pool_engine_out", LOG_TEXT("name", member->upstream->row.name),
            LOG_TEXT("state", pool_health_name(&member->health)));
    member_show(member);
}

/* --- choosing ------------------------------------------------------------------------------- */

static bool is_candidate(const struct pool *pool, const struct member *member,
                         const struct engine_request *request, uint64_t excluded)
{
    const int64_t now_us = loop_now_us(pool->options.loop);
    const uint32_t room = pool_health_room(&member->health, member->room, now_us);
    const struct slice model =
        request->model.length > 0 ? request->model : slice_of(pool->default_model);
    if (!has_model(member, model) || (excluded >> (member - pool->members) & 1) != 0 || room == 0)
        return false;
    if (member->health.state == POOL_HEALTH_TRIAL && member->is_trying)
        return false;
    return member->running == 0 || member->running + request->choices <= room;
}

/* In a trial, requests from before do not count: they would keep the trials from a server that
 * others relieve. */
static uint32_t load_of(const struct member *member)
{
    return member->health.state == POOL_HEALTH_TRIAL ? 0 : member->running;
}

/* The candidate with the fewest running requests for its weight; NULL when there is none. Among
 * equals the one behind the last choice comes first, so that they take turns. */
static struct member *choose(struct pool *pool, const struct engine_request *request,
                             uint64_t excluded)
{
    struct member *best = NULL;
    for (uint32_t i = 0; i < pool->count; i++) {
        struct member *member = &pool->members[(pool->turn + 1 + i) % pool->count];
        if (!is_candidate(pool, member, request, excluded))
            continue;
        if (best == NULL || (uint64_t)load_of(member) * best->upstream->row.weight <
                                (uint64_t)load_of(best) * member->upstream->row.weight)
            best = member;
    }
    if (best != NULL)
        pool->turn = (uint32_t)(best - pool->members);
    return best;
}

/* The member that runs earlier prompts of the same request; NULL when there is none. */
static struct member *own_member(const struct pool *pool, const void *context)
{
    for (const struct pool_request *one = pool->requests; one != NULL; one = one->next) {
        if (one->context == context && context != NULL)
            return one->member;
    }
    return NULL;
}

static void enter_member(struct pool_request *pooled, struct member *member)
{
    pooled->member = member;
    pooled->is_trial = member->health.state == POOL_HEALTH_TRIAL;
    member->is_trying = member->is_trying || pooled->is_trial;
    if (member->quiet_us == 0) /* clients that have left do not make it less silent */
        member->quiet_us = loop_now_us(member->pool->options.loop);
    member->running += pooled->choices;
    member_show(member);
}

static void end_trial(struct pool_request *pooled)
{
    if (pooled->is_trial)
        pooled->member->is_trying = false;
    pooled->is_trial = false;
}

static void leave_member(struct pool_request *pooled)
{
    end_trial(pooled);
    pooled->member->running -= pooled->choices;
    member_show(pooled->member);
}

/* Tries members until one takes the request. BUSY when none has room now. */
static enum status send_to_any(struct pool *pool, struct pool_request *pooled,
                               const struct engine_request *request, uint64_t excluded)
{
    enum status status = STATUS_BUSY;
    struct member *member = own_member(pool, request->context);
    if (member != NULL && (excluded >> (member - pool->members) & 1) != 0)
        member = NULL;
    if (member == NULL)
        member = choose(pool, request, excluded);
    while (member != NULL) {
        status = member->source->ops->submit(member->source, request, &pooled->inner);
        if (status == STATUS_OK) {
            if (pooled->member != NULL) /* the one that has failed */
                leave_member(pooled);
            enter_member(pooled, member);
            return STATUS_OK;
        }
        if (status != STATUS_BUSY)
            return status;
        excluded |= UINT64_C(1) << (member - pool->members);
        member = choose(pool, request, excluded);
    }
    status = status_fail(STATUS_BUSY, __FILE__, __LINE__, NULL,
                         "The engines of this model have no room now.");
    status_note_retry(RETRY_MS);
    return status;
}

/* --- requests ------------------------------------------------------------------------------- */

static void count_recent(struct pool *pool, uint32_t requests, uint32_t retries)
{
    const int64_t second = loop_now_us(pool->options.loop) / 1000000;
    const size_t at = (size_t)(second % RETRY_SECONDS);
    if (pool->recent[at].second != second) {
        pool->recent[at].second = second;
        pool->recent[at].requests = pool->recent[at].retries = 0;
    }
    pool->recent[at].requests += requests;
    pool->recent[at].retries += retries;
}

/* A tenth of the requests, and three more: so retries cannot double the load of what is left. */
static bool may_retry(const struct pool *pool)
{
    const int64_t second = loop_now_us(pool->options.loop) / 1000000;
    uint32_t requests = 0;
    uint32_t retries = 0;
    for (size_t i = 0; i < RETRY_SECONDS; i++) {
        if (second - pool->recent[i].second >= RETRY_SECONDS)
            continue;
        requests += pool->recent[i].requests;
        retries += pool->recent[i].retries;
    }
    return retries < requests / 10 + RETRIES_SPARE;
}

static void request_free(struct pool *pool, struct pool_request *pooled)
{
    if (pooled->previous != NULL)
        pooled->previous->next = pooled->next;
    else
        pool->requests = pooled->next;
    if (pooled->next != NULL)
        pooled->next->previous = pooled->previous;
    pool->request_count--;
    pool_copy_destroy(pooled->copy);
    mem_free(pooled);
}

/* The ring of final records has a place for so many requests. */
static enum status check_count(const struct pool *pool, const struct engine_request *request)
{
    if (pool->request_count < LIMIT_REQUESTS_IN_ENGINE ||
        own_member(pool, request->context) != NULL)
        return STATUS_OK;
    enum status status = status_fail(STATUS_BUSY, __FILE__, __LINE__, NULL,
                                     "The engines have no room for another request now.");
    status_note_retry(RETRY_MS);
    return status;
}

static enum status pool_submit(struct source *source, const struct engine_request *request,
                               engine_request_id *out)
{
    struct pool *pool = pool_of(source);
    TRY(check_count(pool, request));
    struct pool_request *pooled = mem_zalloc(1, sizeof *pooled);
    if (pooled == NULL)
        FAIL(STATUS_NO_MEMORY, "no memory for a request");
    pooled->context = request->context;
    pooled->choices = request->choices;
    enum status status = send_to_any(pool, pooled, request, 0);
    if (status == STATUS_OK)
        (void)pool_copy_create(&pooled->copy, request); /* without it nothing is sent again */
    if (status != STATUS_OK) {
        mem_free(pooled);
        return status;
    }
    count_recent(pool, 1, 0);
    pooled->id = *out = ++pool->next_id;
    pooled->next = pool->requests;
    if (pooled->next != NULL)
        pooled->next->previous = pooled;
    pool->requests = pooled;
    pool->request_count++;
    return STATUS_OK;
}

static struct pool_request *request_find(const struct pool *pool, engine_request_id id)
{
    struct pool_request *pooled = pool->requests;
    while (pooled != NULL && pooled->id != id)
        pooled = pooled->next;
    return pooled;
}

static void pool_cancel(struct source *source, engine_request_id id)
{
    struct pool_request *pooled = request_find(pool_of(source), id);
    if (pooled == NULL)
        return;
    pool_copy_destroy(pooled->copy); /* nobody wants it any more */
    pooled->copy = NULL;
    pooled->member->source->ops->cancel(pooled->member->source, pooled->inner);
}

static void pool_lower(struct source *source, engine_request_id id)
{
    struct pool_request *pooled = request_find(pool_of(source), id);
    if (pooled != NULL)
        pooled->member->source->ops->lower(pooled->member->source, pooled->inner);
}

static void pool_acknowledge(struct source *source, engine_request_id id, uint32_t choice,
                             uint32_t tokens)
{
    struct pool_request *pooled = request_find(pool_of(source), id);
    if (pooled != NULL)
        pooled->member->source->ops->acknowledge(pooled->member->source, pooled->inner, choice,
                                                 tokens);
}

/* --- events --------------------------------------------------------------------------------- */

/* Sends a request to another member; false when there is none, or it may not be sent again. */
static bool send_again(struct pool *pool, struct pool_request *pooled, bool is_safe)
{
    struct member *before = pooled->member;
    if (!is_safe || pooled->copy == NULL || pooled->is_retried || pool->is_closing ||
        !may_retry(pool))
        return false;
    const uint64_t excluded = UINT64_C(1) << (before - pool->members);
    if (send_to_any(pool, pooled, pool_copy_request(pooled->copy), excluded) != STATUS_OK)
        return false;
    pooled->is_retried = true;
    count_recent(pool, 0, 1);
    metric_add(pool->retries, 1);
    LOG(LOG_INFO, "pool_sent_again", LOG_TEXT("from", before->upstream->row.name),
        LOG_TEXT("to", pooled->member->upstream->row.name));
    return true;
}

/* The adapter makes starts and ends of its own when a client leaves or a deadline passes. Only
 * parts of an answer and its own end are the server's. */
static bool is_heard(const struct source_event *event)
{
    const enum engine_finish finish = event->engine.report.finish;
    return event->engine.kind == ENGINE_EVENT_TOKEN ||
           (event->engine.kind == ENGINE_EVENT_END &&
            (finish == ENGINE_FINISH_STOP || finish == ENGINE_FINISH_LENGTH));
}

/* `pooled` is NULL when the request runs elsewhere meanwhile. */
static void hear(struct member *member, struct pool_request *pooled,
                 const struct source_event *event)
{
    const int64_t now_us = loop_now_us(member->pool->options.loop);
    const bool is_trial = pooled != NULL && pooled->is_trial;
    const bool is_in_trials = member->health.state == POOL_HEALTH_TRIAL;
    member->quiet_us = now_us;
    member->misses = 0;
    if (is_in_trials ? is_trial : event->engine.kind == ENGINE_EVENT_END)
        pool_health_good(&member->health, now_us);
    if (is_trial)
        end_trial(pooled);
}

/* Takes a member's event; false when it is not for the consumer. */
static bool take_event(struct pool *pool, struct member *member, struct source_event *event)
{
    struct pool_request *pooled = pool->requests;
    while (pooled != NULL && (pooled->member != member || pooled->inner != event->engine.id))
        pooled = pooled->next;
    if (is_heard(event))
        hear(member, pooled, event);
    if (pooled == NULL) /* it runs elsewhere meanwhile */
        return false;
    const enum engine_event_kind kind = event->engine.kind;
    event->engine.id = pooled->id;
    if (kind == ENGINE_EVENT_TOKEN || kind == ENGINE_EVENT_START) {
        pool_copy_destroy(pooled->copy);
        pooled->copy = NULL;
    }
    if (kind != ENGINE_EVENT_END && kind != ENGINE_EVENT_ERROR)
        return true;
    if (event->fault == SOURCE_BROKEN || event->fault == SOURCE_GONE)
        member_failed(member, event->fault);
    if (kind == ENGINE_EVENT_ERROR && send_again(pool, pooled, event->may_go_elsewhere))
        return false;
    leave_member(pooled);
    if (member->running == 0 && is_heard(event))
        member->quiet_us = 0;
    request_free(pool, pooled);
    return true;
}

static bool pool_next(struct source *source, struct source_event *out)
{
    struct pool *pool = pool_of(source);
    for (uint32_t i = 0; i < pool->count; i++) {
        struct member *member = &pool->members[i];
        while (member->source != NULL && member->source->ops->next(member->source, out)) {
            if (take_event(pool, member, out))
                return true;
        }
    }
    return false;
}

/* --- looking at members --------------------------------------------------------------------- */

static void look_work(struct loop_worker_task *task)
{
    struct member *member = (struct member *)(void *)task;
    const struct adapter_options options = options_of(member);
    const atomic_bool *is_over = &member->pool->is_closing;
    if (*is_over)
        member->look_status = STATUS_CANCELLED;
    else if (member->source == NULL)
        member->look_status = adapter_look(&member->looked, &options);
    else
        member->look_status = adapter_look_again(&member->looked, &options, &member->found,
                                                 LIMIT_POOL_QUESTION_MS, is_over);
}

/* Requests that wait for the first byte of a server that is silent, or another, go elsewhere. */
static void move_waiting(struct pool *pool, struct member *member)
{
    struct pool_request *next;
    for (struct pool_request *pooled = pool->requests; pooled != NULL; pooled = next) {
        next = pooled->next;
        const engine_request_id inner = pooled->inner;
        if (pooled->member == member && send_again(pool, pooled, true))
            member->source->ops->cancel(member->source, inner);
    }
}

/* It answers. Another model's answers would be sold as the known one's. */
static void look_answered(struct member *member)
{
    const struct adapter_facts *facts = &member->looked.facts;
    const bool is_other = strcmp(facts->model, member->found.facts.model) != 0 ||
                          facts->kind != member->found.facts.kind;
    member->misses = 0;
    if (member->running == 0)
        member->quiet_us = 0;
    const bool is_new = is_other && !member->is_other;
    if (is_new)
        LOG(LOG_WARN, "pool_engine_mismatched", LOG_TEXT("name", member->upstream->row.name),
            LOG_TEXT("model", facts->model), LOG_TEXT("kind", facts->kind->name));
    member->is_other = is_other;
    if (is_other)
        member_down(member);
    if (is_new)
        move_waiting(member->pool, member);
    if (!is_other)
        pool_health_answered(&member->health, loop_now_us(member->pool->options.loop));
}

static void look_done(struct loop_worker_task *task)
{
    struct member *member = (struct member *)(void *)task;
    member->is_looking = false;
    if (member->look_status == STATUS_OK && member->source == NULL) {
        if (member_open(member, &member->looked) != STATUS_OK)
            log_failure(LOG_WARN, "pool_engine_unopened");
        else /* while it was away it was down */
            pool_health_answered(&member->health, loop_now_us(member->pool->options.loop));
    } else if (member->look_status == STATUS_OK) {
        look_answered(member);
    } else if (member->source != NULL && member->health.state != POOL_HEALTH_DOWN &&
               ++member->misses >= MISSES) {
        member_down(member);
        move_waiting(member->pool, member);
    }
    member_show(member);
}

/* How long after the last question the next one comes. */
static int64_t look_pause_ms(const struct member *member, int64_t now_us)
{
    const bool is_away = member->source == NULL || member->health.state == POOL_HEALTH_DOWN;
    const bool is_silent =
        member->quiet_us != 0 && now_us - member->quiet_us > SILENT_MS * INT64_C(1000);
    return is_away || is_silent || member->misses > 0 ? AWAY_MS : CALM_MS;
}

static void look(void *context)
{
    struct pool *pool = context;
    const int64_t now_us = loop_now_us(pool->options.loop);
    for (uint32_t i = 0; i < pool->count; i++) {
        struct member *member = &pool->members[i];
        pool_health_look(&member->health, now_us);
        member_show(member);
        if (member->is_looking || now_us - member->looked_us < look_pause_ms(member, now_us) * 1000)
            continue;
        member->task.work = look_work;
        member->task.done = look_done;
        member->looked_us = now_us;
        member->is_looking = loop_worker_submit(pool->worker, &member->task) == STATUS_OK;
    }
    loop_timer_arm(pool->timer, LOOK_MS);
}

/* --- figures -------------------------------------------------------------------------------- */

static void pool_info(const struct source *source, struct engine_info *out)
{
    const struct pool *pool = pool_of(source);
    for (uint32_t i = 0; i < pool->count; i++) {
        const struct member *member = &pool->members[i];
        if (!has_model(member, slice_of(pool->default_model)))
            continue;
        member->source->ops->info(member->source, out);
        out->isa = "pool";
        return;
    }
}

static bool pool_has_failed(const struct source *source)
{
    (void)source;
    return false;
}

static void pool_stats(const struct source *source, struct engine_stats *out)
{
    const struct pool *pool = pool_of(source);
    *out = (struct engine_stats){0};
    for (uint32_t i = 0; i < pool->count; i++) {
        struct engine_stats one;
        const struct member *member = &pool->members[i];
        if (member->source == NULL)
            continue;
        member->source->ops->stats(member->source, &one);
        out->requests += one.requests;
        out->tokens_prompt += one.tokens_prompt;
        out->tokens_generated += one.tokens_generated;
        out->sequences_running += one.sequences_running;
        for (unsigned k = 0; k < SERVICE_CLASS_COUNT; k++)
            out->by_class[k].running += one.by_class[k].running;
    }
}

/* The state of each request is its member's; ids are the pool's. */
static size_t pool_requests(const struct source *source, struct engine_request_info *out,
                            size_t count)
{
    size_t at = 0;
    const struct pool_request *one = pool_of(source)->requests;
    for (; one != NULL && at < count; one = one->next, at++)
        out[at] = (struct engine_request_info){.id = one->id,
                                               .state = one->copy == NULL ? ENGINE_REQUEST_DECODE
                                                                          : ENGINE_REQUEST_PREFILL};
    return at;
}

static size_t pool_requests_max(const struct source *source)
{
    return (size_t)LIMIT_UPSTREAM_REQUESTS * pool_of(source)->count;
}

static size_t pool_models(const struct source *source, struct source_model *out, size_t count)
{
    const struct pool *pool = pool_of(source);
    size_t found = 0;
    for (uint32_t i = 0; i < pool->count; i++) {
        const struct member *member = &pool->members[i];
        size_t at = 0;
        while (at < found && !has_model(member, slice_of(out[at].name)))
            at++;
        if (member->source == NULL || (at == found && found == count))
            continue;
        if (at == found)
            out[found++] = member->model;
        else if (member->model.context < out[at].context)
            out[at].context = member->model.context;
    }
    return found;
}

/* --- open and close ------------------------------------------------------------------------- */

static void pool_close(struct source *source)
{
    struct pool *pool = pool_of(source);
    pool->is_closing = true;
    loop_worker_destroy(pool->worker);
    if (pool->timer != NULL)
        loop_timer_destroy(pool->timer);
    for (uint32_t i = 0; i < pool->count; i++) {
        if (pool->members[i].source != NULL)
            pool->members[i].source->ops->close(pool->members[i].source);
    }
    while (pool->requests != NULL)
        request_free(pool, pool->requests);
    mem_free(pool);
}

static void open_metrics(struct member *member)
{
    struct metrics *metrics = member->pool->options.metrics;
    snprintf(member->labels, sizeof member->labels, "engine=\"%s\"", member->upstream->row.name);
    member->up = metrics_get(metrics, METRIC_GAUGE, "banyan_pool_engine_up",
                             "1 while requests go to this engine.", member->labels, NULL, 0);
    member->requests = metrics_get(metrics, METRIC_GAUGE, "banyan_pool_engine_requests",
                                   "Choices that run at this engine.", member->labels, NULL, 0);
    member->failures = metrics_get(metrics, METRIC_COUNTER, "banyan_pool_engine_failures_total",
                                   "Requests that this engine broke.", member->labels, NULL, 0);
}

/* Whether no later answer of the server can mend it: what the operator wrote or must accept. */
static bool is_final(enum status status)
{
    return status == STATUS_INVALID || status == STATUS_FORBIDDEN || status == STATUS_NO_MEMORY;
}

/* A server that is away, or answers as no server of models does, does not keep the others from
 * serving. It is asked again. */
static enum status open_members(struct pool *pool)
{
    uint32_t answered = 0;
    for (uint32_t i = 0; i < pool->count; i++) {
        struct member *member = &pool->members[i];
        struct adapter_found found;
        const struct adapter_options options = options_of(member);
        const enum status status = adapter_look(&found, &options);
        if (is_final(status))
            return status;
        if (status != STATUS_OK) {
            log_failure(LOG_WARN, "pool_engine_away");
            pool_health_down(&member->health);
            continue;
        }
        TRY(member_open(member, &found));
        member_show(member);
        answered++;
    }
    if (answered == 0)
        FAIL(STATUS_UNAVAILABLE, "none of the %u servers of --upstream answers", pool->count);
    return STATUS_OK;
}

static enum status open_all(struct pool *pool, const struct pool_options *options)
{
    pool->options = *options;
    for (uint32_t i = 0; i < options->count; i++) {
        struct member *member = &pool->members[i];
        member->pool = pool;
        member->upstream = &options->upstreams[i];
        pool_health_init(&member->health);
        open_metrics(member);
    }
    pool->count = options->count;
    pool->retries = metrics_get(options->metrics, METRIC_COUNTER, "banyan_pool_retries_total",
                                "Requests that were sent to a second engine.", "", NULL, 0);
    TRY(loop_worker_create(&pool->worker, options->loop, LIMIT_POOL_ENGINES));
    pool->timer = loop_timer_create(options->loop, look, pool);
    if (pool->timer == NULL)
        FAIL(STATUS_NO_MEMORY, "no memory for a timer");
    TRY(open_members(pool));
    loop_timer_arm(pool->timer, LOOK_MS);
    return STATUS_OK;
}

enum status pool_open(struct source **out, const struct pool_options *options)
{
    static const struct source_ops ops = {.close = pool_close,
                                          .info = pool_info,
                                          .submit = pool_submit,
                                          .cancel = pool_cancel,
                                          .lower = pool_lower,
                                          .acknowledge = pool_acknowledge,
                                          .next = pool_next,
                                          .has_failed = pool_has_failed,
                                          .stats = pool_stats,
                                          .requests = pool_requests,
                                          .requests_max = pool_requests_max,
                                          .models = pool_models};
    struct pool *pool = mem_zalloc(1, sizeof *pool + options->count * sizeof pool->members[0]);
    if (pool == NULL)
        FAIL(STATUS_NO_MEMORY, "no memory for a pool");
    pool->source.ops = &ops;
    enum status status = open_all(pool, options);
    if (status != STATUS_OK) {
        struct error_note note = *status_note();
        pool_close(&pool->source);
        status_note_set(&note);
        return status;
    }
    *out = &pool->source;
    return STATUS_OK;
}
