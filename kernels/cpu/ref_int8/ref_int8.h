/* ref_int8: leaves in plain C with rounded inputs (int8; bfloat16 for BF16 weights): the reference
 * for the bits of fast tables.
 *
 * Owns:     the definition of every float operation and its order (fixed_math.h, and the comments
 *           at each leaf); other integer tables give the same bits.
 * Thread:   any compute thread.
 * Cost:     whatever the compiler's vectoriser achieves; fmaf is a call on baseline machines.
 * Not here: instruction sets (avx512), accuracy against the formulas (ref).
 */
#pragma once

#include "kernels/cpu/table.h"

/* 32 inputs of one row: x[i] ≈ scale × q[i]. */
struct ref_int8_block {
    float scale; /* greatest magnitude ÷ 127 */
    int32_t sum; /* Σ q */
    int8_t q[TABLE_BLOCK];
};

/* scale = max ÷ 127; q = x × (127 ÷ max) to the nearest, ties to even. All are 0 when the greatest
 * magnitude is below 1e-30 (its reciprocal would overflow) or not finite. */
void k_quantise_block_ref_int8(const float *x, struct ref_int8_block *out);

bool k_input_wanted_ref_int8(const struct tensor_type_info *type);
size_t k_input_bytes_ref_int8(uint32_t rows, uint32_t cols);
uint32_t k_input_units_ref_int8(uint32_t rows, uint32_t cols);
void k_input_pack_ref_int8(const struct table_input *input, uint32_t begin, uint32_t end,
                           void *packed);

/* k_weight_row_ref; BF16 as half_bf16_normal. */
void k_weight_row_ref_int8(const struct weight *weight, uint32_t row, float *out);

/* d, m and codes w of 32 inputs are those of types.h (d × scale and m × min are exact):
 *     no m:        y = fmaf((float)Σ w·q, d × scale, y) over the blocks in order, from 0
 *     with m:      the same, then y = fmaf(m, scale × (float)Σ q, y)
 *     q6_k:        as without m, for the first 16 inputs of a block and then for the last 16
 *     f32, f16:    y = fmaf(w, x, y) over the columns in order, from 0 (inputs not rounded)
 *     bf16:        w and x rounded to bfloat16, magnitudes below 2^-56 to 0 (half_bf16_normal);
 *                  over pairs of columns in order y = fmaf(w[1], x[1], y), y = fmaf(w[0], x[0], y),
 *                  from 0: the order of VDPBF16PS (Intel SDM; measured on Zen 5). Nothing is
 *                  subnormal.
 *     bias:        y + bias, one addition at the end
 *     accumulate:  old + y, one addition after that */
void k_linear_ref_int8(const struct table_linear *call);

/* For each segment of 256 keys from an empty state, each block of 64 keys:
 *     s_j = fmaf chain over dimensions of (q × scale) and k
 *     with a soft cap: s_j = fixed_math_softcap(s_j, cap, 1 ÷ cap)
 *     m' = max(m, max s)
 *     c = exp(m − m');  p_j = exp(s_j − m')
 *     l = fmaf(l, c, fold16(((p[0..15] + p[16..31]) + p[32..47]) + p[48..63]))
 *     a = a × c, then a = fmaf(p_j, v_j, a) over the keys in order
 * over pages of int8, with q × scale rounded as a key is (k_kv_codes_ref):
 *     s_j = (float)Σ codes of q × codes of k  ×  (scale of q × scale of k_j)
 *     a = fmaf(p_j × scale of v_j, (float)code of v_j, a)
 * over pages of k4v8 and k4v4, where keys of earlier groups, and packed values, are read as halves:
 *     s_j as for f16
 *     a of k4v8 as for int8; a of k4v4 as for f16, and out through k_hadamard_ref
 * over pages of f16q, where k is rounded likewise when it is read: s_j as for int8, a as for f16
 * Segments (M, L, A) ← (m, l, a): M' = max(M, m), e = exp(M − M'), f = exp(m − M'),
 *     L = fmaf(l, f, L × e), A = fmaf(a, f, A × e); the first segment is copied.
 * out = A × (1 ÷ L). */
void k_attention_ref_int8(const struct table_attention *call);

/* squares: lane i mod 16 has the fmaf chain, then fold16; y = (x × (1 ÷ sqrtf(Σ ÷ n + ε))) × w. */
float k_norm_scale_ref_int8(const float *x, uint32_t cols, float epsilon);
/* Of a layer norm. sum: lane i mod 16 adds x, then fold16; mean = Σ ÷ n. squares of x − mean: as
 * above; y = fmaf((x − mean) × (1 ÷ sqrtf(Σ ÷ n + ε)), w, bias or 0). */
float k_layer_scale_ref_int8(const float *x, uint32_t cols, float epsilon, float *mean);
/* accumulate: old + y, one addition at the end. */
void k_norm_ref_int8(const struct norm_args *args, uint32_t begin, uint32_t end);
/* A head's norm first, then a' = fmaf(a, cos, −(b × sin)), b' = fmaf(b, cos, a × sin). */
void k_rope_ref_int8(const struct rope_args *args, uint32_t begin, uint32_t end);
/* g = x ÷ (1 + exp(−z)): silu: z = x; gelu by tanh: fixed_math_gelu_z(x); clamped: x = min(7, x), z
 * = 1.702 x. gelu by erf: fixed_math_gelu_erf(x). Then g × up; clamped: g × (min(7, max(−7, up)) +
 * 1). */
void k_act_ref_int8(const struct act_args *args, uint32_t begin, uint32_t end);
/* fixed_math_softcap(x, cap, 1 ÷ cap). */
void k_softcap_ref_int8(float *x, size_t count, float cap);
/* Lane i mod 16 sums exp(x − max), then fold16. */
float k_logits_stats_ref_int8(const float *logits, uint32_t vocab, struct logits_stats *out);
/* s = fmaf(weight, result, s) over the experts in order, from 0; accumulate: y + s. */
void k_experts_sum_ref_int8(const struct table_experts *sum, uint32_t begin, uint32_t end);
