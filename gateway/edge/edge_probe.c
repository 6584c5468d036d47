#include "gateway/edge/edge_probe.h"

#include "config/base/mem.h"

/* A healthy engine answers in well under a millisecond; its loop thread never computes. Its
 * metrics are some 20 KiB of text. */
enum { CHECK_TIMEOUT_MS = 2000, CHECK_EVERY_MS = 5000, METRICS_BYTES_MAX = 1024 * 1024 };

struct edge_probe {
    struct loop *loop;
    struct http1_client *client;
    struct http1_exchange *exchange; /* the check under way */
    struct loop_timer *timeout;
    struct loop_timer *every;
    struct edge_probe_waiter *waiters;
    struct metric *gauge;
    struct buffer incoming; /* metrics of the check under way */
    struct buffer metrics;  /* those of the last check that went well */
    int code;
    bool is_checking;
};

static void check_head(void *context, const struct http1_head *head)
{
    struct edge_probe *probe = context;
    probe->code = head->code;
}

static void check_body(void *context, struct slice bytes)
{
    struct edge_probe *probe = context;
    buffer_append_slice(&probe->incoming, bytes);
}

/* Waiters are taken off one by one: the one that is told may make another leave. */
static void check_tell(struct edge_probe *probe, bool is_up)
{
    metric_set(probe->gauge, is_up ? 1 : 0);
    while (probe->waiters != NULL) {
        struct edge_probe_waiter *waiter = probe->waiters;
        edge_probe_leave(probe, waiter);
        waiter->told(waiter->context, is_up);
    }
}

static void check_ended(void *context, enum status status)
{
    struct edge_probe *probe = context;
    probe->exchange = NULL;
    probe->is_checking = false;
    loop_timer_disarm(probe->timeout);
    bool is_up = status == STATUS_OK && probe->code == 200;
    buffer_clear(&probe->metrics);
    if (is_up && probe->incoming.status == STATUS_OK)
        buffer_append_slice(&probe->metrics, buffer_slice(&probe->incoming));
    check_tell(probe, is_up);
}

static void check_timeout(void *context)
{
    struct edge_probe *probe = context;
    if (probe->exchange != NULL)
        http1_exchange_cancel(probe->exchange);
}

static void check_start(struct edge_probe *probe)
{
    static const struct http1_callbacks callbacks = {check_head, check_body, check_ended};
    static const char head[] = "GET /metrics HTTP/1.1\r\nhost: engine";
    if (probe->is_checking)
        return;
    probe->is_checking = true;
    probe->code = 0;
    buffer_clear(&probe->incoming);
    loop_timer_arm(probe->timeout, CHECK_TIMEOUT_MS);
    struct http1_exchange *exchange = NULL;
    enum status status = http1_exchange_start(probe->client, slice_of(head), (struct slice){0},
                                              &callbacks, probe, &exchange);
    if (status != STATUS_OK)
        check_ended(probe, status);
    else if (probe->is_checking)
        probe->exchange = exchange;
}

static void check_every(void *context)
{
    struct edge_probe *probe = context;
    loop_timer_arm(probe->every, CHECK_EVERY_MS);
    check_start(probe);
}

enum status edge_probe_create(struct edge_probe **out, struct loop *loop,
                              struct http1_client *client, struct metric *gauge)
{
    struct edge_probe *probe = mem_zalloc(1, sizeof *probe);
    if (probe == NULL)
        FAIL(STATUS_NO_MEMORY, "no memory for the engine's health check");
    *probe = (struct edge_probe){.loop = loop, .client = client, .gauge = gauge};
    buffer_init(&probe->incoming, METRICS_BYTES_MAX);
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

struct slice edge_probe_metrics(const struct edge_probe *probe)
{
    return buffer_slice(&probe->metrics);
}
