/* hf_model: a model in a Hugging Face directory: its keys as GGUF has them, and its tensors.
 *
 * Owns:     the open files, the keys and the list of tensors.
 * Thread:   as hf_tensors.
 * Cost:     reads config.json and the headers of the weights.
 * Not here: either format itself; who asks for what (model_source).
 */
#pragma once

#include "engine/models/hf_tensors.h"

struct hf_model;

/* Opens the directory of an open descriptor, which stays the caller's. */
enum status hf_model_open(struct hf_model **out, int folder);
void hf_model_close(struct hf_model *model);
/* Releases the memory of the tensors' bytes, which can still be read, from the files. */
void hf_model_forget(const struct hf_model *model);

const struct gguf *hf_model_keys(const struct hf_model *model);
const struct hf_tensors *hf_model_tensors(const struct hf_model *model);
