/* gguf_writer: GGUF files made in memory for tests, valid and invalid ones.
 *
 * Owns:     the bytes written so far; the result belongs to the caller.
 * Thread:   one.
 * Cost:     linear in the bytes; aborts when there is no memory (tests only).
 * Not here: reading (engine/models/gguf), whole models (llama_file).
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "config/base/slice.h"

/* Value types as in the format's specification. */
enum gguf_writer_type {
    GGUF_WRITER_U8,
    GGUF_WRITER_I8,
    GGUF_WRITER_U16,
    GGUF_WRITER_I16,
    GGUF_WRITER_U32,
    GGUF_WRITER_I32,
    GGUF_WRITER_F32,
    GGUF_WRITER_BOOL,
    GGUF_WRITER_STRING,
    GGUF_WRITER_ARRAY,
    GGUF_WRITER_U64,
    GGUF_WRITER_I64,
    GGUF_WRITER_F64
};

struct gguf_writer {
    struct buffer keys;
    struct buffer tensors;
    struct buffer data;
    uint64_t key_count; /* a test may change the counts before finishing */
    uint64_t tensor_count;
    uint32_t version;
    uint32_t alignment; /* what the writer pads to; the key itself is written by the test */
};

void gguf_writer_init(struct gguf_writer *writer);
void gguf_writer_deinit(struct gguf_writer *writer);

/* Writes a key with any type number and any bytes after it. */
void gguf_writer_key(struct gguf_writer *writer, const char *name, uint32_t type, const void *value,
                     size_t bytes);
void gguf_writer_u32(struct gguf_writer *writer, const char *name, uint32_t value);
void gguf_writer_f32(struct gguf_writer *writer, const char *name, float value);
void gguf_writer_bool(struct gguf_writer *writer, const char *name, uint8_t value);
void gguf_writer_string(struct gguf_writer *writer, const char *name, const char *value);
void gguf_writer_array(struct gguf_writer *writer, const char *name, uint32_t element_type,
                       uint64_t count, const void *elements, size_t bytes);
void gguf_writer_strings(struct gguf_writer *writer, const char *name, const char *const *texts,
                         uint64_t count);

/* Writes a tensor's row of the list alone, with any numbers. */
void gguf_writer_tensor_info(struct gguf_writer *writer, const char *name, uint32_t dim_count,
                             const uint64_t *dims, uint32_t type, uint64_t offset);
/* Writes a tensor with its data, padded to the alignment before it. */
void gguf_writer_tensor(struct gguf_writer *writer, const char *name, uint32_t dim_count,
                        const uint64_t *dims, uint32_t type, const void *data, size_t bytes);

/* Writes the file. `out` is initialised here; the caller frees it with buffer_deinit. */
void gguf_writer_finish(struct gguf_writer *writer, struct buffer *out);
/* Writes the file to `path`. Returns false, after a line on standard error, when it cannot. */
bool gguf_writer_save(struct gguf_writer *writer, const char *path);
