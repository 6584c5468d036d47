/* cuda_weight: a matrix in the order in which matrix instructions read it.
 *
 * Owns:     nothing; the caller provides memory.
 * Thread:   any; disjoint tiles may be packed at the same time.
 * Cost:     packing is O(rows × cols), at load.
 * Not here: device memory (cuda_backend), products (cuda_linear.cu).
 *
 * A head of CUDA_WEIGHT_HEAD bytes begins with a float: the reciprocal of what all factors were
 * multiplied by, applied at the end of a sum. After it come tiles of 16 outputs × parts of 32
 * inputs. A part is the A side of two m16n8k16, and parts come in pairs, so that every 16 bytes
 * belong to one lane.
 *     codes   [tile][16 outputs][inputs]          16 bits: float16, bfloat16; 32 bits: float32
 *             [tile][part][lane][step][2 words]   8 bits:  code + 128
 *             [tile][pair of parts][lane][part][step]  4 bits: a word of code + offset of the type
 *     factors [tile][part][1, or 2 steps where halves of a part differ][16 outputs]
 *             [tile][4 parts][16 outputs]         where a group of 128 inputs shares them
 *                             float16 a, or a and b where the type has m: element = a × code + b
 * Floats are stored as in the file, which is what cuBLASLt reads. A lane's 16 bytes are then eight
 * inputs of a row; they form both steps of a part in an order of inputs that the other side also
 * uses. A word of 8-bit codes has registers r and r + 1: low halves in bits 0 and 8, high ones in
 * 16 and 24. A word of 4-bit codes has register r's low half in bits 4r and its high one in bits 16
 * + 4r. So a mask extracts two codes of a register at once, and exponent bits are added to them
 * (1024 + code). Outputs are padded to whole tiles, inputs to whole pairs of parts (or groups),
 * with zeros.
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
    CUDA_WEIGHT_GROUP = 128,
    CUDA_WEIGHT_HEAD = 256
};

struct cuda_weight_form {
    uint32_t bits; /* 32, 16, 8, 4 */
    bool is_bf16;
    bool has_m;
    bool is_split;  /* the two steps of a part have different factors */
    uint32_t group; /* parts that share their factors: 1, or 4 */
    uint32_t tiles;
    uint32_t parts;
    size_t codes_bytes;   /* of one part of one tile */
    size_t factors_bytes; /* of one group of one tile */
    size_t factors_at;    /* from the start */
    size_t bytes;         /* of all */
};

/* Computes the form of a weight of this type. `group`: inputs that share their factors beyond the
 * type's own blocks (struct tensor); 0, or CUDA_WEIGHT_GROUP for types of 4 bits that have m.
 * UNSUPPORTED for others. */
enum status cuda_weight_form(struct cuda_weight_form *out, const struct tensor_type_info *type,
                             uint32_t rows, uint32_t cols, uint32_t group);

/* Returns the greatest factor of some rows, 0 where there are none. */
float cuda_weight_max(const struct tensor *tensor, uint32_t begin, uint32_t end);
/* Returns the power of two to multiply factors by, so that the greatest, `max`, is below 2^15.
 * Factors 2^29 times smaller are then still rounded to 11 bits. */
float cuda_weight_scale(float max);

/* Packs tiles [begin, end): codes to [tiles][parts][codes_bytes], and factors likewise, both from
 * tile `begin` on. */
void cuda_weight_pack(const struct cuda_weight_form *form, const struct tensor *tensor, float scale,
                      uint32_t begin, uint32_t end, void *codes, void *factors);

/* Returns the pairs of parts (64 inputs each) of one segment of a product's sums: at most eight
 * segments, each of whole groups of 128 inputs except the last. A row's bits depend on it, so it
 * depends on the matrix alone. */
uint32_t cuda_weight_segment(uint32_t pairs);

/* Returns over how many blocks the `segments` of each block are divided to fill `processors`: 1
 * where `blocks` fill them already, or where the sums of all segments, segment_bytes each, exceed
 * `bytes`. No block is empty. */
uint32_t cuda_weight_splits(uint32_t blocks, uint32_t processors, uint32_t segments,
                            uint64_t segment_bytes, uint64_t bytes);

#ifdef __cplusplus
}
#endif

/* Returns the position of an element (output `row` of a tile, input `col`) in the codes of its
 * tile: the byte, for 4 bits the nibble. */
static inline CUDA_BOTH size_t cuda_weight_place(const struct cuda_weight_form *form, uint32_t row,
                                                 uint32_t col)
{
    const uint32_t part = col / CUDA_WEIGHT_PART;
    const uint32_t step = col % CUDA_WEIGHT_PART / CUDA_WEIGHT_STEP;
    const uint32_t k = col % CUDA_WEIGHT_STEP;
    const uint32_t lane = row % 8 * 4 + k % 8 / 2;
    const uint32_t r = row / 8 + 2 * (k / 8); /* register */
    const uint32_t half = k % 2;
    if (form->bits >= 16)
        return ((size_t)row * form->parts * CUDA_WEIGHT_PART + col) * (form->bits / 8);
    if (form->bits == 8)
        return (size_t)part * 512 + lane * 16 + (step * 2 + r / 2) * 4 + half * 2 + r % 2;
    return (size_t)(part / 2) * 1024 + ((lane * 2 + part % 2) * 2 + step) * 8 + half * 4 + r;
}

/* Returns the byte offset of its a in the factors of its tile; b follows. */
static inline CUDA_BOTH size_t cuda_weight_factor(const struct cuda_weight_form *form, uint32_t row,
                                                  uint32_t col)
{
    const uint32_t step = form->is_split ? col % CUDA_WEIGHT_PART / CUDA_WEIGHT_STEP : 0;
    return col / CUDA_WEIGHT_PART / form->group * form->factors_bytes +
           (step * CUDA_WEIGHT_TILE + row) * (form->has_m ? 4 : 2);
}
