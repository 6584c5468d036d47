#include "gateway/dialect/ask_json.h"

#include <math.h>

#include "config/base/json_scan.h"
#include "config/base/turns.h"

/* Parsing 8 bytes of JSON takes as long as tokenising one byte of text, the unit of
 * turns_spend(). */
enum { PARSE_PER_TEXT = 8 };

static const char *kind_of(const json_t *value)
{
    static const char *const kinds[] = {
        [JSON_OBJECT] = "an object",      [JSON_ARRAY] = "an array",
        [JSON_STRING] = "a string",       [JSON_INTEGER] = "an integer",
        [JSON_REAL] = "a decimal number", [JSON_TRUE] = "a boolean",
        [JSON_FALSE] = "a boolean",       [JSON_NULL] = "null",
    };
    return kinds[json_typeof(value)];
}

enum status ask_json_wrong_type(const json_t *value, const char *path, const char *expected)
{
    FAIL_PARAM(STATUS_INVALID, path, "Invalid type for '%s': expected %s, but got %s instead.",
               path, expected, kind_of(value));
}

enum status ask_json_parse(struct slice body, json_t **out)
{
    /* Checks form and bounds before jansson makes a tree: four million bytes of "{}," would become
     * a tree of 300 MiB. jansson then finds duplicate keys in inner objects. */
    TRY(json_scan(body, NULL, 0));
    json_error_t error;
    json_t *root = json_loadb(body.bytes != NULL ? body.bytes : "", body.length,
                              JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &error);
    if (root == NULL) {
        /* jansson's text quotes the body, which is a prompt, so only the position is told. */
        if (json_error_code(&error) == json_error_duplicate_key)
            FAIL(STATUS_INVALID,
                 "The JSON of the request has a duplicate key (line %d, column %d).", error.line,
                 error.column);
        FAIL(STATUS_INVALID,
             "We could not parse the JSON body of your request (line %d, column %d). The API "
             "expects "
             "a JSON object.",
             error.line, error.column);
    }
    turns_spend(body.length / PARSE_PER_TEXT);
    *out = root;
    return STATUS_OK;
}

enum status ask_json_bool(const json_t *value, const char *path, bool *out)
{
    if (!json_is_boolean(value))
        return ask_json_wrong_type(value, path, "a boolean");
    *out = json_is_true(value);
    return STATUS_OK;
}

enum status ask_json_integer(const json_t *value, const char *path, int64_t least, int64_t most,
                             int64_t *out)
{
    if (!json_is_integer(value))
        return ask_json_wrong_type(value, path, "an integer");
    int64_t number = json_integer_value(value);
    if (number < least)
        FAIL_PARAM(STATUS_OUT_OF_RANGE, path,
                   "Invalid '%s': integer below minimum value. Expected a value >= %lld, but got "
                   "%lld instead.",
                   path, (long long)least, (long long)number);
    if (number > most)
        FAIL_PARAM(STATUS_OUT_OF_RANGE, path,
                   "Invalid '%s': integer above maximum value. Expected a value <= %lld, but got "
                   "%lld instead.",
                   path, (long long)most, (long long)number);
    *out = number;
    return STATUS_OK;
}

enum status ask_json_number(const json_t *value, const char *path, double least, double most,
                            bool is_open, double *out)
{
    if (!json_is_number(value))
        return ask_json_wrong_type(value, path, "a number");
    double number = json_number_value(value);
    bool is_low = is_open ? !(number > least) : !(number >= least);
    if (is_low || !(number <= most))
        FAIL_PARAM(STATUS_OUT_OF_RANGE, path,
                   "Invalid '%s': expected a value in %c%g, %g], but got %g instead.", path,
                   is_open ? '(' : '[', least, most, number);
    *out = number;
    return STATUS_OK;
}

enum status ask_json_string(const json_t *value, const char *path, struct slice *out)
{
    if (!json_is_string(value))
        return ask_json_wrong_type(value, path, "a string");
    *out = (struct slice){json_string_value(value), json_string_length(value)};
    return STATUS_OK;
}

enum status ask_json_word(const json_t *value, const char *path, struct slice *out)
{
    TRY(ask_json_string(value, path, out));
    if (memchr(out->bytes, 0, out->length) != NULL)
        FAIL_PARAM(STATUS_INVALID, path,
                   "Invalid '%s': it has a NUL character (\\u0000), which only texts may have.",
                   path);
    return STATUS_OK;
}

enum status ask_json_array(const json_t *value, const char *path, size_t most, size_t *count)
{
    if (!json_is_array(value))
        return ask_json_wrong_type(value, path, "an array");
    *count = json_array_size(value);
    if (*count > most)
        FAIL_PARAM(STATUS_OUT_OF_RANGE, path,
                   "Invalid '%s': array too long. Expected an array with maximum length %zu, but "
                   "got an array with length %zu instead.",
                   path, most, *count);
    return STATUS_OK;
}

enum status ask_json_object(const json_t *value, const char *path)
{
    if (!json_is_object(value))
        return ask_json_wrong_type(value, path, "an object");
    return STATUS_OK;
}

enum status ask_json_members(const json_t *value, const char *path, const char *const *known)
{
    TRY(ask_json_object(value, path));
    const char *key;
    json_t *member;
    json_object_foreach((json_t *)(uintptr_t)value, key, member)
    {
        size_t i = 0;
        while (known[i] != NULL && strcmp(known[i], key) != 0)
            i++;
        if (known[i] != NULL || json_is_null(member))
            continue;
        char where[STATUS_PARAM_BYTES];
        snprintf(where, sizeof where, "%.60s.%.32s", path, key);
        FAIL_PARAM(STATUS_UNSUPPORTED, where, "Unknown parameter: '%s'.", where);
    }
    return STATUS_OK;
}
