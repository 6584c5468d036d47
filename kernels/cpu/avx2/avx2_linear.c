#include "kernels/cpu/avx2/avx2.h"

#include <immintrin.h>

/* What one register block computes: 8 outputs (one half of a group) × n rows over all blocks. */
struct linear_block {
    const unsigned char *weights; /* the group's units */
    uint32_t half;                /* outputs 8 × half … of the group */
    const char *input;            /* the tile's units */
    const float *x;               /* of float weights */
    uint32_t cols;
    float *y;
    size_t y_stride; /* floats from row to row */
    uint32_t outputs;
    bool accumulate;
};

/* d and m of 8 outputs. */
struct linear_factors {
    __m256 d[2]; /* of the first and the last 16 inputs */
    __m256 m;
};

static inline __attribute__((always_inline)) __m256 linear_halves(const unsigned char *at)
{
    return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)at));
}

static inline __attribute__((always_inline)) __m256 linear_bytes(const unsigned char *at)
{
    return _mm256_cvtepi32_ps(
        _mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i *)(const void *)at)));
}

/* Factors of the unit at `codes`; `super` are d and m of eight units, or NULL. */
static inline __attribute__((always_inline)) struct linear_factors
linear_unit(const struct types_form form, const unsigned char *super, const unsigned char *codes,
            uint32_t half)
{
    const unsigned char *own = codes + packed_code_bytes(form);
    const unsigned char *halves = (super != NULL ? super : own) + 16 * half;
    struct linear_factors out;
    out.d[0] = out.d[1] = linear_halves(halves);
    out.m = form.has_m ? linear_halves(halves + 32) : _mm256_setzero_ps();
    if (super == NULL)
        return out;
    __m256 second = linear_bytes(own + 16 + 8 * half);
    out.d[0] = _mm256_mul_ps(out.d[0], linear_bytes(own + 8 * half));
    if (form.has_m)
        out.m = _mm256_mul_ps(out.m, second);
    else
        out.d[1] = _mm256_mul_ps(out.d[1], second);
    return out;
}

static inline __attribute__((always_inline)) __m256i linear_load(const unsigned char *at)
{
    return _mm256_loadu_si256((const __m256i *)(const void *)at);
}

/* w[v] of packed.h for 8 outputs; of 8 bits without the offset. `v` is a constant. */
static inline __attribute__((always_inline)) __m256i
linear_codes(const struct types_form form, const unsigned char *codes, uint32_t half, const int v)
{
    const unsigned char *at = codes + 32 * half;
    if (form.bits == 8)
        return _mm256_xor_si256(linear_load(at + 64 * v), _mm256_set1_epi8((char)0x80));
    __m256i w = linear_load(at + 64 * (v % 4));
    w = _mm256_and_si256(v < 4 ? w : _mm256_srli_epi16(w, 4), _mm256_set1_epi8(15));
    if (form.bits == 4)
        return w;
    const int bits = (int)form.bits - 4;
    const int place = bits * v % 8; /* of this vector's bits in a byte; they belong at 4 */
    __m256i high = linear_load(at + 256 + 64 * (bits * v / 8));
    high = place < 4 ? _mm256_slli_epi32(high, 4 - place) : _mm256_srli_epi32(high, place - 4);
    return _mm256_or_si256(
        w, _mm256_and_si256(high, _mm256_set1_epi8((char)(((1 << bits) - 1) << 4))));
}

static inline __attribute__((always_inline)) __m256i linear_four(const char *at)
{
    int32_t value;
    __builtin_memcpy(&value, at, sizeof value);
    return _mm256_set1_epi32(value);
}

static inline __attribute__((always_inline)) __m256 linear_factor(const char *at)
{
    return _mm256_castsi256_ps(linear_four(at));
}

/* Sums of two products each, exact in 16 bits: codes of up to 6 bits are unsigned; of 8 bits,
 * |w| ≤ 128 times q with w's sign (|q| ≤ 127): 2 × 128 × 127 < 32,768. */
static inline __attribute__((always_inline)) __m256i linear_pairs(const struct types_form form,
                                                                  __m256i w, __m256i q)
{
    if (form.bits == 8)
        return _mm256_maddubs_epi16(_mm256_abs_epi8(w), _mm256_sign_epi8(q, w));
    return _mm256_maddubs_epi16(w, q);
}

/* isum[t] += products of vectors [from, to) of all rows. As many sums of pairs are added in 16 bits
 * as cannot overflow: 2 × 127 × (2^bits − 1) each. */
static inline __attribute__((always_inline)) void
linear_dots(const struct types_form form, const unsigned char *codes, uint32_t half,
            const char *input, const int n, const int from, const int to, __m256i *isum)
{
    const int most = form.bits == 4 ? 8 : form.bits == 5 ? 4 : form.bits == 6 ? 2 : 1;
    __m256i sums[AVX2_TILE];
#pragma GCC unroll 8
    for (int v = from; v < to; v++) {
        const __m256i w = linear_codes(form, codes, half, v);
#pragma GCC unroll 4
        for (int t = 0; t < n; t++) {
            __m256i pairs = linear_pairs(form, w, linear_four(input + t * TABLE_BLOCK + 4 * v));
            sums[t] = v % most == 0 ? pairs : _mm256_add_epi16(sums[t], pairs);
            if (v % most == most - 1)
                isum[t] =
                    _mm256_add_epi32(isum[t], _mm256_madd_epi16(sums[t], _mm256_set1_epi16(1)));
        }
    }
}

/* Where the exact sum of a row starts: what w's offset adds comes off again. */
static inline __attribute__((always_inline)) __m256i linear_start(const struct types_form form,
                                                                  const char *times_minus_8)
{
    return form.has_m || form.bits == 8
               ? _mm256_setzero_si256()
               : _mm256_slli_epi32(linear_four(times_minus_8), (int)form.bits - 4);
}

static inline __attribute__((always_inline)) void linear_unit_run(const struct types_form form,
                                                                  const struct linear_factors *unit,
                                                                  const unsigned char *codes,
                                                                  uint32_t half, const char *input,
                                                                  const int n, __m256 *y)
{
    const char *factors = input + n * TABLE_BLOCK;
    const int parts = types_is_split(form) ? 2 : 1;
#pragma GCC unroll 2
    for (int part = 0; part < parts; part++) {
        __m256i isum[AVX2_TILE];
#pragma GCC unroll 4
        for (int t = 0; t < n; t++) {
            isum[t] = linear_start(form, factors + 8 * n + 4 * t);
            if (parts == 2) {
                __m256i high = linear_start(form, factors + 12 * n + 4 * t);
                isum[t] = part == 1 ? high : _mm256_sub_epi32(isum[t], high);
            }
        }
        linear_dots(form, codes, half, input, n, 8 / parts * part, 8 / parts * (part + 1), isum);
#pragma GCC unroll 4
        for (int t = 0; t < n; t++)
            y[t] =
                _mm256_fmadd_ps(_mm256_cvtepi32_ps(isum[t]),
                                _mm256_mul_ps(unit->d[part], linear_factor(factors + 4 * t)), y[t]);
    }
    if (!form.has_m)
        return;
#pragma GCC unroll 4
    for (int t = 0; t < n; t++)
        y[t] = _mm256_fmadd_ps(unit->m, linear_factor(factors + 4 * (n + t)), y[t]);
}

static inline __attribute__((always_inline)) __m256
linear_float(const uint32_t type_id, const unsigned char *weights, uint32_t half, size_t i)
{
    if (type_id == TENSOR_TYPE_f32)
        return _mm256_loadu_ps((const float *)(const void *)(weights + i * 64 + 32 * half));
    const unsigned char *at = weights + i * 32 + 16 * half;
    if (type_id == TENSOR_TYPE_f16)
        return linear_halves(at);
    __m128i w = _mm_loadu_si128((const __m128i *)(const void *)at);
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(w), 16));
}

/* `type_id` and `n` are constants wherever this is called. */
static inline __attribute__((always_inline)) void linear_run(const uint32_t type_id, const int n,
                                                             const struct linear_block *block)
{
    const struct types_form form = types_form(type_id);
    const unsigned char *at = block->weights;
    const unsigned char *super = NULL;
    const char *input = block->input;
    __m256 y[AVX2_TILE];
#pragma GCC unroll 4
    for (int t = 0; t < n; t++)
        y[t] = _mm256_setzero_ps();
    for (uint32_t i = 0; i < block->cols && form.bits == 0; i++) {
        __m256 w = linear_float(type_id, at, block->half, i);
#pragma GCC unroll 4
        for (int t = 0; t < n; t++)
            y[t] = _mm256_fmadd_ps(w, _mm256_set1_ps(block->x[(size_t)t * block->cols + i]), y[t]);
    }
    for (uint32_t b = 0; b < block->cols / TABLE_BLOCK && form.bits > 0; b++) {
        if (types_has_scales(form) && b % PACKED_UNITS == 0) {
            super = at;
            at += packed_factor_bytes(form);
        }
        struct linear_factors unit = linear_unit(form, super, at, block->half);
        linear_unit_run(form, &unit, at, block->half, input, n, y);
        at += packed_unit_bytes(form);
        input += n * PACKED_INPUT_BYTES;
    }
#pragma GCC unroll 4
    for (int t = 0; t < n; t++) {
        float lanes[8];
        float *out = block->y + (size_t)t * block->y_stride;
        _mm256_storeu_ps(lanes, y[t]);
        for (uint32_t i = 0; i < block->outputs; i++)
            out[i] = block->accumulate ? out[i] + lanes[i] : lanes[i];
    }
}

#define TENSOR_TYPE(name, id, elements, bytes, bits, has_m)                                        \
    static void k_linear_##name##_8xn_avx2(uint32_t n, const struct linear_block *block)           \
    {                                                                                              \
        switch (n) {                                                                               \
        case 1:                                                                                    \
            linear_run(id, 1, block);                                                              \
            break;                                                                                 \
        case 2:                                                                                    \
            linear_run(id, 2, block);                                                              \
            break;                                                                                 \
        case 3:                                                                                    \
            linear_run(id, 3, block);                                                              \
            break;                                                                                 \
        default:                                                                                   \
            linear_run(id, AVX2_TILE, block);                                                      \
            break;                                                                                 \
        }                                                                                          \
    }
#include "kernels/tensor_types.def"

static void linear_block(uint32_t type_id, uint32_t n, const struct linear_block *block)
{
    switch (type_id) {
#define TENSOR_TYPE(name, id, elements, bytes, bits, has_m)                                        \
    case id:                                                                                       \
        k_linear_##name##_8xn_avx2(n, block);                                                      \
        break;
#include "kernels/tensor_types.def"
    default:
        break;
    }
}

/* Tile by tile over one half of a group, whose weights then lie in the first-level cache. */
void k_linear_avx2(const struct table_linear *call)
{
    const struct weight *weight = call->weight;
    const size_t group_bytes = packed_group_bytes(weight->type, weight->cols);
    const size_t row_bytes = packed_input_bytes(1, weight->cols);
    const uint32_t tiles = packed_tiles(call->rows, AVX2_TILE);
    for (uint32_t part = call->group_begin * 2; part < call->group_end * 2; part++)
        for (uint32_t tile = 0; tile < tiles; tile++) {
            uint32_t row = packed_tile_begin(call->rows, tiles, tile);
            uint32_t n = packed_tile_begin(call->rows, tiles, tile + 1) - row;
            uint32_t first = part * 8;
            if (first >= weight->rows)
                return;
            struct linear_block block = {
                .weights = (const unsigned char *)weight->packed + part / 2 * group_bytes,
                .half = part % 2,
                .input = call->input != NULL ? (const char *)call->input + row * row_bytes : NULL,
                .x = call->x + (size_t)row * weight->cols,
                .cols = weight->cols,
                .y = call->y + (size_t)row * weight->rows + first,
                .y_stride = weight->rows,
                .outputs = weight->rows - first < 8 ? weight->rows - first : 8,
                .accumulate = call->accumulate,
            };
            linear_block(weight->type->id, n, &block);
        }
}
