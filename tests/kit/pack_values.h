/* pack_values: float32 values in the form of a weight type, for model files made by tests.
 *
 * Owns:     nothing; the packed bytes belong to the caller.
 * Thread:   any.
 * Cost:     linear in the values; aborts when there is no memory (tests only).
 * Not here: the container (gguf_writer), reading the types (kernels/types).
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* Returns `count` values (whole blocks) in the form of `type`, an id of tensor_types.def, and their
 * bytes. The super-blocks of q4_k, q5_k and q6_k have the magnitude of their values, with random
 * codes. The caller frees the result with free. */
uint8_t *pack_values(uint32_t type, const float *x, size_t count, size_t *bytes);
