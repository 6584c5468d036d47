#include "kernels/cpu/avx2/avx2.h"

#include "kernels/cpu/cpu_features.h"
#include "kernels/cpu/ref/ref.h"
#include "kernels/cpu/ref_int8/ref_int8.h"

extern const struct kernel_table table_avx2;

const struct kernel_table table_avx2 = {
    .name = "avx2",
    .needs = CPU_FEATURE_AVX2 | CPU_FEATURE_FMA | CPU_FEATURE_F16C,
    .linear = k_linear_avx2,
    .spin_int8 = k_spin_int8_avx2,
#include "kernels/cpu/avx2/avx2_table.def"
};
