#include "kernels/cpu/ref/ref.h"

extern const struct kernel_table table_ref;

const struct kernel_table table_ref = {
    .name = "ref",
    .needs = 0,
    .kv_types = 1u << KV_TYPE_F32 | 1u << KV_TYPE_F16 | 1u << KV_TYPE_F16Q | 1u << KV_TYPE_I8 |
                1u << KV_TYPE_K4V8 | 1u << KV_TYPE_K4V4 | 1u << KV_TYPE_BF16 | 1u << KV_TYPE_FP8,
    .attention_scratch_bytes = 0,
    .weight_bytes = k_weight_bytes_ref,
    .weight_pack = k_weight_pack_ref,
    .weight_row = k_weight_row_ref,
    .input_wanted = k_input_wanted_ref,
    .input_bytes = k_input_bytes_ref,
    .input_units = k_input_units_ref,
    .input_pack = k_input_pack_ref,
    .linear = k_linear_f32_ref,
    .attention = k_attention_ref,
    .norm = k_norm_ref,
    .rope = k_rope_f32_ref,
    .act = k_act_ref,
    .softcap = k_softcap_ref,
    .experts_sum = k_experts_sum_ref,
    .kv_write = k_kv_write_ref,
    .keys_pack = k_keys_pack_ref,
    .copy = k_copy_ref,
    .logits_stats = k_logits_stats_ref,
    .row_exp = k_row_exp_ref,
    .row_above = k_row_above_ref,
    .row_noise = k_row_noise_ref,
    .spin_int8 = k_spin_int8_ref,
    .spin_f32 = k_spin_f32_ref,
    .read = k_read_ref,
};
