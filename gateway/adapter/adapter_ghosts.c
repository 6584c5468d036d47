#include "gateway/adapter/adapter_ghosts.h"

#include <stdio.h>

#include "config/base/limits_upstream.h"
#include "config/base/log.h"
#include "config/base/mem.h"

enum { HEAD_BYTES = LIMIT_UPSTREAM_KEY_BYTES + 2048 };

struct adapter_ghosts {
    struct adapter_ghosts_options options;
    struct loop_timer *timer; /* of the next question, or the end of the one under way */
    struct http1_exchange *exchange;
    struct buffer answer;
    int code;
    uint32_t count;
    uint32_t running_before; /* our requests when the question was sent */
    uint32_t again_ms;
    int64_t since_us; /* when the first of them was cut */
    bool is_mute;     /* the server has no gauge at that path: it is not asked again */
};

static void set_count(struct adapter_ghosts *ghosts, uint32_t count)
{
    ghosts->count = count;
    metric_set(ghosts->options.gauge, count);
}

static void ask_later(struct adapter_ghosts *ghosts)
{
    loop_timer_arm(ghosts->timer, ghosts->again_ms);
    ghosts->again_ms = ghosts->again_ms * 2 < LIMIT_UPSTREAM_GHOST_MS_MAX
                           ? ghosts->again_ms * 2
                           : LIMIT_UPSTREAM_GHOST_MS_MAX;
}

/* Our requests before and after the question: the smaller number leaves more ghosts, and the next
 * question corrects it. */
static void take_gauge(struct adapter_ghosts *ghosts, uint32_t gauge)
{
    uint32_t own = ghosts->options.running(ghosts->options.context);
    if (ghosts->running_before < own)
        own = ghosts->running_before;
    const uint32_t surplus = gauge > own ? gauge - own : 0;
    if (surplus < ghosts->count)
        set_count(ghosts, surplus);
}

static void forget_old(struct adapter_ghosts *ghosts)
{
    const int64_t now_us = loop_now_us(ghosts->options.loop);
    if (now_us - ghosts->since_us <= LIMIT_UPSTREAM_GHOST_MOST_MS * INT64_C(1000))
        return;
    /* The gauge shows other callers of the server, or the server does not notice who leaves. */
    LOG(LOG_WARN, "upstream_ghosts", LOG_NUMBER("requests", ghosts->count),
        LOG_NUMBER("seconds", (now_us - ghosts->since_us) / 1000000));
    set_count(ghosts, 0);
}

static void on_head(void *context, const struct http1_head *head)
{
    ((struct adapter_ghosts *)context)->code = head->code;
}

static void on_body(void *context, struct slice bytes)
{
    struct adapter_ghosts *ghosts = context;
    buffer_append_slice(&ghosts->answer, bytes);
    if (ghosts->answer.status != STATUS_OK)
        http1_exchange_cancel(ghosts->exchange);
}

static void on_ended(void *context, enum status status)
{
    struct adapter_ghosts *ghosts = context;
    const struct adapter_kind *kind = ghosts->options.kind;
    uint32_t gauge = 0;
    const bool is_whole = status == STATUS_OK && ghosts->answer.status == STATUS_OK;
    ghosts->exchange = NULL;
    if (is_whole && ghosts->code == 200 && kind->gauge(buffer_slice(&ghosts->answer), &gauge)) {
        take_gauge(ghosts, gauge);
    } else if (is_whole && (ghosts->code == 404 || ghosts->code == 405 || ghosts->code == 501)) {
        LOG(LOG_WARN, "upstream_gauge_missing", LOG_TEXT("path", kind->gauge_path),
            LOG_NUMBER("code", ghosts->code));
        ghosts->is_mute = true;
        set_count(ghosts, 0);
    } else if (status == STATUS_UNAVAILABLE) {
        set_count(ghosts, 0); /* nobody is there who could compute */
    }
    buffer_clear(&ghosts->answer);
    loop_timer_disarm(ghosts->timer);
    if (ghosts->count > 0)
        forget_old(ghosts);
    if (ghosts->count > 0)
        ask_later(ghosts);
}

static void ask(struct adapter_ghosts *ghosts)
{
    static const struct http1_callbacks callbacks = {on_head, on_body, on_ended};
    const struct adapter_ghosts_options *options = &ghosts->options;
    char head[HEAD_BYTES];
    int length = snprintf(head, sizeof head, "GET %s%s HTTP/1.1\r\n%s", options->prefix,
                          options->kind->gauge_path, options->head);
    ghosts->code = 0;
    ghosts->running_before = options->running(options->context);
    if (http1_exchange_start(options->client, (struct slice){head, (size_t)length},
                             (struct slice){0}, &callbacks, ghosts, &ghosts->exchange) == STATUS_OK)
        loop_timer_arm(ghosts->timer, LIMIT_UPSTREAM_PROBE_MS);
    else
        ask_later(ghosts);
}

static void on_timer(void *context)
{
    struct adapter_ghosts *ghosts = context;
    if (ghosts->exchange != NULL)
        http1_exchange_cancel(ghosts->exchange);
    else if (ghosts->count > 0)
        ask(ghosts);
}

enum status adapter_ghosts_create(struct adapter_ghosts **out,
                                  const struct adapter_ghosts_options *options)
{
    struct adapter_ghosts *ghosts = mem_zalloc(1, sizeof *ghosts);
    if (ghosts == NULL)
        FAIL(STATUS_NO_MEMORY, "no memory for a window");
    ghosts->options = *options;
    buffer_init(&ghosts->answer, LIMIT_UPSTREAM_PROBE_BYTES);
    ghosts->timer = loop_timer_create(options->loop, on_timer, ghosts);
    if (ghosts->timer == NULL) {
        mem_free(ghosts);
        FAIL(STATUS_NO_MEMORY, "no memory for a timer");
    }
    *out = ghosts;
    return STATUS_OK;
}

void adapter_ghosts_destroy(struct adapter_ghosts *ghosts)
{
    if (ghosts == NULL)
        return;
    set_count(ghosts, 0);
    if (ghosts->exchange != NULL)
        http1_exchange_cancel(ghosts->exchange);
    loop_timer_destroy(ghosts->timer);
    buffer_deinit(&ghosts->answer);
    mem_free(ghosts);
}

void adapter_ghosts_add(struct adapter_ghosts *ghosts)
{
    const int64_t now_us = loop_now_us(ghosts->options.loop);
    if (ghosts->options.kind->gauge == NULL || ghosts->is_mute)
        return;
    if (ghosts->count == 0)
        ghosts->since_us = now_us;
    set_count(ghosts, ghosts->count + 1);
    /* With others before it a question is under way or planned. Were it put off each time, frequent
     * cuts would put it off for ever. */
    if (ghosts->count > 1 || ghosts->exchange != NULL)
        return;
    ghosts->again_ms = LIMIT_UPSTREAM_GHOST_MS;
    ask_later(ghosts);
}

uint32_t adapter_ghosts_count(const struct adapter_ghosts *ghosts)
{
    return ghosts->count;
}
