#include "engine/models/gguf_keys.h"

/* Types and layout as gguf reads them: magic, version, number of tensors, number of keys. */
enum { KEYS_U32 = 4, KEYS_I32 = 5, KEYS_F32 = 6, KEYS_BOOL = 7, KEYS_STRING = 8, KEYS_ARRAY = 9 };
enum { KEYS_VERSION = 3, KEYS_COUNT_AT = 16 };
#define KEYS_BYTES_MAX ((size_t)1 << 30)

void gguf_keys_init(struct gguf_keys *keys)
{
    static const uint32_t version = KEYS_VERSION;
    static const uint64_t none[2] = {0, 0};
    buffer_init(&keys->bytes, KEYS_BYTES_MAX);
    keys->count = 0;
    buffer_append_text(&keys->bytes, "GGUF");
    buffer_append(&keys->bytes, &version, sizeof version);
    buffer_append(&keys->bytes, none, sizeof none);
}

void gguf_keys_deinit(struct gguf_keys *keys)
{
    buffer_deinit(&keys->bytes);
}

static void keys_string(struct gguf_keys *keys, struct slice text)
{
    const uint64_t length = text.length;
    buffer_append(&keys->bytes, &length, sizeof length);
    buffer_append_slice(&keys->bytes, text);
}

static void keys_name(struct gguf_keys *keys, const char *name, uint32_t type)
{
    keys->count++;
    keys_string(keys, slice_of(name));
    buffer_append(&keys->bytes, &type, sizeof type);
}

static void keys_array(struct gguf_keys *keys, const char *name, uint32_t type, uint64_t count)
{
    keys_name(keys, name, KEYS_ARRAY);
    buffer_append(&keys->bytes, &type, sizeof type);
    buffer_append(&keys->bytes, &count, sizeof count);
}

void gguf_keys_u32(struct gguf_keys *keys, const char *name, uint32_t value)
{
    keys_name(keys, name, KEYS_U32);
    buffer_append(&keys->bytes, &value, sizeof value);
}

void gguf_keys_f32(struct gguf_keys *keys, const char *name, float value)
{
    keys_name(keys, name, KEYS_F32);
    buffer_append(&keys->bytes, &value, sizeof value);
}

void gguf_keys_bool(struct gguf_keys *keys, const char *name, bool value)
{
    keys_name(keys, name, KEYS_BOOL);
    buffer_append_char(&keys->bytes, value ? 1 : 0);
}

void gguf_keys_string(struct gguf_keys *keys, const char *name, struct slice value)
{
    keys_name(keys, name, KEYS_STRING);
    keys_string(keys, value);
}

void gguf_keys_strings(struct gguf_keys *keys, const char *name, uint64_t count)
{
    keys_array(keys, name, KEYS_STRING, count);
}

void gguf_keys_add_string(struct gguf_keys *keys, struct slice element)
{
    keys_string(keys, element);
}

void gguf_keys_bools(struct gguf_keys *keys, const char *name, const bool *elements, uint64_t count)
{
    keys_array(keys, name, KEYS_BOOL, count);
    for (uint64_t i = 0; i < count; i++)
        buffer_append_char(&keys->bytes, elements[i] ? 1 : 0);
}

void gguf_keys_i32s(struct gguf_keys *keys, const char *name, const int32_t *elements,
                    uint64_t count)
{
    keys_array(keys, name, KEYS_I32, count);
    buffer_append(&keys->bytes, elements, (size_t)count * sizeof *elements);
}

void gguf_keys_f32s(struct gguf_keys *keys, const char *name, const float *elements, uint64_t count)
{
    keys_array(keys, name, KEYS_F32, count);
    buffer_append(&keys->bytes, elements, (size_t)count * sizeof *elements);
}

enum status gguf_keys_finish(struct gguf_keys *keys, struct gguf **out)
{
    *out = NULL;
    if (keys->bytes.status != STATUS_OK)
        FAIL(keys->bytes.status, "model directory: %s",
             keys->bytes.status == STATUS_LIMIT ? "its keys are longer than 1 GiB"
                                                : "no memory for its keys");
    memcpy(keys->bytes.bytes + KEYS_COUNT_AT, &keys->count, sizeof keys->count);
    return gguf_parse(out, keys->bytes.bytes, keys->bytes.length);
}
