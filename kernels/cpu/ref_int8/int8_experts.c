#include <math.h>

#include "kernels/cpu/ref_int8/ref_int8.h"

void k_experts_sum_ref_int8(const struct table_experts *sum, uint32_t begin, uint32_t end)
{
    for (uint32_t c = begin; c < end; c++) {
        float total = 0;
        for (uint32_t i = 0; i < sum->count; i++)
            total = fmaf(sum->weight[i], sum->result[i][c], total);
        sum->y[c] = sum->accumulate ? sum->y[c] + total : total;
    }
}
