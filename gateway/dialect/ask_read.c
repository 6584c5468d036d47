#include "gateway/dialect/ask_read.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config/base/limits_embed.h"
#include "gateway/dialect/ask_block.h"
#include "gateway/dialect/ask_json.h"
#include "gateway/dialect/ask_messages.h"

enum { PATH_BYTES = 96 };

/* --- the prompt --- */

static enum status prompts_take(struct ask *ask, size_t count)
{
    ask->prompts = ask_block_take(&ask->blocks, count, sizeof *ask->prompts);
    if (ask->prompts == NULL)
        FAIL(STATUS_NO_MEMORY, "no memory for the prompts");
    memset(ask->prompts, 0, count * sizeof *ask->prompts);
    ask->prompt_count = (uint32_t)count;
    return STATUS_OK;
}

/* The model is checked before all other fields. */
enum status ask_read_model(struct ask *ask, const struct ask_value *value)
{
    (void)ask;
    (void)value;
    return STATUS_OK;
}

enum status ask_read_messages(struct ask *ask, const struct ask_value *value)
{
    TRY(prompts_take(ask, 1));
    ask->prompts[0].kind = ENGINE_PROMPT_CHAT;
    return ask_messages_read(value->json, ask->model.answer, &ask->blocks, &ask->engine.messages,
                             &ask->engine.message_count);
}

static enum status prompt_ids(struct ask *ask, const char *path, const json_t *value,
                              struct ask_prompt *out)
{
    size_t count = json_array_size(value);
    if (count == 0)
        FAIL_PARAM(STATUS_INVALID, path, "Invalid '%s': empty array of token ids.", path);
    out->kind = ENGINE_PROMPT_TOKENS;
    out->token_count = count;
    out->tokens = ask_block_take(&ask->blocks, count, sizeof *out->tokens);
    if (out->tokens == NULL)
        FAIL(STATUS_NO_MEMORY, "no memory for the prompt");
    for (size_t i = 0; i < count; i++) {
        char where[PATH_BYTES];
        snprintf(where, sizeof where, "%.64s[%zu]", path, i);
        int64_t id;
        TRY(ask_json_integer(json_array_get(value, i), where, 0, (int64_t)ask->model.vocab - 1,
                             &id));
        out->tokens[i] = (uint32_t)id;
    }
    return STATUS_OK;
}

static enum status prompt_text(const char *path, const json_t *value, struct ask_prompt *out)
{
    out->kind = ENGINE_PROMPT_TEXT;
    TRY(ask_json_string(value, path, &out->text));
    if (out->text.length == 0)
        FAIL_PARAM(STATUS_INVALID, path, "Invalid '%s': the text is empty.", path);
    return STATUS_OK;
}

/* A text, an array of token ids, or a list of texts or of arrays. As in the schema, the first
 * element decides which it is. */
enum status ask_read_prompt(struct ask *ask, const struct ask_value *value)
{
    const json_t *json = value->json;
    if (json_is_string(json)) {
        TRY(prompts_take(ask, 1));
        return prompt_text(value->name, json, &ask->prompts[0]);
    }
    if (ask->dialect == ASK_GENERATE)
        return ask_json_wrong_type(json, value->name, "a string");
    if (!json_is_array(json))
        return ask_json_wrong_type(json, value->name, "a string or an array");
    size_t count = json_array_size(json);
    if (count == 0)
        FAIL_PARAM(STATUS_INVALID, value->name, "Invalid '%s': empty array.", value->name);
    const json_t *first = json_array_get(json, 0);
    if (!json_is_string(first) && !json_is_array(first)) {
        TRY(prompts_take(ask, 1));
        return prompt_ids(ask, value->name, json, &ask->prompts[0]);
    }
    const size_t most = ask->dialect == ASK_EMBED ? LIMIT_INPUTS : LIMIT_ANSWERS;
    TRY(ask_json_array(json, value->name, most, &count));
    TRY(prompts_take(ask, count));
    ask->is_list = true;
    for (size_t i = 0; i < count; i++) {
        const json_t *one = json_array_get(json, i);
        char where[PATH_BYTES];
        snprintf(where, sizeof where, "%s[%zu]", value->name, i);
        if (json_is_array(one) && json_is_array(first))
            TRY(prompt_ids(ask, where, one, &ask->prompts[i]));
        else if (json_is_string(first))
            TRY(prompt_text(where, one, &ask->prompts[i]));
        else
            return ask_json_wrong_type(one, where, "an array of token ids");
    }
    return STATUS_OK;
}

enum status ask_read_encoding(struct ask *ask, const struct ask_value *value)
{
    ask->is_base64 = slice_is(value->word, "base64");
    if (!ask->is_base64 && !slice_is(value->word, "float"))
        FAIL_PARAM(STATUS_OUT_OF_RANGE, value->name,
                   "Invalid 'encoding_format': it is 'float' or 'base64'.");
    return STATUS_OK;
}

/* --- length and sampling --- */

enum status ask_read_tokens_max(struct ask *ask, const struct ask_value *value)
{
    ask->engine.tokens_max = (uint32_t)value->integer;
    ask->engine.is_scored = value->integer == 0;
    return STATUS_OK;
}

enum status ask_read_temperature(struct ask *ask, const struct ask_value *value)
{
    ask->engine.sampling.temperature = (float)value->number;
    return STATUS_OK;
}

/* 0 means the most likely token only. The sampler needs a positive number; 1e-6 has the same
 * effect, because the most likely token of any vocabulary is likelier than that. */
enum status ask_read_top_p(struct ask *ask, const struct ask_value *value)
{
    ask->engine.sampling.top_p = value->number < 1e-6 ? 1e-6f : (float)value->number;
    return STATUS_OK;
}

enum status ask_read_min_p(struct ask *ask, const struct ask_value *value)
{
    ask->engine.sampling.min_p = (float)value->number;
    return STATUS_OK;
}

/* -1 and 0 both mean "off", as in vLLM. */
enum status ask_read_top_k(struct ask *ask, const struct ask_value *value)
{
    ask->engine.sampling.top_k = value->integer > 0 ? (uint32_t)value->integer : 0;
    return STATUS_OK;
}

enum status ask_read_n(struct ask *ask, const struct ask_value *value)
{
    ask->engine.choices = (uint32_t)value->integer;
    return STATUS_OK;
}

enum status ask_read_seed(struct ask *ask, const struct ask_value *value)
{
    ask->engine.sampling.seed = (uint64_t)value->integer;
    return STATUS_OK;
}

enum status ask_read_presence(struct ask *ask, const struct ask_value *value)
{
    ask->engine.sampling.presence_penalty = (float)value->number;
    return STATUS_OK;
}

enum status ask_read_frequency(struct ask *ask, const struct ask_value *value)
{
    ask->engine.sampling.frequency_penalty = (float)value->number;
    return STATUS_OK;
}

enum status ask_read_logit_bias(struct ask *ask, const struct ask_value *value)
{
    struct engine_sampling *sampling = &ask->engine.sampling;
    if (json_object_size(value->json) > LIMIT_LOGIT_BIAS)
        FAIL_PARAM(STATUS_OUT_OF_RANGE, value->name, "Invalid 'logit_bias': at most %d tokens.",
                   LIMIT_LOGIT_BIAS);
    const char *key;
    json_t *entry;
    json_object_foreach((json_t *)(uintptr_t)value->json, key, entry)
    {
        char *end = NULL;
        unsigned long id = strtoul(key, &end, 10);
        /* Each id has one spelling: "05" beside "5" would be two biases for one token. */
        bool is_number = key[0] >= '0' && key[0] <= '9' && *end == '\0' && strlen(key) <= 9 &&
                         (key[0] != '0' || key[1] == '\0');
        if (!is_number || id >= ask->model.vocab)
            FAIL_PARAM(STATUS_OUT_OF_RANGE, value->name,
                       "Invalid 'logit_bias': keys are token ids from 0 to %u.",
                       ask->model.vocab - 1);
        char path[PATH_BYTES];
        snprintf(path, sizeof path, "logit_bias.%.32s", key);
        double bias;
        TRY(ask_json_number(entry, path, -100, 100, false, &bias));
        sampling->bias[sampling->bias_count++] =
            (struct engine_bias){.token = (uint32_t)id, .bias = (float)bias};
    }
    return STATUS_OK;
}

static enum status stop_one(struct ask *ask, const char *path, const json_t *value)
{
    struct slice text;
    TRY(ask_json_string(value, path, &text));
    if (text.length == 0 || text.length > LIMIT_STOP_BYTES)
        FAIL_PARAM(STATUS_OUT_OF_RANGE, path,
                   "Invalid '%s': a stop string has 1 to %d bytes, this one has %zu.", path,
                   LIMIT_STOP_BYTES, text.length);
    ask->engine.stop[ask->engine.stop_count++] = text;
    return STATUS_OK;
}

enum status ask_read_stop(struct ask *ask, const struct ask_value *value)
{
    if (json_is_string(value->json))
        return stop_one(ask, value->name, value->json);
    if (!json_is_array(value->json))
        return ask_json_wrong_type(value->json, value->name, "a string or an array of strings");
    size_t count;
    TRY(ask_json_array(value->json, value->name, LIMIT_STOP_STRINGS, &count));
    for (size_t i = 0; i < count; i++) {
        char path[PATH_BYTES];
        snprintf(path, sizeof path, "stop[%zu]", i);
        TRY(stop_one(ask, path, json_array_get(value->json, i)));
    }
    return STATUS_OK;
}

enum status ask_read_stop_tokens(struct ask *ask, const struct ask_value *value)
{
    for (size_t i = 0; i < json_array_size(value->json); i++) {
        char path[PATH_BYTES];
        int64_t id;
        snprintf(path, sizeof path, "%s[%zu]", value->name, i);
        TRY(ask_json_integer(json_array_get(value->json, i), path, 0, (int64_t)ask->model.vocab - 1,
                             &id));
        ask->engine.stop_tokens[ask->engine.stop_token_count++] = (uint32_t)id;
    }
    return STATUS_OK;
}

enum status ask_read_shows_stop(struct ask *ask, const struct ask_value *value)
{
    ask->engine.shows_stop = value->yes;
    return STATUS_OK;
}

enum status ask_read_repetition(struct ask *ask, const struct ask_value *value)
{
    ask->engine.sampling.repetition_penalty = (float)value->number;
    if (!(ask->engine.sampling.repetition_penalty > 0))
        FAIL_PARAM(STATUS_OUT_OF_RANGE, value->name,
                   "Invalid 'repetition_penalty': it must be greater than 0 and at most 2.");
    return STATUS_OK;
}

enum status ask_read_tokens_min(struct ask *ask, const struct ask_value *value)
{
    ask->engine.tokens_min = (uint32_t)value->integer;
    return STATUS_OK;
}

enum status ask_read_ignore_end(struct ask *ask, const struct ask_value *value)
{
    ask->engine.ignore_end = value->yes;
    return STATUS_OK;
}

/* --- what the answer shows --- */

/* In chats "logprobs" is a boolean (beside "top_logprobs"); in completions it is the number. */
enum status ask_read_logprobs_wanted(struct ask *ask, const struct ask_value *value)
{
    ask->engine.want_logprobs = value->yes;
    return STATUS_OK;
}

enum status ask_read_logprobs_count(struct ask *ask, const struct ask_value *value)
{
    ask->engine.want_logprobs = true;
    ask->engine.top_logprobs = (uint32_t)value->integer;
    return STATUS_OK;
}

enum status ask_read_top_logprobs(struct ask *ask, const struct ask_value *value)
{
    ask->engine.top_logprobs = (uint32_t)value->integer;
    ask->has_top_logprobs = true;
    return STATUS_OK;
}

enum status ask_read_stream(struct ask *ask, const struct ask_value *value)
{
    ask->is_stream = value->yes;
    return STATUS_OK;
}

enum status ask_read_stream_options(struct ask *ask, const struct ask_value *value)
{
    const char *key;
    json_t *entry;
    ask->has_stream_options = true;
    json_object_foreach((json_t *)(uintptr_t)value->json, key, entry)
    {
        char path[PATH_BYTES];
        snprintf(path, sizeof path, "stream_options.%.32s", key);
        bool is_known =
            strcmp(key, "include_usage") == 0 || strcmp(key, "include_obfuscation") == 0;
        if (!is_known)
            FAIL_PARAM(STATUS_UNSUPPORTED, path, "Unknown parameter: '%s'.", path);
        bool ignored;
        if (!json_is_null(entry))
            TRY(ask_json_bool(entry, path, &ignored));
    }
    return STATUS_OK;
}

enum status ask_read_echo(struct ask *ask, const struct ask_value *value)
{
    ask->engine.echo = value->yes;
    return STATUS_OK;
}

enum status ask_read_best_of(struct ask *ask, const struct ask_value *value)
{
    ask->best_of = (uint32_t)value->integer;
    return STATUS_OK;
}

enum status ask_read_token_ids(struct ask *ask, const struct ask_value *value)
{
    ask->want_token_ids = value->yes;
    return STATUS_OK;
}

enum status ask_read_skip_special(struct ask *ask, const struct ask_value *value)
{
    ask->engine.shows_control = !value->yes;
    return STATUS_OK;
}

enum status ask_read_modalities(struct ask *ask, const struct ask_value *value)
{
    (void)ask;
    const json_t *only = json_array_get(value->json, 0);
    struct slice word = {0};
    if (json_is_string(only))
        TRY(ask_json_word(only, value->name, &word));
    if (json_array_size(value->json) != 1 || !slice_is(word, "text"))
        FAIL_PARAM(STATUS_UNSUPPORTED, value->name,
                   "Unsupported value: 'modalities' must be [\"text\"].");
    return STATUS_OK;
}

/* --- class and storage --- */

enum status ask_read_service_tier(struct ask *ask, const struct ask_value *value)
{
    if (!slice_is(value->word, "auto") &&
        !service_class_from_tier(value->word, &ask->engine.service_class))
        FAIL_PARAM(
            STATUS_UNSUPPORTED, value->name,
            "Unsupported value: 'service_tier' must be 'auto', 'priority', 'default', 'flex', "
            "'fast', 'scale' or 'standard_only'.");
    return STATUS_OK;
}

/* The edge has checked whether the key may set it. */
enum status ask_read_priority(struct ask *ask, const struct ask_value *value)
{
    ask->priority = (uint32_t)value->integer;
    return STATUS_OK;
}

enum status ask_read_store(struct ask *ask, const struct ask_value *value)
{
    (void)ask;
    if (value->yes)
        FAIL_PARAM(STATUS_UNSUPPORTED, value->name,
                   "Unsupported value: answers are not stored here; leave 'store' out.");
    return STATUS_OK;
}

/* --- what the template gets --- */

/* The older field for tools; an empty list asks for nothing. */
enum status ask_read_functions(struct ask *ask, const struct ask_value *value)
{
    (void)ask;
    if (!json_is_array(value->json) || json_array_size(value->json) > 0)
        FAIL_PARAM(STATUS_UNSUPPORTED, value->name,
                   "Unsupported parameter: '%s' is not supported; it was replaced by 'tools'.",
                   value->name);
    return STATUS_OK;
}

enum status ask_read_documents(struct ask *ask, const struct ask_value *value)
{
    size_t count = json_array_size(value->json);
    for (size_t i = 0; i < count; i++) {
        char path[PATH_BYTES];
        snprintf(path, sizeof path, "%s[%zu]", value->name, i);
        TRY(ask_json_object(json_array_get(value->json, i), path));
    }
    return count == 0 ? STATUS_OK
                      : ask_block_json(value->json, &ask->blocks, &ask->engine.inputs.documents);
}

/* Variables of the template. Those that the server sets itself cannot be among them. */
enum status ask_read_template_values(struct ask *ask, const struct ask_value *value)
{
    static const char *const reserved[] = {
        "messages",  "tools", "documents", "add_generation_prompt", "bos_token",   "eos_token",
        "namespace", "range", "dict",      "raise_exception",       "loop",        "strftime_now",
        "caller",    "self",  "tokenize",  "chat_template",         "conversation"};
    const char *key;
    json_t *entry;
    json_object_foreach((json_t *)(uintptr_t)value->json, key, entry)
    {
        char path[PATH_BYTES];
        snprintf(path, sizeof path, "%s.%.32s", value->name, key);
        for (size_t i = 0; i < sizeof reserved / sizeof reserved[0]; i++) {
            if (strcmp(key, reserved[i]) == 0)
                FAIL_PARAM(STATUS_INVALID, path, "Invalid '%s': the name is reserved.", path);
        }
    }
    ask->variables.given = value->json;
    return STATUS_OK;
}
