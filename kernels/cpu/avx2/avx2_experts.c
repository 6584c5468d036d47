#include <immintrin.h>

#include "kernels/cpu/avx2/avx2.h"

enum { EXPERTS_LANES = 8 };

void k_experts_sum_avx2(const struct table_experts *sum, uint32_t begin, uint32_t end)
{
    for (uint32_t c = begin; c < end; c += EXPERTS_LANES) {
        __m256 total = _mm256_setzero_ps();
        for (uint32_t i = 0; i < sum->count; i++) {
            const __m256 result = _mm256_loadu_ps(sum->result[i] + c);
            total = _mm256_fmadd_ps(_mm256_set1_ps(sum->weight[i]), result, total);
        }
        if (sum->accumulate)
            total = _mm256_add_ps(_mm256_loadu_ps(sum->y + c), total);
        _mm256_storeu_ps(sum->y + c, total);
    }
}
