#include "gateway/engine_http/face_frame.h"

#include <math.h>
#include <pthread.h>

#include "config/base/hash.h"
#include "config/base/mem.h"
#include "config/base/random_bytes.h"
#include "config/base/utf8.h"
#include "gateway/http/http_error.h"

/* Bounds the parts that wait for a frame. face_job writes echoed prompts in frames of 64 KiB, so no
 * frame comes near this bound. */
enum {
    PART_BYTES_MAX = 64 * 1024 * 1024,
    CALL_ID_FOREIGN = 24, /* of a source that splits its answers */
    CALL_ID_SHORT = 9,    /* templates that want such ids want them without "call_" */
    CALL_ID_HASHED = 10,  /* letters that one hash of 64 bits gives: 62^10 < 2^64 */
};

static void append_comma(struct buffer *out)
{
    if (out->length > 0)
        buffer_append_char(out, ',');
}

void face_frame_choice_init(struct face_frame_choice *choice, uint32_t index)
{
    *choice = (struct face_frame_choice){.index = index};
    buffer_init(&choice->text, PART_BYTES_MAX);
    buffer_init(&choice->token_ids, PART_BYTES_MAX);
    buffer_init(&choice->tokens, PART_BYTES_MAX);
    buffer_init(&choice->logprobs, PART_BYTES_MAX);
    buffer_init(&choice->top, PART_BYTES_MAX);
    buffer_init(&choice->offsets, PART_BYTES_MAX);
    buffer_init(&choice->reasoning, PART_BYTES_MAX);
    buffer_init(&choice->calls, PART_BYTES_MAX);
}

void face_frame_choice_deinit(struct face_frame_choice *choice)
{
    buffer_deinit(&choice->text);
    buffer_deinit(&choice->token_ids);
    buffer_deinit(&choice->tokens);
    buffer_deinit(&choice->logprobs);
    buffer_deinit(&choice->top);
    buffer_deinit(&choice->offsets);
    buffer_deinit(&choice->reasoning);
    buffer_deinit(&choice->calls);
    if (choice->split != NULL)
        answer_split_deinit(choice->split);
    mem_free(choice->split);
}

/* --- answers that are split --- */

static struct hash_key call_key;
static pthread_once_t call_key_once = PTHREAD_ONCE_INIT;

static void call_key_draw(void)
{
    random_bytes(&call_key, sizeof call_key);
}

/* Appends the id of a call: letters made from the id of the answer, the choice and the call, with
 * a key of its own: clients see what it gives, and must learn nothing of the key of tables. */
static void call_id(const struct face_frame_choice *choice, uint32_t call, struct buffer *out)
{
    static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
    const struct answer_model *answer = choice->head->answer;
    const uint32_t count = answer != NULL ? answer->format->id_letters : CALL_ID_FOREIGN;
    struct {
        char id[sizeof choice->head->id];
        uint32_t choice, call, part;
    } from = {.choice = choice->index, .call = call};
    uint64_t hash = 0;
    pthread_once(&call_key_once, call_key_draw);
    memcpy(from.id, choice->head->id, sizeof from.id);
    if (count != CALL_ID_SHORT)
        buffer_append_text(out, "call_");
    for (uint32_t i = 0; i < count; i++) {
        if (i % CALL_ID_HASHED == 0) {
            from.part = i;
            hash = hash_bytes(&call_key, &from, sizeof from);
        }
        buffer_append_char(out, letters[hash % (sizeof letters - 1)]);
        hash /= sizeof letters - 1;
    }
}

/* Continues the string at the end of `out`, which ends with its quote. */
static void append_to_string(struct buffer *out, struct slice text)
{
    const size_t at = out->length;
    buffer_append_json_string(out, text);
    if (out->status != STATUS_OK)
        return;
    memmove(out->bytes + at - 1, out->bytes + at + 1, out->length - at - 1);
    out->length -= 2;
}

static void call_close(struct face_frame_choice *choice)
{
    if (choice->is_in_call)
        buffer_append_text(&choice->calls, "}}");
    choice->is_in_call = false;
}

static void split_call(struct face_frame_choice *choice, const struct answer_part *part)
{
    struct buffer *out = &choice->calls;
    if (part->kind == ANSWER_CALL_NAME) {
        call_close(choice);
        append_comma(out);
        buffer_printf(out, "{\"index\":%u,\"id\":\"", part->call);
        call_id(choice, part->call, out);
        buffer_append_text(out, "\",\"type\":\"function\",\"function\":{\"name\":");
        buffer_append_json_string(out, part->text);
        buffer_append_text(out, ",\"arguments\":\"\"");
        choice->is_in_call = true;
    } else if (part->kind == ANSWER_CALL_ARGUMENTS) {
        if (!choice->is_in_call) {
            append_comma(out);
            buffer_printf(out, "{\"index\":%u,\"function\":{\"arguments\":\"\"", part->call);
            choice->is_in_call = true;
        }
        append_to_string(out, part->text);
    }
}

static void split_take(void *context, const struct answer_part *part)
{
    struct face_frame_choice *choice = context;
    if (part->kind == ANSWER_CONTENT)
        buffer_append_slice(&choice->text, part->text);
    else if (part->kind == ANSWER_REASONING)
        buffer_append_slice(&choice->reasoning, part->text);
    else
        split_call(choice, part);
}

/* A part of an answer that its source has split. */
static void part_add(struct face_frame_choice *choice, const struct face_frame_head *head,
                     const struct source_event *from)
{
    static const enum answer_part_kind kinds[] = {[SOURCE_CONTENT] = ANSWER_CONTENT,
                                                  [SOURCE_REASONING] = ANSWER_REASONING,
                                                  [SOURCE_CALL_NAME] = ANSWER_CALL_NAME,
                                                  [SOURCE_CALL_ARGUMENTS] = ANSWER_CALL_ARGUMENTS};
    const struct answer_part part = {
        .kind = kinds[from->channel], .call = from->call, .text = from->engine.text};
    choice->head = head;
    choice->parts_calls += from->channel == SOURCE_CALL_NAME;
    split_take(choice, &part);
}

enum status face_frame_choice_split(struct face_frame_choice *choice,
                                    const struct face_frame_head *head, bool is_in_reasoning)
{
    const struct answer_split_options options = {.model = head->answer,
                                                 .has_calls = head->has_calls,
                                                 .begins_in_reasoning = is_in_reasoning,
                                                 .reasons_once = head->is_constrained,
                                                 .tools = head->tools,
                                                 .take = split_take,
                                                 .context = choice};
    choice->head = head;
    choice->split = mem_alloc(sizeof *choice->split);
    if (choice->split == NULL)
        FAIL(STATUS_NO_MEMORY, "no memory for an answer");
    answer_split_init(choice->split, &options);
    return STATUS_OK;
}

/* Gives a token to the splitter. It belongs to reasoning if the answer is inside of reasoning
 * before or behind it, so marks are counted, too. */
static void split_add(struct face_frame_choice *choice, const struct engine_event *event)
{
    bool is_reasoning = answer_split_is_reasoning(choice->split);
    answer_split_text(choice->split, event->text);
    if (event->is_mark)
        answer_split_mark(choice->split, answer_format_mark(choice->head->answer, event->token));
    is_reasoning = is_reasoning || answer_split_is_reasoning(choice->split);
    if (event->kind == ENGINE_EVENT_CHOICE_END)
        answer_split_end(choice->split);
    else if (is_reasoning)
        choice->reasoning_tokens++;
    if (answer_split_status(choice->split) != STATUS_OK)
        choice->text.status = answer_split_status(choice->split);
}

/* JSON has no infinity; the log-probability of an impossible token is shown as -9999, as in the
 * OpenAI API. */
static void append_logprob(struct buffer *out, float logprob)
{
    buffer_printf(out, "%.6g", isfinite(logprob) ? (double)logprob : -9999.0);
}

/* Appends a token's bytes as a JSON string. Bytes that are no UTF-8 are written as
 * "bytes:\xe5\xad", so that different tokens stay different. */
static void append_token_text(struct buffer *out, struct slice bytes)
{
    if (utf8_is_valid(bytes.bytes, bytes.length)) {
        buffer_append_json_string(out, bytes);
        return;
    }
    buffer_append_text(out, "\"bytes:");
    for (size_t i = 0; i < bytes.length; i++)
        buffer_printf(out, "\\\\x%02x", (unsigned char)bytes.bytes[i]);
    buffer_append_char(out, '"');
}

static void append_bytes_array(struct buffer *out, struct slice bytes)
{
    buffer_append_char(out, '[');
    for (size_t i = 0; i < bytes.length; i++)
        buffer_printf(out, i == 0 ? "%u" : ",%u", (unsigned char)bytes.bytes[i]);
    buffer_append_char(out, ']');
}

static void append_chat_token(struct buffer *out, struct slice bytes, float logprob)
{
    buffer_append_text(out, "{\"token\":");
    append_token_text(out, bytes);
    buffer_append_text(out, ",\"logprob\":");
    append_logprob(out, logprob);
    buffer_append_text(out, ",\"bytes\":");
    append_bytes_array(out, bytes);
}

static void add_chat_logprobs(struct face_frame_choice *choice, const struct source_event *from)
{
    const struct engine_event *event = &from->engine;
    struct buffer *out = &choice->tokens;
    append_comma(out);
    append_chat_token(out, from->bytes, event->logprob);
    buffer_append_text(out, ",\"top_logprobs\":[");
    for (uint32_t i = 0; i < event->top_count; i++) {
        if (i > 0)
            buffer_append_char(out, ',');
        append_chat_token(out, from->top_bytes[i], event->top[i].logprob);
        buffer_append_char(out, '}');
    }
    buffer_append_text(out, "]}");
}

/* Adds the most likely tokens and the token of the answer, so up to one more than were asked for,
 * as the schema of completions says. */
static void add_text_top(struct face_frame_choice *choice, const struct source_event *from)
{
    const struct engine_event *event = &from->engine;
    struct buffer *out = &choice->top;
    bool is_there = false;
    buffer_append_char(out, '{');
    for (uint32_t i = 0; i <= event->top_count; i++) {
        struct engine_logprob one = {event->token, event->logprob};
        if (i < event->top_count)
            one = event->top[i];
        else if (is_there)
            break;
        is_there = is_there || one.token == event->token;
        if (i > 0)
            buffer_append_char(out, ',');
        append_token_text(out, i < event->top_count ? from->top_bytes[i] : from->bytes);
        buffer_append_char(out, ':');
        append_logprob(out, one.logprob);
    }
    buffer_append_char(out, '}');
}

/* Adds to the parallel arrays of completions. The first token of an echoed prompt has no
 * probability (null). */
static void add_text_logprobs(struct face_frame_choice *choice,
                              const struct source_event *source_event)
{
    const struct engine_event *event = &source_event->engine;
    bool is_first_prompt = event->kind == ENGINE_EVENT_PROMPT && !choice->has_first_token;
    append_comma(&choice->tokens);
    append_token_text(&choice->tokens, source_event->bytes);
    append_comma(&choice->offsets);
    uint64_t from = event->kind == ENGINE_EVENT_PROMPT ? 0 : choice->echo_characters;
    buffer_printf(&choice->offsets, "%llu", (unsigned long long)(from + event->text_offset));
    append_comma(&choice->logprobs);
    append_comma(&choice->top);
    if (is_first_prompt) {
        buffer_append_text(&choice->logprobs, "null");
        buffer_append_text(&choice->top, "null");
        return;
    }
    append_logprob(&choice->logprobs, event->logprob);
    add_text_top(choice, source_event);
}

static uint64_t characters_of(struct slice bytes)
{
    uint64_t count = 0;
    for (size_t i = 0; i < bytes.length; i++)
        count += ((unsigned char)bytes.bytes[i] & 0xc0) != 0x80;
    return count;
}

void face_frame_add(struct face_frame_choice *choice, const struct face_frame_head *head,
                    const struct source_event *from)
{
    const struct engine_event *event = &from->engine;
    if (from->channel != SOURCE_WHOLE)
        part_add(choice, head, from);
    else if (choice->split != NULL)
        split_add(choice, event);
    else
        buffer_append_slice(&choice->text, event->text);
    if (event->kind == ENGINE_EVENT_CHOICE_END)
        return;
    if (head->want_logprobs && from->has_logprob && head->dialect == ASK_CHAT)
        add_chat_logprobs(choice, from);
    if (head->want_logprobs && from->has_logprob && head->dialect == ASK_TEXT)
        add_text_logprobs(choice, from);
    if (head->want_token_ids && from->has_id && event->kind == ENGINE_EVENT_TOKEN) {
        append_comma(&choice->token_ids);
        buffer_printf(&choice->token_ids, "%u", event->token);
    }
    if (event->kind == ENGINE_EVENT_PROMPT)
        choice->echo_characters += characters_of(event->text);
    choice->has_first_token = true;
}

bool face_frame_is_due(const struct face_frame_choice *choice, const struct face_frame_head *head)
{
    return choice->text.length > 0 || choice->reasoning.length > 0 || choice->calls.length > 0 ||
           (head->want_logprobs && choice->tokens.length > 0) ||
           (head->want_token_ids && choice->token_ids.length > 0);
}

size_t face_frame_bytes(const struct face_frame_choice *choice)
{
    return choice->text.length + choice->reasoning.length + choice->calls.length +
           choice->token_ids.length + choice->tokens.length + choice->logprobs.length +
           choice->top.length + choice->offsets.length;
}

static void write_head(const struct face_frame_head *head, uint32_t n, struct buffer *out)
{
    static const char *const objects[] = {[ASK_CHAT] = "chat.completion.chunk",
                                          [ASK_TEXT] = "text_completion",
                                          [ASK_GENERATE] = "generation"};
    buffer_printf(out,
                  "{\"n\":%u,\"id\":\"%s\",\"object\":\"%s\",\"created\":%lld,"
                  "\"service_tier\":\"%s\",\"model\":",
                  n, head->id, objects[head->dialect], (long long)head->created_s, head->tier);
    buffer_append_json_string(out, slice_of(head->model));
}

static void write_logprobs(const struct face_frame_choice *choice,
                           const struct face_frame_head *head, struct buffer *out)
{
    buffer_append_text(out, ",\"logprobs\":");
    if (!head->want_logprobs || choice->tokens.length == 0) {
        buffer_append_text(out, "null");
        return;
    }
    if (head->dialect == ASK_CHAT) {
        buffer_append_text(out, "{\"content\":[");
        buffer_append_slice(out, buffer_slice(&choice->tokens));
        buffer_append_text(out, "],\"refusal\":null}");
        return;
    }
    buffer_append_text(out, "{\"tokens\":[");
    buffer_append_slice(out, buffer_slice(&choice->tokens));
    buffer_append_text(out, "],\"token_logprobs\":[");
    buffer_append_slice(out, buffer_slice(&choice->logprobs));
    buffer_append_text(out, "],\"top_logprobs\":[");
    buffer_append_slice(out, buffer_slice(&choice->top));
    buffer_append_text(out, "],\"text_offset\":[");
    buffer_append_slice(out, buffer_slice(&choice->offsets));
    buffer_append_text(out, "]}");
}

static void choice_clear(struct face_frame_choice *choice)
{
    buffer_clear(&choice->text);
    buffer_clear(&choice->token_ids);
    buffer_clear(&choice->tokens);
    buffer_clear(&choice->logprobs);
    buffer_clear(&choice->top);
    buffer_clear(&choice->offsets);
    buffer_clear(&choice->reasoning);
    buffer_clear(&choice->calls);
    choice->is_in_call = false;
}

static bool has_calls(const struct face_frame_choice *choice)
{
    return choice->parts_calls > 0 ||
           (choice->split != NULL && answer_split_calls(choice->split) > 0);
}

static void write_finish(const struct face_frame_choice *choice, enum engine_finish finish,
                         struct buffer *out)
{
    if (finish == ENGINE_FINISH_STOP && has_calls(choice))
        buffer_append_text(out, ",\"finish_reason\":\"tool_calls\"");
    else if (finish == ENGINE_FINISH_NONE)
        buffer_append_text(out, ",\"finish_reason\":null");
    else
        buffer_printf(out, ",\"finish_reason\":\"%s\"", engine_finish_name(finish));
}

static void write_delta(struct face_frame_choice *choice, struct buffer *out)
{
    const char *before = "\"delta\":{";
    if (choice->reasoning.length > 0) {
        buffer_printf(out, "%s\"reasoning_content\":", before);
        buffer_append_json_string(out, buffer_slice(&choice->reasoning));
        before = ",";
    }
    if (choice->text.length > 0) {
        buffer_printf(out, "%s\"content\":", before);
        buffer_append_json_string(out, buffer_slice(&choice->text));
        before = ",";
    }
    if (choice->calls.length > 0) {
        call_close(choice);
        buffer_printf(out, "%s\"tool_calls\":[", before);
        buffer_append_slice(out, buffer_slice(&choice->calls));
        before = "]";
    }
    buffer_append_text(out, strcmp(before, ",") == 0 ? "" : before);
    buffer_append_char(out, '}');
}

/* The first failure among the parts: a frame must not miss one of them. */
static enum status write_status(const struct face_frame_choice *choice)
{
    const struct buffer *const parts[] = {&choice->text, &choice->reasoning, &choice->calls};
    enum status status = STATUS_OK;
    for (size_t i = 0; i < sizeof parts / sizeof parts[0] && status == STATUS_OK; i++)
        status = parts[i]->status;
    return status;
}

void face_frame_write(struct face_frame_choice *choice, const struct face_frame_head *head,
                      uint32_t n, enum engine_finish finish, struct buffer *out)
{
    write_head(head, n, out);
    if (write_status(choice) != STATUS_OK)
        out->status = write_status(choice);
    if (head->dialect == ASK_GENERATE) {
        buffer_append_text(out, ",\"text\":");
        buffer_append_json_string(out, buffer_slice(&choice->text));
        write_finish(choice, finish, out);
        buffer_append_char(out, '}');
        choice_clear(choice);
        return;
    }
    buffer_printf(out, ",\"choices\":[{\"index\":%u,", choice->index);
    if (head->dialect == ASK_TEXT) {
        buffer_append_text(out, "\"text\":");
        buffer_append_json_string(out, buffer_slice(&choice->text));
    } else {
        write_delta(choice, out);
    }
    write_logprobs(choice, head, out);
    if (head->want_token_ids) {
        buffer_append_text(out, ",\"token_ids\":[");
        buffer_append_slice(out, buffer_slice(&choice->token_ids));
        buffer_append_char(out, ']');
    }
    write_finish(choice, finish, out);
    buffer_append_text(out, "}]}");
    choice_clear(choice);
}

void face_frame_write_role(const struct face_frame_choice *choice,
                           const struct face_frame_head *head, struct buffer *out)
{
    write_head(head, 0, out);
    buffer_printf(out,
                  ",\"choices\":[{\"index\":%u,\"delta\":{\"role\":\"assistant\",\"content\":\"\"},"
                  "\"logprobs\":null,\"finish_reason\":null}]}",
                  choice->index);
}

void face_frame_write_error(uint32_t n, const struct error_note *note, struct buffer *out)
{
    buffer_printf(out, "{\"n\":%u,", n);
    struct buffer error;
    buffer_init(&error, PART_BYTES_MAX);
    http_error_render(note, &error);
    /* The rendered object without its opening brace. */
    if (error.length > 1)
        buffer_append(out, error.bytes + 1, error.length - 1);
    buffer_deinit(&error);
}
