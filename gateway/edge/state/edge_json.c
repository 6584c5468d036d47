#include "gateway/edge/state/edge_json.h"

#include "config/base/decimal.h"
#include "config/base/limits.h"
#include "gateway/http/http_error.h"

static bool walk_is_space(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

static size_t walk_skip_space(struct slice text, size_t at)
{
    while (at < text.length && walk_is_space(text.bytes[at]))
        at++;
    return at;
}

static enum status walk_broken(void)
{
    FAIL(STATUS_PROTOCOL, "the engine sent a frame that is not JSON");
}

/* Moves `at` from the opening quote to the byte after the closing one. */
static enum status walk_skip_string(struct slice text, size_t *at)
{
    for (size_t i = *at + 1; i < text.length; i++) {
        if (text.bytes[i] == '\\') {
            i++;
        } else if (text.bytes[i] == '"') {
            *at = i + 1;
            return STATUS_OK;
        }
    }
    return walk_broken();
}

/* Moves `at` past an object or array. Its brackets must match by kind, and it may be at most
 * LIMIT_JSON_DEPTH deep. */
static enum status walk_skip_container(struct slice text, size_t *at)
{
    bool is_object[LIMIT_JSON_DEPTH];
    size_t depth = 0;
    size_t i = *at;
    while (i < text.length) {
        char c = text.bytes[i];
        if (c == '"') {
            TRY(walk_skip_string(text, &i));
            continue;
        }
        if (c == '{' || c == '[') {
            if (depth == LIMIT_JSON_DEPTH)
                return walk_broken();
            is_object[depth++] = c == '{';
        } else if (c == '}' || c == ']') {
            if (is_object[depth - 1] != (c == '}'))
                return walk_broken();
            depth--;
            if (depth == 0) {
                *at = i + 1;
                return STATUS_OK;
            }
        }
        i++;
    }
    return walk_broken();
}

static enum status walk_value(struct slice text, size_t *at, struct json_value *value)
{
    size_t start = *at;
    if (start >= text.length)
        return walk_broken();
    char c = text.bytes[start];
    if (c == '"') {
        TRY(walk_skip_string(text, at));
    } else if (c == '{' || c == '[') {
        TRY(walk_skip_container(text, at));
    } else {
        size_t i = start;
        while (i < text.length && text.bytes[i] != ',' && text.bytes[i] != '}' &&
               text.bytes[i] != ']' && !walk_is_space(text.bytes[i]))
            i++;
        if (i == start)
            return walk_broken();
        *at = i;
    }
    *value = (struct json_value){text.bytes + start, *at - start};
    return STATUS_OK;
}

static enum status walk_open(struct edge_json_walk *walk, struct slice text, char open)
{
    size_t at = walk_skip_space(text, 0);
    if (at >= text.length || text.bytes[at] != open)
        return walk_broken();
    *walk = (struct edge_json_walk){.text = text, .at = at + 1};
    return STATUS_OK;
}

enum status edge_json_object(struct edge_json_walk *walk, struct slice text)
{
    return walk_open(walk, text, '{');
}

enum status edge_json_array(struct edge_json_walk *walk, struct slice text)
{
    return walk_open(walk, text, '[');
}

/* Moves to the start of the next item, past the comma. `found` is false at the closing bracket. */
static enum status walk_next(struct edge_json_walk *walk, char close, bool *found)
{
    size_t at = walk_skip_space(walk->text, walk->at);
    *found = false;
    if (at >= walk->text.length)
        return walk_broken();
    if (walk->text.bytes[at] == close) {
        walk->at = at;
        return STATUS_OK;
    }
    if (walk->is_started) {
        if (walk->text.bytes[at] != ',')
            return walk_broken();
        at = walk_skip_space(walk->text, at + 1);
    }
    walk->is_started = true;
    walk->at = at;
    *found = true;
    return STATUS_OK;
}

enum status edge_json_member(struct edge_json_walk *walk, bool *found, struct json_value *key,
                             struct json_value *value)
{
    TRY(walk_next(walk, '}', found));
    if (!*found)
        return STATUS_OK;
    size_t start = walk->at;
    if (start >= walk->text.length || walk->text.bytes[start] != '"')
        return walk_broken();
    TRY(walk_skip_string(walk->text, &walk->at));
    *key = (struct json_value){walk->text.bytes + start, walk->at - start};
    walk->at = walk_skip_space(walk->text, walk->at);
    if (walk->at >= walk->text.length || walk->text.bytes[walk->at] != ':')
        return walk_broken();
    walk->at = walk_skip_space(walk->text, walk->at + 1);
    return walk_value(walk->text, &walk->at, value);
}

enum status edge_json_element(struct edge_json_walk *walk, bool *found, struct json_value *value)
{
    TRY(walk_next(walk, ']', found));
    return *found ? walk_value(walk->text, &walk->at, value) : STATUS_OK;
}

enum status edge_json_append_inside(struct buffer *out, struct json_value value)
{
    if (value.length < 2 || value.bytes[0] != '"' || value.bytes[value.length - 1] != '"')
        return walk_broken();
    buffer_append(out, value.bytes + 1, value.length - 2);
    return out->status;
}

enum status edge_json_number(struct json_value value, uint64_t most, uint64_t *out)
{
    return edge_json_digits(json_scan_text(value), most, out);
}

enum status edge_json_digits(struct slice text, uint64_t most, uint64_t *out)
{
    return decimal_read(text, most, out) == DECIMAL_READ ? STATUS_OK : walk_broken();
}

enum status edge_json_inside(struct json_value array, struct slice *inside)
{
    if (array.length < 2 || array.bytes[0] != '[' || array.bytes[array.length - 1] != ']')
        return walk_broken();
    size_t start = walk_skip_space(json_scan_text(array), 1);
    size_t end = array.length - 1;
    while (end > start && walk_is_space(array.bytes[end - 1]))
        end--;
    *inside = (struct slice){array.bytes + start, end > start ? end - start : 0};
    return STATUS_OK;
}

bool edge_json_is_error(struct slice text, const char *code, char *message, size_t message_bytes)
{
    struct json_scan_field error = {.name = "error"};
    struct json_scan_field fields[] = {{.name = "code"}, {.name = "message"}};
    if (json_scan(text, &error, 1) != STATUS_OK || !json_scan_is_object(error.value) ||
        json_scan(json_scan_text(error.value), fields, 2) != STATUS_OK ||
        !json_scan_is_string(fields[0].value) || !json_scan_is_string(fields[1].value))
        return false;
    json_scan_unescape(fields[1].value, message, message_bytes);
    return json_scan_is(fields[0].value, code);
}

int edge_json_error_code(struct slice error)
{
    static const enum status retried[] = {STATUS_DEADLINE, STATUS_BUSY, STATUS_ENGINE_SHARE,
                                          STATUS_UNAVAILABLE};
    struct json_scan_field fields[] = {{.name = "type"}, {.name = "code"}};
    if (json_scan(error, fields, 2) == STATUS_OK) {
        const struct http_error *request = http_error_of(STATUS_INVALID);
        if (json_scan_is(fields[0].value, request->type))
            return request->http_code;
        for (size_t i = 0; i < sizeof retried / sizeof retried[0]; i++) {
            const struct http_error *retry = http_error_of(retried[i]);
            if (json_scan_is(fields[1].value, retry->code))
                return retry->http_code;
        }
    }
    return http_error_of(STATUS_IO)->http_code;
}

bool edge_json_is_own_share(struct slice text)
{
    char message[STATUS_MESSAGE_BYTES];
    const char *code = http_error_of(STATUS_ENGINE_SHARE)->code;
    return edge_json_is_error(text, code, message, sizeof message);
}
