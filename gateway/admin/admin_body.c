#include "gateway/admin/admin_body.h"

#include <jansson.h>

#include "config/base/limits.h"

static struct admin_body_field *read_find(struct admin_body_field *fields, size_t count,
                                          const char *name)
{
    for (size_t i = 0; i < count; i++) {
        if (strcmp(fields[i].name, name) == 0)
            return &fields[i];
    }
    return NULL;
}

static enum status read_text(struct admin_body_field *field, const json_t *value)
{
    if (!json_is_string(value))
        FAIL_PARAM(STATUS_INVALID, field->name, "%s must be a string.", field->name);
    size_t length = json_string_length(value);
    if ((int64_t)length > field->most)
        FAIL_PARAM(STATUS_OUT_OF_RANGE, field->name, "%s is longer than %lld bytes.", field->name,
                   (long long)field->most);
    if (length == 0 && field->is_required)
        FAIL_PARAM(STATUS_INVALID, field->name, "%s must not be empty.", field->name);
    const unsigned char *text = (const unsigned char *)json_string_value(value);
    for (size_t i = 0; i < length; i++) {
        if (text[i] < ' ' || text[i] == 0x7f)
            FAIL_PARAM(STATUS_INVALID, field->name, "%s holds control characters.", field->name);
    }
    memcpy(field->text, text, length);
    field->text[length] = '\0';
    return STATUS_OK;
}

static enum status read_number(struct admin_body_field *field, const json_t *value)
{
    if (!json_is_integer(value))
        FAIL_PARAM(STATUS_INVALID, field->name, "%s must be a whole number.", field->name);
    field->number = json_integer_value(value);
    if (field->number < field->least || field->number > field->most)
        FAIL_PARAM(STATUS_OUT_OF_RANGE, field->name, "%s must be from %lld to %lld.", field->name,
                   (long long)field->least, (long long)field->most);
    return STATUS_OK;
}

static enum status read_members(json_t *root, struct admin_body_field *fields, size_t count)
{
    const char *name;
    json_t *value;
    json_object_foreach(root, name, value)
    {
        struct admin_body_field *field = read_find(fields, count, name);
        if (field == NULL)
            FAIL_PARAM(STATUS_UNSUPPORTED, name, "There is no field %.64s here.", name);
        TRY(field->kind == ADMIN_BODY_TEXT ? read_text(field, value) : read_number(field, value));
        field->is_given = true;
    }
    for (size_t i = 0; i < count; i++) {
        if (fields[i].is_required && !fields[i].is_given)
            FAIL_PARAM(STATUS_INVALID, fields[i].name, "%s is missing.", fields[i].name);
    }
    return STATUS_OK;
}

enum status admin_body_read(struct slice body, struct admin_body_field *fields, size_t count)
{
    for (size_t i = 0; i < count; i++)
        ASSERT(fields[i].kind != ADMIN_BODY_TEXT || (size_t)fields[i].most < sizeof fields[i].text);
    if (body.length > LIMIT_ADMIN_BODY_BYTES)
        FAIL(STATUS_LIMIT, "The body is longer than %d bytes.", LIMIT_ADMIN_BODY_BYTES);
    if (body.length == 0)
        body = SLICE("{}");
    json_error_t error;
    json_t *root = json_loadb(body.bytes, body.length, JSON_REJECT_DUPLICATES, &error);
    if (root == NULL)
        FAIL(STATUS_INVALID, "The body is not valid JSON (line %d, column %d).", error.line,
             error.column);
    enum status status = STATUS_OK;
    if (!json_is_object(root))
        FAIL_OUT(STATUS_INVALID, "The body must be a JSON object.");
    status = read_members(root, fields, count);
out:
    json_decref(root);
    return status;
}
