#include <immintrin.h>
#include <string.h>

#include "kernels/cpu/avx512/avx512.h"
#include "kernels/cpu/avx512/avx512_vectors.h"
#include "kernels/cpu/kv_tile.h"

/* Returns the offset of the steps in a packed group of n channels; the least values follow them. */
static size_t keys_steps(uint32_t n)
{
    return (size_t)kv_tile_round(n) * (KV_TILE_KEYS / 2);
}

/* Writes a float as a half and returns that half as a float. */
static inline float keys_half(float x, char *to)
{
    const __m128i half = _mm_cvtps_ph(_mm_set_ss(x), _MM_FROUND_TO_NEAREST_INT);
    const uint16_t bits = (uint16_t)_mm_extract_epi16(half, 0);
    memcpy(to, &bits, sizeof bits);
    return _mm_cvtss_f32(_mm_cvtph_ps(half));
}

/* As k_keys_pack_ref; a lane is a key. */
static inline __m128i keys_pack_channel(const uint16_t *open, char *step_at, char *least_at)
{
    const __m512 x = _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)(const void *)open));
    const __m512 infinity = _mm512_set1_ps(INFINITY);
    if (_mm512_cmp_ps_mask(_mm512_abs_ps(x), infinity, _CMP_LT_OQ) != 0xffffu) {
        const uint16_t nan = 0x7e00;
        memcpy(step_at, &nan, sizeof nan);
        memcpy(least_at, &nan, sizeof nan);
        return _mm_setzero_si128();
    }
    const float min = _mm512_reduce_min_ps(x);
    const float max = _mm512_reduce_max_ps(x);
    const float step = keys_half((max - min) * (1.0f / 15), step_at);
    keys_half(min + 0.0f, least_at);
    if (step == 0)
        return _mm_setzero_si128();
    const __m512 scaled =
        _mm512_mul_ps(_mm512_sub_ps(x, _mm512_set1_ps(min)), _mm512_set1_ps(1.0f / step));
    const __m512i code =
        _mm512_castps_si512(_mm512_add_ps(scaled, _mm512_set1_ps(FIXED_MATH_ROUND)));
    return _mm_min_epu8(_mm512_cvtepi32_epi8(code), _mm_set1_epi8(15));
}

void k_keys_pack_avx512(const uint16_t *open, uint32_t n, void *group)
{
    char *to = group;
    char *steps = to + keys_steps(n);
    char *leasts = steps + keys_steps(n) / (KV_TILE_KEYS / 2) * sizeof *open;
    memset(group, 0, keys_steps(n) + 2 * (size_t)(leasts - steps));
    for (uint32_t d = 0; d < n; d += 2, to += KV_TILE_KEYS) {
        const uint16_t *from = open + (size_t)d * KV_TILE_KEYS;
        const size_t at = d * sizeof *open;
        __m128i codes = keys_pack_channel(from, steps + at, leasts + at);
        if (d + 1 < n) {
            const __m128i odd = keys_pack_channel(from + KV_TILE_KEYS, steps + at + sizeof *open,
                                                  leasts + at + sizeof *open);
            /* codes are below 16, so bits stay in their bytes */
            codes = _mm_or_si128(codes, _mm_slli_epi16(odd, 4));
        }
        _mm_storeu_si128((__m128i *)(void *)to, codes);
    }
}

/* Unpacks the keys of one channel: a code picks one of the channel's 16 values. */
static inline __attribute__((always_inline)) void keys_unpack_channel(__m256i codes, float step,
                                                                      float least, uint16_t *open)
{
    const __m512 counts = _mm512_setr_ps(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    const __m512 values = _mm512_fmadd_ps(_mm512_set1_ps(step), counts, _mm512_set1_ps(least));
    const __m256i halves = _mm512_cvtps_ph(values, _MM_FROUND_TO_NEAREST_INT);
    _mm256_storeu_si256((__m256i *)(void *)open, _mm256_permutexvar_epi16(codes, halves));
}

void k_keys_unpack_avx512(const void *group, uint32_t n, uint16_t *open)
{
    const char *from = group;
    const char *steps = from + keys_steps(n);
    const char *leasts = steps + keys_steps(n) / (KV_TILE_KEYS / 2) * sizeof *open;
    for (uint32_t d = 0; d < n; d += 16) {
        const __mmask16 mask = avx512_mask(n - d);
        const size_t at = d * sizeof *open;
        float step[16];
        float least[16];
        _mm512_storeu_ps(step, _mm512_cvtph_ps(_mm256_maskz_loadu_epi16(mask, steps + at)));
        _mm512_storeu_ps(least, _mm512_cvtph_ps(_mm256_maskz_loadu_epi16(mask, leasts + at)));
        for (uint32_t i = 0; i < 16 && d + i < n; i += 2, from += KV_TILE_KEYS) {
            const __m256i codes =
                _mm256_cvtepu8_epi16(_mm_loadu_si128((const __m128i *)(const void *)from));
            uint16_t *to = open + (size_t)(d + i) * KV_TILE_KEYS;
            /* the permutation uses 4 bits of an index */
            keys_unpack_channel(codes, step[i], least[i], to);
            if (d + i + 1 < n)
                keys_unpack_channel(_mm256_srli_epi16(codes, 4), step[i + 1], least[i + 1],
                                    to + KV_TILE_KEYS);
        }
    }
}

/* Packs 32 dimensions; `signs` of those beyond the value are 0, and their magnitudes too. */
static inline void values_pack_part(const __m512 x[2], uint32_t signs, __m512 inverse, char *to)
{
    __m128i code[2];
    for (int i = 0; i < 2; i++) {
        const __m512i magnitude = _mm512_cvttps_epi32(_mm512_mul_ps(_mm512_abs_ps(x[i]), inverse));
        code[i] = _mm512_cvtepi32_epi8(_mm512_min_epi32(magnitude, _mm512_set1_epi32(15)));
    }
    /* codes are below 16, so bits stay in their bytes */
    _mm_storeu_si128((__m128i *)(void *)to, _mm_or_si128(code[0], _mm_slli_epi16(code[1], 4)));
    memcpy(to + 16, &signs, sizeof signs);
}

/* As k_values_pack_ref for one block of n dimensions, 1 to 64. Returns the step. */
static inline uint8_t values_pack_block(const float *from, uint32_t n, char *to)
{
    __m512 x[4];
    uint32_t signs[2] = {0, 0};
    for (uint32_t i = 0; i < 4; i++)
        x[i] = n > 16 * i ? _mm512_maskz_loadu_ps(avx512_mask(n - 16 * i), from + 16 * (size_t)i)
                          : _mm512_setzero_ps();
    if (n >= KV_TILE_BLOCK)
        avx512_hadamard(x);
    __m512i bits = _mm512_setzero_si512();
    for (uint32_t i = 0; i < 4; i++)
        bits = _mm512_max_epu32(bits, _mm512_castps_si512(_mm512_abs_ps(x[i])));
    const uint32_t most = _mm512_reduce_max_epu32(bits);
    const uint8_t step = kv_tile_step_code(most < 0x7f800000u ? half_bits_float(most) : NAN);
    const bool has_codes = step > 0 && step < KV_TILE_STEP_NAN;
    const __m512 inverse = _mm512_set1_ps(has_codes ? 1.0f / kv_tile_step(step) : 0);
    for (uint32_t i = 0; i < 4; i++) {
        x[i] = has_codes ? x[i] : _mm512_setzero_ps();
        signs[i / 2] |= (uint32_t)_mm512_movepi32_mask(_mm512_castps_si512(x[i])) << (i % 2 * 16);
    }
    values_pack_part(x, signs[0], inverse, to);
    if (n > KV_TILE_PART)
        values_pack_part(x + 2, signs[1], inverse, to + KV_TILE_PART_BYTES);
    return step;
}

void k_values_pack_avx512(const float *x, uint32_t n, uint32_t token, void *group)
{
    char *to = (char *)group + token * kv_tile_packed_bytes(n);
    uint8_t *steps = (uint8_t *)group + kv_tile_steps_offset(n, 0) + token;
    for (uint32_t d = 0; d < n; d += KV_TILE_BLOCK, to += 2 * KV_TILE_PART_BYTES) {
        *steps = values_pack_block(x + d, n - d, to);
        steps += KV_TILE_KEYS;
    }
}

/* Unpacks 32 dimensions to halves: a magnitude picks one of 16, and a sign bit flips it. */
static inline __attribute__((always_inline)) __m512i values_unpack_part(const char *from,
                                                                        __m512i halves)
{
    const __m256i low = _mm256_cvtepu8_epi16(_mm_loadu_si128((const __m128i *)(const void *)from));
    const __m512i both =
        _mm512_inserti64x4(_mm512_castsi256_si512(low), _mm256_srli_epi16(low, 4), 1);
    uint32_t signs;
    memcpy(&signs, from + 16, sizeof signs);
    /* The permutation uses 5 bits of an index; both halves of its table are the same. */
    const __m512i value = _mm512_permutexvar_epi16(both, halves);
    return _mm512_mask_add_epi16(value, signs, value, _mm512_set1_epi16(INT16_MIN));
}

void k_values_unpack_avx512(const void *group, uint32_t n, uint32_t tokens, uint16_t *to)
{
    const __m512 sizes = _mm512_setr_ps(0.5f, 1.5f, 2.5f, 3.5f, 4.5f, 5.5f, 6.5f, 7.5f, 8.5f, 9.5f,
                                        10.5f, 11.5f, 12.5f, 13.5f, 14.5f, 15.5f);
    const uint8_t *steps = (const uint8_t *)group + kv_tile_steps_offset(n, 0);
    const char *from = group;
    for (uint32_t t = 0; t < tokens; t++)
        for (uint32_t d = 0; d < n; d += KV_TILE_PART, from += KV_TILE_PART_BYTES) {
            const float step = kv_tile_step(steps[d / KV_TILE_BLOCK * KV_TILE_KEYS + t]);
            const __m512i halves = _mm512_broadcast_i64x4(_mm512_cvtps_ph(
                _mm512_mul_ps(_mm512_set1_ps(step), sizes), _MM_FROUND_TO_NEAREST_INT));
            const __m512i values = values_unpack_part(from, halves);
            uint16_t *at = to + (size_t)t * n + d;
            if (n - d >= KV_TILE_PART)
                _mm512_storeu_si512(at, values);
            else
                _mm512_mask_storeu_epi16(at, ((__mmask32)1 << (n - d)) - 1, values);
        }
}

void k_hadamard_avx512(float *x, uint32_t n)
{
    for (; n >= KV_TILE_BLOCK; n -= KV_TILE_BLOCK, x += KV_TILE_BLOCK) {
        __m512 part[4];
        for (int i = 0; i < 4; i++)
            part[i] = _mm512_loadu_ps(x + 16 * i);
        avx512_hadamard(part);
        for (int i = 0; i < 4; i++)
            _mm512_storeu_ps(x + 16 * i, part[i]);
    }
}
