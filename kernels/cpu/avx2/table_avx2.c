#include "kernels/cpu/avx2/avx2.h"

#include "kernels/cpu/cpu_features.h"
#include "kernels/cpu/ref/ref.h"
#include "kernels/cpu/ref_int8/ref_int8.h"

extern const struct kernel_table table_avx2;

const struct kernel_table table_avx2 = {
    .name = "avx2",
    .needs = CPU_FEATURE_AVX2 | CPU_FEATURE_FMA | CPU_FEATURE_F16C,
    .kv_types = 1u << KV_TYPE_F16 | 1u << KV_TYPE_F16Q | 1u << KV_TYPE_I8,
    .attention_scratch_bytes = AVX2_ATTENTION_SCRATCH_BYTES,
    .weight_bytes = packed_weight_bytes,
    .weight_pack = packed_weight_pack,
    .weight_row = packed_weight_row,
    .input_wanted = k_input_wanted_ref_int8,
    .input_bytes = packed_input_bytes,
    .input_units = k_input_units_avx2,
    .input_pack = k_input_pack_avx2,
    .linear = k_linear_avx2,
    .attention = k_attention_avx2,
    .rmsnorm = k_rmsnorm_avx2,
    .rope = k_rope_avx2,
    .silu_mul = k_silu_mul_avx2,
    .kv_write = k_kv_write_avx2,
    .copy = k_copy_avx2,
    .logits_stats = k_logits_stats_avx2,
    .row_exp = k_row_exp_ref,
    .row_above = k_row_above_ref,
    .row_noise = k_row_noise_ref,
    .spin_int8 = k_spin_int8_avx2,
    .spin_f32 = k_spin_f32_avx2,
    .read = k_read_avx2,
};
