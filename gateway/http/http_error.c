#include "gateway/http/http_error.h"

#include <stdarg.h>
#include <stdio.h>

enum { RETRY_MS_MAX = 120000 };

static const char TYPE_REQUEST[] = "invalid_request_error";
static const char TYPE_SERVER[] = "server_error";

/* Types and codes are part of the API: they never change. */
static const struct http_error table[STATUS_COUNT] = {
    [STATUS_OK] = {500, TYPE_SERVER, "internal_error", 0, false},
    [STATUS_NO_MEMORY] = {503, TYPE_SERVER, "out_of_memory", 1000, false},
    [STATUS_INVALID] = {400, TYPE_REQUEST, NULL, 0, false},
    [STATUS_OUT_OF_RANGE] = {400, TYPE_REQUEST, "invalid_value", 0, false},
    [STATUS_UNSUPPORTED] = {400, TYPE_REQUEST, "unsupported_parameter", 0, false},
    [STATUS_CORRUPT] = {500, TYPE_SERVER, "internal_error", 0, false},
    [STATUS_NOT_FOUND] = {404, TYPE_REQUEST, "not_found", 0, false},
    [STATUS_MODEL_NOT_FOUND] = {404, TYPE_REQUEST, "model_not_found", 0, false},
    [STATUS_EXISTS] = {409, TYPE_REQUEST, "already_exists", 0, true},
    [STATUS_CONFLICT] = {409, TYPE_REQUEST, "conflict", 0, true},
    [STATUS_RUNNING] = {409, TYPE_REQUEST, "idempotency_key_in_use", 1000, false},
    [STATUS_CHANGED] = {412, TYPE_REQUEST, "revision_mismatch", 0, true},
    [STATUS_REUSED] = {422, TYPE_REQUEST, "idempotency_key_reused", 0, true},
    [STATUS_LIMIT] = {413, TYPE_REQUEST, "request_too_large", 0, false},
    [STATUS_TEMPLATE_LIMIT] = {400, TYPE_REQUEST, "template_limit", 0, false},
    [STATUS_INVALID_SCHEMA] = {400, TYPE_REQUEST, "invalid_schema", 0, false},
    [STATUS_UNSUPPORTED_SCHEMA] = {400, TYPE_REQUEST, "unsupported_schema", 0, false},
    [STATUS_INVALID_GRAMMAR] = {400, TYPE_REQUEST, "invalid_grammar", 0, false},
    [STATUS_SCHEMA_LIMIT] = {400, TYPE_REQUEST, "schema_too_complex", 0, false},
    [STATUS_GRAMMAR_LIMIT] = {400, TYPE_REQUEST, "grammar_too_complex", 0, false},
    [STATUS_CONTEXT_LENGTH] = {400, TYPE_REQUEST, "context_length_exceeded", 0, false},
    [STATUS_KEY_MISSING] = {401, TYPE_REQUEST, "invalid_api_key", 0, true},
    [STATUS_KEY_INVALID] = {401, TYPE_REQUEST, "invalid_api_key", 0, true},
    [STATUS_FORBIDDEN] = {403, "permission_error", "insufficient_scope", 0, true},
    [STATUS_MODEL_FORBIDDEN] = {403, "permission_error", "model_not_allowed", 0, true},
    [STATUS_TOO_MANY] = {429, "rate_limit_error", "too_many_attempts", 10000, false},
    [STATUS_QUEUE_FULL] = {429, "rate_limit_error", "queue_full", 1000, false},
    [STATUS_MEMORY_SHARE] = {429, "rate_limit_error", "memory_share_used", 1000, false},
    /* Only between engine and edge; a client gets 429 (edge_job). */
    [STATUS_ENGINE_SHARE] = {503, "rate_limit_error", "engine_share_used", 1000, false},
    [STATUS_RATE_REQUESTS] = {429, "requests", "rate_limit_exceeded", 0, false},
    [STATUS_RATE_TOKENS] = {429, "tokens", "rate_limit_exceeded", 0, false},
    [STATUS_QUOTA] = {429, "insufficient_quota", "insufficient_quota", 0, true},
    [STATUS_BUSY] = {503, TYPE_SERVER, "engine_overloaded", 1000, false},
    [STATUS_UNAVAILABLE] = {503, TYPE_SERVER, "service_unavailable", 1000, false},
    [STATUS_CANCELLED] = {499, TYPE_REQUEST, "client_closed_request", 0, true},
    [STATUS_DEADLINE] = {503, TYPE_SERVER, "queue_timeout", 1000, false},
    [STATUS_IO] = {500, TYPE_SERVER, "internal_error", 0, false},
    [STATUS_STORAGE_FULL] = {503, TYPE_SERVER, "storage_full", 1000, false},
    [STATUS_PROTOCOL] = {502, TYPE_SERVER, "upstream_error", 0, false},
    [STATUS_PROTOCOL_VERSION] = {400, TYPE_REQUEST, "protocol_mismatch", 0, true},
};

const struct http_error *http_error_of(enum status status)
{
    ASSERT((unsigned)status < STATUS_COUNT);
    ASSERT(table[status].http_code != 0);
    return &table[status];
}

static void render(const struct http_error *error, struct slice message, struct slice param,
                   struct buffer *out)
{
    buffer_append_text(out, "{\"error\":{\"message\":");
    buffer_append_json_string(out, message);
    buffer_append_text(out, ",\"type\":");
    buffer_append_json_string(out, slice_of(error->type));
    buffer_append_text(out, ",\"param\":");
    if (param.length > 0)
        buffer_append_json_string(out, param);
    else
        buffer_append_text(out, "null");
    buffer_append_text(out, ",\"code\":");
    if (error->code != NULL)
        buffer_append_json_string(out, slice_of(error->code));
    else
        buffer_append_text(out, "null");
    buffer_append_text(out, "}}");
}

void http_error_render(const struct error_note *note, struct buffer *out)
{
    render(http_error_of(note->status), slice_of(note->message), slice_of(note->param), out);
}

enum { EXTRA_MOST = 6 };

static void respond_with(struct http_request *request, const struct http_error *error,
                         struct slice message, struct slice param, const struct http_header *extra,
                         size_t extra_count)
{
    struct http_header headers[5 + EXTRA_MOST];
    size_t count = 0;
    ASSERT(extra_count <= EXTRA_MOST);
    char after_s[16], after_ms[16];
    headers[count++] = (struct http_header){"content-type", SLICE("application/json")};
    if (error->http_code == 401)
        headers[count++] = (struct http_header){"www-authenticate", SLICE("Bearer")};
    if (error->is_final)
        headers[count++] = (struct http_header){"x-should-retry", SLICE("false")};
    else if (error->http_code == 409)
        headers[count++] = (struct http_header){"x-should-retry", SLICE("true")};
    if (error->retry_after_ms > 0) {
        snprintf(after_ms, sizeof(after_ms), "%u", error->retry_after_ms);
        snprintf(after_s, sizeof(after_s), "%u", (error->retry_after_ms + 999) / 1000);
        headers[count++] = (struct http_header){"retry-after-ms", slice_of(after_ms)};
        headers[count++] = (struct http_header){"retry-after", slice_of(after_s)};
    }
    for (size_t i = 0; i < extra_count; i++)
        headers[count++] = extra[i];
    struct buffer body;
    buffer_init(&body, 8 * (STATUS_MESSAGE_BYTES + STATUS_PARAM_BYTES));
    render(error, message, param, &body);
    ASSERT(body.status == STATUS_OK);
    http_respond(request, error->http_code, headers, count, buffer_slice(&body));
    buffer_deinit(&body);
}

/* `extra` is an additional header; its name is NULL when there is none. */
static void respond(struct http_request *request, const struct http_error *error,
                    struct slice message, struct slice param, struct http_header extra)
{
    respond_with(request, error, message, param, &extra, extra.name != NULL ? 1 : 0);
}

void http_respond_limited(struct http_request *request, uint32_t retry_after_ms,
                          const struct http_header *headers, size_t count)
{
    const struct error_note *note = status_note();
    struct http_error error = *http_error_of(note->status);
    error.retry_after_ms = retry_after_ms;
    error.is_final = retry_after_ms == 0;
    respond_with(request, &error, slice_of(note->message), slice_of(note->param), headers, count);
}

void http_respond_failure(struct http_request *request)
{
    const struct error_note *note = status_note();
    struct http_error error = *http_error_of(note->status);
    if (note->retry_after_ms > 0)
        error.retry_after_ms =
            note->retry_after_ms < RETRY_MS_MAX ? note->retry_after_ms : RETRY_MS_MAX;
    respond(request, &error, slice_of(note->message), slice_of(note->param),
            (struct http_header){0});
}

void http_respond_error(struct http_request *request, enum status status, const char *param,
                        const char *format, ...)
{
    char message[STATUS_MESSAGE_BYTES];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(message, sizeof(message), format, arguments);
    va_end(arguments);
    respond(request, http_error_of(status), slice_of(message), slice_of(param),
            (struct http_header){0});
}

/* Errors that have no status: those of the listener. */
struct door_error {
    struct http_error error;
    const char *message;
};

static const struct door_error *door_error_of(int http_code)
{
    static const struct door_error rows[] = {
        {{400, TYPE_REQUEST, NULL, 0, false},
         "The request's head is malformed or its length is ambiguous."},
        {{401, TYPE_REQUEST, "invalid_client_certificate", 0, true},
         "The client certificate is missing or cannot be used."},
        {{404, TYPE_REQUEST, "not_found", 0, false}, "There is no such path."},
        {{405, TYPE_REQUEST, "method_not_allowed", 0, false},
         "The method is not allowed for this path."},
        {{408, TYPE_REQUEST, "request_timeout", 1000, false},
         "The request's body did not arrive in time; send it again."},
        {{413, TYPE_REQUEST, "request_too_large", 0, false}, "The request's body is too large."},
        {{414, TYPE_REQUEST, "path_too_long", 0, false}, "The request's path is too long."},
        {{415, TYPE_REQUEST, "unsupported_content_encoding", 0, true},
         "The request's body is compressed (content-encoding); send it uncompressed."},
        {{417, TYPE_REQUEST, "expectation_failed", 0, false},
         "The only supported expectation is 100-continue."},
        {{429, "rate_limit_error", "memory_share_used", 1000, false},
         "Unfinished uploads of this tenant use all the memory that they may use now; let them "
         "end, send less at once, and try again."},
        {{431, TYPE_REQUEST, "head_too_large", 0, false}, "The request's headers are too large."},
        {{503, TYPE_SERVER, "server_busy", 1000, false},
         "The server has no memory for this request now; try again shortly."},
        {{500, TYPE_SERVER, "internal_error", 0, false}, "The server has an internal error."},
    };
    enum { COUNT = sizeof(rows) / sizeof(rows[0]) };
    for (size_t i = 0; i < COUNT; i++) {
        if (rows[i].error.http_code == http_code)
            return &rows[i];
    }
    return &rows[http_code < 500 ? 0 : COUNT - 1];
}

void http_error_respond_path(struct http_request *request)
{
    http_error_respond_refusal(request, 404, NULL);
}

void http_error_respond_method(struct http_request *request, struct slice allow)
{
    const struct door_error *door = door_error_of(405);
    respond(request, &door->error, slice_of(door->message), (struct slice){0},
            (struct http_header){"allow", allow});
}

void http_error_respond_refusal(struct http_request *request, int http_code, const char *reason)
{
    const struct door_error *door = door_error_of(http_code);
    struct http_header taken = {NULL, {0}};
    if (http_code == 415) /* RFC 9110, section 12.5.3: the encoding that is accepted */
        taken = (struct http_header){"accept-encoding", SLICE("identity")};
    respond(request, &door->error, slice_of(reason != NULL ? reason : door->message),
            (struct slice){0}, taken);
}

void http_error_render_code(int http_code, struct buffer *out)
{
    const struct door_error *door = door_error_of(http_code);
    render(&door->error, slice_of(door->message), (struct slice){0}, out);
}
