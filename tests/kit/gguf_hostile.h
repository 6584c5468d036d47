/* gguf_hostile: one invalid model file for each way in which loaders of the format were broken.
 *
 * Owns:     the list of cases; the bytes of a built one belong to the caller.
 * Thread:   one.
 * Cost:     a few KiB each.
 * Not here: what a reader must answer beyond the status and a word of the message (test_gguf).
 */
#pragma once

#include "config/base/slice.h"

struct gguf_hostile {
    const char *name;   /* also the file's name in tests/fuzz/corpus/gguf */
    const char *origin; /* the advisory or class of fault it repeats */
    enum status status; /* what gguf_parse must answer */
    const char *says;   /* a part of the message */
};

extern const struct gguf_hostile gguf_hostile_cases[];
extern const size_t gguf_hostile_count;

/* Builds the bytes of case `index`; the caller frees them with buffer_deinit. */
void gguf_hostile_build(size_t index, struct buffer *out);

/* Builds a small valid file with a value of every type, strings, arrays and two tensors. */
void gguf_hostile_build_valid(struct buffer *out);
