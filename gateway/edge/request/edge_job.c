#include "gateway/edge/request/edge_job.h"

#include <stdio.h>
#include <string.h>

#include "config/base/clock.h"
#include "config/base/log.h"
#include "config/base/mem.h"
#include "gateway/edge/engines/edge_replay.h"
#include "gateway/edge/engines/edge_settle.h"
#include "gateway/edge/engines/edge_stream.h"
#include "gateway/edge/engines/edge_wait.h"
#include "gateway/edge/request/edge_assemble.h"
#include "gateway/edge/request/edge_head.h"
#include "gateway/edge/request/edge_lower.h"
#include "gateway/edge/request/edge_quota.h"
#include "gateway/edge/state/edge_json.h"
#include "gateway/edge/state/edge_pace.h"
#include "gateway/http/http_error.h"

enum {
    GRACE_MS = 1000,          /* for the final record after a half-close */
    DEADLINE_MARGIN_MS = 500, /* the engine ends the request at its deadline; the edge after it */
    NO_CONNECTION_MS = 20,    /* the wait when no connection to the engine is free */
    COMMENT_EVERY_MS = 5000,  /* between two comments to a client that waits */
    CUTS_MAX = 2,             /* engines that may go away with a request, which may be the cause */
    CONTENT_TYPE_BYTES = 64,
    FALLBACK_BYTES = 1024,
    HEADERS_MOST = 6 + EDGE_QUOTA_HEADERS, /* of an answer */
};
static const char FOREIGN[] = "The engine is of another version; try again later.";

struct edge_job {
    struct edge_job *previous;
    struct edge_job *next;
    struct edge *edge;
    struct http_request *request;    /* NULL once the client's request is gone */
    struct http1_exchange *exchange; /* NULL once it has ended */
    struct loop_timer *timer; /* the deadline; after a cancel or the final record, the grace */
    /* The next comment to a client that waits; while is_paused, the next look at it. */
    struct loop_timer *client_timer;
    struct edge_wait_entry entry;
    struct edge_stream stream;
    struct edge_assemble *assemble; /* NULL for streamed answers */
    struct buffer relay;            /* an answer of the engine that is not a stream */
    char content_type[CONTENT_TYPE_BYTES];
    struct principal principal;
    struct edge_body body;
    enum service_class service_class;
    struct edge_hold hold;
    struct edge_access access;
    struct edge_settle settle;
    struct edge_quota quota;
    struct error_note failure; /* what the client gets instead of a normal end; OK: nothing */
    struct edge_route route;
    bool is_generation; /* the route is STREAMED */
    enum edge_stream_form form;
    bool is_accepted;   /* the engine answered 200 with a stream: from here on it is counted */
    bool is_cancelled;  /* the exchange, if there is one, is half-closed */
    bool is_paused;     /* the client reads slower than the engine writes */
    bool is_standing;   /* the engine has preempted the request */
    bool is_concluded;  /* nothing more is taken from the engine */
    bool is_committing; /* the row is with the ledger */
    bool is_ended;      /* the end of the client's answer is written */
    bool is_foreign;    /* the engine that answered speaks another protocol */
    int upstream_code;  /* the engine's HTTP code; 0: no head yet */
    bool has_waited;
    uint32_t retry_after_ms; /* of a busy engine */
    uint32_t sends;
    uint32_t cuts; /* times that it was sent and the engine went away before its final record */
    uint32_t deadline_ms;
    int64_t deadline_us;
    size_t pending_bytes;              /* what a paused client had not read at the last look */
    uint32_t holds;                    /* calls under way that still need the job */
    char sent_model[LIMIT_NAME_BYTES]; /* its model among those that were served when it was sent */
    int64_t sent_us;
    int64_t final_us;
    int64_t ended_us;
};

static void job_free(struct edge_job *job)
{
    edge_quota_settle(&job->quota, job->edge, &job->stream);
    edge_stream_deinit(&job->stream);
    edge_assemble_destroy(job->assemble);
    buffer_deinit(&job->relay);
    loop_timer_destroy(job->timer);
    loop_timer_destroy(job->client_timer);
    edge_settle_deinit(&job->settle);
    edge_hold_end(&job->hold, job->edge->memory);
    mem_free(job);
}

static void job_unpause(struct edge_job *job);

static void job_hold(struct edge_job *job)
{
    job->holds++;
}

/* Frees the job when it has ended; the caller must not use it afterwards. */
static void job_unhold(struct edge_job *job)
{
    job->holds--;
    if (job->holds != 0 || job->request != NULL || job->exchange != NULL || job->is_committing ||
        !job->is_concluded)
        return;
    struct edge *edge = job->edge;
    job_unpause(job);
    if (job->next != NULL)
        job->next->previous = job->previous;
    if (job->previous != NULL)
        job->previous->next = job->next;
    else
        edge->jobs = job->next;
    metric_set(edge->metrics.jobs_running, --edge->jobs_running);
    if (job->is_generation)
        edge_pace_ended(edge->pace, job->access.pace_owner,
                        job->access.code / 100 == 4 && !job->is_accepted, job->access.body_bytes,
                        loop_now_us(edge->loop));
    edge_access_end(&job->access, &edge->metrics,
                    job->ended_us != 0 ? job->ended_us : loop_now_us(edge->loop));
    job_free(job);
}

static void job_wait(struct edge_job *job);

/* Books to the tenant what the job holds now, including what the client has not read yet. */
static enum status job_book(struct edge_job *job)
{
    size_t answer = job->relay.capacity + edge_stream_bytes(&job->stream);
    if (job->assemble != NULL)
        answer += edge_assemble_bytes(job->assemble);
    if (job->request != NULL)
        answer += http_answer_bytes(job->request);
    return edge_hold_set(&job->hold, job->edge->memory, answer);
}

static struct edge_wait_who wait_who(const struct edge_job *job)
{
    return (struct edge_wait_who){job->principal.tenant_hash, job->service_class};
}

static void wait_count(struct edge_job *job, enum edge_refusal why)
{
    metric_add(job->edge->metrics.queue_refusals[job->service_class][why], 1);
}

static void client_arm(struct edge_job *job, uint32_t delay_ms)
{
    loop_timer_arm(job->client_timer, delay_ms);
}

static void job_unpause(struct edge_job *job)
{
    if (!job->is_paused)
        return;
    job->is_paused = false;
    loop_timer_disarm(job->client_timer);
    metric_set(job->edge->metrics.readers_paused, --job->edge->readers_paused);
}

/* Keeps the first failure, because later ones follow from it. */
static void job_fail(struct edge_job *job, enum status status, const char *message)
{
    if (job->failure.status != STATUS_OK)
        return;
    (void)status_fail(status, __FILE__, __LINE__, NULL, "%s", message);
    if (status == STATUS_DEADLINE)
        status_note_retry(job->retry_after_ms);
    job->failure = *status_note();
}

/* --- the client's side --- */

static void job_write(struct edge_job *job, struct slice bytes)
{
    job->access.bytes += bytes.length;
    http_stream_write(job->request, bytes);
}

/* The model that ran, as the engine told it; else as an accepted request names it; else the one
 * that it was sent for, or is served now. Other names may be anything; sums are kept for ever. */
static const char *settle_model(const struct edge_job *job)
{
    const char *const names[] = {job->stream.final.model, job->is_accepted ? job->body.model : "",
                                 job->sent_model, edge_probe_engine(job->edge->probe)->model};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (names[i][0] != '\0')
            return names[i];
    }
    return "unknown"; /* nothing ran: no engine was up since this edge started */
}

/* Appends "id", "created" and "model" for an answer of which no frame has come. */
static void end_fallback(const struct edge_job *job, bool with_object, struct buffer *out)
{
    edge_stream_append_fallback(out, job->form, job->access.request_id, settle_model(job),
                                with_object ? service_class_tier(job->service_class) : NULL);
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
    } else if (!job->is_accepted) { /* refused after 200 was sent to the waiting client */
        buffer_append_text(out, "data: ");
        buffer_append_slice(out, buffer_slice(&job->relay));
        buffer_append_text(out, "\n\n");
    } else {
        struct buffer fallback;
        buffer_init(&fallback, FALLBACK_BYTES);
        end_fallback(job, true, &fallback);
        if (job->stream.final.is_limited)
            edge_quota_append_ends(
                &job->quota, job->form,
                buffer_slice(job->stream.first.length != 0 ? &job->stream.first : &fallback),
                job->body.includes_usage, out);
        if (job->body.includes_usage || job->form == EDGE_STREAM_GENERATION ||
            job->stream.final.is_explained)
            edge_stream_append_usage_chunk(out, &job->stream, job->form, buffer_slice(&fallback));
        buffer_deinit(&fallback);
        buffer_append_text(out, "data: [DONE]\n\n");
    }
    if (out->status == STATUS_OK)
        job_write(job, buffer_slice(out));
    job->access.code = 200;
    http_stream_end(job->request);
}

/* Fills in the headers of a request that has reached the engine; `ms` holds one's text. */
static size_t end_headers(const struct edge_job *job, char ms[24],
                          struct http_header headers[HEADERS_MOST])
{
    int64_t number = (loop_now_us(job->edge->loop) - job->access.arrived_us) / 1000;
    int length = snprintf(ms, 24, "%lld", (long long)number);
    headers[0] = (struct http_header){"openai-processing-ms", {ms, (size_t)length}};
    headers[1] = (struct http_header){"openai-version", SLICE("2020-10-01")};
    return 2 + edge_quota_headers(&job->quota, headers + 2);
}

static void end_failure(struct edge_job *job)
{
    job->access.code = http_error_of(job->failure.status)->http_code;
    status_note_set(&job->failure);
    http_respond_failure(job->request);
}

/* The engine ended an answer that is not streamed with an error of its own. */
static void end_engine_error(struct edge_job *job, struct buffer *out)
{
    buffer_append_text(out, "{\"error\":");
    buffer_append_slice(out, buffer_slice(&job->stream.error));
    buffer_append_char(out, '}');
    job->access.code = edge_json_error_code(buffer_slice(&job->stream.error));
    job->access.bytes = out->length;
    http_respond_json(job->request, job->access.code, buffer_slice(out));
}

static void end_assembled(struct edge_job *job, struct buffer *out)
{
    struct buffer fallback;
    buffer_init(&fallback, FALLBACK_BYTES);
    if (!edge_assemble_has_head(job->assemble))
        end_fallback(job, false, &fallback);
    enum status status =
        edge_assemble_render(job->assemble, &job->stream.final, buffer_slice(&fallback), out);
    buffer_deinit(&fallback);
    if (status != STATUS_OK) {
        job_fail(job, status, "The answer could not be put together.");
        end_failure(job);
        return;
    }
    struct http_header headers[HEADERS_MOST];
    char ms[24];
    size_t count = end_headers(job, ms, headers);
    headers[count++] = (struct http_header){"content-type", SLICE("application/json")};
    job->access.code = 200;
    job->access.bytes = out->length;
    edge_assemble_destroy(job->assemble);
    job->assemble = NULL;
    http_respond_take(job->request, 200, headers, count, out);
}

static void end_relayed(struct edge_job *job)
{
    struct http_header headers[HEADERS_MOST];
    char ms[24];
    size_t count = end_headers(job, ms, headers);
    headers[count++] = (struct http_header){"content-type", slice_of(job->content_type)};
    if (job->upstream_code == 503) {
        headers[count++] = (struct http_header){"retry-after", SLICE("1")};
        headers[count++] = (struct http_header){"retry-after-ms", SLICE("1000")};
    }
    bool is_own = job->upstream_code == 503 && edge_json_is_own_share(buffer_slice(&job->relay));
    job->access.code = is_own ? 429 : job->upstream_code;
    job->access.bytes = job->relay.length;
    http_respond_take(job->request, job->access.code, headers, count, &job->relay);
}

/* Finds the failure of a stream that ended without an error frame and without a normal end. */
static void end_check_finish(struct edge_job *job)
{
    const char *finish = job->stream.final.finish;
    if (!job->is_accepted || job->stream.error.length != 0)
        return;
    if (!job->stream.has_final)
        job_fail(job, STATUS_UNAVAILABLE, "The engine ended in the middle of the answer.");
    else if (strcmp(finish, "deadline") == 0 || strcmp(finish, "timeout") == 0)
        job_fail(job, STATUS_DEADLINE, "The request reached its deadline.");
    else if (job->quota.is_stopped && strcmp(finish, "cancelled") == 0)
        job->stream.final.is_limited = true;
    else if (strcmp(finish, "cancelled") == 0 || strcmp(finish, "error") == 0)
        job_fail(job, STATUS_UNAVAILABLE, "The engine could not finish the answer.");
}

/* Whether the request is charged although no prompt was computed: the engine refused it after
 * parsing it, the client or the deadline ended it after it was sent, or it was work on text. An
 * engine that was full (503, 429) has not worked on it, nor one that knew its id (409). */
static bool end_is_worked(const struct edge_job *job)
{
    bool is_refused = job->upstream_code >= 400 && job->upstream_code < 500 &&
                      job->upstream_code != 409 && job->upstream_code != 429;
    bool is_given_up = job->is_cancelled && (job->failure.status == STATUS_CANCELLED ||
                                             job->failure.status == STATUS_DEADLINE);
    bool is_text_done = !job->is_generation && job->upstream_code == 200;
    return job->sent_us != 0 && !job->is_foreign && (is_refused || is_given_up || is_text_done);
}

/* Writes the end of the client's answer, once. The client's request may be gone on return. */
static void job_end_client(struct edge_job *job)
{
    if (end_is_worked(job))
        edge_quota_worked(&job->quota);
    edge_quota_settle(&job->quota, job->edge, &job->stream);
    if (job->request == NULL || job->is_ended)
        return;
    job->is_ended = true;
    if (job->client_timer != NULL)
        loop_timer_disarm(job->client_timer);
    end_check_finish(job);
    /* An event carries one line, and so do the engine's refusals; anything else is replaced. */
    if (!job->is_accepted && http_is_answered(job->request) &&
        (job->relay.length == 0 || memchr(job->relay.bytes, '\n', job->relay.length) != NULL))
        job_fail(job, STATUS_UNAVAILABLE, "The engine refused the request.");
    struct buffer out;
    buffer_init(&out, edge_assemble_most(job->form) + 2 * FALLBACK_BYTES);
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
    (void)job_book(job); /* the unread answer stays booked to the tenant */
    job->ended_us = loop_now_us(job->edge->loop);
    if (job->sent_us != 0 && job->final_us != 0 && !job->has_waited)
        metric_observe(
            job->edge->metrics.overhead_seconds,
            (double)(job->sent_us - job->access.arrived_us + job->ended_us - job->final_us) / 1e6);
}

/* --- counting --- */

static const char *settle_finish(const struct edge_job *job)
{
    if (job->quota.is_stopped && strcmp(job->stream.final.finish, "cancelled") == 0)
        return "quota";
    if (job->stream.has_final)
        return job->stream.final.finish;
    if (!job->is_cancelled)
        return job->is_generation ? "error" : "stop";
    return job->failure.status == STATUS_CANCELLED  ? "cancelled"
           : job->failure.status == STATUS_DEADLINE ? "deadline"
                                                    : "error";
}

static int settle_code(const struct edge_job *job)
{
    if (job->request == NULL)
        return 499;
    if (http_is_answered(job->request))
        return 200;
    if (job->is_accepted && job->stream.error.length != 0)
        return edge_json_error_code(buffer_slice(&job->stream.error));
    return job->failure.status != STATUS_OK ? http_error_of(job->failure.status)->http_code : 200;
}

/* Whether the row counts no tokens: a client that gets nothing but a server error pays nothing,
 * whatever was computed for it. A deadline is the client's own choice and is paid. */
static bool settle_is_unanswered(const struct edge_job *job)
{
    return job->settle.row.http_code >= 500 && job->failure.status != STATUS_DEADLINE;
}

static void settle_fill(struct edge_job *job)
{
    struct edge_final final = job->stream.final;
    struct ledger_row *row = &job->settle.row;
    final.completion_tokens =
        job->stream.has_final ? final.completion_tokens : job->stream.tokens_seen;
    final.is_estimated = job->is_generation && (!job->stream.has_final || final.is_estimated);
    row->http_code = settle_code(job);
    if (settle_is_unanswered(job))
        final = (struct edge_final){0};
    edge_settle_fill(row, &final);
    row->at_us = clock_wall_us(clock_system());
    edge_settle_text(row->request_id, sizeof row->request_id, job->access.request_id);
    edge_settle_text(row->tenant_id, sizeof row->tenant_id, job->principal.tenant_id);
    edge_settle_text(row->key_id, sizeof row->key_id, job->principal.key_id);
    edge_settle_text(row->model, sizeof row->model, settle_model(job));
    edge_settle_text(row->route, sizeof row->route, job->access.route);
    edge_settle_text(row->service_class, sizeof row->service_class,
                     job->is_generation ? service_class_name(job->service_class)
                                        : LEDGER_CLASS_TEXT);
    edge_settle_text(row->finish, sizeof row->finish, settle_finish(job));
    row->total_us = loop_now_us(job->edge->loop) - job->access.arrived_us;
    job->access.finish = row->finish;
    job->access.prompt_tokens = row->prompt_tokens;
    job->access.cached_tokens = row->cached_tokens;
    job->access.completion_tokens = row->completion_tokens;
}

/* The row is committed, or the ledger could not commit it within a second; the client gets its
 * answer now. A row that could not be written is not lost: the ledger tries again, and the engine
 * keeps its record until the row is in the file. Work on text has no record: if the edge ends
 * before its row is written, that answer is free. */
static void settle_done(void *context, bool is_recorded)
{
    struct edge_job *job = context;
    job_hold(job);
    job->is_committing = false;
    if (is_recorded)
        edge_replay_counted(job->edge->replay, job->stream.final.record_seq);
    job_end_client(job);
    job_unhold(job);
}

static void settle_commit(struct edge_job *job)
{
    job->is_committing = true;
    job->settle.done = settle_done;
    job->settle.context = job;
    edge_settle_begin(&job->settle, job->edge);
}

/* Every generation that the engine accepted comes here once. With the final record, the end of the
 * answer waits for the row's commit. Without it, the client is told at once that the answer was
 * cut, and the row waits for the record; but a row without tokens is committed at once, and a
 * record that comes later finds its request id counted. */
static void job_settle(struct edge_job *job)
{
    job->is_concluded = true;
    job->final_us = loop_now_us(job->edge->loop);
    end_check_finish(job);
    settle_fill(job);
    if (job->stream.has_final || settle_is_unanswered(job)) {
        settle_commit(job);
    } else {
        edge_replay_await(job->edge->replay, &job->settle.row);
        job_end_client(job);
    }
}

/* --- the engine's side --- */

/* The client or the deadline ended the request before the engine began, or during work on text. It
 * gets a row without tokens, so that clients that ask and leave are counted too. */
static void conclude_given_up(struct edge_job *job)
{
    settle_fill(job);
    if (job->is_generation && job->sent_us != 0 && job->upstream_code == 0) {
        /* It was sent and nothing came back, so the engine may have begun it. */
        edge_replay_await(job->edge->replay, &job->settle.row);
        job_end_client(job);
        return;
    }
    job->settle.row.is_estimated = false;
    settle_commit(job);
}

/* Whether an engine that has gone away may have begun the request. */
static bool conclude_is_lost(const struct edge_job *job)
{
    return job->is_generation && job->request != NULL && !job->is_cancelled && job->sent_us != 0 &&
           job->failure.status == STATUS_UNAVAILABLE &&
           (job->upstream_code == 0 || job->upstream_code == 409);
}

/* Ends a job that the engine has not accepted. */
static void job_conclude(struct edge_job *job)
{
    job->is_concluded = true;
    loop_timer_disarm(job->timer);
    bool is_counted = (job->route.flags & EDGE_ROUTE_COUNTED) != 0;
    bool is_text_done = !job->is_generation && !job->failure.status && job->upstream_code == 200;
    if (is_counted && (is_text_done || conclude_is_lost(job))) {
        settle_fill(job);
        job->settle.row.is_estimated = false;
        settle_commit(job);
    } else if (is_counted && job->is_cancelled &&
               (job->failure.status == STATUS_CANCELLED || job->failure.status == STATUS_DEADLINE))
        conclude_given_up(job);
    else
        job_end_client(job);
}

static void cancel_exchange(struct edge_job *job)
{
    http1_exchange_half_close(job->exchange);
    if (job->is_paused)
        http1_exchange_resume(job->exchange);
    job_unpause(job);
    loop_timer_arm(job->timer, GRACE_MS);
}

void edge_job_cancel(struct edge_job *job, enum edge_cancel reason, const char *message)
{
    static const enum status statuses[EDGE_CANCEL_COUNT] = {
        [EDGE_CANCEL_CLIENT] = STATUS_CANCELLED,    [EDGE_CANCEL_SLOW_READER] = STATUS_CANCELLED,
        [EDGE_CANCEL_DEADLINE] = STATUS_DEADLINE,   [EDGE_CANCEL_SHUTDOWN] = STATUS_UNAVAILABLE,
        [EDGE_CANCEL_ENGINE] = STATUS_PROTOCOL,     [EDGE_CANCEL_TOO_LONG] = STATUS_INVALID,
        [EDGE_CANCEL_MEMORY] = STATUS_MEMORY_SHARE, [EDGE_CANCEL_ADMIN] = STATUS_CONFLICT,
        [EDGE_CANCEL_TENANT] = STATUS_FORBIDDEN,
    };
    if (job->is_cancelled || job->is_concluded)
        return;
    job_hold(job);
    job->is_cancelled = true;
    metric_add(job->edge->metrics.cancelled[reason], 1);
    job_fail(job, job->is_foreign ? STATUS_UNAVAILABLE : statuses[reason], message);
    if (job->exchange != NULL) {
        cancel_exchange(job);
    } else {
        edge_wait_leave(job->edge->wait, &job->entry);
        job_conclude(job);
    }
    job_unhold(job);
}

/* A limit is met: stops the engine, and still passes on what it has computed. */
static void job_stop(struct edge_job *job)
{
    job_hold(job);
    job->is_cancelled = true;
    if (job->exchange != NULL)
        cancel_exchange(job);
    job_unhold(job);
}

static void job_lower(struct edge_job *job)
{
    if (job->service_class == (enum service_class)SERVICE_CLASS_LOWEST)
        return;
    job->service_class = (enum service_class)SERVICE_CLASS_LOWEST;
    job->stream.final.service_class = job->service_class;
    edge_stream_set_tier(&job->stream.first, job->service_class);
    if (job->assemble != NULL)
        edge_assemble_set_class(job->assemble, job->service_class);
    edge_lower_send(job->edge, job->access.request_id);
}

static void job_timer(void *context)
{
    struct edge_job *job = context;
    job_hold(job);
    if ((job->is_cancelled || job->is_concluded) && job->exchange != NULL)
        http1_exchange_cancel(job->exchange);
    else
        edge_job_cancel(job, EDGE_CANCEL_DEADLINE, "The request reached its deadline.");
    job_unhold(job);
}

static void job_drained(void *context)
{
    struct edge_job *job = context;
    if (job->is_paused && job->exchange != NULL)
        http1_exchange_resume(job->exchange);
    job_unpause(job);
    if (job->is_standing)
        client_arm(job, COMMENT_EVERY_MS);
}

/* Stops reading from the engine until the client reads again. Until then only the deadline ends the
 * job, or `slow_reader_timeout_s` in which the client reads nothing. */
static void job_pause(struct edge_job *job)
{
    job->is_paused = true;
    job->pending_bytes = http_stream_pending(job->request);
    metric_set(job->edge->metrics.readers_paused, ++job->edge->readers_paused);
    http1_exchange_pause(job->exchange);
    client_arm(job, (uint32_t)job->edge->config->slow_reader_timeout_s * 1000);
}

static void client_look_paused(struct edge_job *job)
{
    size_t pending = http_stream_pending(job->request);
    if (pending < job->pending_bytes) {
        job->pending_bytes = pending;
        client_arm(job, (uint32_t)job->edge->config->slow_reader_timeout_s * 1000);
        return;
    }
    LOG(LOG_WARN, "reader_too_slow", LOG_TEXT("request_id", job->access.request_id),
        LOG_TEXT("tenant", job->access.tenant_id), LOG_NUMBER("pending_bytes", pending));
    edge_job_cancel(job, EDGE_CANCEL_SLOW_READER, "The answer was not read for too long.");
}

static void head_begin_stream(struct edge_job *job)
{
    struct http_header headers[HEADERS_MOST];
    char ms[24];
    size_t count = end_headers(job, ms, headers);
    headers[count++] =
        (struct http_header){"content-type", SLICE("text/event-stream; charset=utf-8")};
    headers[count++] = (struct http_header){"cache-control", SLICE("no-cache")};
    headers[count++] = (struct http_header){"x-accel-buffering", SLICE("no")};
    http_stream_begin(job->request, 200, headers, count, job_drained, job);
}

/* Tells the client of a stream that its request waits, now and every COMMENT_EVERY_MS. */
static void client_tell_queued(struct edge_job *job)
{
    if (!http_is_answered(job->request))
        head_begin_stream(job);
    if (http_stream_pending(job->request) == 0) /* a client that does not read gets no more */
        job_write(job, SLICE(": queued\n\n"));
    client_arm(job, COMMENT_EVERY_MS);
}

/* Tells the client that its stream is preempted; again every COMMENT_EVERY_MS while it reads. */
static void client_tell_paused(struct edge_job *job, bool is_first)
{
    if (is_first || http_stream_pending(job->request) == 0)
        job_write(job, SLICE(": paused\n\n"));
    client_arm(job, COMMENT_EVERY_MS);
}

static void client_timer(void *context)
{
    struct edge_job *job = context;
    job_hold(job);
    bool is_open = job->request != NULL && !job->is_ended && !job->is_cancelled;
    if (is_open && job->is_paused)
        client_look_paused(job);
    else if (is_open && !job->is_accepted)
        client_tell_queued(job);
    else if (is_open && job->is_standing)
        client_tell_paused(job, false);
    job_unhold(job);
}

static void job_head(void *context, const struct http1_head *head)
{
    struct edge_job *job = context;
    const int code = job->upstream_code = head->code;
    job_hold(job);
    job->retry_after_ms = head->retry_after_ms;
    if (code != 503)
        edge_wait_taken(job->edge->wait, job->service_class);
    bool is_sse = slice_starts_with(head->content_type, SLICE("text/event-stream"));
    job->is_foreign = head->protocol != 0 && head->protocol != EDGE_PROBE_PROTOCOL;
    if (job->is_foreign) { /* this engine started after the last health check */
        edge_wait_shut(job->edge->wait);
        edge_probe_suspect(job->edge->probe);
        edge_job_cancel(job, EDGE_CANCEL_ENGINE, FOREIGN);
    } else if (job->is_generation && code == 200 && is_sse) {
        job->is_accepted = true;
        loop_timer_disarm(job->client_timer);
        http_add_header(job->request, "x-banyan-unconstrained", head->unconstrained);
        if (job->body.is_stream && job->request != NULL && !job->is_cancelled &&
            !http_is_answered(job->request))
            head_begin_stream(job);
    } else if (job->is_generation && code == 200) {
        edge_job_cancel(job, EDGE_CANCEL_ENGINE, "The engine did not answer with a stream.");
    } else {
        size_t length = head->content_type.length;
        length = length < CONTENT_TYPE_BYTES ? length : 0;
        memcpy(job->content_type, head->content_type.bytes, length);
        if (length == 0)
            edge_settle_text(job->content_type, sizeof job->content_type, "application/json");
    }
    job_unhold(job);
}

static enum status job_chunk(void *context, struct slice rest)
{
    struct edge_job *job = context;
    if (job->access.completion_tokens == 0 && job->stream.tokens_seen != 0) {
        job->access.completion_tokens = job->stream.tokens_seen;
        job->access.first_token_us = loop_now_us(job->edge->loop);
        metric_observe(job->edge->metrics.first_token_seconds[job->service_class],
                       (double)(job->access.first_token_us - job->access.arrived_us) / 1e6);
    }
    if (job->is_cancelled && !job->quota.is_stopped)
        return STATUS_OK;
    enum edge_quota_verdict verdict = edge_quota_watch(&job->quota, job->edge, &job->stream, rest);
    if (verdict == EDGE_QUOTA_STOP)
        job_stop(job);
    if (job->assemble != NULL)
        TRY(edge_assemble_add(job->assemble, rest));
    if (verdict == EDGE_QUOTA_LOWER)
        job_lower(job);
    if (job->assemble != NULL)
        return STATUS_OK;
    if (job->request == NULL) /* the answer was stopped, and then the client left */
        return STATUS_OK;
    struct buffer *out = &job->edge->scratch;
    buffer_clear(out);
    edge_stream_append_chunk(out, rest, job->body.includes_usage);
    TRY(out->status);
    job_write(job, buffer_slice(out));
    return STATUS_OK;
}

static void job_stand(void *context, bool is_standing)
{
    struct edge_job *job = context;
    job->is_standing = is_standing;
    if (job->exchange != NULL)
        http1_exchange_stand(job->exchange, is_standing);
    if (job->assemble != NULL || job->request == NULL || job->is_cancelled || job->is_paused)
        return; /* there is no stream to tell, or client_timer watches a paused client */
    if (is_standing)
        client_tell_paused(job, true);
    else
        loop_timer_disarm(job->client_timer);
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
    } else if (!job->is_cancelled) {
        buffer_append_slice(&job->relay, bytes);
        status = job->relay.status;
    }
    if (status != STATUS_OK && !job->is_concluded) {
        bool is_too_long = status == STATUS_LIMIT && job->assemble != NULL;
        log_failure(LOG_WARN, "answer_broken");
        edge_job_cancel(job, is_too_long ? EDGE_CANCEL_TOO_LONG : EDGE_CANCEL_ENGINE,
                        is_too_long ? status_note()->message
                                    : "The engine's answer could not be understood.");
    }
    /* The engine has taken the body, so it is not sent again. */
    if (job->upstream_code != 503 && job->exchange != NULL &&
        http1_exchange_is_written(job->exchange))
        edge_hold_drop_body(&job->hold);
    if (job_book(job) != STATUS_OK && !job->is_cancelled && !job->is_concluded) {
        metric_add(job->edge->metrics.memory_share_refused, 1);
        edge_job_cancel(job, EDGE_CANCEL_MEMORY, status_note()->message);
        buffer_deinit(&job->relay); /* the client gets the failure instead */
    }
    if (job->request != NULL && !job->is_cancelled && !job->is_paused && job->exchange != NULL &&
        http_is_answered(job->request) && !job->is_concluded &&
        http_stream_pending(job->request) > LIMIT_STREAM_PENDING_BYTES)
        job_pause(job);
    job_unhold(job);
}

/* Whether the job may wait and be sent again: the engine is down, went away before it answered, or
 * said that it is full. */
static bool ended_may_wait(const struct edge_job *job, enum status status)
{
    if (job->is_accepted || job->is_cancelled || job->request == NULL || job->cuts >= CUTS_MAX)
        return false;
    return job->upstream_code == 503 ? status == STATUS_OK
                                     : job->upstream_code == 0 && status == STATUS_UNAVAILABLE;
}

/* Puts the job back into its tenant's queue, at its old place. */
static void ended_wait(struct edge_job *job)
{
    struct edge *edge = job->edge;
    bool is_own = job->upstream_code == 503 && edge_json_is_own_share(buffer_slice(&job->relay));
    if (job->upstream_code == 503) {
        if (!is_own)
            edge_wait_busy(edge->wait, job->service_class, job->retry_after_ms);
        job->sent_us = 0; /* the engine did not take it */
    } else {
        edge_wait_shut(edge->wait);
        edge_replay_suspect(edge->replay);
    }
    job->upstream_code = 0;
    buffer_clear(&job->relay);
    (void)job_book(job);
    job_wait(job);
    if (is_own) /* other tenants need not wait for it */
        edge_wait_hold(edge->wait, &job->entry, job->retry_after_ms);
}

/* The engine refuses because the deadline has passed in its queue, or would pass there. Unlike a
 * full engine's 503, this is final. */
static bool ended_is_late(struct edge_job *job, enum status status)
{
    char message[STATUS_MESSAGE_BYTES];
    if (job->upstream_code != 503 || status != STATUS_OK || job->is_cancelled ||
        !edge_json_is_error(buffer_slice(&job->relay), "queue_timeout", message, sizeof message))
        return false;
    wait_count(job, EDGE_REFUSAL_DEADLINE);
    edge_job_cancel(job, EDGE_CANCEL_DEADLINE, message);
    return true;
}

static void ended_conclude(struct edge_job *job, enum status status)
{
    job->final_us = loop_now_us(job->edge->loop);
    if (job->is_accepted) {
        job_settle(job);
        return;
    }
    if (job->upstream_code != 0 && status != STATUS_OK)
        job_fail(job, STATUS_UNAVAILABLE, "The engine ended in the middle of the answer.");
    else if (job->upstream_code == 0)
        job_fail(job, STATUS_UNAVAILABLE, "The engine is not available now; try again shortly.");
    else if (job->upstream_code == 409 && job->is_generation) /* an earlier engine had begun it */
        job_fail(job, STATUS_UNAVAILABLE, "The engine went away while it worked; try again.");
    job_conclude(job);
}

static void job_ended(void *context, enum status status)
{
    struct edge_job *job = context;
    job_hold(job);
    bool is_sent = http1_exchange_is_sent(job->exchange);
    job->exchange = NULL;
    loop_timer_disarm(job->timer);
    if (!is_sent)
        job->sent_us = 0; /* no engine can have begun it */
    if (status != STATUS_OK && is_sent && !job->stream.has_final) {
        job->cuts++;
        edge_replay_suspect(job->edge->replay);
    }
    if (job->is_concluded || ended_is_late(job, status)) {
        job_unhold(job);
        return;
    }
    if (ended_may_wait(job, status))
        ended_wait(job);
    else
        ended_conclude(job, status);
    job_unhold(job);
}

static enum status send_try(struct edge_job *job, uint32_t left_ms)
{
    static const struct http1_callbacks callbacks = {job_head, job_body, job_ended};
    struct edge_head head = {.method = http_method(job->request),
                             .path = http_path(job->request),
                             .request_id = slice_of(job->access.request_id),
                             .principal = &job->principal,
                             .service_class = job->service_class,
                             .deadline_ms = left_ms,
                             .model = job->body.has_default_model ? job->body.model : ""};
    struct slice body = edge_hold_body(&job->hold, job->request);
    struct buffer text;
    buffer_init(&text, EDGE_HEAD_BYTES_MAX);
    enum status status = edge_head_append(&text, &head);
    if (status == STATUS_OK)
        status = http1_exchange_start(job->edge->client, buffer_slice(&text), body, &callbacks, job,
                                      &job->exchange);
    buffer_deinit(&text);
    return status;
}

static uint32_t send_left_ms(const struct edge_job *job)
{
    int64_t left_ms = (job->deadline_us - loop_now_us(job->edge->loop) + 999) / 1000;
    return left_ms > 0 ? (uint32_t)left_ms : 0;
}

static void job_send(struct edge_job *job)
{
    uint32_t left_ms = send_left_ms(job);
    if (left_ms == 0) {
        edge_job_cancel(job, EDGE_CANCEL_DEADLINE, "The request reached its deadline.");
        return;
    }
    int64_t sent_before_us = job->sent_us;
    job->sent_us = loop_now_us(job->edge->loop);
    loop_timer_arm(job->timer, left_ms + DEADLINE_MARGIN_MS);
    enum status status = send_try(job, left_ms);
    if (status == STATUS_OK) {
        edge_settle_text(job->sent_model, sizeof job->sent_model,
                         edge_probe_served(job->edge->probe, job->body.model));
        if (job->sends++ != 0)
            metric_add(job->edge->metrics.sends_again, 1);
        return;
    }
    if (status == STATUS_BUSY) {
        job->sent_us = sent_before_us; /* this try has not reached an engine */
        edge_wait_busy(job->edge->wait, job->service_class, NO_CONNECTION_MS);
        job_wait(job);
        return;
    }
    job->failure = *status_note();
    job_conclude(job);
}

/* --- waiting --- */

static void wait_go(void *context)
{
    struct edge_job *job = context;
    job_hold(job);
    job_send(job);
    job_unhold(job);
}

static void wait_refused(void *context)
{
    struct edge_job *job = context;
    job_hold(job);
    job_fail(job, STATUS_UNAVAILABLE, FOREIGN);
    job_conclude(job);
    job_unhold(job);
}

/* Whether the job's turn would come after its deadline; if so, refuses it now. */
static bool wait_is_hopeless(struct edge_job *job, const struct edge_wait_who *who)
{
    char message[STATUS_MESSAGE_BYTES];
    uint32_t ms = edge_wait_estimate_ms(job->edge->wait, who);
    if (ms <= send_left_ms(job))
        return false;
    snprintf(message, sizeof message,
             "The request would wait for about %u s, longer than its deadline allows; try again "
             "later, or give it more time.",
             (ms + 999) / 1000);
    wait_count(job, EDGE_REFUSAL_DEADLINE);
    job->retry_after_ms = ms;
    edge_job_cancel(job, EDGE_CANCEL_DEADLINE, message);
    return true;
}

static void job_wait(struct edge_job *job)
{
    struct edge *edge = job->edge;
    job->has_waited = true;
    loop_timer_arm(job->timer, send_left_ms(job));
    if (edge_probe_engine(edge->probe)->state == EDGE_PROBE_FOREIGN) {
        wait_refused(job);
        return;
    }
    job->entry.go = wait_go;
    job->entry.refused = wait_refused;
    job->entry.context = job;
    struct edge_wait_who who = wait_who(job);
    if (wait_is_hopeless(job, &who))
        return;
    enum status status = edge_wait_enter(edge->wait, &job->entry, &who, job->hold.body_bytes);
    if (status == STATUS_OK)
        return;
    if (status == STATUS_QUEUE_FULL || status == STATUS_BUSY) /* not when the queue is off */
        wait_count(job, status == STATUS_QUEUE_FULL ? EDGE_REFUSAL_TENANT : EDGE_REFUSAL_ALL);
    job->failure = *status_note();
    job_conclude(job);
}

/* --- from outside --- */

static void job_gone(void *context, bool is_early)
{
    struct edge_job *job = context;
    (void)is_early; /* is_ended says whether something is left to stop */
    job_hold(job);
    job->request = NULL;
    if (!job->is_ended) {
        job->access.code = 499;
        edge_job_cancel(job, EDGE_CANCEL_CLIENT, "The client has left.");
    }
    job_unhold(job);
}

static const struct edge_stream_callbacks stream_callbacks = {job_chunk, job_stand, job_final};

/* Makes a job and reserves from its limits. `refused` has the limits' refusal, if that is why. */
static enum status start_create(struct edge_job **out, const struct edge_job_options *options,
                                struct edge_quota *refused)
{
    struct edge_job *job = mem_zalloc(1, sizeof *job);
    if (job == NULL) {
        struct edge_hold hold = options->hold;
        edge_hold_end(&hold, options->edge->memory);
        FAIL(STATUS_NO_MEMORY, "no memory for another request");
    }
    job->edge = options->edge;
    job->principal = *options->principal;
    job->access = *options->access;
    job->body = options->body;
    job->service_class = options->service_class;
    job->hold = options->hold;
    job->route = options->route;
    job->is_generation = (job->route.flags & EDGE_ROUTE_STREAMED) != 0;
    job->form = options->form;
    job->deadline_ms = options->deadline_ms;
    edge_stream_init(&job->stream, &stream_callbacks, job);
    job->stream.final.is_explained = options->is_explained;
    buffer_init(&job->relay, LIMIT_RELAYED_BYTES);
    job->deadline_us = loop_now_us(job->edge->loop) + job->deadline_ms * INT64_C(1000);
    enum status status = STATUS_OK;
    if ((job->route.flags & EDGE_ROUTE_LIMITED) != 0) {
        const struct quota_demand demand = {.tenant_id = job->principal.tenant_id,
                                            .key_id = job->principal.key_id,
                                            .model = job->body.model,
                                            .service_class = service_class_name(job->service_class),
                                            .is_text = !job->is_generation,
                                            .has_no_output = job->form == EDGE_STREAM_EMBEDDINGS,
                                            .body_bytes = job->hold.body_bytes,
                                            .output_most = job->body.output_most,
                                            .deadline_ms = job->deadline_ms};
        status = edge_quota_reserve(&job->quota, job->edge, &demand);
    }
    *refused = job->quota;
    if (job->quota.is_lowered)
        job->service_class = (enum service_class)SERVICE_CLASS_LOWEST;
    job->stream.final.service_class = job->service_class;
    if (status == STATUS_OK && job->hold.body_bytes > HTTP_BODY_KEPT)
        status = edge_hold_take_body(&job->hold, options->request);
    if (status == STATUS_OK) {
        job->timer = loop_timer_create(job->edge->loop, job_timer, job);
        job->client_timer = loop_timer_create(job->edge->loop, client_timer, job);
    }
    if (status == STATUS_OK && (job->timer == NULL || job->client_timer == NULL))
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
    struct edge_quota refused = {0};
    if (start_create(&job, options, &refused) != STATUS_OK) {
        options->access->code = http_error_of(status_note()->status)->http_code;
        edge_quota_refuse(&refused, options->request);
        edge_pace_refused(edge->pace, options->access->pace_owner, options->access->body_bytes,
                          loop_now_us(edge->loop));
        edge_access_end(options->access, &edge->metrics, loop_now_us(edge->loop));
        return;
    }
    job_hold(job);
    job->next = edge->jobs;
    if (edge->jobs != NULL)
        edge->jobs->previous = job;
    edge->jobs = job;
    metric_set(edge->metrics.jobs_running, ++edge->jobs_running);
    if (job->is_generation)
        edge_pace_began(edge->pace, job->access.pace_owner);
    job->request = options->request;
    http_on_gone(job->request, job_gone, job);
    if (job->is_generation && job->body.is_stream)
        client_arm(job, (uint32_t)edge->config->queue_commit_after_s * 1000);
    struct edge_wait_who who = wait_who(job);
    if (edge_wait_is_needed(edge->wait, &who))
        job_wait(job);
    else
        job_send(job);
    job_unhold(job);
}

void edge_job_cancel_all(struct edge *edge, const char *message)
{
    for (struct edge_job *job = edge->jobs, *next; job != NULL; job = next) {
        next = job->next;
        edge_job_cancel(job, EDGE_CANCEL_SHUTDOWN, message);
    }
}

void edge_job_stop_closed(struct edge *edge)
{
    struct tenant tenant;
    for (struct edge_job *job = edge->jobs, *next; job != NULL; job = next) {
        next = job->next;
        enum status status =
            tenants_get(auth_tenants(edge->auth), slice_of(job->principal.tenant_id), &tenant);
        if (status == STATUS_OK && tenant.state != TENANT_ACTIVE)
            edge_job_cancel(job, EDGE_CANCEL_TENANT, "The tenant of this request was suspended.");
    }
}

static struct edge_job *job_find(const struct edge *edge, const char *request_id)
{
    struct edge_job *job = edge->jobs;
    while (job != NULL && strcmp(job->access.request_id, request_id) != 0)
        job = job->next;
    return job;
}

static const char *list_state(const struct edge_job *job)
{
    if (job->is_cancelled || job->is_concluded)
        return "ending";
    if (job->is_accepted)
        return job->is_standing ? "paused" : "streaming";
    return job->exchange != NULL ? "sent" : "held";
}

static void list_show(const struct edge_job *job, struct edge_job_info *out)
{
    const struct edge_final *final = &job->stream.final;
    *out = (struct edge_job_info){.route = job->access.route,
                                  .service_class = job->service_class,
                                  .state = list_state(job),
                                  .is_stream = job->body.is_stream,
                                  .prompt_tokens = final->prompt_tokens,
                                  .cached_tokens = final->cached_tokens,
                                  .completion_tokens = job->stream.tokens_seen,
                                  .age_us = loop_now_us(job->edge->loop) - job->access.arrived_us};
    edge_settle_text(out->id, sizeof out->id, job->access.request_id);
    edge_settle_text(out->tenant_id, sizeof out->tenant_id, job->principal.tenant_id);
    edge_settle_text(out->key_id, sizeof out->key_id, job->principal.key_id);
}

/* edge->jobs has the newest job first, so the places in `out` are filled from the end. */
size_t edge_job_list(const struct edge *edge, struct edge_job_info *out, size_t count)
{
    size_t total = 0;
    for (const struct edge_job *job = edge->jobs; job != NULL; job = job->next)
        total += job->is_generation ? 1 : 0;
    size_t place = total;
    for (const struct edge_job *job = edge->jobs; job != NULL; job = job->next) {
        if (job->is_generation && --place < count)
            list_show(job, &out[place]);
    }
    return total;
}

bool edge_job_look(const struct edge *edge, const char *request_id, struct edge_job_info *out)
{
    const struct edge_job *job = job_find(edge, request_id);
    bool is_there = job != NULL && job->is_generation && !job->is_concluded;
    if (is_there)
        list_show(job, out);
    return is_there;
}

bool edge_job_stop(struct edge *edge, const char *request_id)
{
    struct edge_job *job = job_find(edge, request_id);
    if (job == NULL || job->is_cancelled || job->is_concluded)
        return false;
    edge_job_cancel(job, EDGE_CANCEL_ADMIN, "The request was cancelled by an administrator.");
    return true;
}

bool edge_job_expects(const struct edge *edge, const char *request_id)
{
    const struct edge_job *job = job_find(edge, request_id);
    return job != NULL && (job->exchange != NULL || job->is_committing);
}

void edge_job_refuse(struct edge *edge, const char *request_id)
{
    struct edge_job *job = job_find(edge, request_id);
    if (job == NULL || job->entry.client == NULL)
        return;
    job_hold(job);
    edge_wait_leave(edge->wait, &job->entry);
    job_fail(job, STATUS_UNAVAILABLE, "The engine went away while it worked; try again.");
    job_conclude(job);
    job_unhold(job);
}

void edge_job_free_all(struct edge *edge)
{
    for (struct edge_job *job; (job = edge->jobs) != NULL;) {
        edge->jobs = job->next;
        job_free(job);
    }
    edge->jobs_running = 0;
}
