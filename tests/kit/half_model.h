/* half_model: a model file in memory with the weights of another file, its matrices as F16.
 *
 * Owns:     nothing; the bytes of the built file belong to the caller.
 * Thread:   one.
 * Cost:     two bytes a weight, three times that for a moment.
 * Not here: the container (gguf_writer); tokenizers, which are left out.
 */
#pragma once

#include "engine/models/gguf.h"

/* Builds the file. Inputs of F16 layers are not rounded to bytes, so that other roundings can be
 * observed alone. The caller frees `out` with buffer_deinit. Fails as model_config_read. */
enum status half_model_build(const struct gguf *gguf, struct buffer *out);
