/* hf_shards: the tensors of a model directory, in one safetensors file or in several.
 *
 * Owns:     the open files.
 * Thread:   made by one, then read-only from any.
 * Cost:     as safetensors, for each file.
 * Not here: one file (safetensors), what tensors mean (hf_tensors).
 *
 * A directory has model.safetensors, or model.safetensors.index.json, which says in which file each
 * tensor is. An index must be exact: each tensor that it lists is in the file that it names, and
 * each tensor of a file is listed there.
 */
#pragma once

#include "engine/models/safetensors.h"

struct hf_shards;

/* Opens the files of the directory. NOT_FOUND when it has neither; CORRUPT for an index that names
 * other than plain regular files of the directory, names one file twice, or disagrees with the
 * files; otherwise as safetensors_open_descriptor. */
enum status hf_shards_open(struct hf_shards **out, int folder);
void hf_shards_close(struct hf_shards *shards);
void hf_shards_forget(const struct hf_shards *shards);

uint32_t hf_shards_files(const struct hf_shards *shards);
uint32_t hf_shards_count(const struct hf_shards *shards); /* tensors of all files */
/* Returns tensor `index` (below the count). */
const struct safetensors_tensor *hf_shards_at(const struct hf_shards *shards, uint32_t index);
/* Returns NULL when there is no such tensor. */
const struct safetensors_tensor *hf_shards_find(const struct hf_shards *shards, struct slice name);
