#include "kernels/cpu/avx512/avx512.h"

#include "kernels/cpu/cpu_features.h"
#include "kernels/cpu/ref_int8/ref_int8.h"

extern const struct kernel_table table_avx512;

const struct kernel_table table_avx512 = {
    .name = "avx512",
    .needs = CPU_FEATURE_AVX512 | CPU_FEATURE_AVX512_VNNI | CPU_FEATURE_FMA | CPU_FEATURE_F16C,
    .kv_types = 1u << KV_TYPE_F16 | 1u << KV_TYPE_F16Q | 1u << KV_TYPE_I8,
    .attention_scratch_bytes = AVX512_ATTENTION_SCRATCH_BYTES,
    .weight_bytes = packed_weight_bytes,
    .weight_pack = packed_weight_pack,
    .weight_row = packed_weight_row,
    .input_wanted = k_input_wanted_ref_int8,
    .input_bytes = packed_input_bytes,
    .input_units = k_input_units_avx512,
    .input_pack = k_input_pack_avx512,
    .linear = k_linear_avx512,
    .attention = k_attention_avx512,
    .rmsnorm = k_rmsnorm_avx512,
    .rope = k_rope_avx512,
    .silu_mul = k_silu_mul_avx512,
    .kv_write = k_kv_write_avx512,
    .copy = k_copy_avx512,
    .logits_stats = k_logits_stats_avx512,
    .row_exp = k_row_exp_avx512,
    .row_above = k_row_above_avx512,
    .row_noise = k_row_noise_avx512,
    .spin_int8 = k_spin_int8_avx512,
    .spin_f32 = k_spin_f32_avx512,
    .read = k_read_avx512,
};
