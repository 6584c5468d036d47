#include "kernels/cpu/avx512/avx512.h"

#include "kernels/cpu/ceilings_leaf.h"

CEILINGS_SPIN(k_spin_int8_avx512, int32_t, 16, 16, 0x03030303, *sink & 127, 64 * 2,
              "vpdpbusd %3, %2, %0")
CEILINGS_SPIN(k_spin_f32_avx512, float, 16, 16, 0.5f, *sink & 15, 16 * 2, "vfmadd213ps %3, %2, %0")
CEILINGS_READ(k_read_avx512, 64)
