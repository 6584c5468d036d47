#include "engine/text/template_input.h"

#include <math.h>

#include "config/base/json_read.h"
#include "engine/text/template_text.h"

/* --- JSON --- */

struct input {
    struct template_run *run;
    const struct json_read *json;
    bool is_own;
    char *strings; /* the run's copy of those that had escapes */
};

/* An open array or object: the value and how many of its parts are set. */
struct input_frame {
    struct template_items *items;
    uint32_t filled;
};

static enum status json_string(const struct input *input, const struct json_read_value *value,
                               struct template_value *out)
{
    struct slice text = json_read_text(value);
    const char *strings = input->json->strings;
    uintptr_t offset = (uintptr_t)text.bytes - (uintptr_t)strings;
    if (strings != NULL && offset < input->json->strings_used)
        text.bytes = input->strings + offset;
    return template_string_make(input->run, text, input->is_own, out);
}

static enum status json_leaf(const struct input *input, const struct json_read_value *value,
                             struct template_value *out)
{
    *out = (struct template_value){.kind = TEMPLATE_NONE, .is_own = input->is_own};
    switch (value->kind) {
    case JSON_READ_FALSE:
    case JSON_READ_TRUE:
        out->kind = TEMPLATE_BOOL;
        out->integer = value->kind == JSON_READ_TRUE;
        return STATUS_OK;
    case JSON_READ_INTEGER:
        out->kind = TEMPLATE_INTEGER;
        if (json_read_integer(value, &out->integer))
            return STATUS_OK;
        TRY(json_string(input, value, out));
        out->kind = TEMPLATE_BIG;
        return STATUS_OK;
    case JSON_READ_FLOAT:
        out->kind = TEMPLATE_FLOAT;
        if (!json_read_number(value, &out->number)) /* Python reads it as infinite, too */
            out->number = value->bytes[0] == '-' ? -INFINITY : INFINITY;
        return STATUS_OK;
    case JSON_READ_STRING:
        return json_string(input, value, out);
    default:
        return STATUS_OK;
    }
}

static enum status json_value(const struct input *input, const struct json_read_value *value,
                              struct template_value *out)
{
    TRY(template_run_charge(input->run, 0));
    if (value->kind != JSON_READ_ARRAY && value->kind != JSON_READ_OBJECT)
        return json_leaf(input, value, out);
    TRY(template_value_open(input->run,
                            value->kind == JSON_READ_ARRAY ? TEMPLATE_LIST : TEMPLATE_DICT,
                            value->count, out));
    out->is_own = input->is_own;
    out->items->depth = 1;
    return STATUS_OK;
}

/* The values stand in the order of the text, so each one belongs to the innermost open one. */
static enum status json_build(const struct input *input, struct template_value *out)
{
    struct input_frame frames[LIMIT_TEMPLATE_VALUE_DEPTH];
    uint32_t depth = 0;
    for (uint32_t i = 0; i < input->json->count; i++) {
        struct template_value value;
        TRY(json_value(input, &input->json->values[i], &value));
        if (depth == 0)
            *out = value;
        else
            frames[depth - 1].items->values[frames[depth - 1].filled++] = value;
        if (value.kind == TEMPLATE_LIST || value.kind == TEMPLATE_DICT) {
            ASSERT(depth < LIMIT_TEMPLATE_VALUE_DEPTH); /* json_read bounds it */
            frames[depth++] = (struct input_frame){value.items, 0};
        }
        while (depth > 0 && frames[depth - 1].filled == frames[depth - 1].items->count) {
            struct template_value closed = {.items = frames[--depth].items};
            TRY(template_value_close(input->run, &closed));
        }
    }
    return STATUS_OK;
}

static enum status json_convert(struct template_run *run, const struct json_read *json, bool is_own,
                                struct template_value *out)
{
    struct input input = {.run = run, .json = json, .is_own = is_own};
    if (json->strings_used > 0) {
        void *memory = NULL;
        TRY(template_run_charge(run, json->strings_used));
        TRY(template_run_alloc(run, json->strings_used, &memory));
        memcpy(memory, json->strings, json->strings_used);
        input.strings = memory;
    }
    return json_build(&input, out);
}

enum status template_input_json(struct template_run *run, struct slice text, bool is_own,
                                struct template_value *out)
{
    static const struct json_read_limits limits = {.depth = LIMIT_TEMPLATE_VALUE_DEPTH,
                                                   .values = LIMIT_TEMPLATE_STEPS};
    struct json_read json;
    TRY(template_run_charge(run, text.length));
    enum status status = json_read(&json, text, &limits);
    if (status == STATUS_LIMIT)
        TEMPLATE_FAIL(run, STATUS_TEMPLATE_LIMIT, "%s", status_note()->message);
    if (status != STATUS_OK)
        TEMPLATE_FAIL(run, status, "%s", status_note()->message);
    status = json_convert(run, &json, is_own, out);
    json_read_free(&json);
    return status;
}

/* --- messages --- */

static struct template_value *member_of(struct template_run *run, struct template_value dict,
                                        const char *name)
{
    if (dict.kind != TEMPLATE_DICT)
        return NULL;
    for (uint32_t i = 0; i < dict.count; i++) {
        if (template_string_is(run, dict.items->values[2 * i], slice_of(name)))
            return &dict.items->values[2 * i + 1];
    }
    return NULL;
}

static enum status make_dict(struct template_run *run, const char *const *names,
                             const struct template_value *values, uint32_t count,
                             struct template_value *out)
{
    TRY(template_value_open(run, TEMPLATE_DICT, count, out));
    out->is_own = false;
    for (uint32_t i = 0; i < count; i++) {
        TRY(template_string_make(run, slice_of(names[i]), false, &out->items->values[2 * i]));
        out->items->values[2 * i + 1] = values[i];
    }
    return template_value_close(run, out);
}

/* Whether a text is one JSON object, which the template can have as a value. */
static bool call_is_object(struct slice text)
{
    static const struct json_read_limits limits = {.depth = LIMIT_TEMPLATE_VALUE_DEPTH,
                                                   .values = LIMIT_TEMPLATE_STEPS};
    struct json_read json;
    if (json_read(&json, text, &limits) != STATUS_OK)
        return false;
    bool is_object = json.values[0].kind == JSON_READ_OBJECT;
    json_read_free(&json);
    return is_object;
}

/* Replaces the arguments of one call of a tool; what is not an object stays a string. */
static enum status call_arguments(struct template_run *run, struct template_value call)
{
    struct template_value *function = member_of(run, call, "function");
    struct template_value *arguments = member_of(run, call, "arguments");
    struct slice text;
    if (function != NULL)
        arguments = member_of(run, *function, "arguments");
    if (arguments == NULL || arguments->kind != TEMPLATE_STRING)
        return STATUS_OK;
    TRY(template_string_flat(run, *arguments, &text));
    TRY(template_run_charge(run, text.length));
    if (!call_is_object(text))
        return STATUS_OK;
    TRY(template_input_json(run, text, false, arguments));
    if (function != NULL)
        TRY(template_value_close(run, function));
    return template_value_close(run, &call);
}

static enum status message_calls(struct template_run *run, struct template_value message)
{
    struct template_value *calls = member_of(run, message, "tool_calls");
    if (calls == NULL || calls->kind != TEMPLATE_LIST)
        return STATUS_OK;
    for (uint32_t i = 0; i < calls->count; i++)
        TRY(call_arguments(run, calls->items->values[i]));
    return template_value_close(run, calls);
}

/* Joins the texts of parts with a newline. */
static enum status content_join(struct template_run *run, struct template_value *content)
{
    struct template_value texts;
    struct template_value between;
    TRY(template_string_make(run, SLICE("\n"), false, &between));
    TRY(template_value_open(run, TEMPLATE_LIST, content->count, &texts));
    for (uint32_t i = 0; i < content->count; i++) {
        const struct template_value *text = member_of(run, content->items->values[i], "text");
        if (text == NULL || text->kind != TEMPLATE_STRING)
            TEMPLATE_FAIL(run, STATUS_INVALID, "a part of a message has no text");
        texts.items->values[i] = *text;
    }
    TRY(template_value_close(run, &texts));
    return template_text_join(run, texts.items->values, texts.count, between, content);
}

/* Makes a list of one part. */
static enum status content_part(struct template_run *run, struct template_value *content)
{
    static const char *const names[] = {"type", "text"};
    struct template_value values[2] = {[1] = *content};
    struct template_value part;
    TRY(template_string_make(run, SLICE("text"), false, &values[0]));
    TRY(make_dict(run, names, values, 2, &part));
    TRY(template_value_make(run, TEMPLATE_LIST, &part, 1, content));
    content->is_own = false;
    return STATUS_OK;
}

static enum status message_content(struct template_run *run, const struct chat_template_args *args,
                                   struct template_value message)
{
    const enum chat_template_content wanted = args->content;
    struct template_value *content = member_of(run, message, "content");
    if (content == NULL)
        return STATUS_OK;
    if (content->kind == TEMPLATE_NONE && args->needs_content)
        TRY(template_string_make(run, SLICE(""), false, content));
    if (content->kind == TEMPLATE_LIST && wanted == CHAT_TEMPLATE_CONTENT_STRING)
        return content_join(run, content);
    if (content->kind == TEMPLATE_STRING && wanted == CHAT_TEMPLATE_CONTENT_PARTS)
        return content_part(run, content);
    return STATUS_OK;
}

static enum status message_value(struct template_run *run, const struct chat_message *message,
                                 const struct chat_template_args *args, struct template_value *out)
{
    static const char *const names[] = {"role", "content"};
    struct template_value values[2];
    if (message->json.length > 0) {
        TRY(template_input_json(run, message->json, false, out));
        if (out->kind != TEMPLATE_DICT)
            TEMPLATE_FAIL(run, STATUS_INVALID, "a message is not an object");
        TRY(message_calls(run, *out));
    } else {
        TRY(template_string_make(run, message->role, false, &values[0]));
        TRY(template_string_make(run, message->content, false, &values[1]));
        TRY(make_dict(run, names, values, 2, out));
    }
    TRY(message_content(run, args, *out));
    return template_value_close(run, out);
}

enum status template_input_messages(struct template_run *run, const struct chat_template_args *args,
                                    struct template_value *out)
{
    if (args->message_count > LIMIT_MESSAGES)
        FAIL(STATUS_LIMIT, "more than %d messages", LIMIT_MESSAGES);
    TRY(template_value_open(run, TEMPLATE_LIST, args->message_count, out));
    out->is_own = false;
    for (size_t i = 0; i < args->message_count; i++)
        TRY(message_value(run, &args->messages[i], args, &out->items->values[i]));
    return template_value_close(run, out);
}
