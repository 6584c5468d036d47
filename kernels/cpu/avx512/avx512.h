/* avx512: leaves for AVX-512 (F, BW, DQ, VL) with VNNI; equal bits with ref_int8.
 *
 * Owns:     nothing; weights and inputs are packed as packed.h says.
 * Thread:   any compute thread.
 * Cost:     a block of 32 weights × 16 outputs × 1 row is 8 dot products, a conversion, a
 *           multiplication and one (types with m: two) fused multiply-adds.
 * Not here: which float operations in which order (ref_int8.h), intrinsics (avx512_vectors.h), so
 *           that code without these flags can include this.
 */
#pragma once

#include "config/base/limits.h"
#include "kernels/cpu/packed/packed.h"

/* Rows of one register block: 16 float accumulators, 8 registers of weights, 2 of factors. */
enum { AVX512_TILE = 16 };

uint32_t k_input_units_avx512(uint32_t rows, uint32_t cols);
void k_input_pack_avx512(const struct table_input *input, uint32_t begin, uint32_t end,
                         void *packed);

void k_linear_avx512(const struct table_linear *call);
/* The paths for float weights, called by k_linear_avx512. */
void k_linear_float_avx512(const struct table_linear *call);
bool k_dots_are_faster_avx512(void *scratch);

/* Scratch of the attention leaf: queries and two states of each, a block's scores, keys and values.
 */
#define AVX512_ATTENTION_SCRATCH_BYTES                                                             \
    (TABLE_QUERIES_MAX * (3 * (size_t)(LIMIT_HEAD_DIM + 16) + 4 + TABLE_KEYS_BLOCK) * 4 +          \
     TABLE_KEYS_BLOCK * (size_t)(2 * LIMIT_HEAD_DIM + 8) * sizeof(uint16_t) + 256)
void k_attention_avx512(const struct table_attention *call);

void k_norm_avx512(const struct norm_args *args, uint32_t begin, uint32_t end);
void k_rope_avx512(const struct rope_args *args, uint32_t begin, uint32_t end);
void k_act_avx512(const struct act_args *args, uint32_t begin, uint32_t end);
void k_softcap_avx512(float *x, size_t count, float cap);
void k_experts_sum_avx512(const struct table_experts *sum, uint32_t begin, uint32_t end);
void k_kv_write_avx512(const struct kv_write_args *args, uint32_t begin, uint32_t end);
void k_keys_pack_avx512(const uint16_t *open, uint32_t n, void *group);
void k_keys_unpack_avx512(const void *group, uint32_t n, uint16_t *open);
void k_hadamard_avx512(float *x, uint32_t n);
void k_values_pack_avx512(const float *x, uint32_t n, uint32_t token, void *group);
/* Unpacks the values of the first `tokens` tokens of a group to halves [tokens][n]. */
void k_values_unpack_avx512(const void *group, uint32_t n, uint32_t tokens, uint16_t *to);
void k_copy_avx512(void *to, const void *from, size_t bytes);
float k_logits_stats_avx512(const float *logits, uint32_t vocab, struct logits_stats *out);

float k_row_exp_avx512(const float *x, uint32_t count, float max, float scale, float *out);
uint32_t k_row_above_avx512(const float *x, uint32_t count, float least, uint32_t *ids);
uint32_t k_row_noise_avx512(const struct row_noise_args *args, uint32_t *ids);

uint64_t k_spin_int8_avx512(uint64_t rounds, uint64_t *sink);
uint64_t k_spin_f32_avx512(uint64_t rounds, uint64_t *sink);
void k_read_avx512(const void *bytes, size_t count, uint64_t *sink);

/* avx512_exp of one vector, for its test. */
void k_exp_avx512(const float in[16], float out[16]);
