#include "gateway/edge/edge_body.h"

#include <jansson.h>

#include "config/base/limits.h"
#include "config/base/utf8.h"

/* jansson needs about 80 bytes a value and recurses: both are bounded before it looks. */
static enum status read_bounds(struct slice body)
{
    size_t depth = 0;
    size_t elements = 0;
    bool is_in_string = false;
    for (size_t i = 0; i < body.length; i++) {
        char c = body.bytes[i];
        if (is_in_string) {
            if (c == '\\')
                i++;
            else if (c == '"')
                is_in_string = false;
            continue;
        }
        if (c == '"')
            is_in_string = true;
        else if (c == '{' || c == '[')
            depth++;
        else if ((c == '}' || c == ']') && depth > 0)
            depth--;
        if (c == ',' || c == '{' || c == '[')
            elements++;
        if (depth > LIMIT_JSON_DEPTH)
            FAIL(STATUS_INVALID, "The body is nested deeper than %d levels.", LIMIT_JSON_DEPTH);
        if (elements > LIMIT_JSON_ELEMENTS)
            FAIL(STATUS_INVALID, "The body has more than %d values.", LIMIT_JSON_ELEMENTS);
    }
    return STATUS_OK;
}

static enum status read_flag(const json_t *value, const char *param, bool *out)
{
    *out = json_is_true(value);
    if (value != NULL && !json_is_boolean(value) && !json_is_null(value))
        FAIL_PARAM(STATUS_INVALID, param, "%s must be true or false.", param);
    return STATUS_OK;
}

static void read_model(const json_t *value, char out[EDGE_BODY_MODEL_BYTES])
{
    out[0] = '\0';
    if (!json_is_string(value))
        return;
    const char *text = json_string_value(value);
    size_t length = strlen(text);
    if (length > EDGE_BODY_MODEL_BYTES - 1) {
        length = EDGE_BODY_MODEL_BYTES - 1;
        length -= utf8_incomplete_tail(text, length);
    }
    memcpy(out, text, length);
    out[length] = '\0';
}

static enum status read_fields(const json_t *root, struct edge_body *out)
{
    TRY(read_flag(json_object_get(root, "stream"), "stream", &out->is_stream));
    const json_t *options = json_object_get(root, "stream_options");
    if (json_is_object(options))
        TRY(read_flag(json_object_get(options, "include_usage"), "stream_options.include_usage",
                      &out->includes_usage));
    read_model(json_object_get(root, "model"), out->model);
    return STATUS_OK;
}

/* jansson's own text quotes what stands near the fault, which may be a prompt: place and kind are
 * told instead. */
static enum status read_refuse(const json_error_t *error)
{
    const char *what = "is not valid JSON";
    if (json_error_code(error) == json_error_duplicate_key)
        what = "has the same key twice in one object";
    else if (json_error_code(error) == json_error_invalid_utf8)
        what = "is not valid UTF-8";
    else if (json_error_code(error) == json_error_numeric_overflow)
        what = "has a number that is too large";
    else if (json_error_code(error) == json_error_end_of_input_expected)
        what = "has text after its end";
    FAIL(STATUS_INVALID, "The body %s (line %d, column %d).", what, error->line, error->column);
}

enum status edge_body_read(struct slice body, struct edge_body *out)
{
    *out = (struct edge_body){0};
    if (body.length == 0)
        FAIL(STATUS_INVALID, "The body is empty; a JSON object is expected.");
    TRY(read_bounds(body));
    json_error_t error;
    json_t *root =
        json_loadb(body.bytes, body.length, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, &error);
    if (root == NULL)
        return read_refuse(&error);
    enum status status = STATUS_OK;
    if (!json_is_object(root))
        FAIL_OUT(STATUS_INVALID, "The body must be a JSON object.");
    status = read_fields(root, out);
out:
    json_decref(root);
    return status;
}
