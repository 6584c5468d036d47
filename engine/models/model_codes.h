/* model_codes: turns a matrix of float or 8-bit weights into 4-bit codes, at load (--weights int4).
 *
 * Owns:     nothing; the caller owns the memory of the codes.
 * Thread:   as model.h says; the compute threads share the rows.
 * Cost:     three passes over each weight; memory for the codes of one matrix (5 bits a weight)
 *           until they are packed, and a row of float32 for each thread.
 * Not here: which matrices (models/<name>.c), the packed forms (kernels).
 *
 * Each 128 inputs of a row (the last group may be smaller) have one factor d and one minimum m,
 * both float16: value = d × code + m with code 0 to 15, as in AWQ and GPTQ files. The codes are
 * stored as q4_1 blocks with equal d and m over the group (tensor_row_to_q4_1), so every kernel
 * table reads them, and a device uses 4.25 bits a weight. Codes are rounded to the nearest.
 * Narrowing a group's range where that lowers the sum of squared errors (by a fifth) was worse: the
 * perplexity of SmolLM2-135M rose by 90 % instead of 53 %, because the greatest weights then all
 * err towards the middle. The codes of a row depend on that row alone.
 */
#pragma once

#include "kernels/kernels.h"

enum { MODEL_CODES_GROUP = 128 };

/* Whether weights of a type become codes: f32, f16, bf16, q8_0. The others have 4 to
 * 6 bits already. */
bool model_codes_takes(const struct tensor_type_info *type);

/* Replaces `tensor`, a matrix of such a type, by its codes in `*memory` (the caller frees it with
 * mem_free). UNSUPPORTED, with `name`, when its inputs are not a multiple of 32 or a value is not
 * finite or beyond float16; NO_MEMORY. After a failure `*memory` is NULL. */
enum status model_codes_make(struct tensor *tensor, const char *name, struct kernels *kernels,
                             void **memory);
