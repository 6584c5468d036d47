#include "kernels/cpu/avx2/avx2.h"

#define LINEAR_IS_SIGNED  true
#define LINEAR_LEAF(name) k_linear_##name##_16xn_avx2
#include "kernels/cpu/avx2/avx2_leaves.h"

/* Sums pairs of products, exact in 16 bits. Codes of up to 6 bits are unsigned. For 8 bits the
 * product is |w| ≤ 128 times q with w's sign (|q| ≤ 127): 2 × 128 × 127 < 32,768. */
static inline __attribute__((always_inline)) __m256i linear_pairs(const struct types_form form,
                                                                  __m256i w, __m256i q)
{
    if (form.bits == 8)
        return _mm256_maddubs_epi16(_mm256_abs_epi8(w), _mm256_sign_epi8(q, w));
    return _mm256_maddubs_epi16(w, q);
}

/* Adds as many sums of pairs in 16 bits as cannot overflow; each is at most 2 × 127 × (2^bits − 1).
 */
static inline __attribute__((always_inline)) void
linear_dots(const struct types_form form, const bool is_apart, const unsigned char *codes,
            const char *input, const int n, const int from, const int to, __m256i (*isum)[2])
{
    const int most = form.bits == 4 ? 8 : form.bits == 5 ? 4 : form.bits == 6 ? 2 : 1;
    __m256i sums[AVX2_TILE][2];
#pragma GCC unroll 8
    for (int v = from; v < to; v++) {
        const __m256i w[2] = {linear_weights(form, is_apart, codes, 0, v),
                              linear_weights(form, is_apart, codes, 1, v)};
        const int at = (v - from) % most;
#pragma GCC unroll 4
        for (int t = 0; t < n; t++) {
            const __m256i q = linear_four(input + t * TABLE_BLOCK + 4 * v);
#pragma GCC unroll 2
            for (int half = 0; half < 2; half++) {
                __m256i pairs = linear_pairs(form, w[half], q);
                pairs = at == 0 ? pairs : _mm256_add_epi16(sums[t][half], pairs);
                sums[t][half] = linear_here(pairs);
                if (at < most - 1 && v < to - 1)
                    continue;
                pairs = _mm256_madd_epi16(sums[t][half], _mm256_set1_epi16(1));
                isum[t][half] =
                    linear_here(v - from < most ? pairs : _mm256_add_epi32(isum[t][half], pairs));
            }
        }
    }
}

/* Returns eight weights of an input; number j of a pair of bfloat16. */
static inline __attribute__((always_inline)) __m256
linear_float(const uint32_t type_id, const unsigned char *at, const int j)
{
    if (type_id == TENSOR_TYPE_f32)
        return _mm256_loadu_ps((const float *)(const void *)at);
    if (type_id == TENSOR_TYPE_f16)
        return avx2_halves((const uint16_t *)(const void *)at);
    const __m256i pairs = linear_load(at);
    return _mm256_castsi256_ps(j == 1 ? _mm256_and_si256(pairs, _mm256_set1_epi32(-0x10000))
                                      : _mm256_slli_epi32(pairs, 16));
}

/* `type_id` and `n` are constants in every call. */
static inline __attribute__((always_inline)) void
linear_float_tile(const uint32_t type_id, const int n, const float *x, uint32_t cols,
                  const struct linear_block *block)
{
    const size_t bytes = type_id == TENSOR_TYPE_f16 ? 16 : 32; /* of 8 weights or pairs */
    const uint32_t step = type_id == TENSOR_TYPE_bf16 ? 2 : 1;
    const unsigned char *at = block->weights;
    __m256 y[AVX2_TILE][2];
#pragma GCC unroll 4
    for (int t = 0; t < n; t++)
        y[t][0] = y[t][1] = _mm256_setzero_ps();
    for (uint32_t i = 0; i < cols; i += step, at += 2 * bytes)
#pragma GCC unroll 2
        for (int j = (int)step - 1; j >= 0; j--) {
            const __m256 w[2] = {linear_float(type_id, at, j),
                                 linear_float(type_id, at + bytes, j)};
#pragma GCC unroll 4
            for (int t = 0; t < n; t++) {
                const __m256 factor = _mm256_set1_ps(x[(size_t)t * cols + i + (uint32_t)j]);
                y[t][0] = _mm256_fmadd_ps(w[0], factor, y[t][0]);
                y[t][1] = _mm256_fmadd_ps(w[1], factor, y[t][1]);
            }
        }
    linear_store(block, (uint32_t)n, y);
}

#define TENSOR_TYPE(name, id, elements, bytes, bits, has_m)
#define TENSOR_FLOAT(name, id, bytes)                                                              \
    static void k_linear_##name##_16xn_avx2(uint32_t n, const float *x, uint32_t cols,             \
                                            const struct linear_block *block)                      \
    {                                                                                              \
        switch (n) {                                                                               \
        case 1:                                                                                    \
            linear_float_tile(id, 1, x, cols, block);                                              \
            break;                                                                                 \
        case 2:                                                                                    \
            linear_float_tile(id, 2, x, cols, block);                                              \
            break;                                                                                 \
        case 3:                                                                                    \
            linear_float_tile(id, 3, x, cols, block);                                              \
            break;                                                                                 \
        default:                                                                                   \
            linear_float_tile(id, AVX2_TILE, x, cols, block);                                      \
            break;                                                                                 \
        }                                                                                          \
    }
#include "kernels/types/tensor_types.def"

static void linear_float_block(uint32_t type_id, uint32_t n, const float *x, uint32_t cols,
                               const struct linear_block *block)
{
    switch (type_id) {
#define TENSOR_TYPE(name, id, elements, bytes, bits, has_m)
#define TENSOR_FLOAT(name, id, bytes)                                                              \
    case id:                                                                                       \
        k_linear_##name##_16xn_avx2(n, x, cols, block);                                            \
        break;
#include "kernels/types/tensor_types.def"
    default:
        break;
    }
}

static void linear_floats(const struct table_linear *call)
{
    const struct weight *weight = call->weight;
    const uint32_t cols = packed_cols(weight->type, weight->cols);
    const size_t group_bytes = packed_group_bytes(weight->type, weight->cols);
    const uint32_t tiles = packed_tiles(call->rows, AVX2_TILE);
    struct linear_block block = {.y_stride = call->y_stride, .accumulate = call->accumulate};
    for (uint32_t g = call->group_begin; g < call->group_end; g++)
        for (uint32_t tile = 0; tile < tiles; tile++) {
            const uint32_t row = packed_tile_begin(call->rows, tiles, tile);
            block.weights = (const unsigned char *)weight->packed + g * group_bytes;
            block.y =
                call->y + row * call->y_stride + (size_t)(g - call->group_begin) * TABLE_GROUP;
            block.outputs = weight->rows - g * TABLE_GROUP;
            block.bias = packed_bias(call, g);
            linear_float_block(weight->type->id,
                               packed_tile_begin(call->rows, tiles, tile + 1) - row,
                               call->x + (size_t)row * cols, cols, &block);
        }
}

void k_linear_float_avx2(const struct table_linear *call)
{
    if (call->weight->type->id == TENSOR_TYPE_bf16)
        packed_rounded(call, false, linear_floats);
    else
        linear_floats(call);
}

void k_linear_avx2(const struct table_linear *call)
{
    (types_form(call->weight->type->id).bits > 0 ? linear_coded : k_linear_float_avx2)(call);
}
