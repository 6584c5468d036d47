#include "tests/kit/gguf_writer.h"

#include <stdio.h>
#include <stdlib.h>

#define GGUF_WRITER_BYTES_MAX ((size_t)3 << 30)

void gguf_writer_init(struct gguf_writer *writer)
{
    *writer = (struct gguf_writer){.version = 3, .alignment = 32};
    buffer_init(&writer->keys, GGUF_WRITER_BYTES_MAX);
    buffer_init(&writer->tensors, GGUF_WRITER_BYTES_MAX);
    buffer_init(&writer->data, GGUF_WRITER_BYTES_MAX);
}

void gguf_writer_deinit(struct gguf_writer *writer)
{
    buffer_deinit(&writer->keys);
    buffer_deinit(&writer->tensors);
    buffer_deinit(&writer->data);
}

static void put_u32(struct buffer *out, uint32_t value)
{
    buffer_append(out, &value, sizeof value);
}

static void put_u64(struct buffer *out, uint64_t value)
{
    buffer_append(out, &value, sizeof value);
}

static void put_string(struct buffer *out, const char *text)
{
    put_u64(out, strlen(text));
    buffer_append_text(out, text);
}

void gguf_writer_key(struct gguf_writer *writer, const char *name, uint32_t type, const void *value,
                     size_t bytes)
{
    put_string(&writer->keys, name);
    put_u32(&writer->keys, type);
    buffer_append(&writer->keys, value, bytes);
    writer->key_count++;
}

void gguf_writer_u32(struct gguf_writer *writer, const char *name, uint32_t value)
{
    gguf_writer_key(writer, name, GGUF_WRITER_U32, &value, sizeof value);
}

void gguf_writer_f32(struct gguf_writer *writer, const char *name, float value)
{
    gguf_writer_key(writer, name, GGUF_WRITER_F32, &value, sizeof value);
}

void gguf_writer_bool(struct gguf_writer *writer, const char *name, uint8_t value)
{
    gguf_writer_key(writer, name, GGUF_WRITER_BOOL, &value, sizeof value);
}

void gguf_writer_string(struct gguf_writer *writer, const char *name, const char *value)
{
    gguf_writer_key(writer, name, GGUF_WRITER_STRING, NULL, 0);
    put_string(&writer->keys, value);
}

void gguf_writer_array(struct gguf_writer *writer, const char *name, uint32_t element_type,
                       uint64_t count, const void *elements, size_t bytes)
{
    gguf_writer_key(writer, name, GGUF_WRITER_ARRAY, NULL, 0);
    put_u32(&writer->keys, element_type);
    put_u64(&writer->keys, count);
    buffer_append(&writer->keys, elements, bytes);
}

void gguf_writer_strings(struct gguf_writer *writer, const char *name, const char *const *texts,
                         uint64_t count)
{
    gguf_writer_array(writer, name, GGUF_WRITER_STRING, count, NULL, 0);
    for (uint64_t i = 0; i < count; i++)
        put_string(&writer->keys, texts[i]);
}

void gguf_writer_tensor_info(struct gguf_writer *writer, const char *name, uint32_t dim_count,
                             const uint64_t *dims, uint32_t type, uint64_t offset)
{
    put_string(&writer->tensors, name);
    put_u32(&writer->tensors, dim_count);
    for (uint32_t d = 0; d < dim_count; d++)
        put_u64(&writer->tensors, dims[d]);
    put_u32(&writer->tensors, type);
    put_u64(&writer->tensors, offset);
    writer->tensor_count++;
}

static void pad(struct buffer *out, size_t alignment)
{
    while (out->length % alignment != 0)
        buffer_append_char(out, '\0');
}

void gguf_writer_tensor(struct gguf_writer *writer, const char *name, uint32_t dim_count,
                        const uint64_t *dims, uint32_t type, const void *data, size_t bytes)
{
    pad(&writer->data, writer->alignment);
    gguf_writer_tensor_info(writer, name, dim_count, dims, type, writer->data.length);
    buffer_append(&writer->data, data, bytes);
}

void gguf_writer_finish(struct gguf_writer *writer, struct buffer *out)
{
    buffer_init(out, GGUF_WRITER_BYTES_MAX);
    buffer_append(out, "GGUF", 4);
    put_u32(out, writer->version);
    put_u64(out, writer->tensor_count);
    put_u64(out, writer->key_count);
    buffer_append_slice(out, buffer_slice(&writer->keys));
    buffer_append_slice(out, buffer_slice(&writer->tensors));
    if (writer->tensor_count != 0)
        pad(out, writer->alignment);
    buffer_append_slice(out, buffer_slice(&writer->data));
    if (out->status != STATUS_OK || writer->keys.status != STATUS_OK ||
        writer->tensors.status != STATUS_OK || writer->data.status != STATUS_OK)
        abort();
}

bool gguf_writer_save(struct gguf_writer *writer, const char *path)
{
    struct buffer file;
    gguf_writer_finish(writer, &file);
    FILE *out = fopen(path, "wb");
    bool is_written = out != NULL && fwrite(file.bytes, 1, file.length, out) == file.length;
    is_written = out != NULL && fclose(out) == 0 && is_written;
    if (!is_written)
        perror(path);
    buffer_deinit(&file);
    return is_written;
}
