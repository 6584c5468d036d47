#include "engine/models/hf_reader.h"

#include <stdio.h>

enum { READER_KEY_BYTES = 96 };

const struct json_read_value *hf_reader_get(const struct hf_reader *reader, const char *name)
{
    const struct json_read_value *value = json_read_member(reader->json, reader->object, name);
    return value != NULL && value->kind != JSON_READ_NULL ? value : NULL;
}

bool hf_reader_is(const struct hf_reader *reader, uint32_t feature)
{
    return (reader->arch->features & feature) != 0;
}

enum status hf_reader_refuse(const struct hf_reader *reader, enum status status, const char *name,
                             const char *what)
{
    FAIL(status, "%s: key '%s' %s", reader->file, name, what);
}

/* Whether the key is there; CORRUPT when a required one is not. */
static enum status reader_find(const struct hf_reader *reader, const char *name, bool *has,
                               const struct json_read_value **out)
{
    *out = hf_reader_get(reader, name);
    if (has == NULL && *out == NULL)
        return hf_reader_refuse(reader, STATUS_CORRUPT, name, "is missing");
    if (has != NULL)
        *has = *out != NULL;
    return STATUS_OK;
}

enum status hf_reader_count(const struct hf_reader *reader, const char *name, uint32_t *out,
                            bool *has)
{
    const struct json_read_value *value;
    int64_t number;
    TRY(reader_find(reader, name, has, &value));
    if (value == NULL)
        return STATUS_OK;
    if (!json_read_integer(value, &number) || number < 0 || number > UINT32_MAX)
        return hf_reader_refuse(reader, STATUS_CORRUPT, name, "is no whole number of 32 bits");
    *out = (uint32_t)number;
    return STATUS_OK;
}

enum status hf_reader_real(const struct hf_reader *reader, const char *name, double *out, bool *has)
{
    const struct json_read_value *value;
    TRY(reader_find(reader, name, has, &value));
    if (value != NULL && !json_read_number(value, out))
        return hf_reader_refuse(reader, STATUS_CORRUPT, name, "is no number");
    return STATUS_OK;
}

enum status hf_reader_bool(const struct hf_reader *reader, const char *name, bool *out, bool *has)
{
    const struct json_read_value *value;
    TRY(reader_find(reader, name, has, &value));
    if (value == NULL)
        return STATUS_OK;
    if (value->kind != JSON_READ_TRUE && value->kind != JSON_READ_FALSE)
        return hf_reader_refuse(reader, STATUS_CORRUPT, name, "is neither true nor false");
    *out = value->kind == JSON_READ_TRUE;
    return STATUS_OK;
}

enum status hf_reader_text(const struct hf_reader *reader, const char *name, struct slice *out)
{
    const struct json_read_value *value = hf_reader_get(reader, name);
    *out = (struct slice){"", 0};
    if (value == NULL)
        return STATUS_OK;
    if (value->kind != JSON_READ_STRING)
        return hf_reader_refuse(reader, STATUS_CORRUPT, name, "is no string");
    *out = json_read_text(value);
    return STATUS_OK;
}

static const char *reader_key(const struct hf_reader *reader, const char *name,
                              char out[static READER_KEY_BYTES])
{
    snprintf(out, READER_KEY_BYTES, "%s.%s", reader->arch->name, name);
    return out;
}

void hf_reader_put_u32(const struct hf_reader *reader, const char *name, uint32_t value)
{
    char key[READER_KEY_BYTES];
    gguf_keys_u32(reader->keys, reader_key(reader, name, key), value);
}

void hf_reader_put_f32(const struct hf_reader *reader, const char *name, double value)
{
    char key[READER_KEY_BYTES];
    gguf_keys_f32(reader->keys, reader_key(reader, name, key), (float)value);
}

void hf_reader_put_string(const struct hf_reader *reader, const char *name, const char *value)
{
    char key[READER_KEY_BYTES];
    gguf_keys_string(reader->keys, reader_key(reader, name, key), slice_of(value));
}
