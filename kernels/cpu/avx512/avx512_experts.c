#include <immintrin.h>

#include "kernels/cpu/avx512/avx512.h"

enum { EXPERTS_LANES = 16 };

void k_experts_sum_avx512(const struct table_experts *sum, uint32_t begin, uint32_t end)
{
    for (uint32_t c = begin; c < end; c += EXPERTS_LANES) {
        __m512 total = _mm512_setzero_ps();
        for (uint32_t i = 0; i < sum->count; i++) {
            const __m512 result = _mm512_loadu_ps(sum->result[i] + c);
            total = _mm512_fmadd_ps(_mm512_set1_ps(sum->weight[i]), result, total);
        }
        if (sum->accumulate)
            total = _mm512_add_ps(_mm512_loadu_ps(sum->y + c), total);
        _mm512_storeu_ps(sum->y + c, total);
    }
}
