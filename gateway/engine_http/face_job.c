#include "gateway/engine_http/face_job.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include "config/base/clock.h"
#include "config/base/limits_upstream.h"
#include "config/base/mem.h"
#include "gateway/dialect/ask_tools.h"
#include "gateway/engine_http/face_embed.h"
#include "gateway/engine_http/face_frame.h"
#include "gateway/engine_http/face_trusted.h"
#include "gateway/http/http_error.h"
#include "gateway/http/sse.h"

enum {
    FRAME_BYTES_MAX = 64 * 1024 * 1024,
    /* An echoed prompt is sent in frames of about this many bytes, far below what the edge accepts
     * (LIMIT_ENGINE_FRAME_BYTES), however long the context is. */
    ECHO_FRAME_BYTES = 64 * 1024,
    /* Of a header that names tools; clients take heads of some 8 KiB. */
    UNCONSTRAINED_BYTES_MAX = 4096,
};

/* The pace of a choice: it has no token yet or has ended; its tokens come; the engine paused it. */
enum pace { PACE_NONE, PACE_RUNNING, PACE_STANDING };

struct face_job {
    struct loop_turns_task task; /* first member: job_parse and job_parsed get it */
    struct face_sink sink;
    struct face *face;
    struct face_job *next;
    struct face_job *previous;
    struct http_request *request; /* NULL when it has ended or its client left */
    struct face_trusted trusted;
    struct buffer body;           /* taken from the request; freed when all prompts are submitted */
    struct byte_shares_hold hold; /* accounts for the body's bytes */
    enum ask_dialect dialect;
    struct ask parsed;
    enum status parse_status;
    struct error_note note; /* the failure, if there was one */
    struct face_frame_head head;
    char model[LIMIT_NAME_BYTES];             /* that answers */
    uint16_t model_number;                    /* final_record.model */
    struct buffer tools;                      /* ask_tools.lines, for the splitters of choices */
    struct buffer names;                      /* ask_tools.names */
    uint64_t unconstrained[LIMIT_TOOLS / 64]; /* bit i: tool i, as engine_event */
    struct face_frame_choice *choices;        /* [choice_count] */
    uint32_t choice_count;
    uint32_t unacknowledged[LIMIT_ANSWERS]; /* [choice] tokens written, not taken by the edge yet */
    /* Prompts are in the source in slots. Texts to embed are submitted one by one, as others end;
     * all other prompts at once, so that a slot is the number of its prompt. */
    uint32_t slots;                       /* in use, or used */
    uint32_t submitted;                   /* prompts */
    uint32_t prompts[LIMIT_ANSWERS];      /* [slot] */
    engine_request_id ids[LIMIT_ANSWERS]; /* [slot]; 0: the slot is free */
    uint32_t tokens[LIMIT_ANSWERS];       /* [slot] completion tokens so far */
    enum pace paces[LIMIT_ANSWERS];       /* [choice] */
    uint32_t live;                        /* prompts that the engine has not ended */
    struct engine_report report;          /* sums over prompts that ended */
    struct engine_report so_far;          /* sums over prompts that started, as the edge was told */
    int place;                            /* slot in the ring's table; FINAL_RING_NONE before 200 */
    int64_t started_us;
    bool is_parsing;  /* a worker has it */
    bool has_started; /* a START event came: there will be a final record */
    bool is_begun;    /* the answer 200 was begun */
    bool is_failed;
    bool is_estimated;         /* some counts are not the source's own */
    bool is_rough;             /* they would not be if it ended now */
    bool is_standing;          /* some choices are paused and none is running */
    _Atomic bool is_cancelled; /* workers read it too */
    bool is_finished;
    bool is_held; /* job_finish still uses it */
};

static void job_unlink(struct face_job *job)
{
    struct face *face = job->face;
    if (job->previous != NULL)
        job->previous->next = job->next;
    else
        face->jobs = job->next;
    if (job->next != NULL)
        job->next->previous = job->previous;
    face->job_count--;
}

/* Frees the job once neither a worker, nor the engine, nor the request will call it again. */
static void job_release(struct face_job *job)
{
    if (job->is_parsing || job->is_held || job->live > 0 || job->request != NULL)
        return;
    job_unlink(job);
    face_release_body(job->face, &job->hold);
    for (uint32_t i = 0; i < job->choice_count; i++)
        face_frame_choice_deinit(&job->choices[i]);
    mem_free(job->choices);
    buffer_deinit(&job->tools);
    buffer_deinit(&job->names);
    ask_deinit(&job->parsed);
    buffer_deinit(&job->body);
    mem_free(job);
}

static void job_cancel(struct face_job *job)
{
    job->is_cancelled = true;
    if (job->is_parsing) /* a worker writes to `parsed`, and nothing is submitted yet */
        return;
    for (uint32_t i = 0; i < job->slots; i++) {
        if (job->ids[i] != 0)
            job->face->source->ops->cancel(job->face->source, job->ids[i]);
    }
}

static void job_gone(void *context, bool is_early)
{
    struct face_job *job = context;
    job->request = NULL;
    if (is_early)
        job_cancel(job);
    job_release(job);
}

static void job_half_closed(void *context)
{
    job_cancel(context);
}

static uint32_t job_tokens(const struct face_job *job)
{
    uint32_t sum = 0;
    for (uint32_t i = 0; i < job->slots; i++)
        sum += job->tokens[i];
    return sum;
}

/* --- writing --- */

static void job_write(struct face_job *job, const char *event, const struct buffer *data)
{
    struct buffer frame;
    buffer_init(&frame, FRAME_BYTES_MAX);
    if (data->status == STATUS_OK)
        sse_append(&frame, event, buffer_slice(data));
    if (data->status == STATUS_OK && frame.status == STATUS_OK && job->request != NULL)
        http_stream_write(job->request, buffer_slice(&frame));
    else if (job->request != NULL)
        http_stream_abort(job->request); /* no memory: an answer must not miss a frame unnoticed */
    buffer_deinit(&frame);
}

static void job_drained(void *context)
{
    struct face_job *job = context;
    struct source *source = job->face->source;
    uint32_t per_prompt = job->parsed.engine.choices;
    for (uint32_t i = 0; i < job->choice_count; i++) {
        uint32_t count = job->unacknowledged[i];
        job->unacknowledged[i] = 0;
        if (count > 0)
            source->ops->acknowledge(source, job->ids[i / per_prompt], i % per_prompt, count);
    }
}

static struct final_record job_record(const struct face_job *job,
                                      const struct engine_report *report)
{
    static const uint16_t routes[] = {[ASK_CHAT] = FINAL_ROUTE_CHAT,
                                      [ASK_TEXT] = FINAL_ROUTE_COMPLETIONS,
                                      [ASK_GENERATE] = FINAL_ROUTE_GENERATE,
                                      [ASK_EMBED] = FINAL_ROUTE_EMBEDDINGS};
    struct final_record record = {
        .route = routes[job->dialect],
        .model = job->model_number,
        .at_us = clock_wall_us(clock_system()),
        .report = final_ring_counts(report),
    };
    memcpy(record.request_id, job->trusted.request_id, sizeof record.request_id);
    memcpy(record.tenant, job->trusted.tenant, sizeof record.tenant);
    memcpy(record.key, job->trusted.key, sizeof record.key);
    snprintf(record.service_class, sizeof record.service_class, "%s",
             service_class_name(job->trusted.service_class));
    return record;
}

static uint32_t job_reasoning(const struct face_job *job)
{
    uint32_t sum = 0;
    for (uint32_t i = 0; i < job->choice_count; i++)
        sum += job->choices[i].reasoning_tokens;
    return sum;
}

/* Writes the counts to the ring. It is called before a frame is written, so that everything that a
 * client has seen is counted, even if this process is killed. */
static void job_count(struct face_job *job)
{
    job->so_far.completion_tokens = job_tokens(job);
    job->so_far.reasoning_tokens = job_reasoning(job);
    if (job->place == FINAL_RING_NONE)
        return;
    struct final_counts counts = final_ring_counts(&job->so_far);
    counts.is_estimated = job->is_rough;
    final_ring_progress(job->face->finals, job->place, &counts, clock_wall_us(clock_system()));
}

/* Writes the start frame. The prompts of a list are admitted one by one; each time the frame is
 * written again with the new sums. */
static void job_write_start(struct face_job *job)
{
    struct buffer data;
    buffer_init(&data, FRAME_BYTES_MAX);
    buffer_printf(&data, "{\"protocol\":%d,\"request_id\":", FACE_PROTOCOL);
    buffer_append_json_string(&data, slice_of(job->trusted.request_id));
    buffer_append_text(&data, ",\"model\":");
    buffer_append_json_string(&data, slice_of(job->model));
    buffer_printf(&data, ",\"prompt_tokens\":%u,\"cached_tokens\":%u,\"queue_us\":%lld}",
                  job->so_far.prompt_tokens, job->so_far.cached_tokens,
                  (long long)job->so_far.queue_us);
    job_write(job, "banyan.start", &data);
    buffer_deinit(&data);
}

/* The names of tools whose arguments need not follow their schemas, as long as there is room. */
static struct slice begin_unconstrained(const struct face_job *job, struct buffer *out)
{
    struct slice left = buffer_slice(&job->names);
    for (uint32_t i = 0; left.length > 0; i++) {
        const char *end = memchr(left.bytes, '\n', left.length);
        const struct slice name = {left.bytes, (size_t)(end - left.bytes)};
        left = (struct slice){end + 1, left.length - name.length - 1};
        if ((job->unconstrained[i / 64] >> i % 64 & 1) == 0 ||
            out->length + name.length > UNCONSTRAINED_BYTES_MAX)
            continue;
        if (out->length > 0)
            buffer_append_text(out, ", ");
        buffer_append_slice(out, name);
    }
    return out->status == STATUS_OK ? buffer_slice(out) : (struct slice){0};
}

static void job_begin(struct face_job *job)
{
    struct buffer names;
    buffer_init(&names, 2 * UNCONSTRAINED_BYTES_MAX);
    const struct http_header headers[] = {
        {"content-type", {"text/event-stream; charset=utf-8", 32}},
        {"cache-control", {"no-cache", 8}},
        {"x-banyan-unconstrained", begin_unconstrained(job, &names)},
    };
    struct final_record record = job_record(job, &job->so_far);
    record.report.is_estimated = job->is_rough;
    job->is_begun = true;
    job->place = final_ring_begin(job->face->finals, &record);
    http_stream_begin(job->request, 200, headers, names.length > 0 ? 3 : 2, job_drained, job);
    buffer_deinit(&names);
    job_write_start(job);
    for (uint32_t i = 0; i < job->choice_count && job->dialect == ASK_CHAT; i++) {
        struct buffer data;
        buffer_init(&data, FRAME_BYTES_MAX);
        face_frame_write_role(&job->choices[i], &job->head, &data);
        job_write(job, NULL, &data);
        buffer_deinit(&data);
    }
}

static void job_write_frame(struct face_job *job, struct face_frame_choice *choice,
                            enum engine_finish finish)
{
    struct buffer data;
    buffer_init(&data, FRAME_BYTES_MAX);
    face_frame_write(choice, &job->head, job_tokens(job), finish, &data);
    job_count(job);
    job_write(job, NULL, &data);
    buffer_deinit(&data);
}

static void job_write_error(struct face_job *job)
{
    struct buffer data;
    buffer_init(&data, FRAME_BYTES_MAX);
    face_frame_write_error(job_tokens(job), &job->note, &data);
    job_count(job);
    job_write(job, NULL, &data);
    buffer_deinit(&data);
}

/* Whether the client left, or the deadline passed, before the engine began. Such a request gets a
 * record without tokens. */
static bool finish_is_given_up(struct face_job *job)
{
    enum status why = job->note.status;
    if (why != STATUS_CANCELLED && why != STATUS_DEADLINE)
        return false;
    job->report = (struct engine_report){
        .finish = why == STATUS_CANCELLED ? ENGINE_FINISH_CANCELLED : ENGINE_FINISH_DEADLINE};
    return true;
}

/* Whether prompts wait until others of the request have ended. */
static bool job_has_more(const struct face_job *job)
{
    return !job->is_cancelled && job->submitted < job->parsed.prompt_count;
}

/* Ends the request once the engine has ended all prompts: writes the record to the ring, then the
 * final frame, then the end of the stream. */
static void job_finish(struct face_job *job)
{
    if (job->is_finished || job->live > 0 || job_has_more(job))
        return;
    job->is_finished = true;
    job->is_held = true;
    /* A request that is refused (never answered with 200) is not counted. A request that was given
     * up is recorded: its edge may have died meanwhile, and asks for the record later. */
    bool is_given_up = !job->has_started && finish_is_given_up(job);
    bool is_refused = job->request != NULL && !job->is_begun && !is_given_up;
    if (is_refused && !job->has_started)
        face_forget_id(job->face, slice_of(job->trusted.request_id));
    if ((job->has_started || is_given_up) && !is_refused) {
        job->report.reasoning_tokens += job_reasoning(job);
        struct final_record record = job_record(job, &job->report);
        record.report.is_estimated = job->is_estimated;
        final_ring_end(job->face->finals, job->place, &record);
        job->place = FINAL_RING_NONE;
        if (job->request != NULL && job->is_begun) {
            struct buffer data;
            buffer_init(&data, FRAME_BYTES_MAX);
            final_ring_render(job->face->finals, &record, &job->report, &data);
            job_write(job, "banyan.final", &data);
            buffer_deinit(&data);
        }
    }
    job->is_held = false;
    if (job->request == NULL) {
        job_release(job);
    } else if (job->is_begun) {
        http_stream_end(job->request);
    } else {
        status_note_set(&job->note);
        http_respond_failure(job->request);
    }
}

static void job_fail(struct face_job *job, const struct error_note *note)
{
    if (job->is_failed)
        return;
    job->is_failed = true;
    job->note = *note;
    /* The engine names the prompt; the field of a chat is "messages". */
    if (job->dialect == ASK_CHAT && note->status == STATUS_CONTEXT_LENGTH)
        snprintf(job->note.param, sizeof job->note.param, "messages");
    if (job->is_begun && job->request != NULL)
        job_write_error(job);
    job_cancel(job);
}

/* --- events --- */

/* Tells the edge when the stream as a whole stands still, and when it goes on. */
static void pace_set(struct face_job *job, uint32_t index, enum pace pace)
{
    if (job->paces[index] == pace)
        return;
    uint32_t counts[PACE_STANDING + 1] = {0};
    job->paces[index] = pace;
    for (uint32_t i = 0; i < job->choice_count; i++)
        counts[job->paces[i]]++;
    bool is_standing = counts[PACE_STANDING] > 0 && counts[PACE_RUNNING] == 0;
    if (is_standing == job->is_standing)
        return;
    job->is_standing = is_standing;
    if (job->request == NULL || !job->is_begun)
        return;
    struct buffer data;
    buffer_init(&data, FRAME_BYTES_MAX);
    buffer_append_text(&data, "{}");
    job_write(job, is_standing ? "banyan.paused" : "banyan.resumed", &data);
    buffer_deinit(&data);
}

/* The prompt decides whether the answer begins inside of reasoning. */
static void event_start_split(struct face_job *job, const struct engine_event *event)
{
    if (job->head.is_constrained && !event->is_in_reasoning)
        job->head.answer = NULL; /* all is content */
    for (uint32_t i = 0; i < job->choice_count && job->head.answer != NULL; i++) {
        if (face_frame_choice_split(&job->choices[i], &job->head, event->is_in_reasoning) !=
            STATUS_OK)
            job_fail(job, status_note());
    }
}

static void event_start(struct face_job *job, const struct engine_event *event)
{
    const struct engine_report *report = &event->report;
    struct engine_report *sum = &job->so_far;
    event_start_split(job, event);
    for (size_t i = 0; i < sizeof job->unconstrained / sizeof *job->unconstrained; i++)
        job->unconstrained[i] |= event->unconstrained[i];
    sum->prompt_tokens += report->prompt_tokens;
    sum->cached_tokens += report->cached_tokens;
    sum->queue_us = sum->queue_us > report->queue_us ? sum->queue_us : report->queue_us;
    job->has_started = true;
    if (job->is_begun) {
        job_count(job);
        if (job->request != NULL)
            job_write_start(job);
    } else if (!job->is_failed && job->request != NULL) {
        job_begin(job);
    }
}

static void event_token(struct face_job *job, struct face_frame_choice *choice,
                        const struct source_event *event)
{
    face_frame_add(choice, &job->head, event);
    if (job->request == NULL || !job->is_begun)
        return;
    if (event->engine.kind == ENGINE_EVENT_PROMPT) {
        if (face_frame_bytes(choice) >= ECHO_FRAME_BYTES)
            job_write_frame(job, choice, ENGINE_FINISH_NONE);
        return;
    }
    job->unacknowledged[choice->index]++;
    if (face_frame_is_due(choice, &job->head))
        job_write_frame(job, choice, ENGINE_FINISH_NONE);
    /* Nothing waits to be sent, so text that waits for a whole frame counts as delivered. */
    if (job->request != NULL && http_stream_pending(job->request) == 0)
        job_drained(job);
}

static void event_choice_end(struct face_job *job, struct face_frame_choice *choice,
                             const struct source_event *from)
{
    const struct engine_event *event = &from->engine;
    face_frame_add(choice, &job->head, from);
    if (job->request == NULL || !job->is_begun)
        return;
    if (event->finish == ENGINE_FINISH_DEADLINE) {
        (void)status_fail(STATUS_DEADLINE, __FILE__, __LINE__, NULL,
                          "The request took longer than its deadline.");
        job_fail(job, status_note());
        return;
    }
    if (event->finish == ENGINE_FINISH_GRAMMAR) {
        (void)status_fail(STATUS_GRAMMAR_LIMIT, __FILE__, __LINE__, NULL,
                          "The grammar of this answer became too complex while it was generated; "
                          "ask for less at once.");
        job_fail(job, status_note());
        return;
    }
    if (event->finish == ENGINE_FINISH_CANCELLED || event->finish == ENGINE_FINISH_ERROR)
        return;
    if (job->dialect == ASK_EMBED) /* its frame was written with the embedding */
        return;
    if (job->dialect == ASK_CHAT && face_frame_is_due(choice, &job->head))
        job_write_frame(job, choice, ENGINE_FINISH_NONE);
    job_write_frame(job, choice, event->finish);
}

static void event_end(struct face_job *job, const struct engine_report *report)
{
    struct engine_report *sum = &job->report;
    sum->prompt_tokens += report->prompt_tokens;
    sum->cached_tokens += report->cached_tokens;
    sum->cached_public += report->cached_public;
    sum->cached_group += report->cached_group;
    sum->cached_own += report->cached_own;
    sum->cached_host_tokens += report->cached_host_tokens;
    sum->completion_tokens += report->completion_tokens;
    sum->reasoning_tokens += report->reasoning_tokens; /* of a source that splits its answers */
    sum->queue_us = sum->queue_us > report->queue_us ? sum->queue_us : report->queue_us;
    sum->prefill_us += report->prefill_us;
    sum->decode_us = sum->decode_us > report->decode_us ? sum->decode_us : report->decode_us;
    sum->preemptions += report->preemptions;
    sum->swapped_pages += report->swapped_pages;
    sum->swap_us += report->swap_us;
    sum->paused_us += report->paused_us;
    sum->recomputed_tokens += report->recomputed_tokens;
    sum->drafts_accepted += report->drafts_accepted;
    sum->drafts_rejected += report->drafts_rejected;
    sum->finish = report->finish;
}

static uint32_t event_slot(const struct face_job *job, engine_request_id id)
{
    uint32_t slot = 0;
    while (slot < job->slots && job->ids[slot] != id)
        slot++;
    ASSERT(slot < job->slots);
    return slot;
}

static void event_embedding(struct face_job *job, uint32_t slot, struct slice vector)
{
    struct buffer data;
    if (job->request == NULL || !job->is_begun || job->is_failed)
        return;
    buffer_init(&data, FRAME_BYTES_MAX);
    face_embed_write(job->head.model, job->prompts[slot], vector, job->parsed.is_base64, &data);
    job_write(job, NULL, &data);
    buffer_deinit(&data);
}

/* The engine knows one text alone: names the one of a list. */
static void event_error(struct face_job *job, uint32_t slot, const struct error_note *from)
{
    static const size_t name = sizeof "input" - 1;
    struct error_note note = *from;
    bool is_of_list = job->dialect == ASK_EMBED && job->parsed.is_list &&
                      strncmp(from->param, "input", name) == 0;
    if (is_of_list)
        snprintf(note.param, sizeof note.param, "input[%u]%.32s", job->prompts[slot],
                 from->param + name);
    job_fail(job, &note);
}

static void job_submit_more(struct face_job *job, uint32_t slot);

static void job_take(struct face_sink *sink, const struct source_event *from)
{
    const struct engine_event *event = &from->engine;
    struct face_job *job =
        (struct face_job *)(void *)((char *)sink - offsetof(struct face_job, sink));
    uint32_t slot = event_slot(job, event->id);
    uint32_t index = slot * job->parsed.engine.choices + event->choice;
    switch (event->kind) {
    case ENGINE_EVENT_START:
        job->is_rough = job->is_rough || from->is_estimated;
        event_start(job, event);
        return;
    case ENGINE_EVENT_PROMPT:
        event_token(job, &job->choices[index], from);
        return;
    case ENGINE_EVENT_TOKEN:
        job->tokens[slot] = event->tokens_so_far;
        pace_set(job, index, PACE_RUNNING);
        event_token(job, &job->choices[index], from);
        return;
    case ENGINE_EVENT_CHOICE_END:
        pace_set(job, index, PACE_NONE);
        event_choice_end(job, &job->choices[index], from);
        return;
    case ENGINE_EVENT_END:
        event_end(job, &event->report);
        job->is_estimated = job->is_estimated || from->is_estimated;
        if (job->tokens[slot] < event->report.completion_tokens) /* no frame's count goes back */
            job->tokens[slot] = event->report.completion_tokens;
        break;
    case ENGINE_EVENT_EMBEDDING:
        event_embedding(job, slot, event->text);
        return;
    case ENGINE_EVENT_PAUSED:
    case ENGINE_EVENT_RESUMED:
        pace_set(job, index, event->kind == ENGINE_EVENT_PAUSED ? PACE_STANDING : PACE_RUNNING);
        return;
    case ENGINE_EVENT_ERROR:
        event_error(job, slot, &event->note);
        break;
    }
    ASSERT(job->live > 0);
    job->live--;
    job_submit_more(job, slot);
    job_finish(job);
}

/* --- parsing and submitting --- */

/* Texts to embed have at most a quarter of the engine's sequences at once. */
static uint32_t job_slots(const struct face_job *job)
{
    uint32_t most = job->face->info.sequences / 4;
    most = most > LIMIT_ANSWERS ? LIMIT_ANSWERS : most > 0 ? most : 1;
    const uint32_t count = job->parsed.prompt_count;
    return job->dialect == ASK_EMBED && count > most ? most : count;
}

static enum status job_make_head(struct face_job *job)
{
    struct face_frame_head *head = &job->head;
    struct slice id = slice_of(job->trusted.request_id);
    if (slice_starts_with(id, SLICE("req_")))
        id = (struct slice){id.bytes + 4, id.length - 4};
    head->dialect = job->dialect;
    static const char *const prefixes[] = {
        [ASK_CHAT] = "chatcmpl", [ASK_TEXT] = "cmpl", [ASK_GENERATE] = "gen", [ASK_EMBED] = "emb"};
    snprintf(head->id, sizeof head->id, "%s-%.*s", prefixes[job->dialect], (int)id.length,
             id.bytes);
    head->model = job->model;
    head->tier = service_class_tier(job->trusted.service_class);
    head->created_s = clock_wall_us(clock_system()) / 1000000;
    head->want_logprobs = job->parsed.engine.want_logprobs;
    head->want_token_ids = job->parsed.want_token_ids;
    if (job->parsed.is_split) {
        head->answer = job->face->source->answer;
        head->is_constrained = job->parsed.is_constrained;
        head->has_calls = job->parsed.tools.count > 0 && job->parsed.tools.choice != ASK_TOOLS_NONE;
        job->tools = job->parsed.tools.lines; /* outlives what was parsed */
        job->parsed.tools.lines = (struct buffer){0};
        job->names = job->parsed.tools.names;
        job->parsed.tools.names = (struct buffer){0};
        if (job->parsed.tools.is_free)
            memcpy(job->unconstrained, job->parsed.tools.allowed, sizeof job->unconstrained);
        head->tools = (struct answer_tools){ask_tools_has, ask_tools_is_text, &job->tools};
    }
    job->slots = job_slots(job);
    uint32_t count = job->slots * job->parsed.engine.choices;
    job->choices = mem_zalloc(count, sizeof *job->choices);
    if (job->choices == NULL)
        FAIL(STATUS_NO_MEMORY, "no memory for the choices of an answer");
    job->choice_count = count;
    for (uint32_t i = 0; i < count; i++)
        face_frame_choice_init(&job->choices[i], i);
    return STATUS_OK;
}

/* Submits the next prompt in a slot. */
static enum status job_submit_prompt(struct face_job *job, uint32_t slot)
{
    const uint32_t prompt = job->submitted;
    struct engine_request request;
    ask_of_prompt(&job->parsed, prompt, &request);
    face_trusted_apply(&job->trusted, &request);
    /* Each prompt of a request gets its own seed, derived from the request's seed. */
    request.sampling.seed += prompt * UINT64_C(0x9e3779b97f4a7c15);
    request.context = &job->sink;
    request.model = slice_of(job->model);
    struct source *source = job->face->source;
    job->ids[slot] = 0;
    TRY(source->ops->submit(source, &request, &job->ids[slot]));
    job->prompts[slot] = prompt;
    job->submitted++;
    job->live++;
    return STATUS_OK;
}

/* Frees what the engine has copied, once it has all prompts or will get no more. */
static void job_drop_body(struct face_job *job)
{
    ask_deinit(&job->parsed);
    buffer_deinit(&job->body);
    face_give_back_body(job->face, &job->hold);
}

/* The prompt of a slot has ended: submits another one there. While the engine is full, the slot
 * stays free as long as other texts of the request run, and the request fails when none does. */
static void job_submit_more(struct face_job *job, uint32_t slot)
{
    if (job->submitted == job->parsed.prompt_count)
        return;
    job->ids[slot] = 0;
    for (uint32_t i = 0; i < job->slots && job_has_more(job); i++) {
        if (job->ids[i] != 0)
            continue;
        enum status status = job_submit_prompt(job, i);
        bool is_full = status == STATUS_BUSY || status == STATUS_ENGINE_SHARE;
        if (status != STATUS_OK && !(is_full && job->live > 0))
            job_fail(job, status_note());
        if (status != STATUS_OK)
            break;
    }
    if (!job_has_more(job))
        job_drop_body(job);
}

/* Finds the model that a body names, among several. One without a name gets the model for which the
 * edge has checked permission and price; without an edge, the one that the edge would take. */
static enum status job_choose_model(struct face_job *job)
{
    const struct face *face = job->face;
    const json_t *named = json_object_get(job->parsed.root, "model");
    struct slice name = {json_string_value(named), json_string_length(named)};
    struct source_model models[LIMIT_POOL_ENGINES];
    if (!json_is_string(named))
        name = slice_of(job->trusted.model[0] != '\0' ? job->trusted.model : face->info.model_name);
    snprintf(job->model, sizeof job->model, "%s", face->info.model_name);
    if (face->source->ops->models == NULL)
        return STATUS_OK;
    const size_t count = face->source->ops->models(face->source, models, LIMIT_POOL_ENGINES);
    size_t at = 0;
    while (at < count && !slice_is(name, models[at].name))
        at++;
    if (at == count)
        FAIL_PARAM(STATUS_MODEL_NOT_FOUND, "model",
                   "The model '%.*s' does not exist or you do not have access to it.",
                   (int)(name.length < 64 ? name.length : 64), name.bytes);
    memcpy(job->model, models[at].name, sizeof job->model);
    return final_ring_number(face->finals, job->model, &job->model_number);
}

static void job_parsed(struct loop_turns_task *task)
{
    struct face_job *job = (struct face_job *)task;
    job->is_parsing = false;
    enum status status = job->parse_status;
    if (status == STATUS_OK && job->is_cancelled)
        status = status_fail(STATUS_CANCELLED, __FILE__, __LINE__, NULL, "The client left.");
    else if (status != STATUS_OK)
        status_note_set(&job->note);
    if (status == STATUS_OK && !job->trusted.has_class) /* no edge: the body gives the class */
        job->trusted.service_class = job->parsed.engine.service_class;
    if (status == STATUS_OK)
        status = job_choose_model(job);
    if (status == STATUS_OK)
        status = job_make_head(job);
    for (uint32_t i = 0; i < job->slots && status == STATUS_OK; i++)
        status = job_submit_prompt(job, i);
    bool is_full = status == STATUS_BUSY || status == STATUS_ENGINE_SHARE;
    if (is_full && job->dialect == ASK_EMBED && job->live > 0)
        status = STATUS_OK; /* the others follow as these end */
    const struct error_note note = *status_note();
    if (status != STATUS_OK || !job_has_more(job))
        job_drop_body(job);
    if (status != STATUS_OK) {
        job_fail(job, &note);
        job_finish(job);
    }
}

static void job_parse(struct loop_turns_task *task)
{
    struct face_job *job = (struct face_job *)task;
    if (job->is_cancelled) /* nobody waits for the answer */
        return;
    const bool has_several = job->face->source->ops->models != NULL; /* job_choose_model looks */
    const struct ask_model model = {.name = has_several ? NULL : job->face->info.model_name,
                                    .vocab = job->face->info.vocab,
                                    .answer = job->face->source->answer,
                                    .is_foreign = job->face->source->answer == NULL,
                                    .pooling = job->face->info.pooling,
                                    .width = job->face->info.width};
    job->parse_status = ask_parse(&job->parsed, job->dialect, buffer_slice(&job->body), &model);
    if (job->parse_status != STATUS_OK)
        job->note = *status_note();
}

static enum status job_create(struct face_job **out, struct face *face,
                              struct http_request *request, enum ask_dialect dialect)
{
    struct face_trusted trusted;
    TRY(face_trusted_read(&trusted, request));
    struct slice id = slice_of(trusted.request_id);
    if (trusted.is_given && (final_ring_knows(face->finals, id) || !face_remember_id(face, id)))
        FAIL(STATUS_CONFLICT, "A request with this id was seen before.");
    const size_t body_bytes = http_body(request).length;
    struct byte_shares_hold hold = {0};
    enum status status = face_reserve_body(face, trusted.tenant, body_bytes, &hold);
    struct face_job *job = status == STATUS_OK ? mem_zalloc(1, sizeof *job) : NULL;
    if (job == NULL) {
        face_forget_id(face, id);
        TRY(status);
        face_release_body(face, &hold);
        FAIL(STATUS_NO_MEMORY, "no memory for a request");
    }
    job->task =
        (struct loop_turns_task){.turn.bytes = body_bytes, .work = job_parse, .done = job_parsed};
    memcpy(job->task.turn.owner, trusted.tenant, sizeof trusted.tenant);
    job->sink = (struct face_sink){job_take};
    job->face = face;
    job->trusted = trusted;
    job->dialect = dialect;
    job->place = FINAL_RING_NONE;
    job->started_us = clock_mono_us(clock_system());
    job->hold = hold;
    status = http_body_take(request, &job->body);
    if (status == STATUS_OK)
        status = loop_turns_submit(face->turns, &job->task);
    if (status != STATUS_OK) {
        face_release_body(face, &job->hold);
        face_forget_id(face, id);
        buffer_deinit(&job->body);
        mem_free(job);
        return status;
    }
    *out = job;
    return STATUS_OK;
}

void face_job_start(struct face *face, struct http_request *request, enum ask_dialect dialect)
{
    struct face_job *job = NULL;
    if (!face_accepts(face, request))
        return;
    if (job_create(&job, face, request, dialect) != STATUS_OK) {
        http_respond_failure(request);
        return;
    }
    job->is_parsing = true; /* job_parsed runs in the loop, so not before this function returns */
    job->request = request;
    job->next = face->jobs;
    if (job->next != NULL)
        job->next->previous = job;
    face->jobs = job;
    face->job_count++;
    http_on_gone(request, job_gone, job);
    http_on_half_close(request, job_half_closed, job);
}

void face_job_cancel_all(struct face *face)
{
    for (struct face_job *job = face->jobs; job != NULL; job = job->next)
        job_cancel(job);
}

static struct face_job *job_find(const struct face *face, struct slice request_id)
{
    struct face_job *job = face->jobs;
    while (job != NULL && !slice_is(request_id, job->trusted.request_id))
        job = job->next;
    return job;
}

bool face_job_cancel(struct face *face, struct slice request_id)
{
    struct face_job *job = job_find(face, request_id);
    if (job != NULL)
        job_cancel(job);
    return job != NULL;
}

/* Later frames have the new tier, and so has the record. */
bool face_job_lower(struct face *face, struct slice request_id)
{
    struct face_job *job = job_find(face, request_id);
    if (job == NULL || job->is_parsing) /* it has used nothing yet, so it met no limit */
        return false;
    job->trusted.service_class = (enum service_class)SERVICE_CLASS_LOWEST;
    job->head.tier = service_class_tier(job->trusted.service_class);
    for (uint32_t i = 0; i < job->slots; i++) {
        if (job->ids[i] != 0)
            face->source->ops->lower(face->source, job->ids[i]);
    }
    return true;
}

/* --- list of running requests --- */

struct render_infos {
    struct engine_request_info *rows; /* by rising id */
    size_t count;
};

static int render_compare(const void *left, const void *right)
{
    engine_request_id a = ((const struct engine_request_info *)left)->id;
    engine_request_id b = ((const struct engine_request_info *)right)->id;
    return a < b ? -1 : a > b;
}

/* Fills `sum` with the sums over a job's prompts and the other figures of the prompt that is
 * furthest; returns the state of that prompt. */
static const char *render_sum(const struct face_job *job, const struct render_infos *infos,
                              struct engine_request_info *sum)
{
    const char *state = job->is_parsing ? "preparing" : "ending";
    *sum = (struct engine_request_info){0};
    for (uint32_t i = 0; i < job->slots; i++) {
        const struct engine_request_info key = {.id = job->ids[i]};
        const struct engine_request_info *info =
            bsearch(&key, infos->rows, infos->count, sizeof key, render_compare);
        if (info == NULL)
            continue;
        sum->prompt_tokens += info->prompt_tokens;
        sum->computed += info->computed;
        sum->cached += info->cached;
        if (sum->id == 0 || info->state > sum->state) {
            struct engine_request_info furthest = *info;
            furthest.prompt_tokens = sum->prompt_tokens;
            furthest.computed = sum->computed;
            furthest.cached = sum->cached;
            *sum = furthest;
        }
        state = engine_request_state_name(sum->state);
    }
    for (uint32_t i = 0; i < job->choice_count; i++) { /* the engine may not know it yet */
        if (job->unacknowledged[i] >= LIMIT_UNDELIVERED_TOKENS)
            state = engine_request_state_name(ENGINE_REQUEST_THROTTLED);
    }
    return job->is_cancelled ? "ending" : state;
}

/* Appends why the request waits. What concerns other tenants is coarse and names nobody. */
static void render_explain(const struct engine_request_info *info, struct buffer *out)
{
    static const char *const fairness[] = {"over", "even", "owed"};
    if (info->id == 0) {
        buffer_append_text(out, ",\"explain\":null");
        return;
    }
    buffer_printf(out,
                  ",\"explain\":{\"position\":%u,\"estimate_ms\":%u,\"fairness\":\"%s\","
                  "\"pages_needed\":%u,\"pages_free\":%u,\"preempted_by\":",
                  info->position, info->estimate_ms, fairness[info->deficit_sign + 1],
                  info->pages_needed, info->pages_free);
    if (info->is_preempted)
        buffer_printf(out, "\"%s\"}", service_class_name(info->preempted_by));
    else
        buffer_append_text(out, "null}");
}

static void render_job(const struct face_job *job, const struct render_infos *infos, int64_t now_us,
                       struct buffer *out)
{
    struct engine_request_info sum;
    const char *state = render_sum(job, infos, &sum);
    buffer_append_text(out, "{\"request_id\":");
    buffer_append_json_string(out, slice_of(job->trusted.request_id));
    buffer_printf(out,
                  ",\"state\":\"%s\",\"class\":\"%s\",\"choices\":%u,\"prompt_tokens\":%u,"
                  "\"computed_tokens\":%u,\"cached_tokens\":%u,\"tokens\":%u,\"age_us\":%lld",
                  state, service_class_name(job->trusted.service_class), job->choice_count,
                  sum.prompt_tokens, sum.computed, sum.cached, job_tokens(job),
                  (long long)(now_us - job->started_us));
    render_explain(&sum, out);
    buffer_append_char(out, '}');
}

void face_job_render_all(const struct face *face, struct buffer *out)
{
    int64_t now_us = clock_mono_us(clock_system());
    const struct source *source = face->source;
    const size_t most = source->ops->requests_max(source);
    struct render_infos infos = {.rows = mem_zalloc(most, sizeof *infos.rows)};
    if (infos.rows == NULL) {
        out->status =
            status_fail(STATUS_NO_MEMORY, __FILE__, __LINE__, NULL, "no memory for a list");
        return;
    }
    infos.count = source->ops->requests(source, infos.rows, most);
    qsort(infos.rows, infos.count, sizeof *infos.rows, render_compare);
    buffer_append_char(out, '[');
    for (const struct face_job *job = face->jobs; job != NULL; job = job->next) {
        if (job != face->jobs)
            buffer_append_char(out, ',');
        render_job(job, &infos, now_us, out);
    }
    buffer_append_char(out, ']');
    mem_free(infos.rows);
}
