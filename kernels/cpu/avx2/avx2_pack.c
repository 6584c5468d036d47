#include "kernels/cpu/avx2/avx2.h"
#include "kernels/cpu/fixed_math.h"
#include "kernels/cpu/ref_int8/ref_int8.h"

uint32_t k_input_units_avx2(uint32_t rows, uint32_t cols)
{
    return packed_tiles(rows, AVX2_TILE) * (cols / TABLE_BLOCK);
}

/* The judge's own rounding: a thirtieth of the work of a layer of 576 outputs. */
static inline float pack_quantise(const float *x, int8_t *q, int32_t sums[2])
{
    struct ref_int8_block block;
    k_quantise_block_ref_int8(x, &block);
    memcpy(q, block.q, sizeof block.q);
    sums[0] = block.sum;
    sums[1] = 0;
    for (int i = TABLE_BLOCK / 2; i < TABLE_BLOCK; i++)
        sums[1] += block.q[i];
    return block.scale;
}

void k_input_pack_avx2(const float *x, uint32_t rows, uint32_t cols, uint32_t begin, uint32_t end,
                       void *packed)
{
    packed_input(pack_quantise, AVX2_TILE, x, rows, cols, begin, end, packed);
}
