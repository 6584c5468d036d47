#include "gateway/admin/admin_body.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>

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
            FAIL_PARAM(STATUS_INVALID, field->name, "%s has control characters.", field->name);
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

/* Reads a number or {"limit":n,"mode":"enforce"|"shadow"}; the mode is "enforce" by default. */
static enum status read_limit(struct admin_body_field *field, json_t *value)
{
    const char *key;
    json_t *member;
    char where[STATUS_PARAM_BYTES];
    if (!json_is_object(value))
        return read_number(field, value);
    json_object_foreach(value, key, member)
    {
        const char *mode = strcmp(key, "mode") == 0 ? json_string_value(member) : NULL;
        snprintf(where, sizeof where, "%s.%.32s", field->name, key);
        field->is_shadow |= mode != NULL && strcmp(mode, "shadow") == 0;
        if (strcmp(key, "limit") != 0 && strcmp(key, "mode") != 0)
            FAIL_PARAM(STATUS_UNSUPPORTED, where, "There is no field %s here.", where);
        if (strcmp(key, "mode") == 0 && !field->is_shadow &&
            (mode == NULL || strcmp(mode, "enforce") != 0))
            FAIL_PARAM(STATUS_INVALID, where, "%s must be one of enforce, shadow.", where);
    }
    snprintf(where, sizeof where, "%s.limit", field->name);
    member = json_object_get(value, "limit");
    if (member == NULL)
        FAIL_PARAM(STATUS_INVALID, where, "%s is missing.", where);
    return read_number(field, member);
}

/* --- words --- */

static enum status read_word(struct admin_body_field *field, const json_t *value, const char *where)
{
    uint32_t bit = 0;
    if (json_is_string(value))
        bit = field->find((struct slice){json_string_value(value), json_string_length(value)});
    if (bit == 0)
        FAIL_PARAM(STATUS_INVALID, where, "%s must be one of %s.", where, field->words);
    if ((field->number & bit) != 0)
        FAIL_PARAM(STATUS_INVALID, where, "%s is given twice.", where);
    field->number |= bit;
    return STATUS_OK;
}

static enum status read_words(struct admin_body_field *field, const json_t *value)
{
    if (!json_is_array(value))
        FAIL_PARAM(STATUS_INVALID, field->name, "%s must be a list of words.", field->name);
    if (json_array_size(value) == 0)
        FAIL_PARAM(STATUS_INVALID, field->name, "%s must have at least one word.", field->name);
    for (size_t i = 0; i < json_array_size(value); i++) {
        char where[STATUS_PARAM_BYTES];
        snprintf(where, sizeof where, "%s[%zu]", field->name, i);
        TRY(read_word(field, json_array_get(value, i), where));
    }
    return STATUS_OK;
}

/* --- pairs --- */

static enum status read_pair(struct admin_body_field *field, const char *key, const json_t *value)
{
    char where[STATUS_PARAM_BYTES];
    size_t length = strlen(key);
    snprintf(where, sizeof where, "%s.%s", field->name, key);
    if (length == 0 || length > LIMIT_METADATA_KEY_BYTES)
        FAIL_PARAM(STATUS_OUT_OF_RANGE, field->name, "A key of %s must have 1 to %d bytes.",
                   field->name, LIMIT_METADATA_KEY_BYTES);
    if (!json_is_string(value))
        FAIL_PARAM(STATUS_INVALID, where, "%s must be a string.", where);
    if (json_string_length(value) > LIMIT_METADATA_VALUE_BYTES)
        FAIL_PARAM(STATUS_OUT_OF_RANGE, where, "%s is longer than %d bytes.", where,
                   LIMIT_METADATA_VALUE_BYTES);
    buffer_append_char(&field->json, field->json.length > 1 ? ',' : '{');
    buffer_append_json_string(&field->json, (struct slice){key, length});
    buffer_append_char(&field->json, ':');
    buffer_append_json_string(&field->json,
                              (struct slice){json_string_value(value), json_string_length(value)});
    return STATUS_OK;
}

static enum status read_pairs(struct admin_body_field *field, json_t *value)
{
    const char *key;
    json_t *member;
    if (!json_is_object(value))
        FAIL_PARAM(STATUS_INVALID, field->name, "%s must be an object of strings.", field->name);
    if (json_object_size(value) > LIMIT_METADATA_PAIRS)
        FAIL_PARAM(STATUS_OUT_OF_RANGE, field->name, "%s has more than %d members.", field->name,
                   LIMIT_METADATA_PAIRS);
    json_object_foreach(value, key, member) TRY(read_pair(field, key, member));
    if (field->json.length == 0)
        buffer_append_char(&field->json, '{');
    buffer_append_char(&field->json, '}');
    if (field->json.status != STATUS_OK)
        FAIL(field->json.status, "no memory for a body");
    return STATUS_OK;
}

/* --- names, texts and messages --- */

static enum status read_json(struct admin_body_field *field, const json_t *value)
{
    char *text = json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY);
    if (text == NULL)
        FAIL(STATUS_NO_MEMORY, "no memory for a body");
    buffer_append_text(&field->json, text);
    free(text);
    return field->json.status;
}

static enum status read_name(const struct admin_body_field *field, const json_t *list, size_t index)
{
    char where[STATUS_PARAM_BYTES];
    const json_t *value = json_array_get(list, index);
    snprintf(where, sizeof where, "%s[%zu]", field->name, index);
    size_t length = json_string_length(value);
    if (!json_is_string(value))
        FAIL_PARAM(STATUS_INVALID, where, "%s must be a string.", where);
    if (length == 0 || length >= LIMIT_NAME_BYTES)
        FAIL_PARAM(STATUS_OUT_OF_RANGE, where, "%s must have 1 to %d bytes.", where,
                   LIMIT_NAME_BYTES - 1);
    for (size_t i = 0; i < index; i++) {
        if (json_equal(json_array_get(list, i), value))
            FAIL_PARAM(STATUS_INVALID, where, "%s is given twice.", where);
    }
    return STATUS_OK;
}

static enum status read_names(struct admin_body_field *field, const json_t *value)
{
    if (!json_is_array(value))
        FAIL_PARAM(STATUS_INVALID, field->name, "%s must be a list of texts.", field->name);
    size_t count = json_array_size(value);
    if ((int64_t)count > field->most)
        FAIL_PARAM(STATUS_OUT_OF_RANGE, field->name,
                   "%s has %zu members; it may have at most %lld.", field->name, count,
                   (long long)field->most);
    for (size_t i = 0; i < count; i++)
        TRY(read_name(field, value, i));
    field->number = (int64_t)count;
    return read_json(field, value);
}

static enum status read_long_text(struct admin_body_field *field, const json_t *value)
{
    if (!json_is_string(value) || json_string_length(value) == 0)
        FAIL_PARAM(STATUS_INVALID, field->name, "%s must be a string that is not empty.",
                   field->name);
    return read_json(field, value);
}

static enum status read_message(const struct admin_body_field *field, json_t *message, size_t index)
{
    static const char *const roles[] = {"system", "developer", "user", "assistant"};
    char where[STATUS_PARAM_BYTES];
    const char *role = json_string_value(json_object_get(message, "role"));
    bool is_role = false;
    snprintf(where, sizeof where, "%s[%zu]", field->name, index);
    if (json_object_size(message) != 2 || role == NULL ||
        !json_is_string(json_object_get(message, "content")))
        FAIL_PARAM(STATUS_INVALID, where, "%s must be {\"role\":…,\"content\":…}, both strings.",
                   where);
    for (size_t i = 0; i < sizeof roles / sizeof roles[0]; i++)
        is_role = is_role || strcmp(role, roles[i]) == 0;
    if (!is_role)
        FAIL_PARAM(STATUS_INVALID, where,
                   "%s.role must be one of system, developer, user, assistant.", where);
    return STATUS_OK;
}

static enum status read_messages(struct admin_body_field *field, const json_t *value)
{
    size_t count = json_array_size(value);
    if (!json_is_array(value) || count == 0)
        FAIL_PARAM(STATUS_INVALID, field->name, "%s must be a list of at least one message.",
                   field->name);
    if (count > LIMIT_MESSAGES)
        FAIL_PARAM(STATUS_OUT_OF_RANGE, field->name, "%s has %zu members; it may have at most %d.",
                   field->name, count, LIMIT_MESSAGES);
    for (size_t i = 0; i < count; i++)
        TRY(read_message(field, json_array_get(value, i), i));
    return read_json(field, value);
}

/* --- the body --- */

static enum status read_value(struct admin_body_field *field, json_t *value)
{
    field->is_null = json_is_null(value);
    switch (field->kind) {
    case ADMIN_BODY_TEXT:
        return read_text(field, value);
    case ADMIN_BODY_TEXT_OR_NULL:
        return field->is_null ? STATUS_OK : read_text(field, value);
    case ADMIN_BODY_NUMBER_OR_NULL:
        return field->is_null ? STATUS_OK : read_number(field, value);
    case ADMIN_BODY_LIMIT:
        return field->is_null ? STATUS_OK : read_limit(field, value);
    case ADMIN_BODY_NUMBER:
        return read_number(field, value);
    case ADMIN_BODY_WORD:
        return read_word(field, value, field->name);
    case ADMIN_BODY_WORD_OR_NULL:
        return field->is_null ? STATUS_OK : read_word(field, value, field->name);
    case ADMIN_BODY_WORDS:
        return read_words(field, value);
    case ADMIN_BODY_PAIRS:
        return read_pairs(field, value);
    case ADMIN_BODY_NAMES:
        return read_names(field, value);
    case ADMIN_BODY_LONG_TEXT:
        return read_long_text(field, value);
    case ADMIN_BODY_MESSAGES:
        return read_messages(field, value);
    case ADMIN_BODY_OBJECT:
        if (!json_is_object(value))
            FAIL_PARAM(STATUS_INVALID, field->name, "%s must be an object.", field->name);
        return read_json(field, value);
    }
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
        TRY(read_value(field, value));
        field->is_given = true;
    }
    for (size_t i = 0; i < count; i++) {
        if (fields[i].is_required && !fields[i].is_given)
            FAIL_PARAM(STATUS_INVALID, fields[i].name, "%s is missing.", fields[i].name);
    }
    return STATUS_OK;
}

static const char *read_reason(const json_error_t *error)
{
    switch (json_error_code(error)) {
    case json_error_duplicate_key:
        return ": a member is given twice";
    case json_error_numeric_overflow:
        return ": a number is too large";
    case json_error_null_character:
    case json_error_null_byte_in_key:
        return ": a string has a NUL character";
    case json_error_invalid_utf8:
        return ": it is not UTF-8";
    case json_error_stack_overflow:
        return ": it is nested too deeply";
    default:
        return "";
    }
}

enum status admin_body_read(struct slice body, struct admin_body_field *fields, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        ASSERT(fields[i].kind != ADMIN_BODY_TEXT || (size_t)fields[i].most < sizeof fields[i].text);
        buffer_init(&fields[i].json, fields[i].kind == ADMIN_BODY_PAIRS ? LIMIT_METADATA_BYTES
                                                                        : LIMIT_ADMIN_BODY_BYTES);
    }
    if (body.length > LIMIT_ADMIN_BODY_BYTES)
        FAIL(STATUS_LIMIT, "The body is longer than %d bytes.", LIMIT_ADMIN_BODY_BYTES);
    if (body.length == 0)
        body = SLICE("{}");
    json_error_t error;
    json_t *root = json_loadb(body.bytes, body.length, JSON_REJECT_DUPLICATES, &error);
    if (root == NULL)
        FAIL(STATUS_INVALID, "The body is not valid JSON (line %d, column %d)%s.", error.line,
             error.column, read_reason(&error));
    enum status status = STATUS_OK;
    if (!json_is_object(root))
        FAIL_OUT(STATUS_INVALID, "The body must be a JSON object.");
    status = read_members(root, fields, count);
out:
    json_decref(root);
    return status;
}

void admin_body_free(struct admin_body_field *fields, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (fields[i].json.bytes != NULL) /* a key set has secrets */
            explicit_bzero(fields[i].json.bytes, fields[i].json.capacity);
        buffer_deinit(&fields[i].json);
    }
}
