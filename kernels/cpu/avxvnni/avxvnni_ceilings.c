#include "kernels/cpu/avxvnni/avxvnni.h"

#include "kernels/cpu/ceilings_leaf.h"

CEILINGS_SPIN(k_spin_int8_avxvnni, int32_t, 8, 12, 0x03030303, *sink & 127, 32 * 2,
              "%{vex%} vpdpbusd %3, %2, %0")
