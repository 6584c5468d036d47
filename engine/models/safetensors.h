/* safetensors: one file in that format, memory-mapped, every length checked before use.
 *
 * Owns:     the mapping and the list of tensors; names point into the mapping or the list.
 * Thread:   made by one, then read-only from any.
 * Cost:     O(header × log tensors) once; look-ups are O(log tensors). The file must not shrink
 *           while it is open: reading it would raise SIGBUS.
 * Not here: directories and shards (hf_shards), what tensors mean (hf_tensors).
 *
 * A file has three parts: the length of the header (8 bytes, little endian), the header, and the
 * tensors' bytes. The header is a JSON object:
 *     {"name": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}, …}
 * The offsets must cover the tensors' bytes without a gap and without an overlap.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "config/base/slice.h"

/* The numbers that a tensor is made of, by the format's names. */
enum safetensors_dtype {
#define SAFETENSORS_DTYPE(name, bytes) SAFETENSORS_##name,
#include "engine/models/safetensors.def"
    SAFETENSORS_DTYPES
};

enum { SAFETENSORS_DIMS_MAX = 8 };

struct safetensors_tensor {
    struct slice name;
    enum safetensors_dtype dtype;
    uint32_t dim_count;
    uint64_t shape[SAFETENSORS_DIMS_MAX]; /* the last one varies fastest; unused ones are 1 */
    const char *data;                     /* not aligned */
    uint64_t bytes;
};

struct safetensors;

/* Opens the file of an open descriptor, which stays the caller's. `file` names it in messages. IO,
 * CORRUPT, LIMIT or NO_MEMORY; the error note names the tensor. */
enum status safetensors_open_descriptor(struct safetensors **out, int descriptor, const char *file);
/* The same with bytes in memory, which must stay until safetensors_close. */
enum status safetensors_parse(struct safetensors **out, const void *bytes, size_t length,
                              const char *file);
void safetensors_close(struct safetensors *file);

/* Releases the memory of the tensors' bytes, which can still be read, from the file. */
void safetensors_forget(const struct safetensors *file);

uint32_t safetensors_count(const struct safetensors *file);
/* Returns tensor `index` (below the count), in the order of the names' bytes. */
const struct safetensors_tensor *safetensors_at(const struct safetensors *file, uint32_t index);
/* Returns NULL when there is no such tensor. */
const struct safetensors_tensor *safetensors_find(const struct safetensors *file,
                                                  struct slice name);
const char *safetensors_dtype_name(enum safetensors_dtype dtype);
