#include "gateway/edge/request/edge_body.h"

#include "config/base/json_scan.h"
#include "config/base/limits.h"
#include "gateway/edge/state/edge_json.h"

/* The fields that the edge reads. cache_salt is refused, because it would choose which cached
 * prompts the request sees. */
enum field {
    MODEL,
    STREAM,
    STREAM_OPTIONS,
    SERVICE_TIER,
    PRIORITY,
    CACHE_SALT,
    MAX_TOKENS,
    MAX_COMPLETION_TOKENS,
    N,
    FIELDS
};

static enum status read_flag(struct json_value value, const char *param, bool *out)
{
    *out = false;
    if (value.bytes != NULL && !json_scan_is_null(value) && !json_scan_bool(value, out))
        FAIL_PARAM(STATUS_INVALID, param, "%s must be true or false.", param);
    return STATUS_OK;
}

static enum status read_forged(const struct json_scan_field *field)
{
    if (field->value.bytes != NULL && !json_scan_is_null(field->value))
        FAIL_PARAM(STATUS_UNSUPPORTED, field->name, "Unknown parameter: '%s'.", field->name);
    return STATUS_OK;
}

/* Refuses a name with a NUL, because C code would see a shorter name than JSON code. */
static enum status read_name(const struct json_scan_field *field)
{
    if (json_scan_is_string(field->value) && json_scan_has_nul(field->value))
        FAIL_PARAM(STATUS_INVALID, field->name, "Invalid '%s': it has a NUL (\\u0000).",
                   field->name);
    return STATUS_OK;
}

/* "auto", "default" and its other names mean the tenant's default class. The engine refuses unknown
 * words. */
static void read_tier(struct json_value value, struct edge_body *out)
{
    char tier[32]; /* longer than any tier, so a word that is cut matches none */
    if (!json_scan_is_string(value))
        return;
    json_scan_unescape(value, tier, sizeof tier);
    enum service_class wanted = SERVICE_CLASS_STANDARD;
    out->names_tier =
        service_class_from_tier(slice_of(tier), &wanted) && wanted != SERVICE_CLASS_STANDARD;
    if (out->names_tier)
        out->tier = wanted;
}

static enum status read_priority(struct json_value value, struct edge_body *out)
{
    uint64_t number = 0;
    if (value.bytes == NULL || json_scan_is_null(value))
        return STATUS_OK;
    if (edge_json_number(value, INT32_MAX, &number) != STATUS_OK)
        FAIL_PARAM(STATUS_INVALID, "priority",
                   "priority must be a whole number from 0: so many classes lower.");
    out->has_priority = true;
    out->priority = (uint32_t)number;
    return STATUS_OK;
}

/* A value that is not a whole number counts as not given here; the engine refuses it. */
static uint64_t read_count(const struct json_scan_field *field, uint64_t otherwise)
{
    uint64_t number = 0;
    if (field->value.bytes == NULL ||
        edge_json_number(field->value, INT32_MAX, &number) != STATUS_OK)
        return otherwise;
    return number;
}

static void read_output_most(const struct json_scan_field fields[FIELDS], struct edge_body *out)
{
    uint64_t most = read_count(&fields[MAX_COMPLETION_TOKENS], read_count(&fields[MAX_TOKENS], 0));
    uint64_t choices = read_count(&fields[N], 1);
    out->output_most = (int64_t)(most * (choices <= LIMIT_CHOICES ? choices : 1));
}

/* The options' own members are found as the body's are: the value is a valid object already, but a
 * member may stand in it twice. */
static enum status read_stream_options(struct json_value value, bool *out)
{
    struct json_scan_field usage = {.name = "include_usage"};
    if (!json_scan_is_object(value))
        return STATUS_OK;
    TRY(json_scan(json_scan_text(value), &usage, 1));
    return read_flag(usage.value, "stream_options.include_usage", out);
}

enum status edge_body_read(struct slice body, struct edge_body *out)
{
    *out = (struct edge_body){0};
    struct json_scan_field fields[FIELDS] = {
        [MODEL] = {.name = "model"},
        [STREAM] = {.name = "stream"},
        [STREAM_OPTIONS] = {.name = "stream_options"},
        [SERVICE_TIER] = {.name = "service_tier"},
        [PRIORITY] = {.name = "priority"},
        [CACHE_SALT] = {.name = "cache_salt"},
        [MAX_TOKENS] = {.name = "max_tokens"},
        [MAX_COMPLETION_TOKENS] = {.name = "max_completion_tokens"},
        [N] = {.name = "n"}};
    TRY(json_scan(body, fields, FIELDS));
    TRY(read_forged(&fields[CACHE_SALT]));
    TRY(read_flag(fields[STREAM].value, "stream", &out->is_stream));
    TRY(read_priority(fields[PRIORITY].value, out));
    TRY(read_name(&fields[MODEL]));
    TRY(read_name(&fields[SERVICE_TIER]));
    read_tier(fields[SERVICE_TIER].value, out);
    read_output_most(fields, out);
    TRY(read_stream_options(fields[STREAM_OPTIONS].value, &out->includes_usage));
    if (json_scan_is_string(fields[MODEL].value))
        json_scan_unescape(fields[MODEL].value, out->model, sizeof out->model);
    return STATUS_OK;
}

enum status edge_body_class(const struct edge_body *body, const struct principal *principal,
                            struct edge_class *out)
{
    if (body->has_priority && (principal->scopes & AUTH_SCOPE_PRIORITY) == 0)
        FAIL_PARAM(STATUS_UNSUPPORTED, "priority",
                   "Unsupported parameter: 'priority' may not be set by this key; it needs the "
                   "scope priority.");
    enum service_class wanted = body->names_tier ? body->tier : principal->default_class;
    out->is_downgraded = wanted < principal->best_class;
    out->service_class = service_class_lower(out->is_downgraded ? principal->best_class : wanted,
                                             body->has_priority ? body->priority : 0);
    return STATUS_OK;
}
