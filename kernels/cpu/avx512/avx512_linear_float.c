#include "kernels/cpu/avx512/avx512.h"

#include "kernels/cpu/avx512/avx512_vectors.h"

/* One register block: 16 outputs of each of `groups` groups × n rows. A lane is an output, with one
 * chain of fused multiply-adds over the inputs. BF16 weights take rounded inputs in pairs: two
 * multiply-adds each or, with the same bits (ref_int8.h), one dot product. With dot products, x
 * consists of pairs, and the loops treat a pair as they treat a float of F32. */
struct linear_float {
    const struct weight *weight;
    uint32_t cols;               /* floats of a row of x */
    const unsigned char *packed; /* of the first group */
    size_t group_bytes;
    uint32_t first; /* group */
    const float *x; /* of the first row */
    float *y;       /* output 16 × from of the first row */
    size_t y_stride;
    uint32_t from;     /* group */
    const float *bias; /* of outputs 16 × from on; NULL: none */
    bool accumulate;
};

/* Rows that read the weights together, and enough chains to hide the latency of dot products (6
 * cycles and more, up to two at once): few rows take several groups together. */
enum { LINEAR_FLOAT_TILE = 16, LINEAR_FLOAT_CHAINS = 16, LINEAR_FLOAT_GROUPS = 4 };

/* Prefetch distance: the processor's own prefetching ends at each page of 4 KiB, and at each group
 * where several are read together. A single row gains nothing from it. */
enum { LINEAR_FLOAT_AHEAD = 4096 };

/* Used in place of a type's id. */
#define LINEAR_FLOAT_DOTS UINT32_MAX

/* Returns the weights of one input; number j of a pair. */
static inline __attribute__((always_inline)) __m512
linear_float_load(const uint32_t type_id, const unsigned char *at, const int j)
{
    if (type_id == TENSOR_TYPE_f16)
        return _mm512_cvtph_ps(_mm256_loadu_si256((const void *)at));
    if (type_id != TENSOR_TYPE_bf16)
        return _mm512_loadu_ps(at);
    const __m512i pairs = _mm512_loadu_si512(at);
    return _mm512_castsi512_ps(j == 1 ? _mm512_and_si512(pairs, _mm512_set1_epi32(-0x10000))
                                      : _mm512_slli_epi32(pairs, 16));
}

static inline __attribute__((always_inline)) __m512
linear_float_add(const uint32_t type_id, __m512 y, __m512 w, const float *x)
{
    return type_id == LINEAR_FLOAT_DOTS ? avx512_dot_bf16(y, w, x)
                                        : _mm512_fmadd_ps(w, _mm512_set1_ps(*x), y);
}

static inline __attribute__((always_inline)) void linear_float_run(const uint32_t type_id,
                                                                   const int n, const int groups,
                                                                   const struct linear_float *block)
{
    const uint32_t cols = block->cols;
    const uint32_t step = type_id == TENSOR_TYPE_bf16 ? 2 : 1;
    const size_t bytes = type_id == TENSOR_TYPE_f16 ? 32 : 64; /* of one step */
    __m512 y[LINEAR_FLOAT_GROUPS][LINEAR_FLOAT_TILE];
#pragma GCC unroll 4
    for (int g = 0; g < groups; g++)
#pragma GCC unroll 16
        for (int t = 0; t < n; t++)
            y[g][t] = _mm512_setzero_ps();
    for (uint32_t i = 0; i < cols; i += step)
#pragma GCC unroll 2
        for (int j = (int)step - 1; j >= 0; j--) {
            __m512 w[LINEAR_FLOAT_GROUPS];
#pragma GCC unroll 4
            for (int g = 0; g < groups; g++) {
                const unsigned char *at =
                    block->packed + (size_t)g * block->group_bytes + i / step * bytes;
                w[g] = linear_float_load(type_id, at, j);
                if (n > 1 && j == 0)
                    _mm_prefetch((const char *)at + LINEAR_FLOAT_AHEAD, _MM_HINT_T0);
            }
#pragma GCC unroll 16
            for (int t = 0; t < n; t++)
#pragma GCC unroll 4
                for (int g = 0; g < groups; g++)
                    y[g][t] = linear_float_add(type_id, y[g][t], w[g],
                                               &block->x[(size_t)t * cols + i + (uint32_t)j]);
        }
#pragma GCC unroll 4
    for (int g = 0; g < groups; g++) {
        const uint32_t output = (block->first + (uint32_t)g) * TABLE_GROUP;
        const __mmask16 lanes = avx512_mask(block->weight->rows - output);
        const __m512 bias =
            block->bias != NULL
                ? _mm512_maskz_loadu_ps(lanes, block->bias + (output - block->from * TABLE_GROUP))
                : _mm512_setzero_ps();
#pragma GCC unroll 16
        for (int t = 0; t < n; t++) {
            float *out =
                block->y + (size_t)t * block->y_stride + (output - block->from * TABLE_GROUP);
            if (block->bias != NULL)
                y[g][t] = _mm512_add_ps(y[g][t], bias);
            if (block->accumulate)
                y[g][t] = _mm512_add_ps(_mm512_maskz_loadu_ps(lanes, out), y[g][t]);
            _mm512_mask_storeu_ps(out, lanes, y[g][t]);
        }
    }
}

/* Computes groups [begin, end) for n rows. */
static inline __attribute__((always_inline)) void linear_float_tile(const uint32_t type_id,
                                                                    const int n, uint32_t begin,
                                                                    uint32_t end,
                                                                    struct linear_float block)
{
    const uint32_t together = n > LINEAR_FLOAT_CHAINS / 2   ? 1
                              : n > LINEAR_FLOAT_CHAINS / 4 ? 2
                                                            : LINEAR_FLOAT_GROUPS;
    for (uint32_t g = begin; g < end;) {
        block.first = g;
        block.packed = (const unsigned char *)block.weight->packed + g * block.group_bytes;
        if (end - g >= together) {
            linear_float_run(type_id, n, (int)together, &block);
            g += together;
        } else {
            linear_float_run(type_id, n, 1, &block);
            g++;
        }
    }
}

/* Groups of this many bytes stay in the second-level cache while the rows are processed. */
enum { LINEAR_FLOAT_BYTES = 256 * 1024 };

static inline __attribute__((always_inline)) void linear_float_all(const uint32_t type_id,
                                                                   const struct table_linear *call)
{
    const struct weight *weight = call->weight;
    const size_t group_bytes = packed_group_bytes(weight->type, weight->cols);
    const uint32_t cols =
        packed_cols(weight->type, weight->cols) / (type_id == LINEAR_FLOAT_DOTS ? 2 : 1);
    /* Multiply-adds have a shorter latency, and need registers to widen weights. */
    const uint32_t most = type_id == LINEAR_FLOAT_DOTS ? LINEAR_FLOAT_TILE : LINEAR_FLOAT_TILE / 2;
    const uint32_t tiles = packed_tiles(call->rows, most);
    uint32_t chunk = (uint32_t)(LINEAR_FLOAT_BYTES / group_bytes);
    if (chunk < LINEAR_FLOAT_GROUPS)
        chunk = LINEAR_FLOAT_GROUPS;
    for (uint32_t from = call->group_begin; from < call->group_end; from += chunk) {
        const uint32_t to = call->group_end - from < chunk ? call->group_end : from + chunk;
        for (uint32_t tile = 0; tile < tiles; tile++) {
            const uint32_t row = packed_tile_begin(call->rows, tiles, tile);
            const struct linear_float block = {
                .weight = weight,
                .cols = cols,
                .group_bytes = group_bytes,
                .x = call->x + (size_t)row * cols,
                .y = call->y + row * call->y_stride,
                .y_stride = call->y_stride,
                .from = call->group_begin,
                .bias = call->bias,
                .accumulate = call->accumulate,
            };
            switch (packed_tile_begin(call->rows, tiles, tile + 1) - row) {
#define LINEAR_FLOAT_CASE(size)                                                                    \
    case size:                                                                                     \
        if ((size) <= most)                                                                        \
            linear_float_tile(type_id, size, from, to, block);                                     \
        break;
                LINEAR_FLOAT_CASE(1)
                LINEAR_FLOAT_CASE(2)
                LINEAR_FLOAT_CASE(3)
                LINEAR_FLOAT_CASE(4)
                LINEAR_FLOAT_CASE(5)
                LINEAR_FLOAT_CASE(6)
                LINEAR_FLOAT_CASE(7)
                LINEAR_FLOAT_CASE(8)
                LINEAR_FLOAT_CASE(9)
                LINEAR_FLOAT_CASE(10)
                LINEAR_FLOAT_CASE(11)
                LINEAR_FLOAT_CASE(12)
                LINEAR_FLOAT_CASE(13)
                LINEAR_FLOAT_CASE(14)
                LINEAR_FLOAT_CASE(15)
                LINEAR_FLOAT_CASE(16)
#undef LINEAR_FLOAT_CASE
            default:
                break;
            }
        }
    }
}

static void linear_float_pairs(const struct table_linear *call)
{
    linear_float_all(TENSOR_TYPE_bf16, call);
}

static void linear_float_dots(const struct table_linear *call)
{
    linear_float_all(LINEAR_FLOAT_DOTS, call);
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
        packed_rounded(call, call->has_dots,
                       call->has_dots ? linear_float_dots : linear_float_pairs);
        break;
    }
}
