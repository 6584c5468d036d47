#include "gateway/edge/edge_body.h"

#include "config/base/json_scan.h"

/* What the edge reads, and what engines take from the edge alone: a tenant that could set these
 * would overtake others or choose whose cached prompts it sees. */
enum field { MODEL, STREAM, STREAM_OPTIONS, PRIORITY, CACHE_SALT, FIELDS };

static enum status read_flag(struct slice value, const char *param, bool *out)
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

/* The options' own members are found as the body's are: the value is a valid object already, but a
 * member may stand in it twice. */
static enum status read_stream_options(struct slice value, bool *out)
{
    struct json_scan_field usage = {.name = "include_usage"};
    if (!json_scan_is_object(value))
        return STATUS_OK;
    TRY(json_scan(value, &usage, 1));
    return read_flag(usage.value, "stream_options.include_usage", out);
}

enum status edge_body_read(struct slice body, struct edge_body *out)
{
    *out = (struct edge_body){0};
    struct json_scan_field fields[FIELDS] = {[MODEL] = {.name = "model"},
                                             [STREAM] = {.name = "stream"},
                                             [STREAM_OPTIONS] = {.name = "stream_options"},
                                             [PRIORITY] = {.name = "priority"},
                                             [CACHE_SALT] = {.name = "cache_salt"}};
    TRY(json_scan(body, fields, FIELDS));
    TRY(read_forged(&fields[PRIORITY]));
    TRY(read_forged(&fields[CACHE_SALT]));
    TRY(read_flag(fields[STREAM].value, "stream", &out->is_stream));
    TRY(read_stream_options(fields[STREAM_OPTIONS].value, &out->includes_usage));
    if (json_scan_is_string(fields[MODEL].value))
        json_scan_unescape(fields[MODEL].value, out->model, sizeof out->model);
    return STATUS_OK;
}
