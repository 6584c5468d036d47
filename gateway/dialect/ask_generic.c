#include "gateway/dialect/ask_generic.h"

#include <string.h>

#include "gateway/dialect/ask_block.h"

/* Tools, calls and results of one body, twice as long at most. */
enum { TEXT_BYTES_MAX = 2 * LIMIT_BODY_BYTES };

static bool is_string(const json_t *value, const char *word)
{
    return json_is_string(value) && strcmp(json_string_value(value), word) == 0;
}

static const json_t *messages_of(const struct ask *ask)
{
    return json_object_get(ask->root, "messages");
}

bool ask_generic_is_needed(const struct ask *ask)
{
    const json_t *messages = messages_of(ask);
    if (strcmp(ask->model.answer->format->name, "generic") != 0)
        return false;
    bool is_needed = ask->tools.count > 0;
    for (size_t i = 0; i < json_array_size(messages) && !is_needed; i++) {
        const json_t *message = json_array_get(messages, i);
        is_needed = is_string(json_object_get(message, "role"), "tool") ||
                    json_array_size(json_object_get(message, "tool_calls")) > 0;
    }
    return is_needed;
}

/* --- texts --- */

static void append_json(struct buffer *out, const json_t *value)
{
    char *text = json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY);
    if (text == NULL) {
        out->status = status_fail(STATUS_NO_MEMORY, __FILE__, __LINE__, NULL, "no memory for JSON");
        return;
    }
    buffer_append_text(out, text);
    free(text);
}

static void append_tools(struct buffer *out, const struct ask_tools *tools)
{
    buffer_append_text(out, "# Tools\n\nYou may call the functions below. Each line is the JSON of "
                            "one function, with the schema of its arguments.\n<tools>\n");
    for (size_t i = 0; i < tools->count; i++) {
        append_json(out, json_object_get(json_array_get(tools->list, i), "function"));
        buffer_append_char(out, '\n');
    }
    buffer_append_text(out, "</tools>\n\nTo call a function, write the following, once for each "
                            "call:\n<tool_call>\n{\"name\": <name of the function>, \"arguments\": "
                            "<object of arguments>}\n</tool_call>\nThe results come between "
                            "<tool_response> and </tool_response>.");
}

static void append_content(struct buffer *out, const json_t *content)
{
    for (size_t i = 0; i < json_array_size(content); i++) {
        const json_t *text = json_object_get(json_array_get(content, i), "text");
        if (i > 0)
            buffer_append_char(out, '\n');
        buffer_append(out, json_string_value(text), json_string_length(text));
    }
    if (json_is_string(content))
        buffer_append(out, json_string_value(content), json_string_length(content));
}

/* Arguments that are a JSON object stand there as such, others as a string. */
static void append_arguments(struct buffer *out, const json_t *arguments)
{
    json_t *object = NULL;
    if (json_is_string(arguments))
        object = json_loadb(json_string_value(arguments), json_string_length(arguments),
                            JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, NULL);
    if (arguments == NULL)
        buffer_append_text(out, "{}");
    else if (json_is_object(object)) /* in the client's own spelling */
        buffer_append(out, json_string_value(arguments), json_string_length(arguments));
    else
        append_json(out, arguments);
    json_decref(object);
}

static void append_calls(struct buffer *out, const json_t *calls)
{
    for (size_t i = 0; i < json_array_size(calls); i++) {
        const json_t *function = json_object_get(json_array_get(calls, i), "function");
        if (out->length > 0)
            buffer_append_char(out, '\n');
        buffer_append_text(out, "<tool_call>\n{\"name\": ");
        append_json(out, json_object_get(function, "name"));
        buffer_append_text(out, ", \"arguments\": ");
        append_arguments(out, json_object_get(function, "arguments"));
        buffer_append_text(out, "}\n</tool_call>");
    }
}

/* --- messages --- */

struct list {
    struct ask *ask;
    struct engine_message *messages;
    size_t count;
    struct buffer text; /* of the message that is made */
};

/* The text becomes the content of a message. */
static enum status list_add(struct list *list, struct slice role)
{
    struct engine_message *message = &list->messages[list->count++];
    *message = (struct engine_message){.role = role};
    TRY(list->text.status);
    TRY(ask_block_copy(buffer_slice(&list->text), &list->ask->blocks, &message->content));
    buffer_clear(&list->text);
    return STATUS_OK;
}

static bool list_is_result(const json_t *messages, size_t index)
{
    return is_string(json_object_get(json_array_get(messages, index), "role"), "tool");
}

static enum status list_message(struct list *list, const json_t *messages, size_t index)
{
    const struct engine_message *old = &list->ask->engine.messages[index];
    const json_t *message = json_array_get(messages, index);
    const json_t *calls = json_object_get(message, "tool_calls");
    if (list_is_result(messages, index)) {
        if (list->text.length > 0)
            buffer_append_char(&list->text, '\n');
        buffer_append_text(&list->text, "<tool_response>\n");
        append_content(&list->text, json_object_get(message, "content"));
        buffer_append_text(&list->text, "\n</tool_response>");
        return list_is_result(messages, index + 1) ? STATUS_OK : list_add(list, SLICE("user"));
    }
    bool has_tools = index == 0 && list->ask->tools.count > 0 && slice_is(old->role, "system");
    if (!has_tools && json_array_size(calls) == 0) {
        list->messages[list->count++] = *old;
        return STATUS_OK;
    }
    append_content(&list->text, json_object_get(message, "content"));
    if (has_tools && list->text.length > 0)
        buffer_append_text(&list->text, "\n\n");
    if (has_tools)
        append_tools(&list->text, &list->ask->tools);
    append_calls(&list->text, calls);
    return list_add(list, old->role);
}

static enum status list_all(struct list *list)
{
    struct ask *ask = list->ask;
    const json_t *messages = messages_of(ask);
    const size_t count = ask->engine.message_count;
    if (ask->tools.count > 0 && !slice_is(ask->engine.messages[0].role, "system")) {
        append_tools(&list->text, &ask->tools);
        TRY(list_add(list, SLICE("system")));
    }
    for (size_t i = 0; i < count; i++)
        TRY(list_message(list, messages, i));
    return STATUS_OK;
}

enum status ask_generic_apply(struct ask *ask)
{
    struct list list = {.ask = ask};
    list.messages =
        ask_block_take(&ask->blocks, ask->engine.message_count + 1, sizeof *list.messages);
    if (list.messages == NULL)
        FAIL(STATUS_NO_MEMORY, "no memory for the messages");
    buffer_init(&list.text, TEXT_BYTES_MAX);
    enum status status = list_all(&list);
    buffer_deinit(&list.text);
    if (status == STATUS_OK) {
        ask->engine.messages = list.messages;
        ask->engine.message_count = list.count;
    }
    return status;
}
