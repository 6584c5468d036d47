#include "kernels/cpu/avx512/avx512.h"

#include "kernels/cpu/avx512/avx512_vectors.h"

/* 16 outputs × n rows; lane = output, one chain of fused multiply-adds over the inputs. */
struct linear_float {
    const unsigned char *weights;
    const float *x;
    uint32_t cols;
    float *y;
    size_t y_stride;
    __mmask16 lanes;
    bool accumulate;
};

enum { LINEAR_FLOAT_TILE = 8 }; /* chains enough to hide the latency of 4 cycles */

static inline __attribute__((always_inline)) void linear_float_run(const bool is_half, const int n,
                                                                   const struct linear_float *block)
{
    __m512 y[LINEAR_FLOAT_TILE];
#pragma GCC unroll 8
    for (int t = 0; t < n; t++)
        y[t] = _mm512_setzero_ps();
    for (uint32_t i = 0; i < block->cols; i++) {
        const unsigned char *at = block->weights + (size_t)i * (is_half ? 32 : 64);
        __m512 w = is_half ? _mm512_cvtph_ps(_mm256_loadu_si256((const void *)at))
                           : _mm512_loadu_ps((const void *)at);
#pragma GCC unroll 8
        for (int t = 0; t < n; t++)
            y[t] = _mm512_fmadd_ps(w, _mm512_set1_ps(block->x[(size_t)t * block->cols + i]), y[t]);
    }
#pragma GCC unroll 8
    for (int t = 0; t < n; t++) {
        float *out = block->y + (size_t)t * block->y_stride;
        if (block->accumulate)
            y[t] = _mm512_add_ps(_mm512_maskz_loadu_ps(block->lanes, out), y[t]);
        _mm512_mask_storeu_ps(out, block->lanes, y[t]);
    }
}

void k_linear_float_avx512(const struct table_linear *call)
{
    const struct weight *weight = call->weight;
    const bool is_half = weight->type->id == TENSOR_TYPE_f16;
    const size_t group_bytes = avx512_unit_bytes(weight->type->id) * weight->cols;
    for (uint32_t g = call->group_begin; g < call->group_end; g++)
        for (uint32_t row = 0; row < call->rows;) {
            bool is_tile = call->rows - row >= LINEAR_FLOAT_TILE;
            struct linear_float block = {
                .weights = (const unsigned char *)weight->packed + g * group_bytes,
                .x = call->x + (size_t)row * weight->cols,
                .cols = weight->cols,
                .y = call->y + (size_t)row * weight->rows + (size_t)g * TABLE_GROUP,
                .y_stride = weight->rows,
                .lanes = avx512_mask(weight->rows - g * TABLE_GROUP),
                .accumulate = call->accumulate,
            };
            if (is_tile && is_half)
                linear_float_run(true, LINEAR_FLOAT_TILE, &block);
            else if (is_tile)
                linear_float_run(false, LINEAR_FLOAT_TILE, &block);
            else if (is_half)
                linear_float_run(true, 1, &block);
            else
                linear_float_run(false, 1, &block);
            row += is_tile ? LINEAR_FLOAT_TILE : 1;
        }
}
