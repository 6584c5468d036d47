#include "kernels/cpu/ref/ref.h"
#include "kernels/cpu/ref_int8/ref_int8.h"

extern const struct kernel_table table_ref_int8;

/* Packing of weights and rounding to pages are those of ref. */
const struct kernel_table table_ref_int8 = {
    .name = "ref_int8",
    .needs = 0,
    .kv_types = 1u << KV_TYPE_F16 | 1u << KV_TYPE_F16Q | 1u << KV_TYPE_I8 | 1u << KV_TYPE_K4V8 |
                1u << KV_TYPE_K4V4,
    .attention_scratch_bytes = 0,
    .weight_bytes = k_weight_bytes_ref,
    .weight_pack = k_weight_pack_ref,
    .weight_row = k_weight_row_ref_int8,
    .input_wanted = k_input_wanted_ref_int8,
    .input_bytes = k_input_bytes_ref_int8,
    .input_units = k_input_units_ref_int8,
    .input_pack = k_input_pack_ref_int8,
    .linear = k_linear_ref_int8,
    .attention = k_attention_ref_int8,
    .norm = k_norm_ref_int8,
    .rope = k_rope_ref_int8,
    .act = k_act_ref_int8,
    .softcap = k_softcap_ref_int8,
    .experts_sum = k_experts_sum_ref_int8,
    .kv_write = k_kv_write_ref,
    .keys_pack = k_keys_pack_ref,
    .copy = k_copy_ref,
    .logits_stats = k_logits_stats_ref_int8,
    .row_exp = k_row_exp_ref,
    .row_above = k_row_above_ref,
    .row_noise = k_row_noise_ref,
    .spin_int8 = k_spin_int8_ref,
    .spin_f32 = k_spin_f32_ref,
    .read = k_read_ref,
};
