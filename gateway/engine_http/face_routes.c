#include "gateway/engine_http/face_routes.h"

#include <malloc.h>

#include "gateway/engine_http/face_job.h"
#include "gateway/engine_http/face_json.h"
#include "gateway/engine_http/face_text.h"
#include "gateway/http/http_error.h"
#include "gateway/http/router.h"

enum { ANSWER_BYTES_MAX = 16 * 1024 * 1024, FINALS_AT_ONCE = 1000 };

static void respond(struct http_request *request, struct buffer *answer)
{
    if (answer->status == STATUS_OK)
        http_respond_json(request, 200, buffer_slice(answer));
    else
        http_respond_failure(request);
    buffer_deinit(answer);
}

static void on_chat(struct http_request *request, void *context)
{
    face_job_start(context, request, FACE_CHAT);
}

static void on_completions(struct http_request *request, void *context)
{
    face_job_start(context, request, FACE_TEXT);
}

static void on_tokenize(struct http_request *request, void *context)
{
    face_text_start(context, request, FACE_TEXT_TOKENIZE);
}

static void on_detokenize(struct http_request *request, void *context)
{
    face_text_start(context, request, FACE_TEXT_DETOKENIZE);
}

static void append_model(const struct face *face, struct buffer *out)
{
    buffer_append_text(out, "{\"id\":");
    buffer_append_json_string(out, slice_of(face->info.model_name));
    buffer_printf(out,
                  ",\"object\":\"model\",\"created\":%lld,\"owned_by\":\"banyan\","
                  "\"max_model_len\":%u}",
                  (long long)face->info.created_wall_s, face->info.context);
}

static void on_models(struct http_request *request, void *context)
{
    struct buffer answer;
    buffer_init(&answer, ANSWER_BYTES_MAX);
    buffer_append_text(&answer, "{\"object\":\"list\",\"data\":[");
    append_model(context, &answer);
    buffer_append_text(&answer, "]}");
    respond(request, &answer);
}

static void on_model(struct http_request *request, void *context)
{
    const struct face *face = context;
    struct slice id = http_path_argument(request, 0);
    if (!slice_is(id, face->info.model_name)) {
        http_respond_error(request, STATUS_MODEL_NOT_FOUND, "model",
                           "The model '%.*s' does not exist or you do not have access to it.",
                           (int)(id.length < 64 ? id.length : 64), id.bytes);
        return;
    }
    struct buffer answer;
    buffer_init(&answer, ANSWER_BYTES_MAX);
    append_model(face, &answer);
    respond(request, &answer);
}

static void on_health(struct http_request *request, void *context)
{
    const struct face *face = context;
    struct buffer answer;
    if (face->is_draining) {
        http_respond_error(request, STATUS_UNAVAILABLE, NULL, "The engine is shutting down.");
        return;
    }
    buffer_init(&answer, ANSWER_BYTES_MAX);
    buffer_append_text(&answer, "{\"status\":\"ok\",\"model\":");
    buffer_append_json_string(&answer, slice_of(face->info.model_name));
    buffer_printf(&answer, ",\"protocol\":%d,\"isa\":\"%s\",\"threads\":%u,\"context\":%u}",
                  FACE_PROTOCOL, face->info.isa, face->info.threads, face->info.context);
    respond(request, &answer);
}

static void on_metrics(struct http_request *request, void *context)
{
    const struct face *face = context;
    static const struct http_header headers[] = {
        {"content-type", {"text/plain; version=0.0.4; charset=utf-8", 40}}};
    struct buffer answer;
    if (face->is_draining) { /* the edge's sign of life, so as /health */
        http_respond_error(request, STATUS_UNAVAILABLE, NULL, "The engine is shutting down.");
        return;
    }
    buffer_init(&answer, ANSWER_BYTES_MAX);
    metrics_render(face->metrics, &answer);
    http_respond(request, 200, headers, 1, buffer_slice(&answer));
    buffer_deinit(&answer);
}

static void on_stats(struct http_request *request, void *context)
{
    struct face *face = context;
    struct engine_stats stats;
    struct buffer answer;
    engine_stats(face->engine, &stats);
    buffer_init(&answer, ANSWER_BYTES_MAX);
    buffer_printf(&answer,
                  "{\"requests\":%u,\"jobs\":%u,\"sequences_running\":%u,\"sequences_waiting\":%u,"
                  "\"pages_free\":%u,\"pages_total\":%u,\"steps\":%llu,\"rows\":%llu,",
                  stats.requests, face->job_count, stats.sequences_running, stats.sequences_waiting,
                  stats.pages_free, stats.pages_total, (unsigned long long)stats.steps,
                  (unsigned long long)stats.rows);
    buffer_printf(&answer,
                  "\"tokens_prompt\":%llu,\"tokens_generated\":%llu,\"finals_waiting\":%llu,"
                  "\"finals_lost\":%llu,\"heap_bytes\":%zu}",
                  (unsigned long long)stats.tokens_prompt,
                  (unsigned long long)stats.tokens_generated,
                  (unsigned long long)final_ring_unacknowledged(face->finals),
                  (unsigned long long)final_ring_lost(face->finals), mallinfo2().uordblks);
    respond(request, &answer);
}

static void on_requests(struct http_request *request, void *context)
{
    struct buffer answer;
    buffer_init(&answer, ANSWER_BYTES_MAX);
    buffer_append_text(&answer, "{\"object\":\"list\",\"data\":");
    face_job_render_all(context, &answer);
    buffer_append_char(&answer, '}');
    respond(request, &answer);
}

static void on_request_cancel(struct http_request *request, void *context)
{
    if (face_job_cancel(context, http_path_argument(request, 0)))
        http_respond_json(request, 200, SLICE("{\"cancelled\":true}"));
    else
        http_respond_error(request, STATUS_NOT_FOUND, NULL, "No such request is under way.");
}

static uint64_t finals_after(struct slice query)
{
    uint64_t after = 0;
    struct slice name = SLICE("after=");
    if (!slice_starts_with(query, name))
        return 0;
    for (size_t i = name.length; i < query.length && i < name.length + 18; i++) {
        if (query.bytes[i] < '0' || query.bytes[i] > '9')
            return 0;
        after = after * 10 + (uint64_t)(query.bytes[i] - '0');
    }
    return after;
}

static void on_finals(struct http_request *request, void *context)
{
    const struct face *face = context;
    struct final_record record = {.sequence = finals_after(http_query(request))};
    struct buffer answer;
    buffer_init(&answer, ANSWER_BYTES_MAX);
    buffer_append_text(&answer, "{\"object\":\"list\",\"data\":[");
    uint32_t count = 0;
    while (count < FINALS_AT_ONCE && final_ring_next(face->finals, record.sequence, &record)) {
        if (count++ > 0)
            buffer_append_char(&answer, ',');
        final_ring_render(&record, &answer);
    }
    struct final_record next;
    bool has_more = final_ring_next(face->finals, record.sequence, &next);
    buffer_printf(&answer, "],\"has_more\":%s}", has_more ? "true" : "false");
    respond(request, &answer);
}

static enum status ack(struct face *face, struct slice body)
{
    json_t *root = NULL;
    int64_t sequence = 0;
    TRY(face_json_parse(body, &root));
    const json_t *value = json_object_get(root, "record_seq");
    enum status status = STATUS_OK;
    if (value == NULL)
        FAIL_OUT(STATUS_INVALID, "record_seq is missing");
    TRY_OUT(face_json_integer(value, "record_seq", 0, INT64_MAX, &sequence));
    TRY_OUT(final_ring_acknowledge(face->finals, (uint64_t)sequence));
out:
    json_decref(root);
    return status;
}

static void on_ack(struct http_request *request, void *context)
{
    if (ack(context, http_body(request)) == STATUS_OK)
        http_respond_json(request, 200, SLICE("{}"));
    else
        http_respond_failure(request);
}

static void on_drain(struct http_request *request, void *context)
{
    struct face *face = context;
    face->is_draining = true;
    http_respond_json(request, 200, SLICE("{\"draining\":true}"));
}

static const struct route routes[] = {
#define ROUTE(method, path, handler) {method, path, handler},
#include "gateway/engine_http/routes.def"
#undef ROUTE
};

void face_routes_handle(struct http_request *request, void *context)
{
    const struct route *route =
        router_find(routes, sizeof routes / sizeof routes[0], request, NULL);
    if (route != NULL)
        route->handler(request, context);
}
