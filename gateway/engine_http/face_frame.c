#include "gateway/engine_http/face_frame.h"

#include <math.h>

#include "config/base/utf8.h"
#include "gateway/http/http_error.h"

/* Bounds the parts that wait for a frame. face_job writes echoed prompts in frames of 64 KiB, so no
 * frame comes near this bound. */
enum { PART_BYTES_MAX = 64 * 1024 * 1024 };

void face_frame_choice_init(struct face_frame_choice *choice, uint32_t index)
{
    *choice = (struct face_frame_choice){.index = index};
    buffer_init(&choice->text, PART_BYTES_MAX);
    buffer_init(&choice->token_ids, PART_BYTES_MAX);
    buffer_init(&choice->tokens, PART_BYTES_MAX);
    buffer_init(&choice->logprobs, PART_BYTES_MAX);
    buffer_init(&choice->top, PART_BYTES_MAX);
    buffer_init(&choice->offsets, PART_BYTES_MAX);
}

void face_frame_choice_deinit(struct face_frame_choice *choice)
{
    buffer_deinit(&choice->text);
    buffer_deinit(&choice->token_ids);
    buffer_deinit(&choice->tokens);
    buffer_deinit(&choice->logprobs);
    buffer_deinit(&choice->top);
    buffer_deinit(&choice->offsets);
}

static void append_comma(struct buffer *out)
{
    if (out->length > 0)
        buffer_append_char(out, ',');
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

static void append_chat_token(struct buffer *out, struct engine *engine, uint32_t token,
                              float logprob)
{
    struct slice bytes = engine_token_bytes(engine, token);
    buffer_append_text(out, "{\"token\":");
    append_token_text(out, bytes);
    buffer_append_text(out, ",\"logprob\":");
    append_logprob(out, logprob);
    buffer_append_text(out, ",\"bytes\":");
    append_bytes_array(out, bytes);
}

static void add_chat_logprobs(struct face_frame_choice *choice, const struct engine_event *event,
                              struct engine *engine)
{
    struct buffer *out = &choice->tokens;
    append_comma(out);
    append_chat_token(out, engine, event->token, event->logprob);
    buffer_append_text(out, ",\"top_logprobs\":[");
    for (uint32_t i = 0; i < event->top_count; i++) {
        if (i > 0)
            buffer_append_char(out, ',');
        append_chat_token(out, engine, event->top[i].token, event->top[i].logprob);
        buffer_append_char(out, '}');
    }
    buffer_append_text(out, "]}");
}

/* Adds the most likely tokens and the token of the answer, so up to one more than were asked for,
 * as the schema of completions says. */
static void add_text_top(struct face_frame_choice *choice, const struct engine_event *event,
                         struct engine *engine)
{
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
        append_token_text(out, engine_token_bytes(engine, one.token));
        buffer_append_char(out, ':');
        append_logprob(out, one.logprob);
    }
    buffer_append_char(out, '}');
}

/* Adds to the parallel arrays of completions. The first token of an echoed prompt has no
 * probability (null). */
static void add_text_logprobs(struct face_frame_choice *choice, const struct engine_event *event,
                              struct engine *engine)
{
    bool is_first_prompt = event->kind == ENGINE_EVENT_PROMPT && !choice->has_first_token;
    append_comma(&choice->tokens);
    append_token_text(&choice->tokens, engine_token_bytes(engine, event->token));
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
    add_text_top(choice, event, engine);
}

static uint64_t characters_of(struct slice bytes)
{
    uint64_t count = 0;
    for (size_t i = 0; i < bytes.length; i++)
        count += ((unsigned char)bytes.bytes[i] & 0xc0) != 0x80;
    return count;
}

void face_frame_add(struct face_frame_choice *choice, const struct face_frame_head *head,
                    const struct engine_event *event, struct engine *engine)
{
    buffer_append_slice(&choice->text, event->text);
    if (event->kind == ENGINE_EVENT_CHOICE_END)
        return;
    if (head->want_logprobs && head->dialect == ASK_CHAT)
        add_chat_logprobs(choice, event, engine);
    if (head->want_logprobs && head->dialect == ASK_TEXT)
        add_text_logprobs(choice, event, engine);
    if (head->want_token_ids && event->kind == ENGINE_EVENT_TOKEN) {
        append_comma(&choice->token_ids);
        buffer_printf(&choice->token_ids, "%u", event->token);
    }
    if (event->kind == ENGINE_EVENT_PROMPT)
        choice->echo_characters += characters_of(event->text);
    choice->has_first_token = true;
}

bool face_frame_is_due(const struct face_frame_choice *choice, const struct face_frame_head *head)
{
    return choice->text.length > 0 || (head->want_logprobs && choice->tokens.length > 0) ||
           (head->want_token_ids && choice->token_ids.length > 0);
}

size_t face_frame_bytes(const struct face_frame_choice *choice)
{
    return choice->text.length + choice->token_ids.length + choice->tokens.length +
           choice->logprobs.length + choice->top.length + choice->offsets.length;
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
}

static void write_finish(enum engine_finish finish, struct buffer *out)
{
    if (finish == ENGINE_FINISH_NONE)
        buffer_append_text(out, ",\"finish_reason\":null");
    else
        buffer_printf(out, ",\"finish_reason\":\"%s\"", engine_finish_name(finish));
}

void face_frame_write(struct face_frame_choice *choice, const struct face_frame_head *head,
                      uint32_t n, enum engine_finish finish, struct buffer *out)
{
    write_head(head, n, out);
    if (head->dialect == ASK_GENERATE) {
        buffer_append_text(out, ",\"text\":");
        buffer_append_json_string(out, buffer_slice(&choice->text));
        write_finish(finish, out);
        buffer_append_char(out, '}');
        choice_clear(choice);
        return;
    }
    buffer_printf(out, ",\"choices\":[{\"index\":%u,", choice->index);
    if (head->dialect == ASK_TEXT)
        buffer_append_text(out, "\"text\":");
    else if (choice->text.length > 0)
        buffer_append_text(out, "\"delta\":{\"content\":");
    else
        buffer_append_text(out, "\"delta\":{");
    if (head->dialect == ASK_TEXT || choice->text.length > 0)
        buffer_append_json_string(out, buffer_slice(&choice->text));
    if (head->dialect == ASK_CHAT)
        buffer_append_char(out, '}');
    write_logprobs(choice, head, out);
    if (head->want_token_ids) {
        buffer_append_text(out, ",\"token_ids\":[");
        buffer_append_slice(out, buffer_slice(&choice->token_ids));
        buffer_append_char(out, ']');
    }
    write_finish(finish, out);
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
