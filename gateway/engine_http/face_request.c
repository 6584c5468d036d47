#include "gateway/engine_http/face_request.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config/base/mem.h"
#include "config/base/random_bytes.h"
#include "gateway/engine_http/face_json.h"

enum { PATH_BYTES = 96, COMPLETION_TOKENS_DEFAULT = 16 /* as the OpenAI schema says */ };

struct block {
    struct block *next;
    _Alignas(16) char bytes[];
};

static void *block_take(void **blocks, size_t count, size_t size)
{
    size_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes) ||
        __builtin_add_overflow(bytes, sizeof(struct block), &bytes))
        return NULL;
    struct block *block = mem_alloc(bytes);
    if (block == NULL)
        return NULL;
    block->next = *blocks;
    *blocks = block;
    return block->bytes;
}

void face_request_free_blocks(void *blocks)
{
    for (struct block *block = blocks; block != NULL;) {
        struct block *next = block->next;
        mem_free(block);
        block = next;
    }
}

/* --- messages --- */

/* Puts a value's JSON text into the blocks. */
static enum status take_json(const json_t *value, void **blocks, struct slice *out)
{
    size_t length = json_dumpb(value, NULL, 0, JSON_COMPACT);
    char *text = block_take(blocks, length + 1, 1);
    if (text == NULL)
        FAIL(STATUS_NO_MEMORY, "no memory for the messages");
    json_dumpb(value, text, length, JSON_COMPACT);
    *out = (struct slice){text, length};
    return STATUS_OK;
}

/* Checks an array of {"type":"text","text":…} parts. The engine joins them, unless the model's
 * template takes parts. */
static enum status message_check_parts(const json_t *parts, const char *path)
{
    size_t count = json_array_size(parts);
    char where[PATH_BYTES];
    for (size_t i = 0; i < count; i++) {
        const json_t *part = json_array_get(parts, i);
        snprintf(where, sizeof where, "%.60s[%zu]", path, i);
        TRY(face_json_object(part, where));
        const json_t *type = json_object_get(part, "type");
        struct slice word;
        snprintf(where, sizeof where, "%.60s[%zu].type", path, i);
        if (type == NULL)
            FAIL_PARAM(STATUS_INVALID, where, "Missing required parameter: '%s'.", where);
        TRY(face_json_word(type, where, &word));
        if (!slice_is(word, "text"))
            FAIL_PARAM(STATUS_UNSUPPORTED, where,
                       "Invalid '%s': this model reads only text; parts must be of type 'text'.",
                       where);
        static const char *const known[] = {"type", "text", NULL};
        snprintf(where, sizeof where, "%.60s[%zu]", path, i);
        TRY(face_json_members(part, where, known));
        const json_t *text = json_object_get(part, "text");
        snprintf(where, sizeof where, "%.60s[%zu].text", path, i);
        if (text == NULL)
            FAIL_PARAM(STATUS_INVALID, where, "Missing required parameter: '%s'.", where);
        struct slice slice;
        TRY(face_json_string(text, where, &slice));
    }
    return STATUS_OK;
}

static enum status message_role(const json_t *value, const char *path, struct slice *out)
{
    if (value == NULL)
        FAIL_PARAM(STATUS_INVALID, path, "Missing required parameter: '%s'.", path);
    TRY(face_json_word(value, path, out));
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
    TRY(face_json_array(calls, path, LIMIT_MESSAGES, &count));
    for (size_t i = 0; i < count; i++) {
        static const char *const known[] = {"id", "type", "function", "index", NULL};
        static const char *const inner[] = {"name", "arguments", NULL};
        const json_t *call = json_array_get(calls, i);
        const json_t *function = json_object_get(call, "function");
        struct slice word;
        snprintf(path, sizeof path, "messages[%zu].tool_calls[%zu]", index, i);
        TRY(face_json_object(call, path));
        TRY(face_json_members(call, path, known));
        snprintf(path, sizeof path, "messages[%zu].tool_calls[%zu].function", index, i);
        if (function == NULL)
            FAIL_PARAM(STATUS_INVALID, path, "Missing required parameter: '%s'.", path);
        TRY(face_json_object(function, path));
        TRY(face_json_members(function, path, inner));
        snprintf(path, sizeof path, "messages[%zu].tool_calls[%zu].function.name", index, i);
        if (json_object_get(function, "name") == NULL)
            FAIL_PARAM(STATUS_INVALID, path, "Missing required parameter: '%s'.", path);
        TRY(face_json_word(json_object_get(function, "name"), path, &word));
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
            return face_json_string(value, path, &text);
    }
    FAIL_PARAM(STATUS_UNSUPPORTED, path,
               "Unsupported parameter: '%s'. Messages have 'role', 'content', 'name', "
               "'tool_calls', 'tool_call_id' and 'reasoning_content' here.",
               path);
}

/* The JSON of a message that is more than a role and a text, without the members that say
 * nothing. */
static enum status message_json(const json_t *value, void **blocks, struct engine_message *out)
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
    enum status status = take_json(copy, blocks, &out->json);
    json_decref(copy);
    return status;
}

static enum status message_parse(const json_t *value, size_t index, void **blocks,
                                 struct engine_message *out)
{
    char path[PATH_BYTES];
    bool is_more = false;
    *out = (struct engine_message){0};
    snprintf(path, sizeof path, "messages[%zu]", index);
    TRY(face_json_object(value, path));
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
        return is_more ? message_json(value, blocks, out) : STATUS_OK;
    }
    if (content == NULL)
        FAIL_PARAM(STATUS_INVALID, path, "Missing required parameter: '%s'.", path);
    if (json_is_array(content)) {
        TRY(message_check_parts(content, path));
        return message_json(value, blocks, out);
    }
    if (!json_is_string(content))
        return face_json_wrong_type(content, path, "a string or an array of text parts");
    TRY(face_json_string(content, path, &out->content));
    return is_more ? message_json(value, blocks, out) : STATUS_OK;
}

enum status face_request_messages(const json_t *value, void **blocks,
                                  const struct engine_message **messages, size_t *count)
{
    TRY(face_json_array(value, "messages", LIMIT_MESSAGES, count));
    if (*count == 0)
        FAIL_PARAM(STATUS_INVALID, "messages",
                   "Invalid 'messages': empty array. Expected at least one message.");
    struct engine_message *list = block_take(blocks, *count, sizeof *list);
    if (list == NULL)
        FAIL(STATUS_NO_MEMORY, "no memory for the messages");
    for (size_t i = 0; i < *count; i++)
        TRY(message_parse(json_array_get(value, i), i, blocks, &list[i]));
    *messages = list;
    return STATUS_OK;
}

/* --- fields: one function each; `name` is the field, which is its path --- */

typedef enum status (*field_take)(struct face_request *request, const char *name,
                                  const json_t *value);

static enum status prompts_take(struct face_request *request, size_t count)
{
    request->prompts = block_take(&request->blocks, count, sizeof *request->prompts);
    if (request->prompts == NULL)
        FAIL(STATUS_NO_MEMORY, "no memory for the prompts");
    memset(request->prompts, 0, count * sizeof *request->prompts);
    request->prompt_count = (uint32_t)count;
    return STATUS_OK;
}

static enum status take_messages(struct face_request *request, const char *name,
                                 const json_t *value)
{
    (void)name;
    TRY(prompts_take(request, 1));
    request->prompts[0].kind = ENGINE_PROMPT_CHAT;
    return face_request_messages(value, &request->blocks, &request->engine.messages,
                                 &request->engine.message_count);
}

static enum status prompt_ids(struct face_request *request, const char *path, const json_t *value,
                              uint32_t vocab, struct face_prompt *out)
{
    size_t count = json_array_size(value);
    if (count == 0)
        FAIL_PARAM(STATUS_INVALID, path, "Invalid '%s': empty array of token ids.", path);
    out->kind = ENGINE_PROMPT_TOKENS;
    out->token_count = count;
    out->tokens = block_take(&request->blocks, count, sizeof *out->tokens);
    if (out->tokens == NULL)
        FAIL(STATUS_NO_MEMORY, "no memory for the prompt");
    for (size_t i = 0; i < count; i++) {
        char where[PATH_BYTES];
        snprintf(where, sizeof where, "%.64s[%zu]", path, i);
        int64_t id;
        TRY(face_json_integer(json_array_get(value, i), where, 0, (int64_t)vocab - 1, &id));
        out->tokens[i] = (uint32_t)id;
    }
    return STATUS_OK;
}

static enum status prompt_text(const char *path, const json_t *value, struct face_prompt *out)
{
    out->kind = ENGINE_PROMPT_TEXT;
    TRY(face_json_string(value, path, &out->text));
    if (out->text.length == 0)
        FAIL_PARAM(STATUS_INVALID, path, "Invalid '%s': the prompt is empty.", path);
    return STATUS_OK;
}

/* A text, an array of token ids, or a list of texts or of arrays. As in the schema, the first
 * element decides which it is. */
static enum status take_prompt(struct face_request *request, const char *name, const json_t *value)
{
    uint32_t vocab = request->vocab;
    if (json_is_string(value)) {
        TRY(prompts_take(request, 1));
        return prompt_text(name, value, &request->prompts[0]);
    }
    if (request->kind == FACE_GENERATE)
        return face_json_wrong_type(value, name, "a string");
    if (!json_is_array(value))
        return face_json_wrong_type(value, name, "a string or an array");
    size_t count = json_array_size(value);
    if (count == 0)
        FAIL_PARAM(STATUS_INVALID, name, "Invalid 'prompt': empty array.");
    const json_t *first = json_array_get(value, 0);
    if (!json_is_string(first) && !json_is_array(first)) {
        TRY(prompts_take(request, 1));
        return prompt_ids(request, name, value, vocab, &request->prompts[0]);
    }
    TRY(face_json_array(value, name, LIMIT_ANSWERS, &count));
    TRY(prompts_take(request, count));
    for (size_t i = 0; i < count; i++) {
        const json_t *one = json_array_get(value, i);
        char where[PATH_BYTES];
        snprintf(where, sizeof where, "prompt[%zu]", i);
        if (json_is_array(one) && json_is_array(first))
            TRY(prompt_ids(request, where, one, vocab, &request->prompts[i]));
        else if (json_is_string(first))
            TRY(prompt_text(where, one, &request->prompts[i]));
        else
            return face_json_wrong_type(one, where, "an array of token ids");
    }
    return STATUS_OK;
}

static enum status take_tokens_max(struct face_request *request, const char *name,
                                   const json_t *value)
{
    int64_t number;
    TRY(face_json_integer(value, name, request->kind == FACE_TEXT ? 0 : 1, LIMIT_CONTEXT, &number));
    request->engine.tokens_max = (uint32_t)number;
    request->engine.is_scored = number == 0;
    return STATUS_OK;
}

static enum status take_temperature(struct face_request *request, const char *name,
                                    const json_t *value)
{
    double number;
    TRY(face_json_number(value, name, 0, 2, false, &number));
    request->engine.sampling.temperature = (float)number;
    return STATUS_OK;
}

static enum status take_top_p(struct face_request *request, const char *name, const json_t *value)
{
    double number;
    TRY(face_json_number(value, name, 0, 1, false, &number));
    /* 0 means the most likely token only. The sampler needs a positive number; 1e-6 has the same
     * effect, because the most likely token of any vocabulary is likelier than that. */
    request->engine.sampling.top_p = number < 1e-6 ? 1e-6f : (float)number;
    return STATUS_OK;
}

static enum status take_min_p(struct face_request *request, const char *name, const json_t *value)
{
    double number;
    TRY(face_json_number(value, name, 0, 1, false, &number));
    request->engine.sampling.min_p = (float)number;
    return STATUS_OK;
}

/* -1 and 0 both mean "off", as in vLLM. */
static enum status take_top_k(struct face_request *request, const char *name, const json_t *value)
{
    int64_t number;
    TRY(face_json_integer(value, name, -1, LIMIT_VOCAB, &number));
    request->engine.sampling.top_k = number > 0 ? (uint32_t)number : 0;
    return STATUS_OK;
}

static enum status take_n(struct face_request *request, const char *name, const json_t *value)
{
    int64_t number;
    TRY(face_json_integer(value, name, 1, LIMIT_CHOICES, &number));
    request->engine.choices = (uint32_t)number;
    return STATUS_OK;
}

static enum status take_seed(struct face_request *request, const char *name, const json_t *value)
{
    int64_t number;
    TRY(face_json_integer(value, name, INT64_MIN, INT64_MAX, &number));
    request->engine.sampling.seed = (uint64_t)number;
    return STATUS_OK;
}

static enum status take_presence(struct face_request *request, const char *name,
                                 const json_t *value)
{
    double number;
    TRY(face_json_number(value, name, -2, 2, false, &number));
    request->engine.sampling.presence_penalty = (float)number;
    return STATUS_OK;
}

static enum status take_frequency(struct face_request *request, const char *name,
                                  const json_t *value)
{
    double number;
    TRY(face_json_number(value, name, -2, 2, false, &number));
    request->engine.sampling.frequency_penalty = (float)number;
    return STATUS_OK;
}

static enum status take_logit_bias(struct face_request *request, const char *name,
                                   const json_t *value)
{
    TRY(face_json_object(value, name));
    struct engine_sampling *sampling = &request->engine.sampling;
    if (json_object_size(value) > LIMIT_LOGIT_BIAS)
        FAIL_PARAM(STATUS_OUT_OF_RANGE, name, "Invalid 'logit_bias': at most %d tokens.",
                   LIMIT_LOGIT_BIAS);
    const char *key;
    json_t *entry;
    json_object_foreach((json_t *)(uintptr_t)value, key, entry)
    {
        char *end = NULL;
        unsigned long id = strtoul(key, &end, 10);
        /* Each id has one spelling: "05" beside "5" would be two biases for one token. */
        bool is_number = key[0] >= '0' && key[0] <= '9' && *end == '\0' && strlen(key) <= 9 &&
                         (key[0] != '0' || key[1] == '\0');
        if (!is_number || id >= request->vocab)
            FAIL_PARAM(STATUS_OUT_OF_RANGE, name,
                       "Invalid 'logit_bias': keys are token ids from 0 to %u.",
                       request->vocab - 1);
        char path[PATH_BYTES];
        snprintf(path, sizeof path, "logit_bias.%.32s", key);
        double bias;
        TRY(face_json_number(entry, path, -100, 100, false, &bias));
        sampling->bias[sampling->bias_count++] =
            (struct engine_bias){.token = (uint32_t)id, .bias = (float)bias};
    }
    return STATUS_OK;
}

static enum status stop_one(struct face_request *request, const char *path, const json_t *value)
{
    struct slice text;
    TRY(face_json_string(value, path, &text));
    if (text.length == 0 || text.length > LIMIT_STOP_BYTES)
        FAIL_PARAM(STATUS_OUT_OF_RANGE, path,
                   "Invalid '%s': a stop string has 1 to %d bytes, this one has %zu.", path,
                   LIMIT_STOP_BYTES, text.length);
    request->engine.stop[request->engine.stop_count++] = text;
    return STATUS_OK;
}

static enum status take_stop(struct face_request *request, const char *name, const json_t *value)
{
    if (json_is_string(value))
        return stop_one(request, name, value);
    if (!json_is_array(value))
        return face_json_wrong_type(value, name, "a string or an array of strings");
    size_t count;
    TRY(face_json_array(value, name, LIMIT_STOP_STRINGS, &count));
    for (size_t i = 0; i < count; i++) {
        char path[PATH_BYTES];
        snprintf(path, sizeof path, "stop[%zu]", i);
        TRY(stop_one(request, path, json_array_get(value, i)));
    }
    return STATUS_OK;
}

/* In chats "logprobs" is a boolean (beside "top_logprobs"); in completions it is the number. */
static enum status take_logprobs(struct face_request *request, const char *name,
                                 const json_t *value)
{
    if (request->kind == FACE_CHAT)
        return face_json_bool(value, name, &request->engine.want_logprobs);
    int64_t number;
    TRY(face_json_integer(value, name, 0, LIMIT_LOGPROBS, &number));
    request->engine.want_logprobs = true;
    request->engine.top_logprobs = (uint32_t)number;
    return STATUS_OK;
}

static enum status take_top_logprobs(struct face_request *request, const char *name,
                                     const json_t *value)
{
    int64_t number;
    TRY(face_json_integer(value, name, 0, LIMIT_LOGPROBS, &number));
    request->engine.top_logprobs = (uint32_t)number;
    request->has_top_logprobs = true;
    return STATUS_OK;
}

static enum status take_stream(struct face_request *request, const char *name, const json_t *value)
{
    return face_json_bool(value, name, &request->is_stream);
}

static enum status take_stream_options(struct face_request *request, const char *name,
                                       const json_t *value)
{
    TRY(face_json_object(value, name));
    request->has_stream_options = true;
    const char *key;
    json_t *entry;
    json_object_foreach((json_t *)(uintptr_t)value, key, entry)
    {
        char path[PATH_BYTES];
        snprintf(path, sizeof path, "stream_options.%.32s", key);
        bool is_known =
            strcmp(key, "include_usage") == 0 || strcmp(key, "include_obfuscation") == 0;
        if (!is_known)
            FAIL_PARAM(STATUS_UNSUPPORTED, path, "Unknown parameter: '%s'.", path);
        bool ignored;
        if (!json_is_null(entry))
            TRY(face_json_bool(entry, path, &ignored));
    }
    return STATUS_OK;
}

static enum status take_echo(struct face_request *request, const char *name, const json_t *value)
{
    return face_json_bool(value, name, &request->engine.echo);
}

static enum status take_token_ids(struct face_request *request, const char *name,
                                  const json_t *value)
{
    return face_json_bool(value, name, &request->want_token_ids);
}

static enum status take_ignore_end(struct face_request *request, const char *name,
                                   const json_t *value)
{
    return face_json_bool(value, name, &request->engine.ignore_end);
}

static enum status take_skip_special(struct face_request *request, const char *name,
                                     const json_t *value)
{
    bool skips_special;
    TRY(face_json_bool(value, name, &skips_special));
    request->engine.shows_control = !skips_special;
    return STATUS_OK;
}

static enum status take_response_format(struct face_request *request, const char *name,
                                        const json_t *value)
{
    (void)request;
    TRY(face_json_object(value, name));
    const json_t *type = json_object_get(value, "type");
    struct slice word = {0};
    if (json_is_string(type))
        TRY(face_json_word(type, "response_format.type", &word));
    if (!slice_is(word, "text"))
        FAIL_PARAM(STATUS_UNSUPPORTED, "response_format.type",
                   "Unsupported value: 'response_format.type' must be 'text' here.");
    static const char *const known[] = {"type", NULL};
    return face_json_members(value, name, known);
}

static enum status take_modalities(struct face_request *request, const char *name,
                                   const json_t *value)
{
    (void)request;
    const json_t *only = json_array_get(value, 0);
    struct slice word = {0};
    if (json_is_string(only))
        TRY(face_json_word(only, name, &word));
    if (json_array_size(value) != 1 || !slice_is(word, "text"))
        FAIL_PARAM(STATUS_UNSUPPORTED, name, "Unsupported value: 'modalities' must be [\"text\"].");
    return STATUS_OK;
}

static enum status take_service_tier(struct face_request *request, const char *name,
                                     const json_t *value)
{
    struct slice tier;
    TRY(face_json_word(value, name, &tier));
    if (!slice_is(tier, "auto") && !service_class_from_tier(tier, &request->engine.service_class))
        FAIL_PARAM(STATUS_UNSUPPORTED, name,
                   "Unsupported value: 'service_tier' must be 'auto', 'priority', 'default' or "
                   "'flex'.");
    return STATUS_OK;
}

/* The edge has checked whether the key may set it. */
static enum status take_priority(struct face_request *request, const char *name,
                                 const json_t *value)
{
    int64_t number;
    TRY(face_json_integer(value, name, 0, INT32_MAX, &number));
    request->priority = (uint32_t)number;
    return STATUS_OK;
}

static enum status take_store(struct face_request *request, const char *name, const json_t *value)
{
    (void)request;
    bool is_wanted;
    TRY(face_json_bool(value, name, &is_wanted));
    if (is_wanted)
        FAIL_PARAM(STATUS_UNSUPPORTED, name,
                   "Unsupported value: answers are not stored here; leave 'store' out.");
    return STATUS_OK;
}

/* best_of is checked against n once all fields are read. */
static enum status take_best_of(struct face_request *request, const char *name, const json_t *value)
{
    (void)request;
    int64_t number;
    return face_json_integer(value, name, 1, LIMIT_CHOICES, &number);
}

static enum status take_hint(struct face_request *request, const char *name, const json_t *value)
{
    (void)request;
    (void)name;
    (void)value;
    return STATUS_OK;
}

/* The older field for tools; an empty list asks for nothing. */
static enum status take_functions(struct face_request *request, const char *name,
                                  const json_t *value)
{
    (void)request;
    if (!json_is_array(value) || json_array_size(value) > 0)
        FAIL_PARAM(STATUS_UNSUPPORTED, name,
                   "Unsupported parameter: '%s' is not supported; it was replaced by 'tools'.",
                   name);
    return STATUS_OK;
}

/* Tools are an input of the model's template, which gets them as the client wrote them. */
static enum status take_tools(struct face_request *request, const char *name, const json_t *value)
{
    size_t count = 0;
    TRY(face_json_array(value, name, LIMIT_MESSAGES, &count));
    for (size_t i = 0; i < count; i++) {
        const json_t *tool = json_array_get(value, i);
        char path[PATH_BYTES];
        struct slice word;
        snprintf(path, sizeof path, "%s[%zu]", name, i);
        TRY(face_json_object(tool, path));
        snprintf(path, sizeof path, "%s[%zu].function", name, i);
        const json_t *function = json_object_get(tool, "function");
        if (function == NULL)
            FAIL_PARAM(STATUS_INVALID, path, "Missing required parameter: '%s'.", path);
        TRY(face_json_object(function, path));
        snprintf(path, sizeof path, "%s[%zu].function.name", name, i);
        if (json_object_get(function, "name") == NULL)
            FAIL_PARAM(STATUS_INVALID, path, "Missing required parameter: '%s'.", path);
        TRY(face_json_word(json_object_get(function, "name"), path, &word));
    }
    return count == 0 ? STATUS_OK
                      : take_json(value, &request->blocks, &request->engine.inputs.tools);
}

static enum status take_documents(struct face_request *request, const char *name,
                                  const json_t *value)
{
    size_t count = 0;
    TRY(face_json_array(value, name, LIMIT_MESSAGES, &count));
    for (size_t i = 0; i < count; i++) {
        char path[PATH_BYTES];
        snprintf(path, sizeof path, "%s[%zu]", name, i);
        TRY(face_json_object(json_array_get(value, i), path));
    }
    return count == 0 ? STATUS_OK
                      : take_json(value, &request->blocks, &request->engine.inputs.documents);
}

/* Variables of the template. Those that the server sets itself cannot be among them. */
static enum status take_template_values(struct face_request *request, const char *name,
                                        const json_t *value)
{
    static const char *const reserved[] = {
        "messages",  "tools", "documents", "add_generation_prompt", "bos_token",   "eos_token",
        "namespace", "range", "dict",      "raise_exception",       "loop",        "strftime_now",
        "caller",    "self",  "tokenize",  "chat_template",         "conversation"};
    const char *key;
    json_t *entry;
    TRY(face_json_object(value, name));
    json_object_foreach((json_t *)(uintptr_t)value, key, entry)
    {
        char path[PATH_BYTES];
        snprintf(path, sizeof path, "%s.%.32s", name, key);
        for (size_t i = 0; i < sizeof reserved / sizeof reserved[0]; i++) {
            if (strcmp(key, reserved[i]) == 0)
                FAIL_PARAM(STATUS_INVALID, path, "Invalid '%s': the name is reserved.", path);
        }
    }
    return take_json(value, &request->blocks, &request->engine.inputs.values);
}

/* Checks the type of a hint, and ignores its value. */
static enum status take_text_hint(struct face_request *request, const char *name,
                                  const json_t *value)
{
    struct slice text;
    (void)request;
    return face_json_word(value, name, &text);
}

static enum status take_metadata(struct face_request *request, const char *name,
                                 const json_t *value)
{
    const char *key;
    json_t *entry;
    TRY(face_json_object(value, name));
    json_object_foreach((json_t *)(uintptr_t)value, key, entry)
    {
        char path[PATH_BYTES];
        snprintf(path, sizeof path, "metadata.%.64s", key);
        TRY(take_text_hint(request, path, entry));
    }
    return STATUS_OK;
}

/* Which kinds of request have a field. FOR_SIMPLE is /v1/generate. */
enum { FOR_CHAT = 1, FOR_TEXT = 2, FOR_BOTH = 3, FOR_SIMPLE = 4, FOR_ALL = 7 };

static const struct field {
    const char *name;
    int kinds;
    field_take take;     /* NULL = refused by name */
    const char *instead; /* of a refused field: the rest of the message, which says what to do */
} fields[] = {
#define FIELD(name, kinds, take)      {#name, kinds, take, NULL},
#define REFUSED(name, kinds, instead) {#name, kinds, NULL, instead},
#include "gateway/engine_http/face_fields.def"
#undef FIELD
#undef REFUSED
};

static const struct field *field_find(const struct face_request *request, const char *name)
{
    static const int kinds[] = {
        [FACE_CHAT] = FOR_CHAT, [FACE_TEXT] = FOR_TEXT, [FACE_GENERATE] = FOR_SIMPLE};
    int kind = kinds[request->kind];
    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++) {
        if ((fields[i].kinds & kind) != 0 && strcmp(fields[i].name, name) == 0)
            return &fields[i];
    }
    return NULL;
}

static enum status parse_fields(struct face_request *request)
{
    const char *key;
    json_t *value;
    json_object_foreach(request->root, key, value)
    {
        const struct field *field = field_find(request, key);
        if (field == NULL)
            FAIL_PARAM(STATUS_UNSUPPORTED, key, "Unrecognized request argument supplied: %.64s",
                       key);
        if (json_is_null(value))
            continue;
        if (field->take == NULL)
            FAIL_PARAM(STATUS_UNSUPPORTED, key, "Unsupported parameter: '%s' %s", key,
                       field->instead);
        TRY(field->take(request, key, value));
    }
    return STATUS_OK;
}

static enum status parse_relations(struct face_request *request)
{
    const json_t *root = request->root;
    const char *prompt = request->kind == FACE_CHAT ? "messages" : "prompt";
    if (request->prompt_count == 0)
        FAIL_PARAM(STATUS_INVALID, prompt, "Missing required parameter: '%s'.", prompt);
    if (request->has_stream_options && !request->is_stream)
        FAIL_PARAM(STATUS_INVALID, "stream_options",
                   "The 'stream_options' parameter is only allowed when 'stream' is enabled.");
    if (request->has_top_logprobs && !request->engine.want_logprobs)
        FAIL_PARAM(STATUS_INVALID, "top_logprobs",
                   "The 'logprobs' parameter must be true for 'top_logprobs' to be allowed.");
    json_t *both = json_object_get(root, "max_completion_tokens");
    if (both != NULL && !json_is_null(both) && json_is_integer(json_object_get(root, "max_tokens")))
        FAIL_PARAM(STATUS_INVALID, "max_tokens",
                   "Give either 'max_tokens' or 'max_completion_tokens', not both.");
    if (request->engine.is_scored && !request->engine.echo)
        FAIL_PARAM(
            STATUS_OUT_OF_RANGE, "max_tokens",
            "Invalid 'max_tokens': 0 generates nothing, and is only allowed with 'echo', which "
            "gives the prompt back.");
    const json_t *best_of = json_object_get(root, "best_of");
    if (json_is_integer(best_of) && json_integer_value(best_of) != request->engine.choices)
        FAIL_PARAM(
            STATUS_UNSUPPORTED, "best_of",
            "Unsupported value: 'best_of' must equal 'n' here; every sampled answer is returned.");
    if (request->prompt_count * request->engine.choices > LIMIT_ANSWERS)
        FAIL_PARAM(STATUS_OUT_OF_RANGE, "n", "Invalid 'n': prompts × n may be at most %d.",
                   LIMIT_ANSWERS);
    request->engine.service_class =
        service_class_lower(request->engine.service_class, request->priority);
    return STATUS_OK;
}

enum status face_request_check_model(const json_t *root, const char *model_name)
{
    const json_t *model = json_object_get(root, "model");
    if (model == NULL)
        FAIL_PARAM(STATUS_INVALID, "model", "you must provide a model parameter");
    struct slice name;
    TRY(face_json_word(model, "model", &name));
    if (!slice_is(name, model_name))
        FAIL_PARAM(STATUS_MODEL_NOT_FOUND, "model",
                   "The model '%.*s' does not exist or you do not have access to it.",
                   (int)(name.length < 64 ? name.length : 64), name.bytes);
    return STATUS_OK;
}

enum status face_request_parse(struct face_request *request, enum face_kind kind, struct slice body,
                               const char *model_name, uint32_t vocab)
{
    *request = (struct face_request){
        .kind = kind,
        .engine = {.choices = 1,
                   .sampling = {.temperature = 1, .top_p = 1},
                   .service_class = SERVICE_CLASS_STANDARD},
        .vocab = vocab,
    };
    random_bytes(&request->engine.sampling.seed, sizeof request->engine.sampling.seed);
    request->engine.tokens_max = kind == FACE_CHAT ? 0 : COMPLETION_TOKENS_DEFAULT;
    /* A completion's prompt may name control tokens, so its answer names them too. */
    request->engine.shows_control = kind == FACE_TEXT;
    enum status status = face_json_parse(body, &request->root);
    bool is_any_model =
        kind == FACE_GENERATE && (json_object_get(request->root, "model") == NULL ||
                                  json_is_null(json_object_get(request->root, "model")));
    if (status == STATUS_OK && !is_any_model)
        status = face_request_check_model(request->root, model_name);
    if (status == STATUS_OK)
        status = parse_fields(request);
    if (status == STATUS_OK)
        status = parse_relations(request);
    if (status != STATUS_OK)
        face_request_deinit(request);
    return status;
}

void face_request_deinit(struct face_request *request)
{
    face_request_free_blocks(request->blocks);
    request->blocks = NULL;
    json_decref(request->root);
    request->root = NULL;
}

void face_request_of_prompt(const struct face_request *request, uint32_t prompt,
                            struct engine_request *out)
{
    ASSERT(prompt < request->prompt_count);
    const struct face_prompt *one = &request->prompts[prompt];
    *out = request->engine;
    out->prompt_kind = one->kind;
    out->text = one->text;
    out->tokens = one->tokens;
    out->token_count = one->token_count;
}
