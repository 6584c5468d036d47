/* safetensors_hostile: one invalid safetensors file for each check of the reader.
 *
 * Owns:     the list of cases; the bytes of a built one belong to the caller.
 * Thread:   one.
 * Cost:     a few KiB each; the deepest has 10,000 brackets.
 * Not here: indexes of shards (test_hf_shards).
 */
#pragma once

#include "config/base/slice.h"

struct safetensors_hostile {
    const char *name; /* also the file's name in tests/fuzz/corpus/safetensors */
    const char *header;
    uint64_t length;    /* of the header, as the file says; 0: its real one */
    uint32_t data;      /* bytes behind the header */
    enum status status; /* what safetensors_parse must answer */
    const char *says;   /* a part of the message */
};

extern const struct safetensors_hostile safetensors_hostile_cases[];
extern const size_t safetensors_hostile_count;

/* Builds the bytes of case `index`; the caller frees them with buffer_deinit. */
void safetensors_hostile_build(size_t index, struct buffer *out);

/* Builds a small valid file with tensors "a" (F32, 2 × 3), "b" (BF16, 4) and "scalar" (I64). */
void safetensors_hostile_build_valid(struct buffer *out);

/* Writes a file with this header and `data` bytes behind it, which count up from 0. */
void safetensors_hostile_write(struct buffer *out, struct slice header, uint64_t length,
                               uint32_t data);
