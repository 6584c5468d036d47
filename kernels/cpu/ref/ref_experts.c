#include "kernels/cpu/ref/ref.h"

void k_experts_sum_ref(const struct table_experts *sum, uint32_t begin, uint32_t end)
{
    for (uint32_t c = begin; c < end; c++) {
        double total = 0;
        for (uint32_t i = 0; i < sum->count; i++)
            total += (double)sum->weight[i] * (double)sum->result[i][c];
        sum->y[c] = (float)(sum->accumulate ? (double)sum->y[c] + total : total);
    }
}
