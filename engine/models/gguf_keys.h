/* gguf_keys: makes a file of keys alone in format GGUF, in memory.
 *
 * Owns:     the bytes written so far.
 * Thread:   one.
 * Cost:     linear in the bytes.
 * Not here: reading (gguf). A reader of another format writes what it read with this, so that all
 *           that is read from GGUF files has one check.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "config/base/slice.h"
#include "engine/models/gguf.h"

struct gguf_keys {
    struct buffer bytes; /* its status keeps the first failure */
    uint64_t count;
};

void gguf_keys_init(struct gguf_keys *keys);
void gguf_keys_deinit(struct gguf_keys *keys);

void gguf_keys_u32(struct gguf_keys *keys, const char *name, uint32_t value);
void gguf_keys_f32(struct gguf_keys *keys, const char *name, float value);
void gguf_keys_bool(struct gguf_keys *keys, const char *name, bool value);
void gguf_keys_string(struct gguf_keys *keys, const char *name, struct slice value);

/* Arrays: the elements follow, exactly `count` of them. */
void gguf_keys_strings(struct gguf_keys *keys, const char *name, uint64_t count);
void gguf_keys_add_string(struct gguf_keys *keys, struct slice element);
void gguf_keys_bools(struct gguf_keys *keys, const char *name, const bool *elements,
                     uint64_t count);
void gguf_keys_i32s(struct gguf_keys *keys, const char *name, const int32_t *elements,
                    uint64_t count);
void gguf_keys_f32s(struct gguf_keys *keys, const char *name, const float *elements,
                    uint64_t count);

/* Completes the file and reads it; `keys` must outlive `out`, which gguf_close closes. LIMIT or
 * NO_MEMORY of an earlier call, or the errors of gguf_parse. */
enum status gguf_keys_finish(struct gguf_keys *keys, struct gguf **out);
