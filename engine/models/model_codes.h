/* model_codes: turns a matrix of weights into codes of 4 or 8 bits, at load (--weights int4, q8).
 *
 * Owns:     nothing; the caller owns the memory of the codes.
 * Thread:   as model.h says; the compute threads share the rows.
 * Cost:     three passes over each weight; memory for the codes of one matrix (5 or 8.5 bits a
 *           weight) until they are packed, and a row of float32 for each thread.
 * Not here: which matrices (model_arch), the packed forms (kernels).
 *
 * q8 makes q8_0 blocks as llama.cpp does (tensor_row_to_q8_0), so the weights are those of a Q8_0
 * file that llama.cpp has made of the same file.
 *
 * int4: Each 128 inputs of a row (the last group may be smaller) have one factor d and one minimum
 * m, both float16: value = d × code + m with code 0 to 15, as in AWQ and GPTQ files. The codes are
 * stored as q4_1 blocks with equal d and m over the group (tensor_row_to_q4_1), so every kernel
 * table reads them, and a device uses 4.25 bits a weight. Codes are rounded to the nearest.
 * Narrowing a group's range where that lowers the sum of squared errors (by a fifth) was worse: the
 * perplexity of SmolLM2-135M rose by 90 % instead of 53 %, because the greatest weights then all
 * err towards the middle. The codes of a row depend on that row alone.
 */
#pragma once

#include "engine/models/model_types.h"
#include "kernels/kernels.h"

enum { MODEL_CODES_GROUP = 128 };

/* Whether weights of a type become codes: f32, f16, bf16, and for int4 also q8_0. The others have
 * as few bits already. */
bool model_codes_takes(enum model_weights weights, const struct tensor_type_info *type);

/* Replaces `tensor`, a matrix of such a type, by its codes in `*memory` (the caller frees it with
 * mem_free). UNSUPPORTED, with `name`, when its inputs are not a multiple of 32 or a value is not
 * finite or too great; NO_MEMORY. After a failure `*memory` is NULL. */
enum status model_codes_make(struct tensor *tensor, const char *name, enum model_weights weights,
                             struct kernels *kernels, void **memory);
