/* hf_tensors: the tensors of a model directory as a GGUF file would have them.
 *
 * Owns:     the list; the numbers of each tensor are made anew by each load.
 * Thread:   made by one; loads by one at a time.
 * Cost:     O(tensors × log tensors) once; a load reads its tensor once.
 * Not here: which tensors a model must have (decoder_weights), packing.
 *
 * Names are those of arch_tensors.def. A few of transformers' model classes name tensors in another
 * way; these names are translated. Both formats of one model must give the same bits, so a load
 * does what llama.cpp's converter does:
 *
 *     llama, smollm3       rows of q and k: the halves of each head are interleaved
 *     Gemma                1 is added to the weights of norms
 *     experts' tensors     joined to one, [experts][rows][columns]
 *     GPT-OSS              gate and up, which alternate in one transposed tensor, are taken apart
 *     vectors and routers  become float32
 */
#pragma once

#include "engine/models/hf_config.h"
#include "engine/models/hf_shards.h"
#include "kernels/tensor.h"

struct hf_tensors;

/* `config` and `shards` must outlive the list. CORRUPT or UNSUPPORTED names the tensor. */
enum status hf_tensors_open(struct hf_tensors **out, const struct hf_config *config,
                            const struct hf_shards *shards);
void hf_tensors_close(struct hf_tensors *tensors);

uint32_t hf_tensors_count(const struct hf_tensors *tensors);
/* Tensor `index` (below the count), by rising names; its `data` is NULL. `name` may be NULL. */
void hf_tensors_at(const struct hf_tensors *tensors, uint32_t index, struct slice *name,
                   struct tensor *out);
/* NOT_FOUND when there is no such tensor. */
enum status hf_tensors_find(const struct hf_tensors *tensors, const char *name, uint32_t *out);
/* Returns the tensor with its data, which are in `*memory` (mem_free) or, if that is NULL, in the
 * mapped file. */
enum status hf_tensors_load(const struct hf_tensors *tensors, uint32_t index, struct tensor *out,
                            void **memory);
