/* cpu_features: the features that the processor has and the operating system supports.
 *
 * Owns:     nothing; computed at each call.
 * Thread:   any.
 * Cost:     a handful of CPUID instructions (slow on virtual machines), with AMX a system call: ask
 *           once.
 * Not here: which table needs what (registry). Built without instruction-set flags.
 */
#pragma once

#include <stdint.h>

enum cpu_feature {
    CPU_FEATURE_FMA = 1u << 0,  /* and AVX, whose registers it uses */
    CPU_FEATURE_F16C = 1u << 1, /* and AVX, whose registers it uses */
    CPU_FEATURE_AVX2 = 1u << 2,
    CPU_FEATURE_AVX512 = 1u << 3, /* F, BW, DQ and VL together */
    CPU_FEATURE_AVX512_VNNI = 1u << 4,
    CPU_FEATURE_AVX512_BF16 = 1u << 7, /* no table requires it */
    CPU_FEATURE_AVX_VNNI = 1u << 6,    /* dot products of bytes without AVX-512 */
    CPU_FEATURE_AMX_INT8 = 1u << 5,    /* and AMX_TILE; the system lets this process use tiles */
};

/* Returns the features usable here: CPUID says that the processor has them, XGETBV that the
 * operating system saves their registers. 0 on other architectures. */
uint32_t cpu_features(void);

/* Writes the names of a set for messages: "FMA, AVX-512 VNNI". */
void cpu_features_names(uint32_t features, char *out, uint32_t out_bytes);
