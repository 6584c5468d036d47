/* llama: the Llama family: RMS norms, grouped queries, rotary positions, gated feed-forward.
 *
 * Owns:     packed weights and the activations of a step.
 * Thread:   as model.h says.
 * Cost:     forward: 7 matrices a layer and the output layer, each read once. The last layer
 *           computes only K and V for all rows; everything else only for rows with logits.
 * Not here: hyper-parameters (model.c), arithmetic (kernels).
 */
#pragma once

#include "engine/models/model_arch.h"

extern const struct model_arch llama_arch;
