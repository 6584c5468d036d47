#include "gateway/source/source_fleet.h"

#include "config/base/mem.h"

struct source_fleet {
    struct source source;
    struct fleet *fleet;
};

static struct fleet *fleet_of(const struct source *source)
{
    return ((const struct source_fleet *)(const void *)source)->fleet;
}

static void source_fleet_close(struct source *source)
{
    mem_free(source);
}

static void source_fleet_info(const struct source *source, struct engine_info *out)
{
    fleet_info(fleet_of(source), out);
}

static enum status source_fleet_submit(struct source *source, const struct engine_request *request,
                                       engine_request_id *out)
{
    return fleet_submit(fleet_of(source), request, out);
}

static void source_fleet_cancel(struct source *source, engine_request_id id)
{
    fleet_cancel(fleet_of(source), id);
}

static void source_fleet_lower(struct source *source, engine_request_id id)
{
    fleet_lower(fleet_of(source), id);
}

static void source_fleet_acknowledge(struct source *source, engine_request_id id, uint32_t choice,
                                     uint32_t tokens)
{
    fleet_acknowledge(fleet_of(source), id, choice, tokens);
}

static bool source_fleet_next(struct source *source, struct source_event *out)
{
    struct fleet *fleet = fleet_of(source);
    struct engine_event *event = &out->engine;
    if (!fleet_next_event(fleet, event))
        return false;
    out->channel = SOURCE_WHOLE;
    out->call = 0;
    out->is_estimated = false;
    out->has_id = out->has_logprob = true;
    out->fault = SOURCE_FINE;
    out->may_go_elsewhere = false;
    out->bytes = (struct slice){0};
    if (event->kind != ENGINE_EVENT_TOKEN && event->kind != ENGINE_EVENT_PROMPT)
        return true;
    struct engine *engine = fleet_text(fleet);
    out->bytes = engine_token_bytes(engine, event->token);
    for (uint32_t i = 0; i < event->top_count; i++)
        out->top_bytes[i] = engine_token_bytes(engine, event->top[i].token);
    return true;
}

static bool source_fleet_has_failed(const struct source *source)
{
    return fleet_has_failed(fleet_of(source));
}

static void source_fleet_stats(const struct source *source, struct engine_stats *out)
{
    fleet_stats(fleet_of(source), out);
}

static size_t source_fleet_requests(const struct source *source, struct engine_request_info *out,
                                    size_t count)
{
    return fleet_requests(fleet_of(source), out, count);
}

static size_t source_fleet_requests_max(const struct source *source)
{
    return (size_t)LIMIT_REQUESTS_IN_ENGINE * fleet_count(fleet_of(source));
}

enum status source_fleet_open(struct source **out, struct fleet *fleet)
{
    static const struct source_ops ops = {.close = source_fleet_close,
                                          .info = source_fleet_info,
                                          .submit = source_fleet_submit,
                                          .cancel = source_fleet_cancel,
                                          .lower = source_fleet_lower,
                                          .acknowledge = source_fleet_acknowledge,
                                          .next = source_fleet_next,
                                          .has_failed = source_fleet_has_failed,
                                          .stats = source_fleet_stats,
                                          .requests = source_fleet_requests,
                                          .requests_max = source_fleet_requests_max};
    struct source_fleet *self = mem_zalloc(1, sizeof *self);
    if (self == NULL)
        FAIL(STATUS_NO_MEMORY, "no memory for a source");
    self->source = (struct source){&ops, engine_answer(fleet_text(fleet))};
    self->fleet = fleet;
    *out = &self->source;
    return STATUS_OK;
}
