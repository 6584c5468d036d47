/* rope_frequencies: the angle that each pair of rotated dimensions turns by in one position.
 *
 * Owns:     nothing.
 * Thread:   any.
 * Cost:     O(pairs), in double precision; once at start.
 * Not here: which file keys say what (model_config), the rotation itself (kernels_rope).
 */
#pragma once

#include "engine/models/model_types.h"

/* Writes the frequencies of `dims` rotated dimensions to out [dims ÷ 2], in radians a position:
 * base^(−2i ÷ dims), stretched as `rope` says, and divided by factors[i] if `factors` is not NULL
 * (those of Llama 3.1 and later, and of LongRoPE; each above 0). */
void rope_frequencies(const struct model_rope *rope, uint32_t dims, const float *factors,
                      float *out);

/* Returns YaRN's factor of cos and sin for a context stretched by `factor`: 0.1 × ln(factor) + 1,
 * or 1 when it is not stretched. */
float rope_frequencies_yarn_factor(float factor);
