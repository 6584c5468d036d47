/* avx2: leaves for AVX2 with FMA and F16C; equal bits with ref_int8.
 *
 * Owns:     nothing; weights and inputs are packed as packed.h says.
 * Thread:   any compute thread.
 * Cost:     a block of 32 weights × 8 outputs × 1 row is 8 products of bytes, 7 sums (24 operations
 *           in all for 8 bits), one widening, a conversion, a multiplication and one or two
 *           multiply-adds. Products, the widening and the last two share ports, so at best 8 of 12
 *           slots are products.
 * Not here: which float operations in which order (ref_int8.h), intrinsics (avx2_vectors.h), so
 *           that code without these flags can include this.
 */
#pragma once

#include "config/base/limits.h"
#include "kernels/cpu/packed/packed.h"

/* Rows of one register block: two 16-bit sums for each row, two vectors of weights, an input and a
 * product fill the registers. */
enum { AVX2_TILE = 4 };

uint32_t k_input_units_avx2(uint32_t rows, uint32_t cols);
void k_input_pack_avx2(const struct table_input *input, uint32_t begin, uint32_t end, void *packed);
void k_linear_avx2(const struct table_linear *call);
/* The path for float weights, of this table and of avxvnni. */
void k_linear_float_avx2(const struct table_linear *call);

/* Scratch of the attention leaf: queries and two states of each; a block's keys and values, as
 * halves at most. */
#define AVX2_ATTENTION_SCRATCH_BYTES                                                               \
    (TABLE_QUERIES_MAX * (3 * (size_t)(LIMIT_HEAD_DIM + 8) + 4) * sizeof(float) +                  \
     TABLE_KEYS_BLOCK * (size_t)(2 * LIMIT_HEAD_DIM + 8) * sizeof(uint16_t))
void k_attention_avx2(const struct table_attention *call);

void k_norm_avx2(const struct norm_args *args, uint32_t begin, uint32_t end);
void k_rope_avx2(const struct rope_args *args, uint32_t begin, uint32_t end);
void k_act_avx2(const struct act_args *args, uint32_t begin, uint32_t end);
void k_softcap_avx2(float *x, size_t count, float cap);
void k_experts_sum_avx2(const struct table_experts *sum, uint32_t begin, uint32_t end);
void k_kv_write_avx2(const struct kv_write_args *args, uint32_t begin, uint32_t end);
void k_keys_unpack_avx2(const void *group, uint32_t n, uint16_t *open);
void k_hadamard_avx2(float *x, uint32_t n);
void k_values_pack_avx2(const float *x, uint32_t n, uint32_t token, void *group);
/* Unpacks the values of the first `tokens` tokens of a group to halves [tokens][n]. */
void k_values_unpack_avx2(const void *group, uint32_t n, uint32_t tokens, uint16_t *to);
void k_copy_avx2(void *to, const void *from, size_t bytes);
float k_logits_stats_avx2(const float *logits, uint32_t vocab, struct logits_stats *out);

float k_row_exp_avx2(const float *x, uint32_t count, float max, float scale, float *out);
uint32_t k_row_above_avx2(const float *x, uint32_t count, float least, uint32_t *ids);
uint32_t k_row_noise_avx2(const struct row_noise_args *args, uint32_t *ids);

uint64_t k_spin_int8_avx2(uint64_t rounds, uint64_t *sink);
uint64_t k_spin_f32_avx2(uint64_t rounds, uint64_t *sink);
void k_read_avx2(const void *bytes, size_t count, uint64_t *sink);

/* avx2_exp of one vector, for its test. */
void k_exp_avx2(const float in[8], float out[8]);
