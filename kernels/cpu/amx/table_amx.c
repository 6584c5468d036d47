#include "kernels/cpu/amx/amx.h"

#include "kernels/cpu/avx512/avx512.h"
#include "kernels/cpu/cpu_features.h"
#include "kernels/cpu/ref_int8/ref_int8.h"

extern const struct kernel_table table_amx;

const struct kernel_table table_amx = {
    .name = "amx",
    .needs = CPU_FEATURE_AVX512 | CPU_FEATURE_AVX512_VNNI | CPU_FEATURE_FMA | CPU_FEATURE_F16C |
             CPU_FEATURE_AMX_INT8,
    .linear = k_linear_amx,
    .spin_int8 = k_spin_int8_amx,
#include "kernels/cpu/avx512/avx512_table.def"
};
