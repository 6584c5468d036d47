/* gguf: a model file in format GGUF v2 or v3, memory-mapped, every length checked before use.
 *
 * Owns:     the mapping and the index of keys and tensors; all slices point into the mapping.
 * Thread:   made by one, then read-only from any.
 * Cost:     O(keys + tensors + array elements) once; look-ups are O(1) on average. The file must
 *           not shrink while it is open: reading it would raise SIGBUS.
 * Not here: what the values mean (model, vocab, tokenizer, chat_template).
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "config/base/slice.h"
#include "kernels/tensor.h"

struct gguf;

/* IO, CORRUPT or UNSUPPORTED; the error note says what is wrong and where in the file. */
enum status gguf_open(struct gguf **out, const char *path);
/* The same with an open descriptor, which stays the caller's. */
enum status gguf_open_descriptor(struct gguf **out, int descriptor);
/* The same with bytes in memory, which must stay until gguf_close. */
enum status gguf_parse(struct gguf **out, const void *bytes, size_t length);
void gguf_close(struct gguf *gguf);

/* Releases the memory of the tensors' bytes, which are not needed again soon. They can still be
 * read, from the file; names, keys and values stay. Does nothing for bytes in memory. */
void gguf_forget_data(const struct gguf *gguf);

/* Values by key. NOT_FOUND, or CORRUPT when the type differs (integers convert when they fit; both
 * float types convert and must be finite). */
enum status gguf_get_u32(const struct gguf *gguf, const char *key, uint32_t *out);
enum status gguf_get_f32(const struct gguf *gguf, const char *key, float *out);
enum status gguf_get_bool(const struct gguf *gguf, const char *key, bool *out);
enum status gguf_get_string(const struct gguf *gguf, const char *key, struct slice *out);
bool gguf_has(const struct gguf *gguf, const char *key);
uint32_t gguf_key_count(const struct gguf *gguf);
/* Returns the name of key `index` (below the count), in the file's order. */
struct slice gguf_key_at(const struct gguf *gguf, uint32_t index);

/* Arrays. Strings have different lengths, so an array of them is walked in order:
 *     struct gguf_array a; gguf_get_array(g, "tokenizer.ggml.tokens", &a);
 *     for (i < a.count) gguf_array_next_string(&a, &text);   */
struct gguf_array {
    uint32_t element_type; /* GGUF value type */
    uint64_t count;
    const char *cursor;
    const char *end;
};
enum status gguf_get_array(const struct gguf *gguf, const char *key, struct gguf_array *out);
bool gguf_is_array(const struct gguf *gguf, const char *key); /* false when there is no such key */
/* The next element; CORRUPT when its type differs or it does not fit, OUT_OF_RANGE after the last
 * one. Floats are not checked: NaN is possible. */
enum status gguf_array_next_string(struct gguf_array *array, struct slice *out);
enum status gguf_array_next_i32(struct gguf_array *array, int32_t *out);
/* The same; a bool is 0 or 1. */
enum status gguf_array_next_u32(struct gguf_array *array, uint32_t *out);
enum status gguf_array_next_f32(struct gguf_array *array, float *out);

/* NOT_FOUND when there is no such tensor. */
enum status gguf_get_tensor(const struct gguf *gguf, const char *name, struct tensor *out);
/* Finds the tensor's index, for gguf_tensor_at. */
enum status gguf_find_tensor(const struct gguf *gguf, const char *name, uint32_t *out);
uint32_t gguf_tensor_count(const struct gguf *gguf);
/* Tensor `index` (below the count) in the file's order; `name` may be NULL. */
void gguf_tensor_at(const struct gguf *gguf, uint32_t index, struct slice *name,
                    struct tensor *out);
