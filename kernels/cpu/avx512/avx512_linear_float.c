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

static inline __attribute__((always_inline)) __m512
linear_float_load(const uint32_t type_id, const unsigned char *weights, size_t i)
{
    if (type_id == TENSOR_TYPE_f32)
        return _mm512_loadu_ps((const void *)(weights + i * 64));
    __m256i w = _mm256_loadu_si256((const void *)(weights + i * 32));
    if (type_id == TENSOR_TYPE_f16)
        return _mm512_cvtph_ps(w);
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(w), 16));
}

static inline __attribute__((always_inline)) void
linear_float_run(const uint32_t type_id, const int n, const struct linear_float *block)
{
    __m512 y[LINEAR_FLOAT_TILE];
#pragma GCC unroll 8
    for (int t = 0; t < n; t++)
        y[t] = _mm512_setzero_ps();
    for (uint32_t i = 0; i < block->cols; i++) {
        __m512 w = linear_float_load(type_id, block->weights, i);
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

static inline __attribute__((always_inline)) void linear_float_all(const uint32_t type_id,
                                                                   const struct table_linear *call)
{
    const struct weight *weight = call->weight;
    const size_t group_bytes = packed_group_bytes(weight->type, weight->cols);
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
            if (is_tile)
                linear_float_run(type_id, LINEAR_FLOAT_TILE, &block);
            else
                linear_float_run(type_id, 1, &block);
            row += is_tile ? LINEAR_FLOAT_TILE : 1;
        }
}

void k_linear_float_avx512(const struct table_linear *call)
{
    switch (call->weight->type->id) {
    case TENSOR_TYPE_f32:
        linear_float_all(TENSOR_TYPE_f32, call);
        break;
    case TENSOR_TYPE_f16:
        linear_float_all(TENSOR_TYPE_f16, call);
        break;
    default:
        linear_float_all(TENSOR_TYPE_bf16, call);
        break;
    }
}
