/* fuzz_json_scan: any text → json_scan beside jansson. What the scan accepts, jansson accepts, with
 * the same values of the requested fields. What the scan refuses although jansson accepts it must
 * exceed one of the scan's own bounds. */
#include <jansson.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "config/base/json_scan.h"

enum { FIELDS = 4, TEXT_BYTES = 64 };

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length);

static json_t *load(struct slice text, size_t flags)
{
    return json_loadb(text.bytes != NULL ? text.bytes : "", text.length, flags | JSON_ALLOW_NUL,
                      NULL);
}

static void compare_string(struct json_value span, const json_t *value)
{
    char text[TEXT_BYTES];
    size_t length = json_scan_unescape(span, text, sizeof text);
    const char *whole = json_string_value(value);
    if (memcmp(text, whole, length) != 0 || text[length] != '\0')
        abort();
    if (length != json_string_length(value) && length + 4 < sizeof text)
        abort();
    bool has_nul = memchr(whole, 0, json_string_length(value)) != NULL;
    if (!has_nul && (!json_scan_is(span, whole) || json_scan_is(span, "no such text")))
        abort();
}

static void compare_field(const struct json_scan_field *field, const json_t *root)
{
    json_t *value = json_object_get(root, field->name);
    if ((value == NULL) != (field->value.bytes == NULL))
        abort();
    if (value == NULL)
        return;
    json_t *alone = load(json_scan_text(field->value), JSON_DECODE_ANY);
    if (alone == NULL || !json_equal(alone, value))
        abort();
    bool flag = false;
    if (json_scan_bool(field->value, &flag) != json_is_boolean(value) ||
        flag != json_is_true(value) || json_scan_is_null(field->value) != json_is_null(value) ||
        json_scan_is_object(field->value) != json_is_object(value) ||
        json_scan_is_string(field->value) != json_is_string(value))
        abort();
    if (json_is_string(value)) {
        const char *whole = json_string_value(value);
        compare_string(field->value, value);
        if (json_scan_has_nul(field->value) != (strlen(whole) < json_string_length(value)))
            abort();
    }
    json_decref(alone);
}

static void refused_for_its_own_bounds(struct slice text)
{
    static const char *const bounds[] = {"too large", "deeper", "values", "too long", "fields"};
    json_t *root = load(text, JSON_REJECT_DUPLICATES);
    /* jansson ignores a zero byte after a number, which JSON does not allow. */
    bool is_known = !json_is_object(root) || memchr(text.bytes, 0, text.length) != NULL;
    for (size_t i = 0; i < sizeof bounds / sizeof bounds[0]; i++)
        is_known |= strstr(status_note()->message, bounds[i]) != NULL;
    json_decref(root);
    if (!is_known)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length)
{
    struct slice text = {(const char *)bytes, length};
    struct json_scan_field fields[FIELDS] = {
        {.name = "model"}, {.name = "stream"}, {.name = "a"}, {.name = "é\n"}};
    if (json_scan(text, fields, FIELDS) != STATUS_OK) {
        refused_for_its_own_bounds(text);
        return 0;
    }
    json_t *root = load(text, 0);
    if (!json_is_object(root))
        abort();
    for (size_t i = 0; i < FIELDS; i++)
        compare_field(&fields[i], root);
    json_decref(root);
    return 0;
}
