#include "kernels/cpu/cpu_features.h"

#include <stdbool.h>
#include <stdio.h>

#if defined(__x86_64__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Returns which registers the operating system saves (Intel SDM vol. 1, 13.3; register XCR0). */
static uint64_t features_saved_state(void)
{
    uint32_t low;
    uint32_t high;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return ((uint64_t)high << 32) | low;
}

/* Asks for the use of tiles. The system keeps 8 KiB of tiles for a process that asks (Linux 5.16,
 * Documentation/arch/x86/xstate.rst); all its threads may use them then. */
static bool features_tiles_granted(uint64_t saved)
{
    enum { TILE_STATE = 0x60000, ARCH_REQ_XCOMP_PERM = 0x1023, XFEATURE_TILEDATA = 18 };
    return (saved & TILE_STATE) == TILE_STATE &&
           syscall(SYS_arch_prctl, ARCH_REQ_XCOMP_PERM, XFEATURE_TILEDATA) == 0;
}

uint32_t cpu_features(void)
{
    enum { AMX_INT8 = 3 << 24 };                      /* AMX-TILE, AMX-INT8 in EDX */
    enum { AVX_VNNI = 1 << 4, AVX512_BF16 = 1 << 5 }; /* EAX of leaf 7.1 */
    enum { YMM_STATE = 0x06, ZMM_STATE = 0xe6 };
    uint32_t a, b, c, d;
    uint32_t features = 0;
    if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & bit_OSXSAVE) || !(c & bit_AVX))
        return 0;
    uint64_t saved = features_saved_state();
    if ((saved & YMM_STATE) != YMM_STATE)
        return 0;
    if (c & bit_FMA)
        features |= CPU_FEATURE_FMA;
    if (c & bit_F16C)
        features |= CPU_FEATURE_F16C;
    if (!__get_cpuid_count(7, 0, &a, &b, &c, &d))
        return features;
    if (b & bit_AVX2)
        features |= CPU_FEATURE_AVX2;
    const uint32_t base = bit_AVX512F | bit_AVX512BW | bit_AVX512DQ | bit_AVX512VL;
    if ((saved & ZMM_STATE) == ZMM_STATE && (b & base) == base) {
        features |= CPU_FEATURE_AVX512;
        if (c & bit_AVX512VNNI)
            features |= CPU_FEATURE_AVX512_VNNI;
    }
    if ((d & AMX_INT8) == AMX_INT8 && features_tiles_granted(saved))
        features |= CPU_FEATURE_AMX_INT8;
    if (!__get_cpuid_count(7, 1, &a, &b, &c, &d))
        return features;
    if (a & AVX_VNNI)
        features |= CPU_FEATURE_AVX_VNNI;
    if ((features & CPU_FEATURE_AVX512) && (a & AVX512_BF16))
        features |= CPU_FEATURE_AVX512_BF16;
    return features;
}
#else
uint32_t cpu_features(void)
{
    return 0;
}
#endif

void cpu_features_names(uint32_t features, char *out, uint32_t out_bytes)
{
    static const struct {
        uint32_t bit;
        const char *name;
    } names[] = {{CPU_FEATURE_FMA, "FMA"},
                 {CPU_FEATURE_F16C, "F16C"},
                 {CPU_FEATURE_AVX2, "AVX2"},
                 {CPU_FEATURE_AVX512, "AVX-512 (F, BW, DQ, VL)"},
                 {CPU_FEATURE_AVX512_VNNI, "AVX-512 VNNI"},
                 {CPU_FEATURE_AVX512_BF16, "AVX-512 BF16"},
                 {CPU_FEATURE_AVX_VNNI, "AVX-VNNI"},
                 {CPU_FEATURE_AMX_INT8, "AMX (int8)"}};
    uint32_t used = 0;
    if (out_bytes > 0)
        out[0] = '\0';
    for (uint32_t i = 0; i < sizeof names / sizeof names[0] && used + 1 < out_bytes; i++) {
        if (!(features & names[i].bit))
            continue;
        int n = snprintf(out + used, out_bytes - used, "%s%s", used > 0 ? ", " : "", names[i].name);
        used += n > 0 ? (uint32_t)n : 0;
    }
}
