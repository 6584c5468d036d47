#include "gateway/engine_http/face_prompt.h"

#include <stddef.h>
#include <stdio.h>

#include "config/base/mem.h"
#include "engine/fleet.h"
#include "gateway/dialect/ask.h"
#include "gateway/dialect/ask_block.h"
#include "gateway/dialect/ask_json.h"
#include "gateway/dialect/ask_messages.h"
#include "gateway/http/http_error.h"

enum { ANSWER_BYTES_MAX = 256 * 1024 };

struct face_prompt_job {
    struct loop_turns_task task; /* first member: job_work and job_done get it */
    struct face_sink sink;
    struct face *face;
    struct face_prompt_job *previous;
    struct face_prompt_job *next;
    struct http_request *request; /* NULL when it has ended or its client left */
    struct buffer body;
    struct byte_shares_hold hold; /* accounts for the body's bytes */
    struct engine_domain domain;
    uint32_t *tokens;
    size_t token_count;
    engine_request_id id;
    enum status status;
    struct error_note note;
    bool is_dry_run;
    bool is_working;      /* a worker or the engine has it */
    _Atomic bool is_gone; /* the client left; workers read it too */
};

/* --- domains in hex --- */

static enum status domain_read(struct slice text, struct engine_domain *out)
{
    memset(out, 0, sizeof *out);
    bool is_hex = text.length == 2 * sizeof out->bytes;
    for (size_t i = 0; is_hex && i < text.length; i++) {
        char c = text.bytes[i];
        is_hex = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
        unsigned digit = (unsigned)(c <= '9' ? c - '0' : c - 'a' + 10);
        out->bytes[i / 2] = (uint8_t)((unsigned)out->bytes[i / 2] << 4 | (digit & 15));
    }
    if (!is_hex)
        FAIL_PARAM(STATUS_INVALID, "domain", "a domain has 32 lower-case hex digits");
    return STATUS_OK;
}

static void domain_append(struct buffer *out, const struct engine_domain *domain)
{
    for (size_t i = 0; i < sizeof domain->bytes; i++)
        buffer_printf(out, "%02x", domain->bytes[i]);
}

static bool domain_is(const struct engine_domain *a, const struct engine_domain *b)
{
    return memcmp(a->bytes, b->bytes, sizeof a->bytes) == 0;
}

/* --- the table --- */

static struct face_prompt_row *row_find(struct face *face, const struct engine_domain *domain)
{
    for (uint32_t i = 0; i < face->prompt_count; i++) {
        if (domain_is(&face->prompts[i].domain, domain))
            return &face->prompts[i];
    }
    return NULL;
}

static void row_drop(struct face *face, const struct engine_domain *domain)
{
    struct face_prompt_row *row = row_find(face, domain);
    if (row != NULL)
        *row = face->prompts[--face->prompt_count];
}

/* --- publishing one prompt --- */

static void job_free(struct face_prompt_job *job)
{
    buffer_deinit(&job->body);
    mem_free(job->tokens);
    mem_free(job);
}

static void job_release(struct face_prompt_job *job)
{
    if (job->is_working || job->request != NULL)
        return;
    if (job->next != NULL)
        job->next->previous = job->previous;
    if (job->previous != NULL)
        job->previous->next = job->next;
    else
        job->face->prompt_jobs = job->next;
    face_release_body(job->face, &job->hold);
    job_free(job);
}

static void job_gone(void *context, bool is_early)
{
    struct face_prompt_job *job = context;
    job->request = NULL;
    if (is_early) {
        job->is_gone = true;
        if (job->id != 0)
            fleet_cancel(job->face->fleet, job->id);
    }
    job_release(job);
}

static void job_answer(struct face_prompt_job *job, uint32_t tokens, uint32_t pages)
{
    char text[96];
    if (job->request == NULL)
        return;
    snprintf(text, sizeof text, "{\"tokens\":%u,\"pages\":%u%s}", tokens, pages,
             job->is_dry_run ? ",\"dry_run\":true" : "");
    http_respond_json(job->request, 200, slice_of(text));
}

static void job_refuse(struct face_prompt_job *job, const struct error_note *note)
{
    if (job->request == NULL)
        return;
    status_note_set(note);
    http_respond_failure(job->request);
}

/* Unpins what a failed publishing may have pinned already in some engines, then refuses the
 * request. LIMIT becomes CONFLICT: other published prompts have reached the cap, and this body is
 * not too large. CANCELLED becomes BUSY: the client did not cancel, but the prompt was unpublished
 * meanwhile, or the engine is ending. */
static void job_failed(struct face_prompt_job *job, const struct error_note *note)
{
    struct error_note own = *note;
    (void)fleet_unpublish(job->face->fleet, &job->domain);
    if (own.status == STATUS_LIMIT)
        own.status = STATUS_CONFLICT;
    else if (own.status == STATUS_CANCELLED)
        own.status = STATUS_BUSY;
    job_refuse(job, &own);
}

static void job_published(struct face_prompt_job *job, const struct engine_report *report)
{
    struct face *face = job->face;
    bool is_whole =
        report->finish != ENGINE_FINISH_CANCELLED && report->finish != ENGINE_FINISH_ERROR;
    enum status status = STATUS_OK;
    if (!is_whole)
        status = status_fail(STATUS_CANCELLED, __FILE__, __LINE__, NULL,
                             "The prompt was unpublished meanwhile; try again.");
    else if (face->prompt_count == LIMIT_PROMPTS)
        status = status_fail(STATUS_CONFLICT, __FILE__, __LINE__, NULL,
                             "The limit of %d published prompts is reached; unpublish one first.",
                             LIMIT_PROMPTS);
    if (status != STATUS_OK) {
        job_failed(job, status_note());
        return;
    }
    face->prompts[face->prompt_count++] = (struct face_prompt_row){
        .domain = job->domain, .tokens = report->prompt_tokens, .pages = report->pinned_pages};
    job_answer(job, report->prompt_tokens, report->pinned_pages);
}

static void job_take(struct face_sink *sink, const struct source_event *source_event)
{
    const struct engine_event *event = &source_event->engine;
    struct face_prompt_job *job =
        (struct face_prompt_job *)(void *)((char *)sink - offsetof(struct face_prompt_job, sink));
    if (event->kind != ENGINE_EVENT_END && event->kind != ENGINE_EVENT_ERROR)
        return;
    if (event->kind == ENGINE_EVENT_END)
        job_published(job, &event->report);
    else
        job_failed(job, &event->note);
    job->is_working = false;
    job_release(job);
}

static enum status job_submit(struct face_prompt_job *job)
{
    struct buffer name;
    buffer_init(&name, LIMIT_REQUEST_ID_BYTES);
    buffer_append_text(&name, "prompt_");
    domain_append(&name, &job->domain);
    const struct engine_request request = {
        .request_id = buffer_slice(&name),
        .prompt_kind = ENGINE_PROMPT_TOKENS,
        .tokens = job->tokens,
        .token_count = job->token_count,
        .choices = 1,
        .sampling = {.temperature = 0, .top_p = 1},
        .domain = job->domain,
        .is_published = true,
        .service_class = SERVICE_CLASS_STANDARD,
        .context = &job->sink,
    };
    enum status status = name.status;
    if (status == STATUS_OK)
        status = fleet_submit(job->face->fleet, &request, &job->id);
    buffer_deinit(&name);
    return status;
}

/* --- reading the body, on a worker --- */

static enum status work_tokens(struct face_prompt_job *job, const json_t *messages,
                               const json_t *text)
{
    struct engine *engine = fleet_text(job->face->fleet);
    const char *param = text != NULL ? "text" : "messages";
    enum status status;
    if (text != NULL) {
        struct slice slice;
        TRY(ask_json_string(text, param, &slice));
        status =
            engine_tokenize(engine, slice, true, LIMIT_CONTEXT, &job->tokens, &job->token_count);
    } else {
        void *blocks = NULL;
        const struct engine_message *list;
        size_t count;
        status = ask_messages_read(messages, engine_answer(engine), &blocks, &list, &count);
        if (status == STATUS_OK)
            status = engine_tokenize_chat(engine, list, count, false, LIMIT_CONTEXT, &job->tokens,
                                          &job->token_count);
        ask_block_free(blocks);
    }
    TRY(status);
    if (job->token_count == 0)
        FAIL_PARAM(STATUS_INVALID, param, "The prompt has no tokens.");
    uint32_t context = job->face->info.context;
    if (job->token_count >= context)
        FAIL_PARAM(STATUS_CONTEXT_LENGTH, param,
                   "The prompt has %zu tokens; with the model's context of %u it may have %u.",
                   job->token_count, context, context - 1);
    return STATUS_OK;
}

static enum status work_root(struct face_prompt_job *job, const json_t *root)
{
    static const char *const known[] = {"domain", "messages", "text", "dry_run", NULL};
    const json_t *domain = json_object_get(root, "domain");
    const json_t *messages = json_object_get(root, "messages");
    const json_t *text = json_object_get(root, "text");
    const json_t *dry_run = json_object_get(root, "dry_run");
    struct slice hex = {0};
    TRY(ask_json_members(root, "body", known));
    if (dry_run != NULL)
        TRY(ask_json_bool(dry_run, "dry_run", &job->is_dry_run));
    if (domain != NULL)
        TRY(ask_json_word(domain, "domain", &hex));
    TRY(domain_read(hex, &job->domain));
    if ((messages == NULL) == (text == NULL))
        FAIL_PARAM(STATUS_INVALID, "messages", "Give either 'messages' or 'text'.");
    return work_tokens(job, messages, text);
}

static void job_work(struct loop_turns_task *task)
{
    struct face_prompt_job *job = (struct face_prompt_job *)task;
    json_t *root = NULL;
    if (job->is_gone)
        return;
    job->status = ask_json_parse(buffer_slice(&job->body), &root);
    if (job->status == STATUS_OK)
        job->status = work_root(job, root);
    if (job->status != STATUS_OK)
        job->note = *status_note();
    json_decref(root);
}

/* --- after the worker, on the loop --- */

static bool done_is_under_way(const struct face_prompt_job *job)
{
    for (const struct face_prompt_job *at = job->face->prompt_jobs; at != NULL; at = at->next) {
        if (at != job && at->id != 0 && domain_is(&at->domain, &job->domain))
            return true;
    }
    return false;
}

/* Answers what publishing would answer: checks the cap, computes nothing. */
static void done_dry_run(struct face_prompt_job *job)
{
    const struct engine_info *info = &job->face->info;
    struct engine_stats stats;
    fleet_stats(job->face->fleet, &stats);
    uint32_t tokens = (uint32_t)job->token_count;
    uint32_t pages = fleet_pages_pinned_by(job->face->fleet, tokens);
    if (info->pin_pages == 0)
        job_answer(job, tokens, 0);
    else if ((uint64_t)stats.pages_pinned + pages <= info->pin_pages)
        job_answer(job, tokens, pages);
    else
        http_respond_error(job->request, STATUS_CONFLICT, NULL,
                           "The prompt needs %u pinned pages; %u of at most %u are in use.", pages,
                           stats.pages_pinned, info->pin_pages);
}

/* True when the engine computes the prompt now; else it was answered, or the client has left. */
static bool done_goes_on(struct face_prompt_job *job)
{
    const struct face_prompt_row *row = row_find(job->face, &job->domain);
    if (job->is_gone)
        return false;
    if (job->status != STATUS_OK) {
        job_refuse(job, &job->note);
    } else if (job->is_dry_run) {
        done_dry_run(job);
    } else if (row != NULL) {
        job_answer(job, row->tokens, row->pages);
    } else if (done_is_under_way(job)) {
        http_respond_error(job->request, STATUS_BUSY, NULL, "The prompt is being computed.");
    } else if (job_submit(job) != STATUS_OK) {
        job_failed(job, status_note());
    } else {
        return true;
    }
    return false;
}

static void job_done(struct loop_turns_task *task)
{
    struct face_prompt_job *job = (struct face_prompt_job *)task;
    job->is_working = done_goes_on(job);
    job_release(job);
}

/* Whether there are engines that keep prompts; answers the request if not. */
static bool has_fleet(const struct face *face, struct http_request *request)
{
    if (face->fleet == NULL)
        http_respond_error(request, STATUS_UNSUPPORTED, NULL,
                           "The engine that serves this model keeps no published prompts.");
    return face->fleet != NULL;
}

void face_prompt_publish(struct http_request *request, struct face *face)
{
    if (!face_accepts(face, request) || !has_fleet(face, request))
        return;
    static const uint8_t nobody[16]; /* the request is the operator's, not a tenant's */
    const size_t body_bytes = http_body(request).length;
    struct byte_shares_hold hold = {0};
    if (face_reserve_body(face, nobody, body_bytes, &hold) != STATUS_OK) {
        http_respond_failure(request);
        return;
    }
    struct face_prompt_job *job = mem_zalloc(1, sizeof *job);
    enum status status = STATUS_OK;
    if (job == NULL)
        FAIL_OUT(STATUS_NO_MEMORY, "no memory for a prompt");
    *job = (struct face_prompt_job){
        .task = {.turn.bytes = body_bytes, .work = job_work, .done = job_done},
        .sink = {.take = job_take},
        .face = face,
        .next = face->prompt_jobs,
        .request = request,
        .hold = hold,
        .is_working = true};
    memset(job->task.turn.owner, 0xff, sizeof job->task.turn.owner); /* the operator's turns */
    TRY_OUT(http_body_take(request, &job->body));
    TRY_OUT(loop_turns_submit(face->turns, &job->task));
    if (job->next != NULL)
        job->next->previous = job;
    face->prompt_jobs = job;
    http_on_gone(request, job_gone, job);
    return;
out:
    if (job != NULL)
        job_free(job);
    face_release_body(face, &hold);
    http_respond_failure(request);
}

/* --- unpublishing and listing --- */

void face_prompt_unpublish(struct http_request *request, struct face *face)
{
    struct engine_domain domain;
    if (!has_fleet(face, request))
        return;
    enum status status = domain_read(http_path_argument(request, 0), &domain);
    if (status == STATUS_OK)
        status = fleet_unpublish(face->fleet, &domain);
    if (status != STATUS_OK) {
        http_respond_failure(request);
        return;
    }
    for (struct face_prompt_job *job = face->prompt_jobs; job != NULL; job = job->next) {
        if (job->id != 0 && domain_is(&job->domain, &domain))
            fleet_cancel(face->fleet, job->id);
    }
    row_drop(face, &domain);
    http_respond_json(request, 200, SLICE("{\"unpublished\":true}"));
}

static struct engine_published list_use(const struct engine_published *found, size_t count,
                                        const struct engine_domain *domain)
{
    for (size_t i = 0; i < count; i++) {
        if (domain_is(&found[i].domain, domain))
            return found[i];
    }
    return (struct engine_published){0};
}

void face_prompt_list(struct http_request *request, struct face *face)
{
    struct buffer answer;
    struct engine_published found[LIMIT_PROMPTS];
    size_t count = face->fleet != NULL ? fleet_published(face->fleet, found, LIMIT_PROMPTS) : 0;
    buffer_init(&answer, ANSWER_BYTES_MAX);
    buffer_append_text(&answer, "{\"object\":\"list\",\"data\":[");
    for (uint32_t i = 0; i < face->prompt_count; i++) {
        const struct face_prompt_row *row = &face->prompts[i];
        const struct engine_published use = list_use(found, count, &row->domain);
        buffer_append_text(&answer, i > 0 ? ",{\"domain\":\"" : "{\"domain\":\"");
        domain_append(&answer, &row->domain);
        buffer_printf(&answer, "\",\"tokens\":%u,\"pages\":%u,\"hits\":%llu,\"hit_tokens\":%llu}",
                      row->tokens, row->pages, (unsigned long long)use.hits,
                      (unsigned long long)use.hit_tokens);
    }
    buffer_append_text(&answer, "]}");
    if (answer.status == STATUS_OK)
        http_respond_json(request, 200, buffer_slice(&answer));
    else
        http_respond_error(request, STATUS_NO_MEMORY, NULL, "no memory for an answer");
    buffer_deinit(&answer);
}

void face_prompt_cancel_all(struct face *face)
{
    for (struct face_prompt_job *job = face->prompt_jobs; job != NULL; job = job->next) {
        if (job->id != 0)
            fleet_cancel(face->fleet, job->id);
    }
}
