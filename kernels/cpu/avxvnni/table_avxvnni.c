#include "kernels/cpu/avxvnni/avxvnni.h"

#include "kernels/cpu/cpu_features.h"
#include "kernels/cpu/ref/ref.h"
#include "kernels/cpu/ref_int8/ref_int8.h"

extern const struct kernel_table table_avxvnni;

const struct kernel_table table_avxvnni = {
    .name = "avxvnni",
    .needs = CPU_FEATURE_AVX2 | CPU_FEATURE_AVX_VNNI | CPU_FEATURE_FMA | CPU_FEATURE_F16C,
    .linear = k_linear_avxvnni,
    .spin_int8 = k_spin_int8_avxvnni,
#include "kernels/cpu/avx2/avx2_table.def"
};
