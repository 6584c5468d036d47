#include "gateway/engine_http/face_text.h"

#include <stdio.h>
#include <string.h>

#include "config/base/mem.h"
#include "gateway/dialect/ask.h"
#include "gateway/dialect/ask_block.h"
#include "gateway/dialect/ask_json.h"
#include "gateway/dialect/ask_messages.h"
#include "gateway/engine_http/face_trusted.h"
#include "gateway/http/http_error.h"

enum { ANSWER_BYTES_MAX = 64 * 1024 * 1024 };

struct text_job {
    struct loop_turns_task task; /* first member: text_work and text_done get it */
    struct face *face;
    struct http_request *request; /* NULL when it has ended or its client left */
    enum face_text_kind kind;
    struct buffer body;
    struct byte_shares_hold hold; /* accounts for the body's bytes */
    struct buffer answer;
    enum status status;
    struct error_note note;
    bool is_working;      /* a worker has it */
    _Atomic bool is_gone; /* workers read it too */
};

static void text_release(struct text_job *job)
{
    if (job->is_working || job->request != NULL)
        return;
    face_release_body(job->face, &job->hold);
    buffer_deinit(&job->body);
    buffer_deinit(&job->answer);
    mem_free(job);
}

static void text_gone(void *context, bool is_early)
{
    struct text_job *job = context;
    (void)is_early;
    job->request = NULL;
    job->is_gone = true;
    text_release(job);
}

/* Refuses fields that are not in `known`, a list that ends with NULL. */
static enum status text_check_fields(const json_t *root, const char *const *known)
{
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)root, key, value)
    {
        size_t i = 0;
        while (known[i] != NULL && strcmp(known[i], key) != 0)
            i++;
        if (known[i] == NULL)
            FAIL_PARAM(STATUS_UNSUPPORTED, key, "Unrecognized request argument supplied: %.64s",
                       key);
    }
    return STATUS_OK;
}

/* Reads a boolean field; `fallback` is its default. */
static enum status text_flag(const json_t *root, const char *name, bool fallback, bool *out)
{
    const json_t *value = json_object_get(root, name);
    *out = fallback;
    return value == NULL || json_is_null(value) ? STATUS_OK : ask_json_bool(value, name, out);
}

static void text_answer_ids(struct text_job *job, const uint32_t *ids, size_t count)
{
    struct buffer *out = &job->answer;
    buffer_append_text(out, "{\"tokens\":[");
    for (size_t i = 0; i < count; i++) {
        if (i > 0)
            buffer_append_char(out, ',');
        buffer_append_number(out, ids[i]);
    }
    buffer_printf(out, "],\"count\":%zu,\"max_model_len\":%u}", count, job->face->info.context);
}

static enum status text_encode(struct text_job *job, const json_t *root, void **blocks,
                               uint32_t **ids, size_t *count)
{
    const json_t *prompt = json_object_get(root, "prompt");
    const json_t *messages = json_object_get(root, "messages");
    bool add_special;
    bool add_generation_prompt;
    TRY(text_flag(root, "add_special_tokens", true, &add_special));
    TRY(text_flag(root, "add_generation_prompt", true, &add_generation_prompt));
    if ((prompt == NULL) == (messages == NULL))
        FAIL_PARAM(STATUS_INVALID, "prompt", "Give either 'prompt' or 'messages'.");
    struct engine *engine = fleet_text(job->face->fleet);
    if (prompt != NULL) {
        struct slice text;
        TRY(ask_json_string(prompt, "prompt", &text));
        return engine_tokenize(engine, text, add_special, LIMIT_CONTEXT, ids, count);
    }
    const struct engine_message *list;
    size_t message_count;
    TRY(ask_messages_read(messages, engine_answer(engine), blocks, &list, &message_count));
    return engine_tokenize_chat(engine, list, message_count, add_generation_prompt, LIMIT_CONTEXT,
                                ids, count);
}

static enum status text_tokenize(struct text_job *job, const json_t *root)
{
    static const char *const known[] = {
        "model", "prompt", "messages", "add_special_tokens", "add_generation_prompt", NULL};
    TRY(text_check_fields(root, known));
    uint32_t *ids = NULL;
    size_t count = 0;
    void *blocks = NULL;
    enum status status = text_encode(job, root, &blocks, &ids, &count);
    if (status == STATUS_OK)
        text_answer_ids(job, ids, count);
    ask_block_free(blocks);
    mem_free(ids);
    return status == STATUS_OK ? job->answer.status : status;
}

static enum status text_detokenize(struct text_job *job, const json_t *root)
{
    static const char *const known[] = {"model", "tokens", "skip_special_tokens", NULL};
    TRY(text_check_fields(root, known));
    const json_t *tokens = json_object_get(root, "tokens");
    if (tokens == NULL)
        FAIL_PARAM(STATUS_INVALID, "tokens", "Missing required parameter: 'tokens'.");
    bool skips_special;
    TRY(text_flag(root, "skip_special_tokens", false, &skips_special));
    size_t count;
    TRY(ask_json_array(tokens, "tokens", LIMIT_CONTEXT, &count));
    uint32_t *ids = mem_zalloc(count, sizeof *ids);
    struct buffer text;
    buffer_init(&text, ANSWER_BYTES_MAX);
    enum status status = STATUS_OK;
    if (ids == NULL)
        FAIL_OUT(STATUS_NO_MEMORY, "no memory for the tokens");
    for (size_t i = 0; i < count; i++) {
        char path[48];
        int64_t id;
        snprintf(path, sizeof path, "tokens[%zu]", i);
        TRY_OUT(ask_json_integer(json_array_get(tokens, i), path, 0,
                                 (int64_t)job->face->info.vocab - 1, &id));
        ids[i] = (uint32_t)id;
    }
    TRY_OUT(engine_detokenize(fleet_text(job->face->fleet), ids, count, !skips_special, &text));
    buffer_append_text(&job->answer, "{\"prompt\":");
    buffer_append_json_string(&job->answer, buffer_slice(&text));
    buffer_append_char(&job->answer, '}');
    status = job->answer.status;
out:
    buffer_deinit(&text);
    mem_free(ids);
    return status;
}

static enum status text_work_body(struct text_job *job)
{
    json_t *root = NULL;
    TRY(ask_json_parse(buffer_slice(&job->body), &root));
    enum status status = ask_check_model(root, job->face->info.model_name);
    if (status == STATUS_OK)
        status =
            job->kind == FACE_TEXT_TOKENIZE ? text_tokenize(job, root) : text_detokenize(job, root);
    json_decref(root);
    return status;
}

static void text_work(struct loop_turns_task *task)
{
    struct text_job *job = (struct text_job *)task;
    if (job->is_gone) /* nobody waits for the answer */
        return;
    job->status = text_work_body(job);
    if (job->status != STATUS_OK)
        job->note = *status_note();
}

static void text_done(struct loop_turns_task *task)
{
    struct text_job *job = (struct text_job *)task;
    static const struct http_header type = {"content-type", {"application/json", 16}};
    buffer_deinit(&job->body);
    face_give_back_body(job->face, &job->hold);
    if (job->request != NULL && job->status == STATUS_OK) {
        http_respond_take(job->request, 200, &type, 1, &job->answer);
    } else if (job->request != NULL) {
        status_note_set(&job->note);
        http_respond_failure(job->request);
    }
    job->is_working = false;
    text_release(job);
}

void face_text_start(struct face *face, struct http_request *request, enum face_text_kind kind)
{
    if (!face_accepts(face, request))
        return;
    if (face->fleet == NULL) {
        http_respond_error(request, STATUS_UNSUPPORTED, NULL,
                           "The engine that serves this model has no tokenizer here.");
        return;
    }
    const size_t body_bytes = http_body(request).length;
    struct face_trusted trusted;
    struct byte_shares_hold hold = {0};
    if (face_trusted_read(&trusted, request) != STATUS_OK ||
        face_reserve_body(face, trusted.tenant, body_bytes, &hold) != STATUS_OK) {
        http_respond_failure(request);
        return;
    }
    struct text_job *job = mem_zalloc(1, sizeof *job);
    if (job == NULL) {
        face_release_body(face, &hold);
        http_respond_error(request, STATUS_NO_MEMORY, NULL, "no memory for a request");
        return;
    }
    *job =
        (struct text_job){.task = {.turn.bytes = body_bytes, .work = text_work, .done = text_done},
                          .face = face,
                          .kind = kind};
    memcpy(job->task.turn.owner, trusted.tenant, sizeof trusted.tenant);
    job->hold = hold;
    buffer_init(&job->answer, ANSWER_BYTES_MAX);
    enum status status = http_body_take(request, &job->body);
    if (status == STATUS_OK)
        status = loop_turns_submit(face->turns, &job->task);
    if (status != STATUS_OK) {
        text_release(job);
        http_respond_failure(request);
        return;
    }
    job->is_working = true;
    job->request = request;
    http_on_gone(request, text_gone, job);
}
