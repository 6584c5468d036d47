/* decoder: the forward pass of every architecture in arch.def.
 *
 * Owns:     the packed weights and the activations of a step.
 * Thread:   as model.h says.
 * Cost:     forward never allocates; one step reads every weight once, of experts those that some
 *           row uses.
 * Not here: tensors and their packing (decoder_weights), what distinguishes architectures
 *           (arch.def).
 *
 *   h = norm(x)    q, k, v = h·W + b    q, k = rope(norm(q), norm(k))    K, V → pages
 *   a = attention(q)    o = a·W + b     x += norm(o)
 *   h = norm(x)    f = act(h·Wg, h·Wu)·Wd, or the same of the experts that h is routed to
 *   x += norm(f)
 *
 * Norms, biases, positions and activation are as the row says; what it does not have is left out.
 */
#pragma once

#include "engine/models/model_arch.h"

/* Fills model->decoder from the file, or fails and holds nothing. Errors as model_open. */
enum status decoder_open(struct model *model, const struct model_source *source);
void decoder_close(struct model *model);
/* Computes logits into model->logits. A device may repeat what an earlier call of a batch of the
 * same shape asked of it (kernels_step_run), so only operations of the kernels do the work. */
void decoder_forward(struct model *model, const struct model_batch *batch);
