#include "gateway/edge/edge_job.h"

#include <stdio.h>
#include <string.h>

#include "config/base/clock.h"
#include "config/base/log.h"
#include "config/base/mem.h"
#include "gateway/edge/edge_assemble.h"
#include "gateway/edge/edge_head.h"
#include "gateway/edge/edge_json.h"
#include "gateway/edge/edge_stream.h"
#include "gateway/http/http_error.h"

enum {
    GRACE_MS = 1000,          /* for the final record after a half-close */
    DEADLINE_MARGIN_MS = 500, /* the engine keeps the deadline itself; the edge stands behind it */
    APPEND_AGAIN_MS = 20,
    APPEND_TRIES_MAX = 250, /* a full ledger queue is waited for 5 s, then the row is logged */
    CONTENT_TYPE_BYTES = 64,
    FALLBACK_BYTES = 1024,
};

static const char SERVICE_CLASS[] = "standard";

struct edge_job {
    struct edge_job *previous;
    struct edge_job *next_told; /* in edge->told */
    struct edge_job *next;
    struct edge *edge;
    struct http_request *request;    /* NULL once gone */
    struct http1_exchange *exchange; /* NULL once it has ended */
    struct loop_timer *timer; /* the deadline; after a cancel or the final record, the grace */
    struct loop_timer *append_timer; /* a full ledger queue */
    struct edge_stream stream;
    struct edge_assemble *assemble; /* NULL for streamed answers */
    struct buffer relay;            /* an answer that is no stream */
    char content_type[CONTENT_TYPE_BYTES];
    struct principal principal;
    struct edge_body body;
    struct edge_access access;
    struct ledger_row row;
    struct error_note failure; /* what the client hears instead of a normal end; OK = nothing */
    enum status commit_status;
    bool is_generation;
    enum edge_stream_form form;
    bool is_accepted;   /* the engine answered 200 with a stream: from here on it is counted */
    bool is_cancelled;  /* half-closed */
    bool is_paused;     /* the client reads slower than the engine writes */
    bool is_concluded;  /* nothing more is taken from the engine */
    bool is_committing; /* the row is with the ledger */
    bool is_ended;      /* the client has its end */
    int upstream_code;  /* 0 = no head yet */
    uint32_t deadline_ms;
    uint32_t append_tries;
    uint32_t holds; /* calls under way that still need the job */
    int64_t sent_us;
    int64_t final_us;
    int64_t ended_us;
};

static void job_free(struct edge_job *job)
{
    edge_stream_deinit(&job->stream);
    edge_assemble_destroy(job->assemble);
    buffer_deinit(&job->relay);
    if (job->timer != NULL)
        loop_timer_destroy(job->timer);
    if (job->append_timer != NULL)
        loop_timer_destroy(job->append_timer);
    mem_free(job);
}

static void job_hold(struct edge_job *job)
{
    job->holds++;
}

/* Frees the job when it is over; nothing may touch it afterwards. */
static void job_unhold(struct edge_job *job)
{
    job->holds--;
    if (job->holds != 0 || job->request != NULL || job->exchange != NULL || job->is_committing ||
        !job->is_concluded)
        return;
    struct edge *edge = job->edge;
    if (job->next != NULL)
        job->next->previous = job->previous;
    if (job->previous != NULL)
        job->previous->next = job->next;
    else
        edge->jobs = job->next;
    edge->jobs_running--;
    metric_set(edge->metrics.jobs_running, edge->jobs_running);
    edge_access_end(&job->access, &edge->metrics,
                    job->ended_us != 0 ? job->ended_us : loop_now_us(edge->loop));
    job_free(job);
}

/* The first failure stays: later ones follow from it. */
static void job_fail(struct edge_job *job, enum status status, const char *message)
{
    if (job->failure.status != STATUS_OK)
        return;
    (void)status_fail(status, __FILE__, __LINE__, NULL, "%s", message);
    job->failure = *status_note();
}

/* --- the client's side --- */

/* "id", "created" and "model" when no frame has brought them. */
static void end_fallback(const struct edge_job *job, bool with_object, struct buffer *out)
{
    const char *hex = strchr(job->access.request_id, '_');
    buffer_printf(out, "\"id\":\"%s-%s\",", edge_stream_names(job->form)->id,
                  hex != NULL ? hex + 1 : job->access.request_id);
    if (with_object)
        buffer_printf(out, "\"object\":\"%s\",", edge_stream_names(job->form)->chunk);
    buffer_printf(
        out, "\"created\":%lld,\"model\":", (long long)(clock_wall_us(clock_system()) / 1000000));
    buffer_append_json_string(out, slice_of(job->body.model));
    buffer_append_char(out, ',');
}

static void end_stream(struct edge_job *job, struct buffer *out)
{
    if (job->stream.error.length != 0) {
        buffer_append_text(out, "data: {\"error\":");
        buffer_append_slice(out, buffer_slice(&job->stream.error));
        buffer_append_text(out, "}\n\n");
    } else if (job->failure.status != STATUS_OK) {
        buffer_append_text(out, "data: ");
        http_error_render(&job->failure, out);
        buffer_append_text(out, "\n\n");
    } else {
        if (job->body.includes_usage || job->form == EDGE_STREAM_GENERATION) {
            struct buffer fallback;
            buffer_init(&fallback, FALLBACK_BYTES);
            end_fallback(job, true, &fallback);
            edge_stream_append_usage_chunk(out, &job->stream, job->form, buffer_slice(&fallback));
            buffer_deinit(&fallback);
        }
        buffer_append_text(out, "data: [DONE]\n\n");
    }
    if (out->status == STATUS_OK)
        http_stream_write(job->request, buffer_slice(out));
    job->access.code = 200;
    http_stream_end(job->request);
}

/* Headers that every answer of the API carries beside x-request-id. */
static size_t end_headers(const struct edge_job *job, char ms[24], struct http_header headers[4])
{
    snprintf(ms, 24, "%lld",
             (long long)((loop_now_us(job->edge->loop) - job->access.arrived_us) / 1000));
    headers[0] = (struct http_header){"openai-processing-ms", slice_of(ms)};
    headers[1] = (struct http_header){"openai-version", SLICE("2020-10-01")};
    return 2;
}

static void end_failure(struct edge_job *job)
{
    job->access.code = http_error_of(job->failure.status)->http_code;
    status_note_set(&job->failure);
    http_respond_failure(job->request);
}

/* An error the engine found while it generated an answer that is not streamed. */
static void end_engine_error(struct edge_job *job, struct buffer *out)
{
    struct edge_json_walk walk;
    struct slice key = {0};
    struct slice value = {0};
    bool found = true;
    bool is_request = false;
    bool is_retried = false;
    enum status status = edge_json_object(&walk, buffer_slice(&job->stream.error));
    while (status == STATUS_OK && found) {
        status = edge_json_member(&walk, &found, &key, &value);
        if (status != STATUS_OK || !found)
            break;
        is_request |= slice_is(key, "type") && slice_is(value, "\"invalid_request_error\"");
        is_retried |= slice_is(key, "code") && (slice_is(value, "\"queue_timeout\"") ||
                                                slice_is(value, "\"engine_overloaded\"") ||
                                                slice_is(value, "\"service_unavailable\""));
    }
    buffer_append_text(out, "{\"error\":");
    buffer_append_slice(out, buffer_slice(&job->stream.error));
    buffer_append_char(out, '}');
    job->access.code = is_request ? 400 : is_retried ? 503 : 500;
    http_respond_json(job->request, job->access.code, buffer_slice(out));
}

static void end_assembled(struct edge_job *job, struct buffer *out)
{
    struct buffer fallback;
    buffer_init(&fallback, FALLBACK_BYTES);
    end_fallback(job, false, &fallback);
    enum status status =
        edge_assemble_render(job->assemble, &job->stream.final, buffer_slice(&fallback), out);
    buffer_deinit(&fallback);
    if (status != STATUS_OK) {
        job_fail(job, status, "The answer could not be put together.");
        end_failure(job);
        return;
    }
    struct http_header headers[4];
    char ms[24];
    size_t count = end_headers(job, ms, headers);
    headers[count++] = (struct http_header){"content-type", SLICE("application/json")};
    job->access.code = 200;
    http_respond(job->request, 200, headers, count, buffer_slice(out));
}

static void end_relayed(struct edge_job *job)
{
    struct http_header headers[6];
    char ms[24];
    size_t count = end_headers(job, ms, headers);
    headers[count++] = (struct http_header){"content-type", slice_of(job->content_type)};
    if (job->upstream_code == 503) {
        headers[count++] = (struct http_header){"retry-after", SLICE("1")};
        headers[count++] = (struct http_header){"retry-after-ms", SLICE("1000")};
    }
    job->access.code = job->upstream_code;
    http_respond(job->request, job->upstream_code, headers, count, buffer_slice(&job->relay));
}

/* A stream that ended for a reason which is no answer, without an error frame of its own. */
static void end_check_finish(struct edge_job *job)
{
    const char *finish = job->stream.final.finish;
    if (!job->is_accepted || job->stream.error.length != 0)
        return;
    if (!job->stream.has_final)
        job_fail(job, STATUS_UNAVAILABLE, "The engine ended in the middle of the answer.");
    else if (strcmp(finish, "deadline") == 0 || strcmp(finish, "timeout") == 0)
        job_fail(job, STATUS_DEADLINE, "The request reached its deadline.");
    else if (strcmp(finish, "cancelled") == 0 || strcmp(finish, "error") == 0)
        job_fail(job, STATUS_UNAVAILABLE, "The engine could not finish the answer.");
}

/* Writes the client's end, once; the request may be gone when it returns. */
static void job_end_client(struct edge_job *job)
{
    if (job->request == NULL || job->is_ended)
        return;
    job->is_ended = true;
    end_check_finish(job);
    struct buffer out;
    buffer_init(&out, LIMIT_ASSEMBLED_BYTES + 2 * FALLBACK_BYTES);
    if (http_is_answered(job->request))
        end_stream(job, &out);
    else if (job->is_accepted && job->stream.error.length != 0)
        end_engine_error(job, &out);
    else if (job->failure.status != STATUS_OK)
        end_failure(job);
    else if (job->is_accepted)
        end_assembled(job, &out);
    else
        end_relayed(job);
    buffer_deinit(&out);
    job->ended_us = loop_now_us(job->edge->loop);
    if (job->sent_us != 0 && job->final_us != 0)
        metric_observe(
            job->edge->metrics.overhead_seconds,
            (double)(job->sent_us - job->access.arrived_us + job->ended_us - job->final_us) / 1e6);
}

/* --- counting --- */

static const char *settle_finish(const struct edge_job *job)
{
    if (job->stream.has_final)
        return job->stream.final.finish;
    if (!job->is_cancelled)
        return "error";
    return job->failure.status == STATUS_CANCELLED  ? "cancelled"
           : job->failure.status == STATUS_DEADLINE ? "deadline"
                                                    : "error";
}

static void settle_text(char *out, size_t capacity, const char *text)
{
    snprintf(out, capacity, "%s", text);
}

static void settle_fill(struct edge_job *job)
{
    const struct edge_final *final = &job->stream.final;
    struct ledger_row *row = &job->row;
    row->at_us = clock_wall_us(clock_system());
    settle_text(row->request_id, sizeof row->request_id, job->access.request_id);
    settle_text(row->tenant_id, sizeof row->tenant_id, job->principal.tenant_id);
    settle_text(row->key_id, sizeof row->key_id, job->principal.key_id);
    settle_text(row->model, sizeof row->model, job->body.model);
    struct slice model = edge_stream_model(&job->stream);
    if (row->model[0] == '\0' && model.length < sizeof row->model)
        settle_text(row->model, model.length + 1, model.bytes != NULL ? model.bytes : "");
    settle_text(row->route, sizeof row->route, job->access.route);
    settle_text(row->service_class, sizeof row->service_class, SERVICE_CLASS);
    settle_text(row->finish, sizeof row->finish, settle_finish(job));
    bool is_gone = job->request == NULL;
    row->http_code = is_gone ? 499 : 200;
    if (!is_gone && !http_is_answered(job->request) && job->failure.status != STATUS_OK)
        row->http_code = http_error_of(job->failure.status)->http_code;
    row->prompt_tokens = final->prompt_tokens;
    row->cached_tokens = final->cached_tokens;
    row->completion_tokens =
        job->stream.has_final ? final->completion_tokens : job->stream.tokens_seen;
    row->is_estimated = !job->stream.has_final || final->is_estimated;
    row->queue_us = final->queue_us;
    row->prefill_us = final->prefill_us;
    row->decode_us = final->decode_us;
    row->total_us = loop_now_us(job->edge->loop) - job->access.arrived_us;
}

static void settle_count(struct edge_job *job)
{
    struct edge_metrics *metrics = &job->edge->metrics;
    const struct ledger_row *row = &job->row;
    metric_add(metrics->tokens_prompt, row->prompt_tokens);
    metric_add(metrics->tokens_cached, row->cached_tokens);
    metric_add(metrics->tokens_generated, row->completion_tokens);
    if (row->is_estimated)
        metric_add(metrics->estimated_total, 1);
    job->access.finish = row->finish;
    job->access.prompt_tokens = row->prompt_tokens;
    job->access.cached_tokens = row->cached_tokens;
    job->access.completion_tokens = row->completion_tokens;
}

/* The row could not be committed in time (the ledger keeps trying), or not even be queued: its
 * counts go to the log, so that nothing is lost silently, and the client gets no normal end. */
static void settle_unconfirmed(struct edge_job *job, const char *event)
{
    const struct ledger_row *row = &job->row;
    LOG(LOG_ERROR, event, LOG_TEXT("request_id", row->request_id),
        LOG_TEXT("tenant", row->tenant_id), LOG_TEXT("key", row->key_id),
        LOG_TEXT("model", row->model), LOG_TEXT("finish", row->finish),
        LOG_NUMBER("prompt_tokens", row->prompt_tokens),
        LOG_NUMBER("cached_tokens", row->cached_tokens),
        LOG_NUMBER("completion_tokens", row->completion_tokens), LOG_NUMBER("at_us", row->at_us));
    job_fail(job, STATUS_UNAVAILABLE, "The answer's usage could not be recorded; try again.");
    job_end_client(job);
}

static void settle_committed(void *context)
{
    struct edge_job *job = context;
    job_hold(job);
    job->is_committing = false;
    if (job->commit_status != STATUS_OK)
        settle_unconfirmed(job, "ledger_row_late");
    else
        job_end_client(job);
    job_unhold(job);
}

/* On the ledger's thread; edge_job_told follows. */
static void settle_written(void *context, enum status status)
{
    struct edge_job *job = context;
    job->commit_status = status;
    job->next_told = atomic_load(&job->edge->told);
    while (!atomic_compare_exchange_weak(&job->edge->told, &job->next_told, job))
        ;
}

/* All jobs whose rows the ledger has told of, in the order of their rows. */
static void told_settle(void *context)
{
    struct edge *edge = context;
    struct edge_job *last_first = atomic_exchange(&edge->told, NULL);
    struct edge_job *job = NULL;
    while (last_first != NULL) {
        struct edge_job *next = last_first->next_told;
        last_first->next_told = job;
        job = last_first;
        last_first = next;
    }
    while (job != NULL) {
        struct edge_job *next = job->next_told;
        settle_committed(job);
        job = next;
    }
}

void edge_job_told(void *context)
{
    struct edge *edge = context;
    if (atomic_load(&edge->told) != NULL)
        loop_post(edge->loop, told_settle, edge);
}

static void settle_append(void *context)
{
    struct edge_job *job = context;
    job_hold(job);
    job->is_committing = true;
    if (ledger_append(job->edge->ledger, &job->row, settle_written, job) != STATUS_OK) {
        if (++job->append_tries < APPEND_TRIES_MAX && job->append_timer == NULL)
            job->append_timer = loop_timer_create(job->edge->loop, settle_append, job);
        if (job->append_tries < APPEND_TRIES_MAX && job->append_timer != NULL) {
            loop_timer_arm(job->append_timer, APPEND_AGAIN_MS);
        } else {
            job->is_committing = false;
            settle_unconfirmed(job, "ledger_row_lost");
        }
    }
    job_unhold(job);
}

/* Every job that the engine accepted comes here once. */
static void job_settle(struct edge_job *job)
{
    job->is_concluded = true;
    job->final_us = loop_now_us(job->edge->loop);
    settle_fill(job);
    settle_count(job);
    settle_append(job);
}

/* --- the engine's side --- */

void edge_job_cancel(struct edge_job *job, enum status status, const char *message)
{
    if (job->is_cancelled || job->is_concluded)
        return;
    job->is_cancelled = true;
    job_fail(job, status, message);
    if (job->exchange == NULL)
        return;
    http1_exchange_half_close(job->exchange);
    if (job->is_paused)
        http1_exchange_resume(job->exchange);
    job->is_paused = false;
    loop_timer_arm(job->timer, GRACE_MS);
}

static void job_timer(void *context)
{
    struct edge_job *job = context;
    job_hold(job);
    if ((job->is_cancelled || job->is_concluded) && job->exchange != NULL)
        http1_exchange_cancel(job->exchange);
    else
        edge_job_cancel(job, STATUS_DEADLINE, "The request reached its deadline.");
    job_unhold(job);
}

static void job_drained(void *context)
{
    struct edge_job *job = context;
    if (job->is_paused && job->exchange != NULL)
        http1_exchange_resume(job->exchange);
    job->is_paused = false;
}

static void head_begin_stream(struct edge_job *job)
{
    struct http_header headers[8];
    char ms[24];
    size_t count = end_headers(job, ms, headers);
    headers[count++] =
        (struct http_header){"content-type", SLICE("text/event-stream; charset=utf-8")};
    headers[count++] = (struct http_header){"cache-control", SLICE("no-cache")};
    headers[count++] = (struct http_header){"x-accel-buffering", SLICE("no")};
    http_stream_begin(job->request, 200, headers, count, job_drained, job);
}

static void job_head(void *context, const struct http1_head *head)
{
    int code = head->code;
    struct slice content_type = head->content_type;
    struct edge_job *job = context;
    job_hold(job);
    job->upstream_code = code;
    bool is_sse = slice_starts_with(content_type, SLICE("text/event-stream"));
    if (job->is_generation && code == 200 && is_sse) {
        job->is_accepted = true;
        if (job->body.is_stream && job->request != NULL && !job->is_cancelled)
            head_begin_stream(job);
    } else if (job->is_generation && code == 200) {
        edge_job_cancel(job, STATUS_PROTOCOL, "The engine did not answer with a stream.");
    } else {
        size_t length = content_type.length < CONTENT_TYPE_BYTES ? content_type.length : 0;
        memcpy(job->content_type, content_type.bytes, length);
        if (length == 0)
            settle_text(job->content_type, sizeof job->content_type, "application/json");
    }
    job_unhold(job);
}

static enum status job_chunk(void *context, struct slice rest)
{
    struct edge_job *job = context;
    if (job->access.completion_tokens == 0 && job->stream.tokens_seen != 0) {
        job->access.completion_tokens = job->stream.tokens_seen;
        metric_observe(job->edge->metrics.first_token_seconds,
                       (double)(loop_now_us(job->edge->loop) - job->access.arrived_us) / 1e6);
    }
    if (job->is_cancelled)
        return STATUS_OK;
    if (job->assemble != NULL)
        return edge_assemble_add(job->assemble, rest);
    struct buffer *out = &job->edge->scratch;
    buffer_clear(out);
    edge_stream_append_chunk(out, rest, job->body.includes_usage);
    TRY(out->status);
    http_stream_write(job->request, buffer_slice(out));
    return STATUS_OK;
}

static void job_final(void *context)
{
    struct edge_job *job = context;
    job_settle(job);
    if (job->exchange != NULL)
        loop_timer_arm(job->timer, GRACE_MS);
}

static void job_body(void *context, struct slice bytes)
{
    struct edge_job *job = context;
    job_hold(job);
    enum status status = STATUS_OK;
    if (job->is_accepted) {
        status = edge_stream_feed(&job->stream, bytes);
    } else {
        buffer_append_slice(&job->relay, bytes);
        status = job->relay.status;
    }
    if (status != STATUS_OK && !job->is_concluded) {
        bool is_too_long = status == STATUS_LIMIT && job->assemble != NULL;
        log_failure(LOG_WARN, "answer_broken");
        edge_job_cancel(job, is_too_long ? STATUS_INVALID : STATUS_PROTOCOL,
                        is_too_long ? status_note()->message
                                    : "The engine's answer could not be understood.");
    }
    if (job->request != NULL && !job->is_cancelled && !job->is_paused && job->exchange != NULL &&
        http_is_answered(job->request) && !job->is_concluded &&
        http_stream_pending(job->request) > LIMIT_STREAM_PENDING_BYTES) {
        job->is_paused = true;
        http1_exchange_pause(job->exchange);
    }
    job_unhold(job);
}

/* The exchange is over without a final record. */
static void ended_conclude(struct edge_job *job, enum status status)
{
    job->final_us = loop_now_us(job->edge->loop);
    if (job->is_accepted) {
        job_settle(job);
        return;
    }
    job->is_concluded = true;
    if (job->upstream_code != 0 && status != STATUS_OK)
        job_fail(job, STATUS_UNAVAILABLE, "The engine ended in the middle of the answer.");
    else if (job->upstream_code == 0)
        job_fail(job, STATUS_UNAVAILABLE, "The engine is not available now; try again shortly.");
    job_end_client(job);
}

static void job_ended(void *context, enum status status)
{
    struct edge_job *job = context;
    job_hold(job);
    job->exchange = NULL;
    loop_timer_disarm(job->timer);
    if (!job->is_concluded)
        ended_conclude(job, status);
    job_unhold(job);
}

static enum status send_try(struct edge_job *job)
{
    static const struct http1_callbacks callbacks = {job_head, job_body, job_ended};
    struct edge_head head = {.method = http_method(job->request),
                             .path = http_path(job->request),
                             .request_id = slice_of(job->access.request_id),
                             .principal = &job->principal,
                             .service_class = SERVICE_CLASS,
                             .deadline_ms = job->deadline_ms};
    struct buffer text;
    buffer_init(&text, EDGE_HEAD_BYTES_MAX);
    enum status status = edge_head_append(&text, &head);
    if (status == STATUS_OK)
        status = http1_exchange_start(job->edge->client, buffer_slice(&text),
                                      http_body(job->request), &callbacks, job, &job->exchange);
    buffer_deinit(&text);
    return status;
}

static void job_send(struct edge_job *job)
{
    job->sent_us = loop_now_us(job->edge->loop);
    loop_timer_arm(job->timer, job->deadline_ms + DEADLINE_MARGIN_MS);
    if (send_try(job) == STATUS_OK)
        return;
    loop_timer_disarm(job->timer);
    job->failure = *status_note();
    job->is_concluded = true;
    job_end_client(job);
}

/* --- from outside --- */

static void job_gone(void *context, bool is_early)
{
    struct edge_job *job = context;
    (void)is_early; /* after the end was written there is nothing left to stop */
    job_hold(job);
    job->request = NULL;
    if (!job->is_ended) {
        job->access.code = 499;
        edge_job_cancel(job, STATUS_CANCELLED, "The client has left.");
    }
    job_unhold(job);
}

static const struct edge_stream_callbacks stream_callbacks = {job_chunk, job_final};

static enum status start_create(struct edge_job **out, const struct edge_job_options *options)
{
    struct edge_job *job = mem_zalloc(1, sizeof *job);
    if (job == NULL)
        FAIL(STATUS_NO_MEMORY, "no memory for another request");
    job->edge = options->edge;
    job->principal = *options->principal;
    job->access = *options->access;
    job->body = options->body;
    job->is_generation = options->is_generation;
    job->form = options->form;
    job->deadline_ms = options->deadline_ms;
    edge_stream_init(&job->stream, &stream_callbacks, job);
    buffer_init(&job->relay, LIMIT_RELAYED_BYTES);
    job->timer = loop_timer_create(job->edge->loop, job_timer, job);
    enum status status = STATUS_OK;
    if (job->timer == NULL)
        status = status_fail(STATUS_NO_MEMORY, __FILE__, __LINE__, NULL, "no memory for a timer");
    if (status == STATUS_OK && job->is_generation && !job->body.is_stream)
        status = edge_assemble_create(&job->assemble, job->form);
    if (status != STATUS_OK) {
        job_free(job);
        return status;
    }
    *out = job;
    return STATUS_OK;
}

void edge_job_start(const struct edge_job_options *options)
{
    struct edge *edge = options->edge;
    struct edge_job *job = NULL;
    if (start_create(&job, options) != STATUS_OK) {
        struct edge_access access = *options->access;
        access.code = http_error_of(status_note()->status)->http_code;
        http_respond_failure(options->request);
        edge_access_end(&access, &edge->metrics, loop_now_us(edge->loop));
        return;
    }
    job_hold(job);
    job->next = edge->jobs;
    if (edge->jobs != NULL)
        edge->jobs->previous = job;
    edge->jobs = job;
    edge->jobs_running++;
    metric_set(edge->metrics.jobs_running, edge->jobs_running);
    job->request = options->request;
    http_on_gone(job->request, job_gone, job);
    job_send(job);
    job_unhold(job);
}

void edge_job_cancel_all(struct edge *edge, enum status status, const char *message)
{
    struct edge_job *next = NULL;
    for (struct edge_job *job = edge->jobs; job != NULL; job = next) {
        next = job->next;
        edge_job_cancel(job, status, message);
    }
}

void edge_job_free_all(struct edge *edge)
{
    while (edge->jobs != NULL) {
        struct edge_job *job = edge->jobs;
        edge->jobs = job->next;
        job_free(job);
    }
    edge->jobs_running = 0;
}
