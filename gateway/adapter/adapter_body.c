#include "gateway/adapter/adapter_body.h"

#include <string.h>

#include "config/base/random_bytes.h"

/* --- values -------------------------------------------------------------------------------- */

static void append_number(struct buffer *out, double value)
{
    buffer_printf(out, "%.9g", value);
}

static void append_strings(struct buffer *out, const struct slice *strings, uint32_t count)
{
    buffer_append_char(out, '[');
    for (uint32_t i = 0; i < count; i++) {
        if (i > 0)
            buffer_append_char(out, ',');
        buffer_append_json_string(out, strings[i]);
    }
    buffer_append_char(out, ']');
}

static void append_numbers(struct buffer *out, const uint32_t *numbers, size_t count)
{
    buffer_append_char(out, '[');
    for (size_t i = 0; i < count; i++)
        buffer_printf(out, i == 0 ? "%u" : ",%u", numbers[i]);
    buffer_append_char(out, ']');
}

bool adapter_body_is_format(const struct engine_request *request)
{
    const struct engine_constraint *constraint = &request->constraint;
    return constraint->is_set && (constraint->kind == CONSTRAINT_JSON_SCHEMA ||
                                  constraint->kind == CONSTRAINT_JSON_OBJECT);
}

/* --- one function a field: appends the value ------------------------------------------------- */

static void write_temperature(const struct engine_request *r, struct buffer *out)
{
    append_number(out, (double)r->sampling.temperature);
}

static void write_top_p(const struct engine_request *r, struct buffer *out)
{
    append_number(out, (double)r->sampling.top_p);
}

/* One that is off is written by adapter_body_write: kinds say it in different ways. */
static void write_top_k(const struct engine_request *r, struct buffer *out)
{
    buffer_printf(out, "%u", r->sampling.top_k);
}

static void write_min_p(const struct engine_request *r, struct buffer *out)
{
    append_number(out, (double)r->sampling.min_p);
}

/* Servers take seeds of 32 bits, some of them with a sign. */
static void write_seed(const struct engine_request *r, struct buffer *out)
{
    buffer_printf(out, "%u", (uint32_t)(r->sampling.seed & INT32_MAX));
}

static void write_presence_penalty(const struct engine_request *r, struct buffer *out)
{
    append_number(out, (double)r->sampling.presence_penalty);
}

static void write_frequency_penalty(const struct engine_request *r, struct buffer *out)
{
    append_number(out, (double)r->sampling.frequency_penalty);
}

static void write_repetition_penalty(const struct engine_request *r, struct buffer *out)
{
    const bool is_off = r->sampling.repetition_penalty == 0;
    append_number(out, is_off ? 1 : (double)r->sampling.repetition_penalty);
}

static void write_logit_bias(const struct engine_request *r, struct buffer *out)
{
    buffer_append_char(out, '{');
    for (uint32_t i = 0; i < r->sampling.bias_count; i++) {
        buffer_printf(out, i == 0 ? "\"%u\":" : ",\"%u\":", r->sampling.bias[i].token);
        append_number(out, (double)r->sampling.bias[i].bias);
    }
    buffer_append_char(out, '}');
}

static void write_max_tokens(const struct engine_request *r, struct buffer *out)
{
    if (r->tokens_max == 0) /* as many as the context has room for */
        buffer_append_text(out, "null");
    else
        buffer_printf(out, "%u", r->tokens_max);
}

static void write_min_tokens(const struct engine_request *r, struct buffer *out)
{
    buffer_printf(out, "%u", r->tokens_min);
}

static void write_stop(const struct engine_request *r, struct buffer *out)
{
    append_strings(out, r->stop, r->stop_count);
}

static void write_include_stop_str_in_output(const struct engine_request *r, struct buffer *out)
{
    buffer_append_text(out, r->shows_stop ? "true" : "false");
}

static void write_stop_token_ids(const struct engine_request *r, struct buffer *out)
{
    append_numbers(out, r->stop_tokens, r->stop_token_count);
}

static void write_ignore_eos(const struct engine_request *r, struct buffer *out)
{
    buffer_append_text(out, r->ignore_end ? "true" : "false");
}

static void write_response_format(const struct engine_request *r, struct buffer *out)
{
    if (!adapter_body_is_format(r)) {
        buffer_append_text(out, "{\"type\":\"text\"}");
    } else if (r->constraint.kind == CONSTRAINT_JSON_OBJECT) {
        buffer_append_text(out, "{\"type\":\"json_object\"}");
    } else {
        buffer_append_text(out, "{\"type\":\"json_schema\",\"json_schema\":{\"name\":\"answer\","
                                "\"strict\":true,\"schema\":");
        buffer_append_slice(out, r->constraint.source);
        buffer_append_text(out, "}}");
    }
}

static void write_structured_outputs(const struct engine_request *r, struct buffer *out)
{
    const struct engine_constraint *constraint = &r->constraint;
    if (!constraint->is_set || adapter_body_is_format(r)) {
        buffer_append_text(out, "null");
    } else if (constraint->kind == CONSTRAINT_CHOICE) {
        buffer_append_text(out, "{\"choice\":");
        buffer_append_slice(out, constraint->source);
        buffer_append_char(out, '}');
    } else {
        buffer_append_text(out,
                           constraint->kind == CONSTRAINT_REGEX ? "{\"regex\":" : "{\"grammar\":");
        buffer_append_json_string(out, constraint->source);
        buffer_append_char(out, '}');
    }
}

static void append_input(struct buffer *out, struct slice json)
{
    if (json.length == 0)
        buffer_append_text(out, "null");
    else
        buffer_append_slice(out, json);
}

static void write_tools(const struct engine_request *r, struct buffer *out)
{
    append_input(out, r->inputs.tools);
}

static void write_tool_choice(const struct engine_request *r, struct buffer *out)
{
    append_input(out, r->inputs.tool_choice);
}

static void write_parallel_tool_calls(const struct engine_request *r, struct buffer *out)
{
    buffer_append_text(out, r->inputs.is_single_call ? "false" : "true");
}

static void write_reasoning_effort(const struct engine_request *r, struct buffer *out)
{
    buffer_append_json_string(out, r->inputs.effort);
}

static void write_thinking_token_budget(const struct engine_request *r, struct buffer *out)
{
    buffer_printf(out, "%u", r->reasoning_max);
}

static void write_chat_template_kwargs(const struct engine_request *r, struct buffer *out)
{
    append_input(out, r->inputs.values);
}

static void write_documents(const struct engine_request *r, struct buffer *out)
{
    append_input(out, r->inputs.documents);
}

static void write_skip_special_tokens(const struct engine_request *r, struct buffer *out)
{
    buffer_append_text(out, r->shows_control ? "false" : "true");
}

/* In chats it is a boolean beside "top_logprobs"; in completions it is their number. */
static void write_logprobs(const struct engine_request *r, struct buffer *out)
{
    if (r->prompt_kind == ENGINE_PROMPT_CHAT)
        buffer_append_text(out, "true");
    else
        buffer_printf(out, "%u", r->top_logprobs);
}

static void write_top_logprobs(const struct engine_request *r, struct buffer *out)
{
    buffer_printf(out, "%u", r->top_logprobs);
}

static void write_return_token_ids(const struct engine_request *r, struct buffer *out)
{
    buffer_append_text(out, r->wants_ids ? "true" : "false");
}

/* --- the body ------------------------------------------------------------------------------- */

enum when { ASKED, ALWAYS };

static const struct {
    const char *name;
    enum when when;
    void (*write)(const struct engine_request *r, struct buffer *out);
} fields[ADAPTER_FIELDS] = {
#define ADAPTER_FIELD(name, when, is_asked) [ADAPTER_FIELD_##name] = {#name, when, write_##name},
#include "gateway/adapter/adapter_fields.def"
#undef ADAPTER_FIELD
};

static bool is_asked(const struct engine_request *r, enum adapter_field field)
{
    switch (field) {
#define ADAPTER_FIELD(name, when, is_asked)                                                        \
    case ADAPTER_FIELD_##name:                                                                     \
        return is_asked;
#include "gateway/adapter/adapter_fields.def"
#undef ADAPTER_FIELD
    case ADAPTER_FIELDS:
        break;
    }
    return false;
}

static enum status check_prompt(const struct adapter_kind *kind,
                                const struct engine_request *request, bool accepts_shared)
{
    if (request->prompt_kind == ENGINE_PROMPT_TOKENS)
        FAIL_PARAM(STATUS_UNSUPPORTED, "prompt",
                   "Unsupported value: 'prompt' must be text: the engine that serves this model "
                   "takes no token ids.");
    if (kind->is_salted_in_chats && request->prompt_kind != ENGINE_PROMPT_CHAT && !accepts_shared)
        FAIL_PARAM(STATUS_UNSUPPORTED, "prompt",
                   "Unsupported parameter: 'prompt': the engine that serves this model keeps "
                   "tenants apart in chats alone; use /v1/chat/completions.");
    /* The prompt's text comes back from here; what the server thinks of it is not known. */
    if (request->echo && request->want_logprobs)
        FAIL_PARAM(STATUS_UNSUPPORTED, "logprobs",
                   "Unsupported value: 'logprobs' beside 'echo': the engine that serves this model "
                   "gives none of a prompt.");
    if (request->is_scored)
        FAIL_PARAM(STATUS_UNSUPPORTED, "max_tokens",
                   "Unsupported value: 'max_tokens' must be at least 1 with the engine that serves "
                   "this model.");
    return STATUS_OK;
}

enum status adapter_body_check(const struct adapter_kind *kind,
                               const struct engine_request *request, bool accepts_shared)
{
    for (int i = 0; i < ADAPTER_FIELDS; i++) {
        if (kind->honours[i] == ADAPTER_REFUSES && is_asked(request, (enum adapter_field)i))
            FAIL_PARAM(STATUS_UNSUPPORTED, fields[i].name,
                       "Unsupported parameter: '%s' cannot be honoured by the engine that serves "
                       "this model.",
                       fields[i].name);
    }
    if (kind->formats_chats_alone && request->prompt_kind != ENGINE_PROMPT_CHAT &&
        request->constraint.is_set)
        FAIL_PARAM(STATUS_UNSUPPORTED, "response_format",
                   "Unsupported parameter: 'response_format' cannot be honoured in completions by "
                   "the engine that serves this model.");
    return check_prompt(kind, request, accepts_shared);
}

static void append_member(struct buffer *out, const char *name)
{
    buffer_printf(out, ",\"%s\":", name);
}

static void append_messages(struct buffer *out, const struct engine_request *request)
{
    buffer_append_char(out, '[');
    for (size_t i = 0; i < request->message_count; i++) {
        const struct engine_message *message = &request->messages[i];
        if (i > 0)
            buffer_append_char(out, ',');
        if (message->json.length > 0) {
            buffer_append_slice(out, message->json);
            continue;
        }
        buffer_append_text(out, "{\"role\":");
        buffer_append_json_string(out, message->role);
        buffer_append_text(out, ",\"content\":");
        buffer_append_json_string(out, message->content);
        buffer_append_char(out, '}');
    }
    buffer_append_char(out, ']');
}

/* A request without a domain shares nothing, not even with others without one. */
static void append_salt(struct buffer *out, const struct engine_domain *domain)
{
    static const struct engine_domain none;
    struct engine_domain salt = *domain;
    if (memcmp(&salt, &none, sizeof salt) == 0)
        random_bytes(salt.bytes, sizeof salt.bytes);
    buffer_append_char(out, '"');
    for (size_t i = 0; i < sizeof salt.bytes; i++)
        buffer_printf(out, "%02x", salt.bytes[i]);
    buffer_append_char(out, '"');
}

/* Writes a field as the kind wants it. */
static void append_field(const struct adapter_kind *kind, enum adapter_field field,
                         const struct engine_request *request, struct buffer *out)
{
    append_member(out, fields[field].name);
    if (field == ADAPTER_FIELD_response_format && kind->format != NULL &&
        adapter_body_is_format(request))
        kind->format(request, out);
    else if (field == ADAPTER_FIELD_top_k && request->sampling.top_k == 0)
        buffer_printf(out, "%d", kind->top_k_off);
    else
        fields[field].write(request, out);
}

static void append_fields(const struct adapter_kind *kind, const struct engine_request *request,
                          struct buffer *out)
{
    for (int i = 0; i < ADAPTER_FIELDS; i++) {
        const bool is_always = fields[i].when == ALWAYS && kind->honours[i] == ADAPTER_HONOURS;
        if (kind->honours[i] != ADAPTER_REFUSES &&
            (is_always || is_asked(request, (enum adapter_field)i)))
            append_field(kind, (enum adapter_field)i, request, out);
    }
    for (const struct adapter_member *fixed = kind->fixed; fixed->name != NULL; fixed++) {
        append_member(out, fixed->name);
        buffer_append_text(out, fixed->json);
    }
}

void adapter_body_write(const struct adapter_kind *kind, const struct engine_request *request,
                        uint32_t choice, const char *model, struct buffer *out)
{
    struct engine_request one = *request;
    const bool is_chat = request->prompt_kind == ENGINE_PROMPT_CHAT;
    one.sampling.seed += choice;
    if (one.top_logprobs < kind->top_logprobs_least)
        one.top_logprobs = kind->top_logprobs_least;
    buffer_append_text(out, "{\"model\":");
    buffer_append_json_string(out, slice_of(model));
    buffer_append_text(out, ",\"stream\":true");
    append_member(out, is_chat ? "messages" : "prompt");
    if (is_chat)
        append_messages(out, request);
    else
        buffer_append_json_string(out, request->text);
    append_fields(kind, &one, out);
    if (kind->salts[0] != NULL && (is_chat || !kind->is_salted_in_chats)) {
        append_member(out, kind->salts[0]);
        append_salt(out, &request->domain);
    }
    buffer_append_char(out, '}');
}
