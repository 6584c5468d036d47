#include "kernels/cpu/avx512/avx512.h"

#include "kernels/cpu/avx512/avx512_vectors.h"

uint32_t k_input_units_avx512(uint32_t rows, uint32_t cols)
{
    return packed_tiles(rows, AVX512_TILE) * (cols / TABLE_BLOCK);
}

/* Sums q by halves: sums[0] of all 32, sums[1] of the last 16. */
static inline void pack_row_sums(__m256i q, int32_t sums[2])
{
    __m256i fours = _mm256_dpbusd_epi32(_mm256_setzero_si256(), _mm256_set1_epi8(1), q);
    fours = _mm256_add_epi32(fours, _mm256_shuffle_epi32(fours, 0x4e));
    fours = _mm256_add_epi32(fours, _mm256_shuffle_epi32(fours, 0xb1));
    sums[1] = _mm_cvtsi128_si32(_mm256_extracti128_si256(fours, 1));
    sums[0] = _mm_cvtsi128_si32(_mm256_castsi256_si128(fours)) + sums[1];
}

/* Packs one block; faster than pack_tile where a tile has few rows. */
static inline float pack_row(const float *x, int8_t *out, int32_t sums[2])
{
    __m512 low = _mm512_loadu_ps(x);
    __m512 high = _mm512_loadu_ps(x + 16);
    __m512 max = _mm512_max_ps(_mm512_abs_ps(low), _mm512_setzero_ps());
    max = _mm512_max_ps(_mm512_abs_ps(high), max);
    float greatest = _mm512_reduce_max_ps(max);
    float scale = greatest / 127.0f;
    __m256i q = _mm256_setzero_si256();
    if (greatest >= 1e-30f && greatest < INFINITY) {
        const __m512 round = _mm512_set1_ps(FIXED_MATH_ROUND);
        __m512 inverse = _mm512_set1_ps(127.0f / greatest);
        low = _mm512_add_ps(_mm512_mul_ps(low, inverse), round);
        high = _mm512_add_ps(_mm512_mul_ps(high, inverse), round);
        q = _mm256_set_m128i(_mm512_cvtepi32_epi8(_mm512_castps_si512(high)),
                             _mm512_cvtepi32_epi8(_mm512_castps_si512(low)));
    } else {
        scale = 0;
    }
    _mm256_storeu_si256((__m256i *)(void *)out, q);
    pack_row_sums(q, sums);
    return scale;
}

static inline __m512 pack_max_by_4_bytes(__m512 a, __m512 b)
{
    return _mm512_max_ps(_mm512_unpacklo_ps(a, b), _mm512_unpackhi_ps(a, b));
}

static inline __m512 pack_max_by_8_bytes(__m512 a, __m512 b)
{
    __m512d c = _mm512_castps_pd(a);
    __m512d d = _mm512_castps_pd(b);
    return _mm512_max_ps(_mm512_castpd_ps(_mm512_unpacklo_pd(c, d)),
                         _mm512_castpd_ps(_mm512_unpackhi_pd(c, d)));
}

static inline __m512 pack_max_by_16_bytes(__m512 a, __m512 b)
{
    return _mm512_max_ps(_mm512_shuffle_f32x4(a, b, 0x88), _mm512_shuffle_f32x4(a, b, 0xdd));
}

/* Returns in lane i the greatest magnitude of block i (NaN counts as 0). */
static inline __m512 pack_greatest(const float *const x[16])
{
    __m512 max[16];
#pragma GCC unroll 16
    for (int i = 0; i < 16; i++) {
        max[i] = _mm512_max_ps(_mm512_abs_ps(_mm512_loadu_ps(x[i])), _mm512_setzero_ps());
        max[i] = _mm512_max_ps(_mm512_abs_ps(_mm512_loadu_ps(x[i] + 16)), max[i]);
    }
#pragma GCC unroll 8
    for (int i = 0; i < 8; i++)
        max[i] = pack_max_by_4_bytes(max[2 * i], max[2 * i + 1]);
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++)
        max[i] = pack_max_by_8_bytes(max[2 * i], max[2 * i + 1]);
    return pack_max_by_16_bytes(pack_max_by_16_bytes(max[0], max[1]),
                                pack_max_by_16_bytes(max[2], max[3]));
}

/* Returns 32 values as words whose low bytes are the codes: in each 16 bytes four of the first
 * half, then four of the second. */
static inline __m512i pack_round(const float *x, float inverse)
{
    const __m512 round = _mm512_set1_ps(FIXED_MATH_ROUND);
    const __m512i byte = _mm512_set1_epi32(255);
    __m512 by = _mm512_set1_ps(inverse);
    __m512 low = _mm512_add_ps(_mm512_mul_ps(_mm512_loadu_ps(x), by), round);
    __m512 high = _mm512_add_ps(_mm512_mul_ps(_mm512_loadu_ps(x + 16), by), round);
    return _mm512_packus_epi32(_mm512_and_si512(_mm512_castps_si512(low), byte),
                               _mm512_and_si512(_mm512_castps_si512(high), byte));
}

static inline __m512i pack_add_by_4_bytes(__m512i a, __m512i b)
{
    return _mm512_add_epi32(_mm512_unpacklo_epi32(a, b), _mm512_unpackhi_epi32(a, b));
}

static inline __m512i pack_add_by_8_bytes(__m512i a, __m512i b)
{
    return _mm512_add_epi32(_mm512_unpacklo_epi64(a, b), _mm512_unpackhi_epi64(a, b));
}

/* Computes the sums of the first and the last 16 codes of 16 blocks from sums of fours; fours[i]
 * has blocks 2i (eight lanes) and 2i + 1. */
static inline void pack_sums(const __m512i fours[8], __m512i *first, __m512i *last)
{
    /* Each lane of 16 bytes has four sums: first and last half of even blocks, first and last half
     * of odd blocks. */
    const __m512i low = _mm512_setr_epi32(0, 8, 1, 9, 2, 10, 3, 11, 16, 24, 17, 25, 18, 26, 19, 27);
    __m512i sums[2];
#pragma GCC unroll 2
    for (int i = 0; i < 2; i++)
        sums[i] = pack_add_by_8_bytes(pack_add_by_4_bytes(fours[4 * i], fours[4 * i + 1]),
                                      pack_add_by_4_bytes(fours[4 * i + 2], fours[4 * i + 3]));
    *first = _mm512_permutex2var_epi32(sums[0], low, sums[1]);
    *last =
        _mm512_permutex2var_epi32(sums[0], _mm512_add_epi32(low, _mm512_set1_epi32(4)), sums[1]);
}

/* Writes scale, scaled_sum, start and start_high of n rows. */
static inline void pack_put_factors(char *factors, uint32_t n, __m512 scale, __m512i first,
                                    __m512i last)
{
    const __m512i times = _mm512_set1_epi32(-8);
    const __mmask16 lanes = avx512_mask(n);
    const __m512i all = _mm512_add_epi32(first, last);
    const __m512 scaled_sum = _mm512_mul_ps(scale, _mm512_cvtepi32_ps(all));
    _mm512_mask_storeu_ps(factors, lanes, scale);
    _mm512_mask_storeu_ps(factors + 4 * n, lanes, scaled_sum);
    _mm512_mask_storeu_epi32(factors + 8 * n, lanes, _mm512_mullo_epi32(all, times));
    _mm512_mask_storeu_epi32(factors + 12 * n, lanes, _mm512_mullo_epi32(last, times));
}

/* k_quantise_block_ref_int8 of one block of n rows that are `step` floats apart. */
static void pack_tile(const float *from, size_t step, uint32_t n, char *unit)
{
    const __m512 most = _mm512_set1_ps(127);
    const __m512i order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    const float *x[16];
    float inverse[16];
    __m512i fours[8];
    __m512i first;
    __m512i last;
    for (uint32_t i = 0; i < 16; i++) /* lanes behind the last row repeat it */
        x[i] = from + (i < n ? i : n - 1) * step;
    __m512 greatest = pack_greatest(x);
    __mmask16 is_some = _mm512_cmp_ps_mask(greatest, _mm512_set1_ps(1e-30f), _CMP_GE_OQ) &
                        _mm512_cmp_ps_mask(greatest, _mm512_set1_ps(INFINITY), _CMP_LT_OQ);
    _mm512_storeu_ps(inverse, _mm512_maskz_div_ps(is_some, most, greatest));
#pragma GCC unroll 8
    for (uint32_t i = 0; i < 16; i += 2) {
        __m512i q =
            _mm512_packus_epi16(pack_round(x[i], inverse[i]), pack_round(x[i + 1], inverse[i + 1]));
        uint32_t some = (uint32_t)is_some >> i;
        __mmask16 halves = (__mmask16)((some & 1) * 0xff | (some >> 1 & 1) * 0xff00);
        __m512i *to = (__m512i *)(void *)(unit + (size_t)i * TABLE_BLOCK);
        q = _mm512_maskz_permutexvar_epi32(halves, order, q);
        fours[i / 2] = _mm512_dpbusd_epi32(_mm512_setzero_si512(), _mm512_set1_epi8(1), q);
        if (i + 1 < n)
            _mm512_storeu_si512(to, q);
        else if (i < n)
            _mm256_storeu_si256((__m256i *)to, _mm512_castsi512_si256(q));
    }
    pack_sums(fours, &first, &last);
    pack_put_factors(unit + (size_t)n * TABLE_BLOCK, n,
                     _mm512_maskz_div_ps(is_some, greatest, most), first, last);
}

enum { PACK_FEW_ROWS = 8 };

static void pack_few(const float *x, size_t step, uint32_t n, char *unit)
{
    packed_rows(pack_row, x, step, n, unit);
}

static inline struct packed_norm pack_rms_of(const struct table_input *input, const float *row)
{
    return (struct packed_norm){.scale = avx512_norm_scale(row, input->cols, input->epsilon)};
}

static inline void pack_rms(const struct table_input *input, struct packed_norm norm, size_t col,
                            const float *x, float *out)
{
    const __m512 by = _mm512_set1_ps(norm.scale);
    for (size_t i = 0; i < TABLE_BLOCK; i += 16) {
        __m512 v = _mm512_mul_ps(_mm512_loadu_ps(x + i), by);
        _mm512_store_ps(out + i, _mm512_mul_ps(v, _mm512_loadu_ps(input->norm + col + i)));
    }
}

static inline struct packed_norm pack_layer_of(const struct table_input *input, const float *row)
{
    struct packed_norm norm;
    norm.scale = avx512_layer_scale(row, input->cols, input->epsilon, &norm.mean);
    return norm;
}

static inline void pack_layer(const struct table_input *input, struct packed_norm norm, size_t col,
                              const float *x, float *out)
{
    for (size_t i = 0; i < TABLE_BLOCK; i += 16) {
        const __m512 bias = input->norm_bias != NULL ? _mm512_loadu_ps(input->norm_bias + col + i)
                                                     : _mm512_setzero_ps();
        __m512 v = _mm512_sub_ps(_mm512_loadu_ps(x + i), _mm512_set1_ps(norm.mean));
        v = _mm512_mul_ps(v, _mm512_set1_ps(norm.scale));
        _mm512_store_ps(out + i, _mm512_fmadd_ps(v, _mm512_loadu_ps(input->norm + col + i), bias));
    }
}

void k_input_pack_avx512(const struct table_input *input, uint32_t begin, uint32_t end,
                         void *packed)
{
    packed_tile *const pack = input->rows <= PACK_FEW_ROWS ? pack_few : pack_tile;
    if (input->norm_kind == NORM_LAYER)
        packed_input(pack, pack_layer_of, pack_layer, AVX512_TILE, input, begin, end, packed);
    else
        packed_input(pack, pack_rms_of, pack_rms, AVX512_TILE, input, begin, end, packed);
}
