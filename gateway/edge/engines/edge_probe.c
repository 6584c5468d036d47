#include "gateway/edge/engines/edge_probe.h"

#include <jansson.h>
#include <stdio.h>

#include "config/base/log.h"
#include "config/base/mem.h"

/* A healthy engine answers in well under a millisecond, because its loop's thread never computes.
 * Its metrics are about 20 KiB of text, its stats some hundred bytes. */
enum {
    CHECK_TIMEOUT_MS = 2000,
    CHECK_EVERY_MS = 5000,
    CHECK_AGAIN_MS = 50,      /* doubled at each failure */
    CHECK_AGAIN_MS_MAX = 200, /* short, because a refused connect costs microseconds */
    STATS_BYTES_MAX = 64 * 1024,
    METRICS_BYTES_MAX = 1024 * 1024,
};

struct edge_probe {
    struct loop *loop;
    struct http1_client *client;
    struct http1_exchange *exchange; /* of the check under way */
    struct loop_timer *timeout;
    struct loop_timer *every;
    struct edge_probe_waiter *waiters;
    void (*checked)(void *context, const struct edge_probe_engine *engine);
    void *context;
    struct metric *gauge;
    struct metric *foreign;
    struct edge_probe_engine engine;
    struct edge_probe_engine found; /* the result of the check under way */
    struct buffer incoming;         /* the body of the answer under way */
    struct buffer metrics;          /* the metrics of the last good check */
    uint32_t again_ms;
    int code;
    bool is_checking;
    bool is_draining; /* in the check under way the engine says that it drains */
    bool is_suspect;  /* another check must follow the one under way */
    bool is_told;     /* the other protocol is logged already */
};

static void check_body(void *context, struct slice bytes)
{
    struct edge_probe *probe = context;
    buffer_append_slice(&probe->incoming, bytes);
}

static void check_head(void *context, const struct http1_head *head)
{
    struct edge_probe *probe = context;
    probe->code = head->code;
}

static void check_again(struct edge_probe *probe)
{
    if (probe->engine.state == EDGE_PROBE_UP) {
        probe->again_ms = CHECK_AGAIN_MS;
        loop_timer_arm(probe->every, probe->is_suspect ? 0 : CHECK_EVERY_MS);
    } else {
        loop_timer_arm(probe->every, probe->again_ms);
        probe->again_ms =
            probe->again_ms * 2 < CHECK_AGAIN_MS_MAX ? probe->again_ms * 2 : CHECK_AGAIN_MS_MAX;
    }
    probe->is_suspect = false;
}

static void check_log(struct edge_probe *probe)
{
    bool is_foreign = probe->engine.state == EDGE_PROBE_FOREIGN;
    if (is_foreign && !probe->is_told)
        LOG(LOG_ERROR, "engine_protocol", LOG_NUMBER("engine", probe->engine.protocol),
            LOG_NUMBER("edge", EDGE_PROBE_PROTOCOL));
    probe->is_told = is_foreign;
    metric_set(probe->gauge, probe->engine.state == EDGE_PROBE_UP ? 1 : 0);
    if (probe->foreign != NULL)
        metric_set(probe->foreign, is_foreign ? 1 : 0);
}

/* Ends a check. Waiters are taken off one by one, because one that is told may make another leave.
 * */
static void check_over(struct edge_probe *probe, enum edge_probe_state state)
{
    loop_timer_disarm(probe->timeout);
    probe->is_checking = false;
    if (state != EDGE_PROBE_DOWN)
        probe->engine = probe->found;
    probe->engine.state = state;
    if (state != EDGE_PROBE_UP)
        buffer_clear(&probe->metrics);
    check_log(probe);
    check_again(probe);
    if (probe->checked != NULL)
        probe->checked(probe->context, &probe->engine);
    while (probe->waiters != NULL) {
        struct edge_probe_waiter *waiter = probe->waiters;
        edge_probe_leave(probe, waiter);
        waiter->told(waiter->context, state == EDGE_PROBE_UP);
    }
}

static void check_send(struct edge_probe *probe, const char *head,
                       const struct http1_callbacks *callbacks)
{
    probe->code = 0;
    buffer_clear(&probe->incoming);
    struct http1_exchange *exchange = NULL;
    enum status status = http1_exchange_start(probe->client, slice_of(head), (struct slice){0},
                                              callbacks, probe, &exchange);
    if (status == STATUS_OK) {
        probe->exchange = exchange;
        return;
    }
    /* BUSY: no free connection; that tells nothing about the engine */
    probe->found = probe->engine;
    check_over(probe, status == STATUS_BUSY ? probe->engine.state : EDGE_PROBE_DOWN);
}

static void metrics_ended(void *context, enum status status)
{
    struct edge_probe *probe = context;
    probe->exchange = NULL;
    if (status != STATUS_OK || probe->code != 200) {
        check_over(probe, EDGE_PROBE_DOWN);
        return;
    }
    buffer_clear(&probe->metrics);
    if (probe->incoming.status == STATUS_OK)
        buffer_append_slice(&probe->metrics, buffer_slice(&probe->incoming));
    check_over(probe, EDGE_PROBE_UP);
}

/* Copies a text member, cut to `capacity`; "" when there is none. */
static void stats_text(const json_t *root, const char *name, char *out, size_t capacity)
{
    const char *text = json_string_value(json_object_get(root, name));
    snprintf(out, capacity, "%s", text != NULL ? text : "");
}

static void stats_model(const json_t *from, const char *name, struct edge_probe_engine *out)
{
    if (out->model_count == LIMIT_POOL_ENGINES)
        return;
    struct edge_probe_model *model = &out->models[out->model_count++];
    json_int_t context = json_integer_value(json_object_get(from, "max_model_len"));
    stats_text(from, name, model->id, sizeof model->id);
    model->context = context > 0 && context < UINT32_MAX ? (uint32_t)context : 0;
    model->created_s = json_integer_value(json_object_get(from, "created"));
}

/* An engine of an earlier version tells one model, beside its other figures. */
static void stats_models(const json_t *root, struct edge_probe_engine *out)
{
    const json_t *models = json_object_get(root, "models");
    size_t at;
    const json_t *model;
    json_array_foreach(models, at, model) stats_model(model, "id", out);
    if (out->model_count == 0)
        stats_model(root, "model", out);
}

static enum status stats_read(struct edge_probe *probe)
{
    struct edge_probe_engine *found = &probe->found;
    *found = (struct edge_probe_engine){0};
    TRY(probe->incoming.status);
    json_t *root =
        json_loadb(probe->incoming.bytes, probe->incoming.length, JSON_REJECT_DUPLICATES, NULL);
    if (!json_is_object(root)) {
        json_decref(root);
        FAIL(STATUS_PROTOCOL, "the engine's stats are no JSON object");
    }
    json_int_t protocol = json_integer_value(json_object_get(root, "protocol"));
    json_int_t waiting = json_integer_value(json_object_get(root, "finals_waiting"));
    found->protocol = protocol > 0 && protocol < UINT32_MAX ? (uint32_t)protocol : 0;
    found->finals_waiting = waiting > 0 ? (uint64_t)waiting : 0;
    stats_models(root, found);
    probe->is_draining = json_is_true(json_object_get(root, "is_draining"));
    stats_text(root, "instance", found->instance, sizeof found->instance);
    stats_text(root, "model", found->model, sizeof found->model);
    json_decref(root);
    return STATUS_OK;
}

static void stats_ended(void *context, enum status status)
{
    static const struct http1_callbacks callbacks = {check_head, check_body, metrics_ended};
    struct edge_probe *probe = context;
    probe->exchange = NULL;
    if (status != STATUS_OK || probe->code != 200 || stats_read(probe) != STATUS_OK)
        check_over(probe, EDGE_PROBE_DOWN);
    else if (probe->found.protocol != EDGE_PROBE_PROTOCOL)
        check_over(probe, EDGE_PROBE_FOREIGN);
    else if (probe->is_draining)
        check_over(probe, EDGE_PROBE_DRAINING);
    else
        check_send(probe, "GET /metrics HTTP/1.1\r\nhost: engine", &callbacks);
}

static void check_timeout(void *context)
{
    struct edge_probe *probe = context;
    if (probe->exchange != NULL)
        http1_exchange_cancel(probe->exchange);
}

static void check_start(struct edge_probe *probe)
{
    static const struct http1_callbacks callbacks = {check_head, check_body, stats_ended};
    if (probe->is_checking)
        return;
    probe->is_checking = true;
    loop_timer_disarm(probe->every);
    loop_timer_arm(probe->timeout, CHECK_TIMEOUT_MS);
    check_send(probe, "GET /internal/v1/stats HTTP/1.1\r\nhost: engine", &callbacks);
}

static void check_every(void *context)
{
    check_start(context);
}

enum status edge_probe_create(struct edge_probe **out, struct loop *loop,
                              struct http1_client *client, struct metric *gauge,
                              struct metric *foreign)
{
    struct edge_probe *probe = mem_zalloc(1, sizeof *probe);
    if (probe == NULL)
        FAIL(STATUS_NO_MEMORY, "no memory for the engine's health check");
    *probe = (struct edge_probe){.loop = loop,
                                 .client = client,
                                 .gauge = gauge,
                                 .foreign = foreign,
                                 .again_ms = CHECK_AGAIN_MS};
    size_t most = METRICS_BYTES_MAX > STATS_BYTES_MAX ? METRICS_BYTES_MAX : STATS_BYTES_MAX;
    buffer_init(&probe->incoming, most);
    buffer_init(&probe->metrics, METRICS_BYTES_MAX);
    probe->timeout = loop_timer_create(loop, check_timeout, probe);
    probe->every = loop_timer_create(loop, check_every, probe);
    if (probe->timeout == NULL || probe->every == NULL) {
        edge_probe_destroy(probe);
        FAIL(STATUS_NO_MEMORY, "no memory for the engine's health check");
    }
    loop_timer_arm(probe->every, 0);
    *out = probe;
    return STATUS_OK;
}

void edge_probe_destroy(struct edge_probe *probe)
{
    if (probe == NULL)
        return;
    probe->waiters = NULL;
    probe->checked = NULL;
    if (probe->exchange != NULL)
        http1_exchange_cancel(probe->exchange);
    if (probe->timeout != NULL)
        loop_timer_destroy(probe->timeout);
    if (probe->every != NULL)
        loop_timer_destroy(probe->every);
    buffer_deinit(&probe->incoming);
    buffer_deinit(&probe->metrics);
    mem_free(probe);
}

void edge_probe_ask(struct edge_probe *probe, struct edge_probe_waiter *waiter)
{
    waiter->previous = NULL;
    waiter->next = probe->waiters;
    if (probe->waiters != NULL)
        probe->waiters->previous = waiter;
    probe->waiters = waiter;
    check_start(probe);
}

void edge_probe_leave(struct edge_probe *probe, struct edge_probe_waiter *waiter)
{
    if (waiter->next != NULL)
        waiter->next->previous = waiter->previous;
    if (waiter->previous != NULL)
        waiter->previous->next = waiter->next;
    else if (probe->waiters == waiter)
        probe->waiters = waiter->next;
    waiter->previous = waiter->next = NULL;
}

void edge_probe_listen(struct edge_probe *probe,
                       void (*checked)(void *context, const struct edge_probe_engine *engine),
                       void *context)
{
    probe->checked = checked;
    probe->context = context;
}

/* The check starts from the loop, not inside this call. While the engine is not up, the next check
 * is near anyway. */
void edge_probe_suspect(struct edge_probe *probe)
{
    if (probe->is_checking)
        probe->is_suspect = true;
    else if (probe->engine.state == EDGE_PROBE_UP)
        loop_timer_arm(probe->every, 0);
}

const struct edge_probe_engine *edge_probe_engine(const struct edge_probe *probe)
{
    return &probe->engine;
}

const char *edge_probe_served(const struct edge_probe *probe, const char *model)
{
    const struct edge_probe_engine *engine = &probe->engine;
    for (uint32_t i = 0; i < engine->model_count; i++) {
        if (strcmp(engine->models[i].id, model) == 0)
            return model;
    }
    return engine->model;
}

const char *edge_probe_word(const struct edge_probe *probe)
{
    static const char *const words[] = {[EDGE_PROBE_DOWN] = "down",
                                        [EDGE_PROBE_UP] = "up",
                                        [EDGE_PROBE_DRAINING] = "draining",
                                        [EDGE_PROBE_FOREIGN] = "other protocol"};
    return words[probe->engine.state];
}

struct slice edge_probe_metrics(const struct edge_probe *probe)
{
    return buffer_slice(&probe->metrics);
}
