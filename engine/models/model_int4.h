/* model_int4: a matrix of float or 8-bit weights made into 4-bit codes, at load (--weights int4).
 *
 * Owns:     nothing; the codes' memory is the caller's.
 * Thread:   as model.h says; rows are shared out over the compute threads.
 * Cost:     three passes over each weight; memory for the codes of one matrix (5 bits a
 *           weight) until they are packed, and a row of float32 for each thread.
 * Not here: which matrices (models/<name>.c), the packed forms (kernels).
 *
 * Each 128 inputs of a row (the last of it may be fewer) have one factor and one minimum, which are
 * halves: value = d * code + m, code 0 to 15, as AWQ and GPTQ files have them. The codes stand as
 * q4_1 blocks whose d and m are equal over the group (tensor_row_to_q4_1), so every table reads
 * them, and a device takes 4.25 bits a weight. Moving a group's ends in where that lowers the sum
 * of squared errors (by a fifth) was worse than rounding to the nearest, SmolLM2-135M's perplexity
 * +90 % instead of +53 %: the greatest weights then all err towards the middle. A row's codes hang
 * on that row alone.
 */
#pragma once

#include "kernels/kernels.h"

enum { MODEL_INT4_GROUP = 128 };

/* Of f32, f16, bf16 and q8_0: the others have 4 to 6 bits already. */
bool model_int4_takes(const struct tensor_type_info *type);

/* `tensor`, a matrix of such a type, becomes its codes, in `*memory` (mem_free). UNSUPPORTED, with
 * `name`, when its inputs are no multiple of 32 or a value is not finite or beyond what a half
 * holds; NO_MEMORY. What fails leaves `*memory` NULL. */
enum status model_int4_make(struct tensor *tensor, const char *name, struct kernels *kernels,
                            void **memory);
