/* ref: leaves in float32 and double, written like the formulas: the reference for accuracy.
 *
 * Owns:     nothing.
 * Thread:   any compute thread.
 * Cost:     about thirty times the fast tables; never chosen by "auto".
 * Not here: activations rounded to int8 (ref_int8), anything fast.
 */
#pragma once

#include "kernels/cpu/table.h"

/* Packed weights are the file's own rows. */
size_t k_weight_bytes_ref(const struct tensor_type_info *type, uint32_t rows, uint32_t cols);
void k_weight_pack_ref(const struct tensor *tensor, uint32_t group_begin, uint32_t group_end,
                       void *packed);
void k_weight_row_ref(const struct weight *weight, uint32_t row, float *out);
/* Returns the packed row, in the file's blocks. */
const void *k_weight_at_ref(const struct weight *weight, uint32_t row);

/* Inputs are read as they are. */
bool k_input_wanted_ref(const struct tensor_type_info *type);
size_t k_input_bytes_ref(uint32_t rows, uint32_t cols);
uint32_t k_input_units_ref(uint32_t rows, uint32_t cols);
void k_input_pack_ref(const struct table_input *input, uint32_t begin, uint32_t end, void *packed);
void k_linear_f32_ref(const struct table_linear *call);

void k_attention_ref(const struct table_attention *call);
void k_kv_write_ref(const struct kv_write_args *args, uint32_t begin, uint32_t end);
/* x ≈ scale × codes, the form in which pages of int8 store a token of a head: scale = max |x| ÷
 * 127, codes = x × (127 ÷ max) to the nearest, ties to even. A max below 1e-30 (its reciprocal
 * would overflow) gives scale 0; an x that is not finite gives scale NaN. In both cases the codes
 * are 0. Returns the scale. */
float k_kv_codes_ref(const float *x, uint32_t n, int8_t *codes);
/* The same for float8: scale is the least power of two that brings max |x| to 448 or below, codes =
 * x ÷ scale to the nearest (half_e4m3_from_float). A max below 2^-118 gives scale 0. */
float k_kv_fp8_ref(const float *x, uint32_t n, uint8_t *codes);
/* Packs an open group [n][16] into a K tile of 4 bits (kv_tile.h), and unpacks it. For each
 * channel: least = its least key, step = (greatest − least) ÷ 15 as a half, codes = (key − least) ×
 * (1 ÷ step) to the nearest, ties to even, at most 15. A step below 2^-24 is 0, and its codes are
 * 0. A key that is not finite gives step and least NaN. */
void k_keys_pack_ref(const uint16_t *open, uint32_t n, void *group);
void k_keys_unpack_ref(const void *group, uint32_t n, uint16_t *open);
/* Multiplies each whole block of 64 elements by the Hadamard matrix ÷ 8, which is its own inverse:
 * for pairs 1, 2, 4, … 32 apart, a and b become a + b and a − b. */
void k_hadamard_ref(float *x, uint32_t n);
/* Packs the values of token 0 to 15 of a group of a packed V tile (kv_tile.h), and unpacks them to
 * n halves, which are mixed. Of each block of 64 dimensions, mixed by k_hadamard_ref: step =
 * kv_tile_step_code, magnitude = |x| × (1 ÷ step), rounded down, at most 15. Where the step is 0 or
 * NaN, signs and magnitudes are 0. */
void k_values_pack_ref(const float *x, uint32_t n, uint32_t token, void *group);
void k_value_unpack_ref(const void *group, uint32_t n, uint32_t token, uint16_t *value);
/* Writes the keys [head_dim][16] of the group of `key` as a row reads them: its own group open,
 * earlier ones unpacked. */
void k_keys_read_ref(const struct attention_args *args, uint32_t row, uint32_t kv_head,
                     uint32_t key, uint16_t *open);

void k_norm_ref(const struct norm_args *args, uint32_t begin, uint32_t end);
void k_rope_f32_ref(const struct rope_args *args, uint32_t begin, uint32_t end);
void k_act_ref(const struct act_args *args, uint32_t begin, uint32_t end);
void k_softcap_ref(float *x, size_t count, float cap);
/* In double, rounded once. */
void k_experts_sum_ref(const struct table_experts *sum, uint32_t begin, uint32_t end);
void k_copy_ref(void *to, const void *from, size_t bytes);
float k_logits_stats_ref(const float *logits, uint32_t vocab, struct logits_stats *out);

/* Used by every table that has no vector form of its own. */
float k_row_exp_ref(const float *x, uint32_t count, float max, float scale, float *out);
uint32_t k_row_above_ref(const float *x, uint32_t count, float least, uint32_t *ids);
uint32_t k_row_noise_ref(const struct row_noise_args *args, uint32_t *ids);

uint64_t k_spin_int8_ref(uint64_t rounds, uint64_t *sink);
uint64_t k_spin_f32_ref(uint64_t rounds, uint64_t *sink);
void k_read_ref(const void *bytes, size_t count, uint64_t *sink);
