#include "kernels/cpu/avxvnni/avxvnni.h"

#define LINEAR_IS_SIGNED  false
#define LINEAR_LEAF(name) k_linear_##name##_16xn_avxvnni
#include "kernels/cpu/avx2/avx2_leaves.h"

/* Exact in 32 bits: codes are unsigned bytes, inputs signed bytes. */
static inline __attribute__((always_inline)) void
linear_dots(const struct types_form form, const bool is_apart, const unsigned char *codes,
            const char *input, const int n, const int from, const int to, __m256i (*isum)[2])
{
#pragma GCC unroll 8
    for (int v = from; v < to; v++) {
        const __m256i w[2] = {linear_weights(form, is_apart, codes, 0, v),
                              linear_weights(form, is_apart, codes, 1, v)};
#pragma GCC unroll 4
        for (int t = 0; t < n; t++) {
            const __m256i q = linear_four(input + t * TABLE_BLOCK + 4 * v);
#pragma GCC unroll 2
            for (int half = 0; half < 2; half++) {
                const __m256i before = v == from ? _mm256_setzero_si256() : isum[t][half];
                isum[t][half] = linear_here(_mm256_dpbusd_avx_epi32(before, w[half], q));
            }
        }
    }
}

void k_linear_avxvnni(const struct table_linear *call)
{
    (types_form(call->weight->type->id).bits > 0 ? linear_coded : k_linear_float_avx2)(call);
}
