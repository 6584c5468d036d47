/* model_source: one view of a model file: its keys, and its tensors by name.
 *
 * Owns:     the file, if model_source_open made it.
 * Thread:   made by one, then read-only from any.
 * Cost:     look-ups as those of the format (gguf).
 * Not here: what keys and tensors mean (model_config, arch_tensors), tokens and templates, which
 *           are read from the format itself.
 *
 * Keys have the names of GGUF; a reader of another format translates its own names. A tensor has
 * one name in each format, and the source knows which one its file uses.
 */
#pragma once

#include "engine/models/gguf.h"
#include "engine/models/hf_model.h"

struct model_source {
    const struct gguf *gguf; /* the keys; of a GGUF file the tensors, too */
    struct gguf *owned;  /* closed by model_source_close; NULL: the caller keeps its file open */
    struct hf_model *hf; /* of a directory; NULL for a GGUF file */
};

/* Opens a GGUF file, or a directory from Hugging Face. IO, CORRUPT, UNSUPPORTED or NOT_FOUND; the
 * error note says what is wrong. */
enum status model_source_open(struct model_source *out, const char *path);
/* The same with an open descriptor, which stays the caller's. */
enum status model_source_open_descriptor(struct model_source *out, int descriptor);
/* Does nothing for a source that was never opened. */
void model_source_close(struct model_source *source);
/* Releases the memory of the tensors' bytes, which can still be read, from the file. */
void model_source_forget(const struct model_source *source);

/* Values by key, with the errors of gguf_get_u32. */
bool model_source_has(const struct model_source *source, const char *key);
enum status model_source_get_u32(const struct model_source *source, const char *key, uint32_t *out);
enum status model_source_get_f32(const struct model_source *source, const char *key, float *out);
enum status model_source_get_bool(const struct model_source *source, const char *key, bool *out);
enum status model_source_get_string(const struct model_source *source, const char *key,
                                    struct slice *out);
/* Reads a list of whole numbers or of bools (0 or 1). CORRUPT when it has other elements, or more
 * than `max` of them. */
enum status model_source_get_list(const struct model_source *source, const char *key, uint32_t max,
                                  uint32_t *out, uint32_t *count);
/* Reads how many elements a list of any type has. */
enum status model_source_get_length(const struct model_source *source, const char *key,
                                    uint64_t *out);
/* Returns whether the key's value is a list. */
bool model_source_is_list(const struct model_source *source, const char *key);
uint32_t model_source_key_count(const struct model_source *source);
/* Returns the name of key `index` (below the count), in the file's order. */
struct slice model_source_key_at(const struct model_source *source, uint32_t index);

/* The names of one tensor in the formats; that of a tensor of a layer begins behind the part that
 * all tensors of the layer share. */
struct model_source_name {
    const char *gguf;
    const char *hf; /* Hugging Face */
};
enum { MODEL_SOURCE_NAME_BYTES = 128, MODEL_SOURCE_NO_LAYER = -1 };

/* Writes the name that the tensor has in this file. */
void model_source_tensor_name(const struct model_source *source, struct model_source_name name,
                              int64_t layer, char out[static MODEL_SOURCE_NAME_BYTES]);
/* Returns type and shape; its `data` may be NULL. NOT_FOUND when there is no such tensor. */
enum status model_source_get_tensor(const struct model_source *source, const char *name,
                                    struct tensor *out);
/* Returns the tensor with its data. Where the source had to make them, they are in `*memory`, which
 * the caller frees with mem_free; NULL otherwise, also on failure. */
enum status model_source_load_tensor(const struct model_source *source, const char *name,
                                     struct tensor *out, void **memory);
/* Finds the tensor's index, for model_source_tensor_at. */
enum status model_source_find_tensor(const struct model_source *source, const char *name,
                                     uint32_t *out);
uint32_t model_source_tensor_count(const struct model_source *source);
/* Tensor `index` (below the count) in the source's order, as from model_source_get_tensor. `name`
 * may be NULL. */
void model_source_tensor_at(const struct model_source *source, uint32_t index, struct slice *name,
                            struct tensor *out);
