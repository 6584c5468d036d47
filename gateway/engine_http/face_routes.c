#include "gateway/engine_http/face_routes.h"

#include <malloc.h>
#include <stdio.h>

#include "config/base/decimal.h"
#include "config/base/limits_upstream.h"
#include "gateway/dialect/ask_json.h"
#include "gateway/engine_http/face_job.h"
#include "gateway/engine_http/face_prompt.h"
#include "gateway/engine_http/face_text.h"
#include "gateway/http/http_error.h"
#include "gateway/http/query_string.h"
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
    face_job_start(context, request, ASK_CHAT);
}

static void on_completions(struct http_request *request, void *context)
{
    face_job_start(context, request, ASK_TEXT);
}

static void on_generate(struct http_request *request, void *context)
{
    face_job_start(context, request, ASK_GENERATE);
}

static void on_embeddings(struct http_request *request, void *context)
{
    face_job_start(context, request, ASK_EMBED);
}

static void on_tokenize(struct http_request *request, void *context)
{
    face_text_start(context, request, FACE_TEXT_TOKENIZE);
}

static void on_detokenize(struct http_request *request, void *context)
{
    face_text_start(context, request, FACE_TEXT_DETOKENIZE);
}

static size_t models_of(const struct face *face, struct source_model models[LIMIT_POOL_ENGINES])
{
    if (face->source->ops->models != NULL)
        return face->source->ops->models(face->source, models, LIMIT_POOL_ENGINES);
    snprintf(models[0].name, sizeof models[0].name, "%s", face->info.model_name);
    models[0].context = face->info.context;
    models[0].created_s = face->info.created_wall_s;
    return 1;
}

static void append_model(const struct source_model *model, struct buffer *out)
{
    buffer_append_text(out, "{\"id\":");
    buffer_append_json_string(out, slice_of(model->name));
    buffer_printf(out,
                  ",\"object\":\"model\",\"created\":%lld,\"owned_by\":\"banyan\","
                  "\"max_model_len\":%u}",
                  (long long)model->created_s, model->context);
}

static void append_models(const struct face *face, struct buffer *out)
{
    struct source_model models[LIMIT_POOL_ENGINES];
    const size_t count = models_of(face, models);
    for (size_t i = 0; i < count; i++) {
        if (i > 0)
            buffer_append_char(out, ',');
        append_model(&models[i], out);
    }
}

static void on_models(struct http_request *request, void *context)
{
    struct buffer answer;
    buffer_init(&answer, ANSWER_BYTES_MAX);
    buffer_append_text(&answer, "{\"object\":\"list\",\"data\":[");
    append_models(context, &answer);
    buffer_append_text(&answer, "]}");
    respond(request, &answer);
}

static void on_model(struct http_request *request, void *context)
{
    struct slice id = http_path_argument(request, 0);
    struct source_model models[LIMIT_POOL_ENGINES];
    const size_t count = models_of(context, models);
    size_t at = 0;
    while (at < count && !slice_is(id, models[at].name))
        at++;
    if (at == count) {
        http_respond_error(request, STATUS_MODEL_NOT_FOUND, "model",
                           "The model '%.*s' does not exist or you do not have access to it.",
                           (int)(id.length < 64 ? id.length : 64), id.bytes);
        return;
    }
    struct buffer answer;
    buffer_init(&answer, ANSWER_BYTES_MAX);
    append_model(&models[at], &answer);
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
    if (face->is_draining) { /* the edge uses it to see whether the engine serves, like /health */
        http_respond_error(request, STATUS_UNAVAILABLE, NULL, "The engine is shutting down.");
        return;
    }
    face_metrics_set(face);
    buffer_init(&answer, ANSWER_BYTES_MAX);
    metrics_render(face->metrics, &answer);
    http_respond(request, 200, headers, 1, buffer_slice(&answer));
    buffer_deinit(&answer);
}

static void stats_classes(const struct engine_stats *stats, struct buffer *out)
{
    buffer_append_text(out, "\"by_class\":{");
    for (unsigned i = 0; i < SERVICE_CLASS_COUNT; i++) {
        const struct engine_class_stats *one = &stats->by_class[i];
        buffer_printf(out,
                      "%s\"%s\":{\"waiting\":%u,\"running\":%u,\"paused\":%u,\"throttled\":%u}",
                      i == 0 ? "" : ",", service_class_name((enum service_class)i), one->waiting,
                      one->running, one->paused, one->throttled);
    }
    buffer_printf(out,
                  "},\"preemptions_swap\":%llu,\"preemptions_recompute\":%llu,"
                  "\"swap_bytes_out\":%llu,\"swap_bytes_in\":%llu,\"swap_us\":%llu,"
                  "\"tokens_overhead\":%llu,",
                  (unsigned long long)stats->preemptions_swap,
                  (unsigned long long)stats->preemptions_recompute,
                  (unsigned long long)stats->swap_bytes_out,
                  (unsigned long long)stats->swap_bytes_in, (unsigned long long)stats->swap_us,
                  (unsigned long long)stats->tokens_overhead);
}

static void on_stats(struct http_request *request, void *context)
{
    struct face *face = context;
    struct engine_stats stats;
    struct final_ring_figures finals = final_ring_figures(face->finals);
    struct buffer answer;
    face->source->ops->stats(face->source, &stats);
    buffer_init(&answer, ANSWER_BYTES_MAX);
    buffer_printf(&answer, "{\"protocol\":%d,\"instance\":\"%s\",\"model\":", FACE_PROTOCOL,
                  face->instance);
    buffer_append_json_string(&answer, slice_of(face->info.model_name));
    buffer_printf(&answer, ",\"created\":%lld,\"max_model_len\":%u",
                  (long long)face->info.created_wall_s, face->info.context);
    buffer_append_text(&answer, ",\"models\":[");
    append_models(face, &answer);
    buffer_printf(&answer,
                  "],\"requests\":%u,\"jobs\":%u,\"sequences_running\":%u,\"sequences_waiting\":%u,"
                  "\"sequences_throttled\":%u,"
                  "\"prefix_followers\":%u,\"steps\":%llu,\"rows\":%llu,",
                  stats.requests, face->job_count, stats.sequences_running, stats.sequences_waiting,
                  stats.sequences_throttled, stats.prefix_followers,
                  (unsigned long long)stats.steps, (unsigned long long)stats.rows);
    buffer_printf(&answer,
                  "\"pages_free\":%u,\"pages_cached\":%u,\"pages_pinned\":%u,\"pages_host\":%u,"
                  "\"pages_total\":%u,\"cache_query_tokens\":%llu,\"cache_hit_tokens\":%llu,",
                  stats.pages_free, stats.pages_cached, stats.pages_pinned, stats.pages_host,
                  stats.pages_total, (unsigned long long)stats.cache_query_tokens,
                  (unsigned long long)stats.cache_hit_tokens);
    stats_classes(&stats, &answer);
    buffer_printf(&answer,
                  "\"tokens_prompt\":%llu,\"tokens_generated\":%llu,\"is_draining\":%s,"
                  "\"finals_waiting\":%llu,\"finals_lost\":%llu,\"finals_live\":%u,"
                  "\"finals_recovered\":%u,\"heap_bytes\":%zu}",
                  (unsigned long long)stats.tokens_prompt,
                  (unsigned long long)stats.tokens_generated, face->is_draining ? "true" : "false",
                  (unsigned long long)(finals.last - finals.acknowledged),
                  (unsigned long long)finals.lost, finals.live, finals.recovered,
                  mallinfo2().uordblks);
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

/* Reads {"class":"batch"}, the only change that a running request allows. */
static enum status lower_read(struct slice body)
{
    const enum service_class lowest = (enum service_class)SERVICE_CLASS_LOWEST;
    json_t *root = NULL;
    struct slice class;
    TRY(ask_json_parse(body, &root));
    const json_t *value = json_object_get(root, "class");
    enum status status = STATUS_OK;
    if (value == NULL || json_object_size(root) != 1)
        FAIL_OUT(STATUS_INVALID, "the body is {\"class\":\"%s\"}", service_class_name(lowest));
    TRY_OUT(ask_json_string(value, "class", &class));
    if (!slice_is(class, service_class_name(lowest)))
        FAIL_OUT(STATUS_UNSUPPORTED, "the class of a running request can only become %s",
                 service_class_name(lowest));
out:
    json_decref(root);
    return status;
}

static void on_request_lower(struct http_request *request, void *context)
{
    if (lower_read(http_body(request)) != STATUS_OK)
        http_respond_failure(request);
    else if (face_job_lower(context, http_path_argument(request, 0)))
        http_respond_json(request, 200, SLICE("{\"lowered\":true}"));
    else
        http_respond_error(request, STATUS_NOT_FOUND, NULL, "No such request is under way.");
}

struct finals_query {
    uint64_t after;
    uint64_t limit;
};

static enum status finals_read_number(struct slice value, const char *param, uint64_t *out)
{
    const enum decimal result = decimal_read(value, UINT64_C(999999999999999999), out);
    if (result == DECIMAL_MALFORMED)
        FAIL_PARAM(STATUS_INVALID, param, "%s must be a whole number", param);
    if (result == DECIMAL_TOO_LARGE)
        FAIL_PARAM(STATUS_OUT_OF_RANGE, param, "%s has at most 18 digits", param);
    return STATUS_OK;
}

/* Reads "after=N&limit=M": each at most once, and nothing else. */
static enum status finals_read_query(struct slice query, struct finals_query *out)
{
    bool is_given[2] = {false, false};
    struct query_string_pair pair;
    *out = (struct finals_query){.after = 0, .limit = FINALS_AT_ONCE};
    while (query_string_next(&query, &pair)) {
        bool is_limit = slice_is(pair.name, "limit");
        uint64_t number = 0;
        if ((!is_limit && !slice_is(pair.name, "after")) || !pair.has_equals || is_given[is_limit])
            FAIL(STATUS_INVALID, "finals takes after and limit, each once");
        is_given[is_limit] = true;
        const char *param = is_limit ? "limit" : "after";
        TRY(finals_read_number(pair.value, param, &number));
        if (pair.value.length == 0 || (is_limit && (number < 1 || number > FINALS_AT_ONCE)))
            FAIL_PARAM(STATUS_OUT_OF_RANGE, param, "%s is missing, or not from 1 to %d", param,
                       FINALS_AT_ONCE);
        *(is_limit ? &out->limit : &out->after) = number;
    }
    return STATUS_OK;
}

/* Lists records that are not acknowledged, in rising order. "last" is the last one of this page, or
 * `after` when the page is empty. */
static void on_finals(struct http_request *request, void *context)
{
    const struct face *face = context;
    struct finals_query query;
    if (finals_read_query(http_query(request), &query) != STATUS_OK) {
        http_respond_failure(request);
        return;
    }
    struct final_ring_figures finals = final_ring_figures(face->finals);
    struct final_record record = {.sequence = query.after};
    struct buffer answer;
    buffer_init(&answer, ANSWER_BYTES_MAX);
    buffer_printf(
        &answer, "{\"object\":\"list\",\"instance\":\"%s\",\"acked\":%llu,\"lost\":%llu,\"data\":[",
        face->instance, (unsigned long long)finals.acknowledged, (unsigned long long)finals.lost);
    uint64_t count = 0;
    while (count < query.limit && final_ring_next(face->finals, record.sequence, &record)) {
        if (count++ > 0)
            buffer_append_char(&answer, ',');
        final_ring_render(face->finals, &record, NULL, &answer);
    }
    struct final_record next;
    bool has_more = final_ring_next(face->finals, record.sequence, &next);
    buffer_printf(&answer, "],\"last\":%llu,\"has_more\":%s}", (unsigned long long)record.sequence,
                  has_more ? "true" : "false");
    respond(request, &answer);
}

static enum status ack(struct face *face, struct slice body)
{
    json_t *root = NULL;
    int64_t sequence = 0;
    TRY(ask_json_parse(body, &root));
    const json_t *value = json_object_get(root, "record_seq");
    enum status status = STATUS_OK;
    if (value == NULL || json_object_size(root) != 1)
        FAIL_OUT(STATUS_INVALID, "the body is {\"record_seq\":N}");
    TRY_OUT(ask_json_integer(value, "record_seq", 0, INT64_MAX, &sequence));
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

static void on_prompt_publish(struct http_request *request, void *context)
{
    face_prompt_publish(request, context);
}

static void on_prompt_unpublish(struct http_request *request, void *context)
{
    face_prompt_unpublish(request, context);
}

static void on_prompts(struct http_request *request, void *context)
{
    face_prompt_list(request, context);
}

static void on_drain(struct http_request *request, void *context)
{
    struct face *face = context;
    face->is_draining = true;
    http_respond_json(request, 200, SLICE("{\"draining\":true}"));
}

#define ROUTE(method, path, handler) ROUTER_ROW_ONCE(method, path)
#include "gateway/engine_http/routes.def"
#undef ROUTE

static const struct route routes[] = {
#define ROUTE(method, path, handler) {method, path, handler},
#include "gateway/engine_http/routes.def"
#undef ROUTE
};

void face_routes_handle(struct http_request *request, void *context)
{
    const struct route *route =
        router_find(routes, sizeof routes / sizeof routes[0], request, NULL);
    if (route == NULL)
        return;
    if (face_trusted_check_protocol(request) == STATUS_OK)
        route->handler(request, context);
    else
        http_respond_failure(request);
}
