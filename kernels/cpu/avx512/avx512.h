/* avx512: leaves for AVX-512 (F, BW, DQ, VL) with VNNI; equal bits with ref_int8.
 *
 * Owns:     the packed forms of weights and inputs below.
 * Thread:   any compute thread.
 * Cost:     a block of 32 weights × 16 outputs × 1 row is 8 dot products, a conversion, a
 *           multiplication and one (q4_1: two) fused multiply-adds.
 * Not here: which float operations in which order (ref_int8.h), intrinsics (avx512_vectors.h), so
 *           that code without these flags can include this.
 *
 * Weights, per group of 16 outputs and 32 inputs; r is the output, lanes of vectors are outputs:
 *     q4_0  { uint8 n[4][16 r][4]; half d[16] }             n[v][r][i]: low nibble input 4v + i,
 *     q4_1  { uint8 n[4][16 r][4]; half d[16]; half m[16] }             high nibble 16 + 4v + i
 *     q8_0  { uint8 q[8][16 r][4]; half d[16] }             q + 128, input 4v + i
 *     f32, f16 per input                                    { type w[16 r] }
 * Inputs of int8 paths, per tile of n ≤ AVX512_TILE rows and 32 inputs:
 *     { int8 q[n][32]; float scale[n]; float scaled_sum[n]; int32 sum_times_minus_8[n] }
 */
#pragma once

#include "config/base/limits.h"
#include "kernels/cpu/table.h"

enum {
    /* Rows of one register block: 16 float accumulators, 8 registers of weights, 2 of factors. */
    AVX512_TILE = 16,
    AVX512_INPUT_BYTES = TABLE_BLOCK + 12, /* of one row and block */
};

/* Rows are spread evenly over the fewest tiles: tile i begins at row ⌊rows × i ÷ tiles⌋. */
static inline uint32_t avx512_tiles(uint32_t rows)
{
    return (rows + AVX512_TILE - 1) / AVX512_TILE;
}

static inline uint32_t avx512_tile_begin(uint32_t rows, uint32_t tiles, uint32_t tile)
{
    return (uint32_t)((uint64_t)rows * tile / tiles);
}

/* Bytes of one group of 16 outputs over one block (q types) or one input (f types). */
static inline size_t avx512_unit_bytes(uint32_t type_id)
{
    return type_id == TENSOR_TYPE_q4_0   ? 288
           : type_id == TENSOR_TYPE_q4_1 ? 320
           : type_id == TENSOR_TYPE_q8_0 ? 544
           : type_id == TENSOR_TYPE_f32  ? 64
                                         : 32;
}

size_t k_weight_bytes_avx512(const struct tensor_type_info *type, uint32_t rows, uint32_t cols);
void k_weight_pack_avx512(const struct tensor *tensor, uint32_t group_begin, uint32_t group_end,
                          void *packed);
void k_weight_row_avx512(const struct weight *weight, uint32_t row, float *out);

size_t k_input_bytes_avx512(uint32_t rows, uint32_t cols);
uint32_t k_input_units_avx512(uint32_t rows, uint32_t cols);
void k_input_pack_avx512(const float *x, uint32_t rows, uint32_t cols, uint32_t begin, uint32_t end,
                         void *packed);

void k_linear_avx512(const struct table_linear *call);
/* The paths of float weights, behind k_linear_avx512. */
void k_linear_float_avx512(const struct table_linear *call);

/* Scratch of the attention leaf: queries, two states each, scores of one block. */
#define AVX512_ATTENTION_SCRATCH_BYTES                                                             \
    (TABLE_QUERIES_MAX * (3 * (size_t)(LIMIT_HEAD_DIM + 16) + 4 + TABLE_KEYS_BLOCK) * 4 + 256)
void k_attention_avx512(const struct table_attention *call);

void k_rmsnorm_avx512(const struct rmsnorm_args *args, uint32_t begin, uint32_t end);
void k_rope_avx512(const struct rope_args *args, uint32_t begin, uint32_t end);
void k_silu_mul_avx512(const struct silu_mul_args *args, uint32_t begin, uint32_t end);
void k_kv_write_avx512(const struct kv_write_args *args, uint32_t begin, uint32_t end);
void k_copy_avx512(void *to, const void *from, size_t bytes);
float k_logits_stats_avx512(const float *logits, uint32_t vocab, struct logits_stats *out);

uint64_t k_spin_int8_avx512(uint64_t rounds, uint64_t *sink);
uint64_t k_spin_f32_avx512(uint64_t rounds, uint64_t *sink);
void k_read_avx512(const void *bytes, size_t count, uint64_t *sink);

/* avx512_exp of one vector, for its test. */
void k_exp_avx512(const float in[16], float out[16]);
