#include "gateway/adapter/adapter.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "config/base/clock.h"
#include "config/base/limits_upstream.h"
#include "config/base/log.h"
#include "config/base/mem.h"
#include "config/base/utf8.h"
#include "gateway/adapter/adapter_body.h"
#include "gateway/adapter/adapter_ghosts.h"
#include "gateway/adapter/adapter_probe.h"
#include "gateway/adapter/adapter_stream.h"
#include "gateway/upstream/http1_client.h"
#include "gateway/upstream/upstream_url.h"

enum {
    BODY_BYTES_MAX = 64 * 1024 * 1024,
    REQUESTS_DEFAULT = 64,
    HEAD_BYTES = LIMIT_UPSTREAM_KEY_BYTES + 1024,
    HOST_BYTES = 256,
    DONE_US = 1000000,   /* a server has so long to close its answer after [DONE] */
    TOKENS_OVER = 16,    /* more than tokens_max: some servers count end tokens too */
    RETRY_MS = 50,       /* when a request may come again that the server has no room for */
    BYTES_PER_TOKEN = 4, /* of common texts, for counts that a server did not tell */
    ECHO_BYTES = 16384,  /* of an echoed prompt in one event */
};

/* An event that waits for the face. */
struct item {
    struct item *next;
    struct request *request;
    enum engine_event_kind kind;
    uint32_t choice;
    uint32_t tokens_so_far;
    enum source_channel channel;
    uint32_t call;
    enum engine_finish finish;
    struct adapter_piece *piece; /* the token; NULL: it is not known */
    uint64_t text_offset;        /* of the token, in characters */
    size_t bytes;
    char text[];
};

/* One choice: a request of its own at the server. */
struct choice {
    struct request *request;
    uint32_t index;
    struct http1_exchange *exchange; /* NULL before it begins and after its end */
    struct adapter_stream stream;
    struct buffer body;   /* must stay until it is sent */
    struct buffer answer; /* of another code than 200 */
    int code;             /* 0 before the head came */
    uint32_t pieces;      /* parts of the answer */
    uint32_t tokens;      /* as counted so far */
    int64_t told;         /* by the last frame that had a completion count; -1: none had */
    uint32_t guessed;     /* parts since that frame, each counted as one token */
    uint32_t outstanding; /* events that the consumer has not acknowledged */
    size_t waiting_bytes; /* of their texts */
    size_t text_bytes;    /* of the answer */
    uint64_t characters;  /* of the tokens that were told */
    int64_t done_us;      /* when [DONE] came; 0 = not yet */
    bool is_endless;      /* it goes on behind the most tokens that were asked for */
    bool is_standing;     /* the head came, but no event: it may compute the prompt for minutes */
    bool is_paused;
    bool is_over;
};

struct request {
    struct request *next, *previous;
    struct adapter *adapter;
    engine_request_id id;
    void *context;
    int64_t deadline_us;
    int64_t started_us;
    int64_t first_us; /* of the first part of the answer; 0 = none yet */
    size_t prompt_bytes;
    struct buffer echo;    /* the prompt, if it is wanted before the answer */
    uint32_t top_logprobs; /* that were asked for: servers may tell more */
    uint32_t tokens_max;   /* of each choice; 0 = the context's */
    bool has_prompt;       /* the server has told the prompt's tokens */
    enum service_class service_class;
    struct engine_report report;
    struct error_note note; /* why it failed */
    enum source_fault fault;
    bool may_go_elsewhere;
    bool is_estimated;
    bool has_started;
    bool is_failed;
    enum engine_finish cut; /* why its choices were cut; NONE = they were not */
    uint32_t live;          /* choices that are not over */
    uint32_t tokens_told;   /* in events: a count that is corrected downwards is not told again */
    uint32_t choice_count;
    struct choice choices[];
};

struct adapter {
    struct source source;
    struct adapter_facts facts;
    char model_name[LIMIT_NAME_BYTES];
    char head[HEAD_BYTES]; /* everything behind the path of a request */
    char prefix[LIMIT_NAME_BYTES];
    struct http1_client *client;
    struct adapter_ghosts *ghosts;
    bool accepts_shared;
    struct loop_timer *timer; /* looks at deadlines while there are requests */
    struct request *requests;
    uint32_t request_count, requests_max;
    engine_request_id next_id;
    struct item *first, **last;
    struct item *told; /* the event that the consumer has: freed at its next call */
    uint64_t prompt_tokens, completion_tokens;
    int64_t created_s;
    void (*wake)(void *context);
    void *wake_context;
};

static struct adapter *adapter_of(const struct source *source)
{
    return (struct adapter *)(uintptr_t)(const void *)source;
}

/* --- events -------------------------------------------------------------------------------- */

static struct item *item_add(struct request *request, enum engine_event_kind kind, uint32_t choice,
                             struct slice text)
{
    struct adapter *adapter = request->adapter;
    struct item *item = mem_alloc(sizeof *item + text.length);
    ASSERT(item != NULL);
    *item = (struct item){.request = request, .kind = kind, .choice = choice, .bytes = text.length};
    if (text.length > 0)
        memcpy(item->text, text.bytes, text.length);
    uint32_t tokens = 0;
    for (uint32_t i = 0; i < request->choice_count; i++)
        tokens += request->choices[i].tokens;
    if (tokens > request->tokens_told)
        request->tokens_told = tokens;
    item->tokens_so_far = request->tokens_told;
    *adapter->last = item;
    adapter->last = &item->next;
    adapter->wake(adapter->wake_context);
    return item;
}

static void request_free(struct request *request)
{
    struct adapter *adapter = request->adapter;
    if (request->previous != NULL)
        request->previous->next = request->next;
    else
        adapter->requests = request->next;
    if (request->next != NULL)
        request->next->previous = request->previous;
    adapter->request_count--;
    buffer_deinit(&request->echo);
    for (uint32_t i = 0; i < request->choice_count; i++) {
        adapter_stream_deinit(&request->choices[i].stream);
        buffer_deinit(&request->choices[i].body);
        buffer_deinit(&request->choices[i].answer);
    }
    mem_free(request);
}

/* Frees the event that the consumer had, and with a request's last event the request. */
static void told_free(struct adapter *adapter)
{
    struct item *item = adapter->told;
    adapter->told = NULL;
    if (item == NULL)
        return;
    if (item->kind == ENGINE_EVENT_END || item->kind == ENGINE_EVENT_ERROR)
        request_free(item->request);
    mem_free(item->piece);
    mem_free(item);
}

/* Ids of alternatives are not known. They only have to tell the token of the answer from others. */
static void next_piece(const struct item *item, struct source_event *out)
{
    const struct adapter_piece *piece = item->piece;
    struct engine_event *event = &out->engine;
    event->text_offset = item->text_offset;
    out->has_id = piece != NULL && piece->has_id;
    out->has_logprob = piece != NULL && piece->has_logprob;
    if (piece == NULL)
        return;
    event->token = piece->id;
    event->logprob = piece->logprob;
    out->bytes = piece->bytes;
    for (uint32_t i = 0; i < piece->top_count && event->top_count < item->request->top_logprobs;
         i++) {
        const struct slice bytes = piece->top[i].bytes;
        const bool is_same = bytes.length == piece->bytes.length &&
                             memcmp(bytes.bytes, piece->bytes.bytes, bytes.length) == 0;
        out->top_bytes[event->top_count] = bytes;
        event->top[event->top_count].logprob = piece->top[i].logprob;
        event->top[event->top_count++].token = is_same ? piece->id : piece->id + 1 + i;
    }
}

static bool adapter_next(struct source *source, struct source_event *out)
{
    struct adapter *adapter = adapter_of(source);
    told_free(adapter);
    struct item *item = adapter->first;
    if (item == NULL)
        return false;
    adapter->first = item->next;
    if (adapter->first == NULL)
        adapter->last = &adapter->first;
    adapter->told = item;
    const struct request *request = item->request;
    out->channel = item->channel;
    out->call = item->call;
    out->bytes = (struct slice){0};
    out->is_estimated = request->is_estimated;
    out->fault = request->fault;
    out->may_go_elsewhere = request->may_go_elsewhere;
    if (item->kind == ENGINE_EVENT_START)
        out->is_estimated = !request->has_prompt || !adapter->facts.kind->has_counts ||
                            adapter->facts.kind->has_late_cached;
    struct engine_event *event = &out->engine;
    event->kind = item->kind;
    event->id = request->id;
    event->context = request->context;
    event->choice = item->choice;
    event->tokens_so_far = item->tokens_so_far;
    event->token = 0;
    event->top_count = 0;
    event->text = (struct slice){item->text, item->bytes};
    event->is_mark = false;
    event->is_in_reasoning = false;
    memset(event->unconstrained, 0, sizeof event->unconstrained);
    event->finish = item->finish;
    event->report = request->report;
    event->note = request->note;
    next_piece(item, out);
    return true;
}

/* --- the course of a request --------------------------------------------------------------- */

static uint32_t tokens_of(size_t bytes)
{
    return (uint32_t)((bytes + BYTES_PER_TOKEN - 1) / BYTES_PER_TOKEN);
}

/* Puts what the server has told so far into the report. All choices have one prompt; what was found
 * in the cache counts for the first, because the others find what it has left there. */
static void report_counts(struct request *request, const struct choice *choice)
{
    const struct adapter_counts *counts = &choice->stream.counts;
    if (counts->prompt > 0) {
        request->has_prompt = true;
        request->report.prompt_tokens = (uint32_t)counts->prompt;
    }
    if (choice->index == 0 && counts->cached >= 0 && counts->cached <= counts->prompt) {
        request->report.cached_tokens = (uint32_t)counts->cached;
        request->report.cached_own = (uint32_t)counts->cached;
    }
}

/* Tells the prompt's text in parts that end between characters. */
static void request_echo(struct request *request, uint32_t choice)
{
    struct slice left = buffer_slice(&request->echo);
    while (left.length > 0) {
        size_t length = left.length < ECHO_BYTES ? left.length : ECHO_BYTES;
        if (length < left.length)
            length -= utf8_incomplete_tail(left.bytes, length);
        struct item *item =
            item_add(request, ENGINE_EVENT_PROMPT, choice, (struct slice){left.bytes, length});
        item->channel = SOURCE_CONTENT;
        left = (struct slice){left.bytes + length, left.length - length};
    }
}

static void request_start(struct request *request)
{
    if (request->has_started)
        return;
    request->has_started = true;
    if (!request->has_prompt)
        request->report.prompt_tokens = tokens_of(request->prompt_bytes);
    item_add(request, ENGINE_EVENT_START, 0, (struct slice){0});
    for (uint32_t i = 0; i < request->choice_count && request->echo.length > 0; i++)
        request_echo(request, i);
}

/* Fills in what the server did not tell. */
static void request_complete(struct request *request)
{
    struct engine_report *report = &request->report;
    const int64_t now_us = clock_mono_us(clock_system());
    report->completion_tokens = 0;
    report->reasoning_tokens = 0;
    for (uint32_t i = 0; i < request->choice_count; i++) {
        const struct choice *choice = &request->choices[i];
        report->completion_tokens += choice->tokens;
        if (choice->stream.counts.reasoning > 0)
            report->reasoning_tokens += (uint32_t)choice->stream.counts.reasoning;
    }
    /* Some servers count reasoning beside the answer; here it is a part of it. */
    if (report->reasoning_tokens > report->completion_tokens)
        report->reasoning_tokens = report->completion_tokens;
    if (report->cached_tokens > report->prompt_tokens)
        report->cached_tokens = report->cached_own = report->prompt_tokens;
    request->is_estimated = request->is_estimated || !request->has_prompt;
    report->prefill_us = request->first_us > 0 ? request->first_us - request->started_us : 0;
    report->decode_us = request->first_us > 0 ? now_us - request->first_us : 0;
    report->service_class = request->service_class;
    request->adapter->prompt_tokens += report->prompt_tokens;
    request->adapter->completion_tokens += report->completion_tokens;
}

static void request_end(struct request *request)
{
    if (request->live > 0)
        return;
    if (!request->has_started) {
        item_add(request, ENGINE_EVENT_ERROR, 0, (struct slice){0});
        return;
    }
    request_complete(request);
    item_add(request, ENGINE_EVENT_END, 0, (struct slice){0});
}

static void choice_over(struct choice *choice, enum engine_finish finish)
{
    struct request *request = choice->request;
    ASSERT(!choice->is_over);
    choice->is_over = true;
    request->report.finish = finish;
    if (request->has_started)
        item_add(request, ENGINE_EVENT_CHOICE_END, choice->index, (struct slice){0})->finish =
            finish;
    request->live--;
    request_end(request);
}

/* Ends the choices that still run. `finish` says why. */
static void request_cut(struct request *request, enum engine_finish finish)
{
    if (request->cut != ENGINE_FINISH_NONE)
        return;
    request->cut = finish;
    for (uint32_t i = 0; i < request->choice_count && finish != ENGINE_FINISH_ERROR; i++) {
        const struct http1_exchange *exchange = request->choices[i].exchange;
        if (exchange != NULL && http1_exchange_is_sent(exchange))
            request_start(request); /* the server computes: the prompt counts, as with an engine */
    }
    for (uint32_t i = 0; i < request->choice_count; i++) {
        struct choice *choice = &request->choices[i];
        if (!choice->is_over && choice->exchange != NULL)
            http1_exchange_cancel(choice->exchange); /* on_ended counts it */
    }
}

static void request_fail(struct request *request, enum status status, const char *message)
{
    if (request->is_failed)
        return;
    request->is_failed = true;
    (void)status_fail(status, __FILE__, __LINE__, NULL, "%s", message);
    request->note = *status_note();
}

/* --- the answer of the server -------------------------------------------------------------- */

/* A count that a frame repeats says nothing new. */
static void take_counts(struct choice *choice)
{
    const int64_t told = choice->stream.counts.completion;
    report_counts(choice->request, choice);
    if (told < 0 || told == choice->told)
        return;
    const uint32_t most = choice->request->tokens_max;
    choice->is_endless = choice->is_endless || (most > 0 && told > (int64_t)most + TOKENS_OVER);
    choice->told = told;
    choice->tokens = (uint32_t)told;
    choice->guessed = 0;
}

static uint64_t characters_of(struct slice bytes)
{
    uint64_t count = 0;
    for (size_t i = 0; i < bytes.length; i++)
        count += ((unsigned char)bytes.bytes[i] & 0xc0) != 0x80;
    return count;
}

/* Copies a piece, whose slices point into the frame. */
static struct adapter_piece *piece_copy(const struct adapter_piece *from)
{
    const size_t head = offsetof(struct adapter_piece, storage);
    size_t bytes = from->bytes.length;
    for (uint32_t i = 0; i < from->top_count; i++)
        bytes += from->top[i].bytes.length;
    struct adapter_piece *piece = mem_alloc(head + bytes);
    ASSERT(piece != NULL);
    memcpy(piece, from, head);
    piece->used = 0;
    for (uint32_t i = 0; i <= from->top_count; i++) {
        struct slice *slice = i == 0 ? &piece->bytes : &piece->top[i - 1].bytes;
        if (slice->length == 0)
            continue;
        memcpy(piece->storage + piece->used, slice->bytes, slice->length);
        slice->bytes = piece->storage + piece->used;
        piece->used += slice->length;
    }
    return piece;
}

static void on_part(void *context, const struct adapter_part *part)
{
    struct choice *choice = context;
    struct request *request = choice->request;
    choice->pieces++;
    choice->text_bytes += part->text.length;
    if (!choice->request->adapter->facts.kind->has_counts) {
        choice->tokens++; /* the last frame says how many they really were */
        choice->guessed++;
    }
    take_counts(choice);
    if (request->first_us == 0)
        request->first_us = clock_mono_us(clock_system());
    request_start(request);
    struct item *item = item_add(request, ENGINE_EVENT_TOKEN, choice->index, part->text);
    item->channel = part->channel;
    item->call = part->call;
    item->text_offset = choice->characters;
    if (part->piece != NULL) {
        item->piece = piece_copy(part->piece);
        choice->characters += characters_of(part->piece->bytes);
    }
    choice->outstanding++;
    choice->waiting_bytes += part->text.length + (item->piece != NULL ? item->piece->used : 0);
    if ((choice->outstanding >= LIMIT_UNDELIVERED_TOKENS ||
         choice->waiting_bytes >= LIMIT_UPSTREAM_EVENT_BYTES) &&
        !choice->is_paused && choice->exchange != NULL) {
        choice->is_paused = true;
        http1_exchange_pause(choice->exchange);
    }
}

static void on_frame(void *context)
{
    struct choice *choice = context;
    if (choice->is_standing && choice->exchange != NULL) {
        choice->is_standing = false;
        http1_exchange_stand(choice->exchange, false);
    }
    take_counts(choice);
}

static const struct adapter_stream_callbacks stream_callbacks = {on_part, on_frame};

static void on_head(void *context, const struct http1_head *head)
{
    static const struct slice wanted = {"text/event-stream", 17};
    struct choice *choice = context;
    choice->code = head->code;
    if (head->code == 200 && !slice_starts_with(head->content_type, wanted)) {
        request_fail(choice->request, STATUS_PROTOCOL,
                     "The engine answered in a form that this server does not know.");
        http1_exchange_cancel(choice->exchange);
    } else if (head->code == 200) {
        choice->is_standing = true;
        http1_exchange_stand(choice->exchange, true);
    }
}

static void on_body(void *context, struct slice bytes)
{
    struct choice *choice = context;
    if (choice->body.bytes != NULL && http1_exchange_is_written(choice->exchange))
        buffer_deinit(&choice->body); /* not read any more */
    if (choice->code != 200) {
        buffer_append_slice(&choice->answer, bytes);
        if (choice->answer.status != STATUS_OK)
            http1_exchange_cancel(choice->exchange);
        return;
    }
    enum status status = adapter_stream_feed(&choice->stream, bytes);
    if (status == STATUS_OK && choice->stream.is_done && choice->done_us == 0)
        choice->done_us = clock_mono_us(clock_system());
    if (status == STATUS_OK && choice->is_endless)
        status = status_fail(STATUS_PROTOCOL, __FILE__, __LINE__, NULL,
                             "the engine goes on behind the most tokens that were asked for");
    if (status == STATUS_OK)
        return;
    log_failure(LOG_WARN, "upstream_answer");
    request_fail(choice->request, STATUS_PROTOCOL, "The engine did not finish the answer.");
    if (choice->exchange != NULL)
        http1_exchange_cancel(choice->exchange);
}

/* What a refusal means for the client. The server's own words stay here: they may quote a
 * prompt. */
static void refused(struct choice *choice)
{
    const struct buffer *answer = &choice->answer;
    struct request *request = choice->request;
    static const char *const marks[] = {"exceed_context_size_error", "maximum context length"};
    const bool is_door = choice->code == 401 || choice->code == 403 || choice->code == 404;
    LOG(LOG_WARN, "upstream_refused", LOG_NUMBER("code", choice->code));
    if (choice->code == 400 || choice->code == 422) {
        for (size_t i = 0; i < sizeof marks / sizeof marks[0] && answer->length > 0; i++) {
            if (memmem(answer->bytes, answer->length, marks[i], strlen(marks[i])) == NULL)
                continue;
            request_fail(request, STATUS_CONTEXT_LENGTH,
                         "The prompt and the answer do not fit the model's context.");
            return;
        }
        request_fail(request, STATUS_INVALID, "The engine of this model refused the request.");
    } else if (choice->code == 429 || choice->code == 503) {
        request->fault = SOURCE_FULL;
        request->may_go_elsewhere = true;
        request_fail(request, STATUS_BUSY, "The engine of this model has no room now.");
    } else if (choice->code >= 400 && choice->code < 500 && !is_door) {
        /* A request alone can bring these about (413, 415, 431), so they say nothing of the server:
         * otherwise one tenant could have it put aside for all. */
        request_fail(request, STATUS_INVALID, "The engine of this model refused the request.");
    } else {
        /* UNAVAILABLE is sent again. A request that breaks the server must not be. */
        request->fault = SOURCE_BROKEN;
        request->may_go_elsewhere = is_door;
        request_fail(request, is_door ? STATUS_UNAVAILABLE : STATUS_PROTOCOL,
                     "The engine of this model cannot answer now.");
    }
}

static enum engine_finish finish_of(struct choice *choice, enum status status, bool is_sent)
{
    struct request *request = choice->request;
    const struct adapter_stream *stream = &choice->stream;
    if (request->cut != ENGINE_FINISH_NONE)
        return request->cut;
    if (choice->code != 0 && choice->code != 200) {
        refused(choice);
        return ENGINE_FINISH_ERROR;
    }
    if (!request->is_failed && stream->finish != ENGINE_FINISH_NONE &&
        stream->finish != ENGINE_FINISH_ERROR)
        return stream->finish; /* the answer is whole, however the connection ended */
    request->fault = is_sent ? SOURCE_BROKEN : SOURCE_GONE;
    request->may_go_elsewhere = !request->is_failed && choice->pieces == 0;
    LOG(LOG_WARN, "upstream_cut", LOG_NUMBER("status", status),
        LOG_NUMBER("parts", choice->pieces));
    request_fail(request, is_sent ? STATUS_PROTOCOL : STATUS_UNAVAILABLE,
                 status == STATUS_DEADLINE ? "The engine of this model has stopped answering."
                                           : "The engine of this model is not there now.");
    return ENGINE_FINISH_ERROR;
}

static void on_ended(void *context, enum status status)
{
    struct choice *choice = context;
    struct request *request = choice->request;
    const bool is_sent = http1_exchange_is_sent(choice->exchange);
    choice->exchange = NULL;
    enum engine_finish finish = finish_of(choice, status, is_sent);
    if (is_sent && choice->stream.finish == ENGINE_FINISH_NONE &&
        (status == STATUS_CANCELLED || status == STATUS_DEADLINE))
        adapter_ghosts_add(request->adapter->ghosts); /* closed from here, and not finished */
    if (choice->stream.counts.completion < 0 && choice->tokens < tokens_of(choice->text_bytes))
        choice->tokens = tokens_of(choice->text_bytes);
    if (finish == ENGINE_FINISH_STOP || finish == ENGINE_FINISH_LENGTH)
        request_start(request); /* an answer without text */
    const struct adapter_counts *counts = &choice->stream.counts;
    if (counts->completion < 0 || choice->guessed > 0 ||
        (finish != ENGINE_FINISH_STOP && finish != ENGINE_FINISH_LENGTH && counts->cached < 0 &&
         request->adapter->facts.kind->has_late_cached))
        request->is_estimated = true;
    if (finish == ENGINE_FINISH_ERROR)
        request_cut(request, ENGINE_FINISH_ERROR);
    choice_over(choice, finish);
}

static const struct http1_callbacks callbacks = {on_head, on_body, on_ended};

/* --- requests ------------------------------------------------------------------------------ */

static enum status choice_begin(struct choice *choice, const struct engine_request *request)
{
    struct adapter *adapter = choice->request->adapter;
    char head[HEAD_BYTES + LIMIT_NAME_BYTES + 64];
    int length = snprintf(head, sizeof head, "POST %s%s HTTP/1.1\r\n%s", adapter->prefix,
                          request->prompt_kind == ENGINE_PROMPT_CHAT ? "/v1/chat/completions"
                                                                     : "/v1/completions",
                          adapter->head);
    adapter_body_write(adapter->facts.kind, request, choice->index, adapter->facts.model,
                       &choice->body);
    if (choice->body.status != STATUS_OK)
        FAIL(choice->body.status, "the request to the engine is too long");
    return http1_exchange_start(adapter->client, (struct slice){head, (size_t)length},
                                buffer_slice(&choice->body), &callbacks, choice, &choice->exchange);
}

static struct request *request_create(struct adapter *adapter, const struct engine_request *from)
{
    struct request *request =
        mem_zalloc(1, sizeof *request + from->choices * sizeof request->choices[0]);
    if (request == NULL)
        return NULL;
    request->adapter = adapter;
    request->id = ++adapter->next_id;
    request->context = from->context;
    request->deadline_us = from->deadline_us;
    request->started_us = clock_mono_us(clock_system());
    request->service_class = from->service_class;
    request->choice_count = from->choices;
    request->live = from->choices;
    request->tokens_max = from->tokens_max;
    request->top_logprobs = from->top_logprobs;
    buffer_init(&request->echo, BODY_BYTES_MAX);
    if (from->echo)
        buffer_append_slice(&request->echo, from->text);
    request->prompt_bytes =
        from->text.length + from->inputs.tools.length + from->inputs.documents.length;
    for (size_t i = 0; i < from->message_count; i++)
        request->prompt_bytes += from->messages[i].content.length + from->messages[i].json.length;
    for (uint32_t i = 0; i < from->choices; i++) {
        struct choice *choice = &request->choices[i];
        choice->request = request;
        choice->index = i;
        choice->told = -1;
        buffer_init(&choice->body, BODY_BYTES_MAX);
        buffer_init(&choice->answer, LIMIT_UPSTREAM_EVENT_BYTES);
        adapter_stream_init(&choice->stream, adapter->facts.kind, &stream_callbacks, choice);
    }
    request->next = adapter->requests;
    if (request->next != NULL)
        request->next->previous = request;
    adapter->requests = request;
    adapter->request_count++;
    return request;
}

static enum status adapter_submit(struct source *source, const struct engine_request *from,
                                  engine_request_id *out)
{
    struct adapter *adapter = adapter_of(source);
    TRY(adapter_body_check(adapter->facts.kind, from, adapter->accepts_shared));
    if (from->is_published)
        FAIL(STATUS_UNSUPPORTED, "The engine of this model keeps no published prompts.");
    /* The gauge may count other callers of the server. So one tenant that leaves many requests does
     * not take the whole window from the others. */
    uint32_t running = adapter_ghosts_count(adapter->ghosts);
    if (running > adapter->requests_max / 2)
        running = adapter->requests_max / 2;
    bool has_own = false; /* earlier prompts of this request: it runs whole, or not at all */
    for (const struct request *one = adapter->requests; one != NULL; one = one->next) {
        running += one->live;
        has_own = has_own || (one->context == from->context && one->live > 0);
    }
    if (!has_own && running > 0 && running + from->choices > adapter->requests_max) {
        enum status status = status_fail(STATUS_BUSY, __FILE__, __LINE__, NULL,
                                         "The engine of this model has no room now.");
        status_note_retry(RETRY_MS);
        return status;
    }
    struct request *request = request_create(adapter, from);
    if (request == NULL)
        FAIL(STATUS_NO_MEMORY, "no memory for a request");
    *out = request->id;
    for (uint32_t i = 0; i < from->choices; i++) {
        if (choice_begin(&request->choices[i], from) == STATUS_OK)
            continue;
        /* Choices that have begun are cut; the last event says why. */
        request_fail(request, STATUS_UNAVAILABLE, "The engine of this model cannot answer now.");
        request_cut(request, ENGINE_FINISH_ERROR);
        for (uint32_t j = i; j < from->choices; j++)
            choice_over(&request->choices[j], ENGINE_FINISH_ERROR);
        break;
    }
    if (adapter->request_count == 1) /* else it is armed */
        loop_timer_arm(adapter->timer, LIMIT_UPSTREAM_LOOK_MS);
    return STATUS_OK;
}

static struct request *request_find(const struct adapter *adapter, engine_request_id id)
{
    struct request *request = adapter->requests;
    while (request != NULL && request->id != id)
        request = request->next;
    return request;
}

static void adapter_cancel(struct source *source, engine_request_id id)
{
    struct request *request = request_find(adapter_of(source), id);
    if (request == NULL || request->live == 0)
        return;
    request_fail(request, STATUS_CANCELLED, "The request was cancelled.");
    request_cut(request, ENGINE_FINISH_CANCELLED);
}

static void adapter_lower(struct source *source, engine_request_id id)
{
    struct request *request = request_find(adapter_of(source), id);
    if (request != NULL)
        request->service_class = (enum service_class)SERVICE_CLASS_LOWEST;
}

static void adapter_acknowledge(struct source *source, engine_request_id id, uint32_t index,
                                uint32_t tokens)
{
    struct request *request = request_find(adapter_of(source), id);
    if (request == NULL)
        return;
    struct choice *choice = &request->choices[index];
    choice->outstanding -= tokens < choice->outstanding ? tokens : choice->outstanding;
    if (choice->outstanding == 0)
        choice->waiting_bytes = 0;
    if (choice->is_paused && choice->outstanding < LIMIT_UNDELIVERED_TOKENS / 2 &&
        choice->waiting_bytes < LIMIT_UPSTREAM_EVENT_BYTES) {
        choice->is_paused = false;
        if (choice->exchange != NULL)
            http1_exchange_resume(choice->exchange);
    }
}

/* Ends the choices whose server is silent for too long before the first event, or does not close
 * behind the last one. */
static void look_at_choices(struct request *request, int64_t now_us)
{
    for (uint32_t i = 0; i < request->choice_count; i++) {
        struct choice *choice = &request->choices[i];
        const bool is_late = choice->is_standing &&
                             now_us - request->started_us > LIMIT_UPSTREAM_HEAD_MS * INT64_C(1000);
        const bool is_open = choice->done_us != 0 && now_us - choice->done_us > DONE_US;
        if (choice->exchange != NULL && (is_late || is_open))
            http1_exchange_cancel(choice->exchange);
    }
}

static void look_at_deadlines(void *context)
{
    struct adapter *adapter = context;
    const int64_t now_us = clock_mono_us(clock_system());
    struct request *next;
    for (struct request *request = adapter->requests; request != NULL; request = next) {
        next = request->next;
        look_at_choices(request, now_us);
        if (request->live == 0 || request->deadline_us == 0 || request->deadline_us > now_us)
            continue;
        request_fail(request, STATUS_DEADLINE, "The request took longer than its deadline.");
        request_cut(request, ENGINE_FINISH_DEADLINE);
    }
    if (adapter->requests != NULL)
        loop_timer_arm(adapter->timer, LIMIT_UPSTREAM_LOOK_MS);
}

/* --- figures ------------------------------------------------------------------------------- */

/* Requests that have been sent and have not ended: what the server may be computing for us. */
static uint32_t running_now(void *context)
{
    const struct adapter *adapter = context;
    uint32_t count = 0;
    for (const struct request *one = adapter->requests; one != NULL; one = one->next) {
        for (uint32_t i = 0; i < one->choice_count; i++)
            count += one->choices[i].exchange != NULL &&
                     http1_exchange_is_sent(one->choices[i].exchange);
    }
    return count;
}

static void adapter_info(const struct source *source, struct engine_info *out)
{
    const struct adapter *adapter = adapter_of(source);
    *out = (struct engine_info){.model_name = adapter->model_name,
                                .context = adapter->facts.context,
                                .vocab = INT32_MAX, /* the server judges ids */
                                .isa = adapter->facts.kind->name,
                                .created_wall_s = adapter->created_s,
                                .ranks = 1};
}

static bool adapter_has_failed(const struct source *source)
{
    (void)source;
    return false; /* each request finds out by itself whether the server is there */
}

static void adapter_stats(const struct source *source, struct engine_stats *out)
{
    const struct adapter *adapter = adapter_of(source);
    *out = (struct engine_stats){.requests = adapter->request_count,
                                 .tokens_prompt = adapter->prompt_tokens,
                                 .tokens_generated = adapter->completion_tokens};
    for (const struct request *one = adapter->requests; one != NULL; one = one->next) {
        out->sequences_running += one->live;
        out->by_class[one->service_class].running += one->live;
    }
}

static size_t adapter_requests(const struct source *source, struct engine_request_info *out,
                               size_t count)
{
    size_t at = 0;
    const struct request *one = adapter_of(source)->requests;
    for (; one != NULL && at < count; one = one->next, at++)
        out[at] = (struct engine_request_info){.id = one->id,
                                               .state = one->has_started ? ENGINE_REQUEST_DECODE
                                                                         : ENGINE_REQUEST_PREFILL,
                                               .prompt_tokens = one->report.prompt_tokens};
    return at;
}

static size_t adapter_requests_max(const struct source *source)
{
    (void)source;
    return LIMIT_UPSTREAM_REQUESTS;
}

/* --- open and close ------------------------------------------------------------------------ */

static void adapter_close(struct source *source)
{
    struct adapter *adapter = adapter_of(source);
    if (adapter->client != NULL)
        http1_client_destroy(adapter->client); /* ends what runs */
    while (adapter->told != NULL || adapter->first != NULL) {
        struct source_event event;
        adapter_next(source, &event);
    }
    ASSERT(adapter->requests == NULL);
    adapter_ghosts_destroy(adapter->ghosts);
    loop_timer_destroy(adapter->timer);
    mem_free(adapter);
}

static enum status door_prefix(char prefix[LIMIT_NAME_BYTES], const struct upstream_url *url)
{
    struct slice path = slice_of(url->path);
    if (memchr(path.bytes, '?', path.length) != NULL)
        FAIL(STATUS_INVALID, "--upstream: the URL has a query; it is http://HOST:PORT[/PREFIX]");
    while (path.length > 0 && path.bytes[path.length - 1] == '/')
        path.length--;
    if (path.length >= 3 && memcmp(path.bytes + path.length - 3, "/v1", 3) == 0)
        path.length -= 3; /* as clients of OpenAI's API are told their base */
    if (path.length >= LIMIT_NAME_BYTES)
        FAIL(STATUS_INVALID, "--upstream: the path is too long");
    snprintf(prefix, LIMIT_NAME_BYTES, "%.*s", (int)path.length, path.bytes);
    return STATUS_OK;
}

/* What every request to a server needs of its options. */
struct door {
    struct upstream_url url;
    char origin[HOST_BYTES + 32];
    char key[LIMIT_UPSTREAM_KEY_BYTES + 32]; /* a header's line, or "" */
    char prefix[LIMIT_NAME_BYTES];
};

static enum status door_read(struct door *door, const struct adapter_options *options)
{
    if (!upstream_url_read(options->url, &door->url) ||
        door->url.origin.length >= sizeof door->origin)
        FAIL(STATUS_INVALID, "--upstream %s is no URL of a server: http://HOST:PORT", options->url);
    TRY(door_prefix(door->prefix, &door->url));
    snprintf(door->origin, sizeof door->origin, "%.*s", (int)door->url.origin.length,
             door->url.origin.bytes);
    door->key[0] = '\0';
    if (options->key[0] != '\0')
        snprintf(door->key, sizeof door->key, "authorization: Bearer %s\r\n", options->key);
    return STATUS_OK;
}

static enum status check_shared(const struct adapter_found *found,
                                const struct adapter_options *options)
{
    if (found->facts.kind->isolation == ADAPTER_SHARED && !options->accepts_shared)
        FAIL(STATUS_FORBIDDEN,
             "--upstream: a server of kind %s gives no promise that tenants' prompts stay apart in "
             "its cache; --upstream-shared-cache accepts that",
             found->facts.kind->name);
    return STATUS_OK;
}

enum status adapter_look(struct adapter_found *out, const struct adapter_options *options)
{
    struct door door;
    TRY(door_read(&door, options));
    struct adapter_probe probe = {.origin = door.origin,
                                  .prefix = door.prefix,
                                  .kind = options->kind,
                                  .key = door.key,
                                  .timeout_ms = LIMIT_UPSTREAM_PROBE_MS};
    enum status status = STATUS_UNAVAILABLE;
    if (options->addresses->count == 0)
        FAIL(STATUS_UNAVAILABLE, "--upstream %s has no address", options->url);
    for (uint32_t i = 0; i < options->addresses->count; i++) {
        out->address = options->addresses->list[i];
        probe.address = (const struct sockaddr *)&out->address;
        status = adapter_probe_run(&probe, &out->facts);
        if (status != STATUS_UNAVAILABLE && status != STATUS_IO && status != STATUS_DEADLINE)
            break;
    }
    TRY(status);
    return check_shared(out, options);
}

enum status adapter_look_again(struct adapter_found *out, const struct adapter_options *options,
                               const struct adapter_found *known, uint32_t timeout_ms,
                               const atomic_bool *is_over)
{
    struct door door;
    TRY(door_read(&door, options));
    out->address = known->address;
    const struct adapter_probe probe = {.origin = door.origin,
                                        .prefix = door.prefix,
                                        .kind = options->kind,
                                        .key = door.key,
                                        .address = (const struct sockaddr *)&known->address,
                                        .model = known->facts.model,
                                        .timeout_ms = timeout_ms,
                                        .is_over = is_over};
    TRY(adapter_probe_run(&probe, &out->facts));
    return check_shared(out, options);
}

static enum status open_head(struct adapter *adapter, const struct adapter_options *options)
{
    struct door door;
    TRY(door_read(&door, options));
    adapter->accepts_shared = options->accepts_shared;
    memcpy(adapter->prefix, door.prefix, sizeof adapter->prefix);
    snprintf(adapter->head, sizeof adapter->head,
             "host: %.280s\r\ncontent-type: application/json\r\naccept: text/event-stream\r\n"
             "%suser-agent: banyan",
             door.origin + strlen("http://"), door.key);
    return STATUS_OK;
}

/* The name that requests give: the operator's, else the server's without the folders and the ending
 * of a file, which some servers put there. */
static void name_model(struct adapter *adapter, const char *wanted)
{
    const char *name = adapter->facts.model;
    const char *slash = name[0] == '/' ? strrchr(name, '/') : NULL;
    if (slash != NULL && slash[1] != '\0')
        name = slash + 1;
    if (wanted[0] != '\0')
        name = wanted;
    snprintf(adapter->model_name, sizeof adapter->model_name, "%s", name);
    size_t length = strlen(adapter->model_name);
    if (wanted[0] == '\0' && length > 5 && strcmp(adapter->model_name + length - 5, ".gguf") == 0)
        adapter->model_name[length - 5] = '\0';
}

static enum status open_ghosts(struct adapter *adapter, const struct adapter_options *options)
{
    const struct adapter_ghosts_options ghosts = {
        .loop = options->loop,
        .client = adapter->client,
        .kind = adapter->facts.kind,
        .prefix = adapter->prefix,
        .head = adapter->head,
        .running = running_now,
        .context = adapter,
        .gauge = metrics_get(options->metrics, METRIC_GAUGE, "banyan_adapter_ghosts",
                             "Requests that the foreign server may still compute although their "
                             "clients have left.",
                             options->labels, NULL, 0)};
    return adapter_ghosts_create(&adapter->ghosts, &ghosts);
}

static enum status open_rest(struct adapter *adapter, const struct adapter_options *options,
                             const struct sockaddr *address)
{
    const struct http1_client_options client = {.loop = options->loop,
                                                .address = address,
                                                .connections_max = LIMIT_UPSTREAM_REQUESTS,
                                                .connect_timeout_ms = LIMIT_UPSTREAM_CONNECT_MS,
                                                .head_timeout_ms = LIMIT_UPSTREAM_HEAD_MS,
                                                .idle_timeout_ms = options->idle_ms,
                                                .peer_uid = -1};
    const struct adapter_facts *facts = &adapter->facts;
    name_model(adapter, options->model_name);
    adapter->requests_max = options->requests_max;
    if (adapter->requests_max == 0)
        adapter->requests_max = facts->requests > 0 ? facts->requests : REQUESTS_DEFAULT;
    if (adapter->facts.context == 0)
        adapter->facts.context = LIMIT_CONTEXT;
    adapter->timer = loop_timer_create(options->loop, look_at_deadlines, adapter);
    if (adapter->timer == NULL)
        FAIL(STATUS_NO_MEMORY, "no memory for a timer");
    TRY(http1_client_create(&adapter->client, &client));
    TRY(open_ghosts(adapter, options));
    LOG(LOG_INFO, "upstream", LOG_TEXT("kind", facts->kind->name), LOG_TEXT("model", facts->model),
        LOG_NUMBER("context", facts->context), LOG_NUMBER("requests", adapter->requests_max));
    return STATUS_OK;
}

enum status adapter_open(struct source **out, const struct adapter_options *options,
                         const struct adapter_found *found)
{
    static const struct source_ops ops = {.close = adapter_close,
                                          .info = adapter_info,
                                          .submit = adapter_submit,
                                          .cancel = adapter_cancel,
                                          .lower = adapter_lower,
                                          .acknowledge = adapter_acknowledge,
                                          .next = adapter_next,
                                          .has_failed = adapter_has_failed,
                                          .stats = adapter_stats,
                                          .requests = adapter_requests,
                                          .requests_max = adapter_requests_max};
    struct adapter *adapter = mem_zalloc(1, sizeof *adapter);
    if (adapter == NULL)
        FAIL(STATUS_NO_MEMORY, "no memory for an adapter");
    adapter->source.ops = &ops;
    adapter->last = &adapter->first;
    adapter->wake = options->wake;
    adapter->wake_context = options->wake_context;
    adapter->created_s = clock_wall_us(clock_system()) / 1000000;
    adapter->facts = found->facts;
    enum status status = open_head(adapter, options);
    if (status == STATUS_OK)
        status = open_rest(adapter, options, (const struct sockaddr *)&found->address);
    if (status != STATUS_OK) {
        struct error_note note = *status_note();
        adapter_close(&adapter->source);
        status_note_set(&note);
        return status;
    }
    *out = &adapter->source;
    return STATUS_OK;
}
