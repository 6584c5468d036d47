#include "gateway/dialect/ask_messages.h"

#include <stdio.h>
#include <string.h>

#include "config/base/hash.h"
#include "config/base/limits.h"
#include "gateway/dialect/ask_block.h"
#include "gateway/dialect/ask_json.h"

enum { PATH_BYTES = 96, SHORT_ID = 9 };

/* Checks an array of {"type":"text","text":…} parts. The engine joins them, unless the model's
 * template takes parts. */
static enum status message_check_parts(const json_t *parts, const char *path)
{
    size_t count = json_array_size(parts);
    char where[PATH_BYTES];
    for (size_t i = 0; i < count; i++) {
        const json_t *part = json_array_get(parts, i);
        snprintf(where, sizeof where, "%.60s[%zu]", path, i);
        TRY(ask_json_object(part, where));
        const json_t *type = json_object_get(part, "type");
        struct slice word;
        snprintf(where, sizeof where, "%.60s[%zu].type", path, i);
        if (type == NULL)
            FAIL_PARAM(STATUS_INVALID, where, "Missing required parameter: '%s'.", where);
        TRY(ask_json_word(type, where, &word));
        if (!slice_is(word, "text"))
            FAIL_PARAM(STATUS_UNSUPPORTED, where,
                       "Invalid '%s': this model reads only text; parts must be of type 'text'.",
                       where);
        static const char *const known[] = {"type", "text", NULL};
        snprintf(where, sizeof where, "%.60s[%zu]", path, i);
        TRY(ask_json_members(part, where, known));
        const json_t *text = json_object_get(part, "text");
        snprintf(where, sizeof where, "%.60s[%zu].text", path, i);
        if (text == NULL)
            FAIL_PARAM(STATUS_INVALID, where, "Missing required parameter: '%s'.", where);
        struct slice slice;
        TRY(ask_json_string(text, where, &slice));
    }
    return STATUS_OK;
}

static enum status message_role(const json_t *value, const char *path, struct slice *out)
{
    if (value == NULL)
        FAIL_PARAM(STATUS_INVALID, path, "Missing required parameter: '%s'.", path);
    TRY(ask_json_word(value, path, out));
    if (slice_is(*out, "developer")) {
        *out = SLICE("system");
        return STATUS_OK;
    }
    if (!slice_is(*out, "system") && !slice_is(*out, "user") && !slice_is(*out, "assistant") &&
        !slice_is(*out, "tool"))
        FAIL_PARAM(STATUS_UNSUPPORTED, path,
                   "Invalid value for '%s': supported roles are 'system', 'developer', 'user', "
                   "'assistant' and 'tool'.",
                   path);
    return STATUS_OK;
}

/* Whether a member of a message says nothing. SDKs send an assistant's message back with all its
 * members, also the empty ones. */
static bool message_is_empty(const char *name, const json_t *value)
{
    bool is_list = strcmp(name, "tool_calls") == 0 || strcmp(name, "annotations") == 0;
    return json_is_null(value) || (is_list && json_is_array(value) && json_array_size(value) == 0);
}

/* Checks calls of tools in an answer: {"id","type":"function","function":{"name","arguments"}}. */
static enum status message_check_calls(const json_t *calls, size_t index)
{
    size_t count = 0;
    char path[PATH_BYTES];
    snprintf(path, sizeof path, "messages[%zu].tool_calls", index);
    TRY(ask_json_array(calls, path, LIMIT_MESSAGES, &count));
    for (size_t i = 0; i < count; i++) {
        static const char *const known[] = {"id", "type", "function", "index", NULL};
        static const char *const inner[] = {"name", "arguments", NULL};
        const json_t *call = json_array_get(calls, i);
        const json_t *function = json_object_get(call, "function");
        struct slice word;
        snprintf(path, sizeof path, "messages[%zu].tool_calls[%zu]", index, i);
        TRY(ask_json_object(call, path));
        TRY(ask_json_members(call, path, known));
        snprintf(path, sizeof path, "messages[%zu].tool_calls[%zu].function", index, i);
        if (function == NULL)
            FAIL_PARAM(STATUS_INVALID, path, "Missing required parameter: '%s'.", path);
        TRY(ask_json_object(function, path));
        TRY(ask_json_members(function, path, inner));
        snprintf(path, sizeof path, "messages[%zu].tool_calls[%zu].function.name", index, i);
        if (json_object_get(function, "name") == NULL)
            FAIL_PARAM(STATUS_INVALID, path, "Missing required parameter: '%s'.", path);
        TRY(ask_json_word(json_object_get(function, "name"), path, &word));
    }
    return STATUS_OK;
}

/* Checks a member that goes to the template as it is. */
static enum status message_check_member(const char *key, const json_t *value, size_t index)
{
    static const char *const words[] = {"name", "tool_call_id", "reasoning_content"};
    char path[PATH_BYTES];
    struct slice text;
    snprintf(path, sizeof path, "messages[%zu].%.32s", index, key);
    if (strcmp(key, "tool_calls") == 0)
        return message_check_calls(value, index);
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        if (strcmp(key, words[i]) == 0)
            return ask_json_string(value, path, &text);
    }
    FAIL_PARAM(STATUS_UNSUPPORTED, path,
               "Unsupported parameter: '%s'. Messages have 'role', 'content', 'name', "
               "'tool_calls', 'tool_call_id' and 'reasoning_content' here.",
               path);
}

/* Replaces the member `name` by an id of SHORT_ID letters and digits, unless it is one. No secret
 * key: equal prompts must stay equal, or no cached prefix would be found again. */
static void id_shorten(json_t *object, const char *name)
{
    static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
    static const struct hash_key key = {0};
    const json_t *old = json_object_get(object, name);
    char id[SHORT_ID + 1] = {0};
    if (!json_is_string(old) || (json_string_length(old) == SHORT_ID &&
                                 strspn(json_string_value(old), letters) == SHORT_ID))
        return;
    uint64_t hash = hash_bytes(&key, json_string_value(old), json_string_length(old));
    for (size_t i = 0; i < SHORT_ID; i++) {
        id[i] = letters[hash % (sizeof letters - 1)];
        hash /= sizeof letters - 1;
    }
    json_object_set_new(object, name, json_string(id));
}

/* Takes a message, and returns it with short ids; NULL: there is no memory. */
static json_t *ids_shorten(json_t *message)
{
    json_t *own = json_deep_copy(message);
    json_decref(message);
    id_shorten(own, "tool_call_id");
    const json_t *calls = json_object_get(own, "tool_calls");
    for (size_t i = 0; i < json_array_size(calls); i++)
        id_shorten(json_array_get(calls, i), "id");
    return own;
}

/* The JSON of a message that is more than a role and a text, without the members that say
 * nothing. */
static enum status message_json(const json_t *value, const struct answer_model *answer,
                                void **blocks, struct engine_message *out)
{
    const char *key;
    json_t *field;
    json_t *copy = json_object();
    json_object_foreach((json_t *)(uintptr_t)value, key, field)
    {
        if (strcmp(key, "content") == 0 || !message_is_empty(key, field))
            json_object_set(copy, key, field);
    }
    if (json_object_get(copy, "content") == NULL)
        json_object_set_new(copy, "content", json_null());
    json_object_set_new(copy, "role", json_stringn(out->role.bytes, out->role.length));
    if (answer != NULL && answer->format->id_letters == SHORT_ID) /* NULL: of a foreign server */
        copy = ids_shorten(copy);
    if (copy == NULL)
        FAIL(STATUS_NO_MEMORY, "no memory for the ids of calls");
    enum status status = ask_block_json(copy, blocks, &out->json);
    json_decref(copy);
    return status;
}

static enum status message_parse(const json_t *value, size_t index,
                                 const struct answer_model *answer, void **blocks,
                                 struct engine_message *out)
{
    char path[PATH_BYTES];
    bool is_more = false;
    *out = (struct engine_message){0};
    snprintf(path, sizeof path, "messages[%zu]", index);
    TRY(ask_json_object(value, path));
    const char *key;
    json_t *field;
    json_object_foreach((json_t *)(uintptr_t)value, key, field)
    {
        if (strcmp(key, "role") == 0 || strcmp(key, "content") == 0 || message_is_empty(key, field))
            continue;
        TRY(message_check_member(key, field, index));
        is_more = true;
    }
    snprintf(path, sizeof path, "messages[%zu].role", index);
    TRY(message_role(json_object_get(value, "role"), path, &out->role));
    snprintf(path, sizeof path, "messages[%zu].content", index);
    const json_t *content = json_object_get(value, "content");
    bool is_nothing = content == NULL || json_is_null(content);
    if (is_nothing && slice_is(out->role, "assistant")) { /* an answer may have had no text */
        out->content = SLICE("");
        return is_more ? message_json(value, answer, blocks, out) : STATUS_OK;
    }
    if (content == NULL)
        FAIL_PARAM(STATUS_INVALID, path, "Missing required parameter: '%s'.", path);
    if (json_is_array(content)) {
        TRY(message_check_parts(content, path));
        return message_json(value, answer, blocks, out);
    }
    if (!json_is_string(content))
        return ask_json_wrong_type(content, path, "a string or an array of text parts");
    TRY(ask_json_string(content, path, &out->content));
    return is_more ? message_json(value, answer, blocks, out) : STATUS_OK;
}

/* Checks one result against the ids of calls so far. */
static enum status results_check_one(const json_t *message, size_t index, const json_t *ids)
{
    char path[PATH_BYTES];
    const json_t *id = json_object_get(message, "tool_call_id");
    snprintf(path, sizeof path, "messages[%zu].tool_call_id", index);
    if (id == NULL || json_is_null(id))
        FAIL_PARAM(STATUS_INVALID, path, "Missing required parameter: '%s'.", path);
    if (json_object_getn(ids, json_string_value(id), json_string_length(id)) == NULL)
        FAIL_PARAM(STATUS_INVALID, path,
                   "Invalid '%s': no earlier message has a call of a tool with this id.", path);
    return STATUS_OK;
}

/* A message of the role "tool" is the result of a call in an earlier message. */
static enum status results_check(const json_t *messages)
{
    json_t *ids = json_object();
    enum status status = STATUS_OK;
    for (size_t i = 0; i < json_array_size(messages) && status == STATUS_OK; i++) {
        const json_t *message = json_array_get(messages, i);
        const json_t *role = json_object_get(message, "role");
        const json_t *calls = json_object_get(message, "tool_calls");
        for (size_t k = 0; k < json_array_size(calls); k++) {
            const json_t *id = json_object_get(json_array_get(calls, k), "id");
            if (json_is_string(id))
                json_object_setn_new(ids, json_string_value(id), json_string_length(id),
                                     json_true());
        }
        if (slice_is((struct slice){json_string_value(role), json_string_length(role)}, "tool"))
            status = results_check_one(message, i, ids);
    }
    json_decref(ids);
    return status;
}

enum status ask_messages_read(const json_t *value, const struct answer_model *answer, void **blocks,
                              const struct engine_message **messages, size_t *count)
{
    TRY(ask_json_array(value, "messages", LIMIT_MESSAGES, count));
    if (*count == 0)
        FAIL_PARAM(STATUS_INVALID, "messages",
                   "Invalid 'messages': empty array. Expected at least one message.");
    struct engine_message *list = ask_block_take(blocks, *count, sizeof *list);
    if (list == NULL)
        FAIL(STATUS_NO_MEMORY, "no memory for the messages");
    for (size_t i = 0; i < *count; i++)
        TRY(message_parse(json_array_get(value, i), i, answer, blocks, &list[i]));
    *messages = list;
    return results_check(value);
}
