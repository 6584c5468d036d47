#include "kernels/cpu/avx512/avx512.h"

#include "kernels/cpu/cpu_features.h"
#include "kernels/cpu/ref_int8/ref_int8.h"

extern const struct kernel_table table_avx512;

const struct kernel_table table_avx512 = {
    .name = "avx512",
    .needs = CPU_FEATURE_AVX512 | CPU_FEATURE_AVX512_VNNI | CPU_FEATURE_FMA | CPU_FEATURE_F16C,
    .linear = k_linear_avx512,
    .spin_int8 = k_spin_int8_avx512,
#include "kernels/cpu/avx512/avx512_table.def"
};
