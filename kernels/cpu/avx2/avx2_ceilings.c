#include "kernels/cpu/avx2/avx2.h"

#include "kernels/cpu/ceilings_leaf.h"

/* A product of bytes and one 16-bit sum, the minimum of every linear layer. */
CEILINGS_SPIN(k_spin_int8_avx2, int32_t, 8, 12, 0x03030303, *sink & 127, 32 * 2,
              "vpmaddubsw %3, %2, %1\n\tvpaddw %1, %0, %0")
CEILINGS_SPIN(k_spin_f32_avx2, float, 8, 12, 0.5f, *sink & 15, 8 * 2, "vfmadd213ps %3, %2, %0")
CEILINGS_READ(k_read_avx2, 32)
