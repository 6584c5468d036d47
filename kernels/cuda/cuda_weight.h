/* cuda_weight: a matrix in the order in which matrix instructions read it.
 *
 * Owns:     nothing; the caller brings memory.
 * Thread:   any; disjoint tiles may be packed at the same time.
 * Cost:     packing is O(rows × cols), at load.
 * Not here: device memory (cuda_backend), products (cuda_linear.cu).
 *
 * Tiles of 16 outputs × parts of 32 inputs, each the A side of two m16n8k16: no element of a warp's
 * load is more than one lane's own. Behind a head of CUDA_WEIGHT_HEAD bytes (its first float: what
 * all factors were multiplied by, undone at the end of a sum):
 *     codes    [tile][part]  16 bits  [step][lane][4 registers]      float16, bfloat16 as is
 *                             8 bits  [lane][step][2 words]          code + 128
 *                             4 bits  [lane][step]                   code + offset of the type
 *     factors  [tile][part][1, or 2 steps where halves of a part differ][16 outputs]
 *                             float16 a, or a and b where the type has m: element = a × code + b
 * In a word of 8 bits lie registers r and r + 1: low halves in bits 0 and 8, high ones in 16 and
 * 24; in one of 4 bits register r's low half in bits 4r, its high one in bits 16 + 4r: a mask and a
 * shift make two codes of a register at once, to which exponent bits are added (1024 + code).
 * Outputs are padded to whole tiles, inputs to whole parts, with zeros.
 *
 * 4096 × 4096 of q4_0: 256 tiles × 128 parts × (256 + 32) bytes = 9 MiB, 4.5 bits an element.
 */
#pragma once

#include "config/base/status.h"
#include "kernels/cuda/cuda_both.h"
#include "kernels/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

enum {
    CUDA_WEIGHT_TILE = 16,
    CUDA_WEIGHT_PART = 32,
    CUDA_WEIGHT_STEP = 16,
    CUDA_WEIGHT_HEAD = 256
};

struct cuda_weight_form {
    uint32_t bits; /* 16, 8, 4 */
    bool is_bf16;
    bool has_m;
    bool is_split; /* the two steps of a part have different factors */
    uint32_t tiles;
    uint32_t parts;
    size_t codes_bytes; /* of one part of one tile */
    size_t factors_bytes;
    size_t factors_at; /* from the start */
    size_t bytes;      /* of all */
};

/* UNSUPPORTED: float32, which no matrix instruction multiplies exactly. */
enum status cuda_weight_form(struct cuda_weight_form *out, const struct tensor_type_info *type,
                             uint32_t rows, uint32_t cols);

/* What to multiply factors by, a power of two, so that the greatest is below 2^15: those 2^29 times
 * smaller are still rounded to 11 bits. */
float cuda_weight_scale(const struct tensor *tensor);

/* Tiles [begin, end): to codes [tiles][parts][codes_bytes] and factors alike, both from tile
 * `begin` on. */
void cuda_weight_pack(const struct cuda_weight_form *form, const struct tensor *tensor, float scale,
                      uint32_t begin, uint32_t end, void *codes, void *factors);

#ifdef __cplusplus
}
#endif

/* Where element (output `row` of a tile, input `col` of a part) lies in the codes of a part: of
 * 16 and 8 bits the byte, of 4 bits the nibble. */
static inline CUDA_BOTH uint32_t cuda_weight_place(uint32_t bits, uint32_t row, uint32_t col)
{
    const uint32_t step = col / CUDA_WEIGHT_STEP;
    const uint32_t k = col % CUDA_WEIGHT_STEP;
    const uint32_t lane = row % 8 * 4 + k % 8 / 2;
    const uint32_t r = row / 8 + 2 * (k / 8); /* register */
    const uint32_t half = k % 2;
    if (bits == 16)
        return (step * 32 + lane) * 16 + r * 4 + half * 2;
    if (bits == 8)
        return lane * 16 + (step * 2 + r / 2) * 4 + half * 2 + r % 2;
    return (lane * 2 + step) * 8 + half * 4 + r;
}
