#include <immintrin.h>
#include <string.h>

#include "kernels/cpu/avx2/avx2.h"
#include "kernels/cpu/avx2/avx2_vectors.h"
#include "kernels/cpu/kv_tile.h"

/* Unpacks the keys of one channel, whose codes are bytes. */
static inline void keys_unpack_channel(__m128i codes, uint16_t step, uint16_t least, uint16_t *open)
{
    const __m256 steps = _mm256_set1_ps(_cvtsh_ss(step));
    const __m256 leasts = _mm256_set1_ps(_cvtsh_ss(least));
    const __m256 low = _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(codes));
    const __m256 high = _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_srli_si128(codes, 8)));
    _mm_storeu_si128((__m128i *)(void *)open, _mm256_cvtps_ph(_mm256_fmadd_ps(steps, low, leasts),
                                                              _MM_FROUND_TO_NEAREST_INT));
    _mm_storeu_si128(
        (__m128i *)(void *)(open + 8),
        _mm256_cvtps_ph(_mm256_fmadd_ps(steps, high, leasts), _MM_FROUND_TO_NEAREST_INT));
}

void k_keys_unpack_avx2(const void *group, uint32_t n, uint16_t *open)
{
    const uint32_t width = kv_tile_round(n);
    const char *from = group;
    const char *steps = from + (size_t)width / 2 * KV_TILE_KEYS;
    const __m128i low4 = _mm_set1_epi8(15);
    for (uint32_t d = 0; d < n; d += 2, from += KV_TILE_KEYS, open += 2 * (size_t)KV_TILE_KEYS) {
        const __m128i codes = _mm_loadu_si128((const __m128i *)(const void *)from);
        uint16_t step[2];
        uint16_t least[2];
        /* the tile has an even number of both */
        memcpy(step, steps + d * sizeof *step, sizeof step);
        memcpy(least, steps + (width + d) * sizeof *least, sizeof least);
        keys_unpack_channel(_mm_and_si128(codes, low4), step[0], least[0], open);
        if (d + 1 < n)
            keys_unpack_channel(_mm_and_si128(_mm_srli_epi16(codes, 4), low4), step[1], least[1],
                                open + KV_TILE_KEYS);
    }
}

/* Of pairs of lanes a and b: returns a + b in lane a and a − b in lane b. `other` is x with the
 * lanes of each pair exchanged; `is_high` is −0 in the lanes b, 0 in the lanes a. */
static inline __m256 hadamard_butterfly(__m256 x, __m256 other, __m256 is_high)
{
    return _mm256_add_ps(other, _mm256_xor_ps(x, is_high));
}

/* k_hadamard_ref of 64 elements. */
static void hadamard_block(__m256 x[8])
{
    const __m256 by1 = _mm256_setr_ps(0, -0.0f, 0, -0.0f, 0, -0.0f, 0, -0.0f);
    const __m256 by2 = _mm256_setr_ps(0, 0, -0.0f, -0.0f, 0, 0, -0.0f, -0.0f);
    const __m256 by4 = _mm256_setr_ps(0, 0, 0, 0, -0.0f, -0.0f, -0.0f, -0.0f);
    for (int i = 0; i < 8; i++) {
        x[i] = hadamard_butterfly(x[i], _mm256_permute_ps(x[i], 0xb1), by1);
        x[i] = hadamard_butterfly(x[i], _mm256_permute_ps(x[i], 0x4e), by2);
        x[i] = hadamard_butterfly(x[i], _mm256_permute2f128_ps(x[i], x[i], 1), by4);
    }
    for (int apart = 1; apart < 8; apart *= 2)
        for (int i = 0; i < 8; i++) {
            if ((i & apart) != 0)
                continue;
            const __m256 a = x[i];
            const __m256 b = x[i + apart];
            x[i] = _mm256_add_ps(a, b);
            x[i + apart] = _mm256_sub_ps(a, b);
        }
    for (int i = 0; i < 8; i++)
        x[i] = _mm256_mul_ps(x[i], _mm256_set1_ps(0x1p-3f));
}

void k_hadamard_avx2(float *x, uint32_t n)
{
    for (; n >= KV_TILE_BLOCK; n -= KV_TILE_BLOCK, x += KV_TILE_BLOCK) {
        __m256 part[8];
        for (int i = 0; i < 8; i++)
            part[i] = _mm256_loadu_ps(x + 8 * i);
        hadamard_block(part);
        for (int i = 0; i < 8; i++)
            _mm256_storeu_ps(x + 8 * i, part[i]);
    }
}

/* Packs 32 dimensions; those beyond the value are +0. */
static inline void values_pack_part(const __m256 x[4], __m256 inverse, char *to)
{
    __m256i magnitude[4];
    uint32_t signs = 0;
    for (int i = 0; i < 4; i++) {
        const __m256 size = _mm256_andnot_ps(_mm256_set1_ps(-0.0f), x[i]);
        magnitude[i] = _mm256_min_epi32(_mm256_cvttps_epi32(_mm256_mul_ps(size, inverse)),
                                        _mm256_set1_epi32(15));
        signs |= (uint32_t)_mm256_movemask_ps(x[i]) << (8 * i);
    }
    __m128i code[2];
    for (int i = 0; i < 2; i++) {
        const __m256i a = magnitude[2 * i];
        const __m256i b = magnitude[2 * i + 1];
        code[i] = _mm_packus_epi16(
            _mm_packus_epi32(_mm256_castsi256_si128(a), _mm256_extracti128_si256(a, 1)),
            _mm_packus_epi32(_mm256_castsi256_si128(b), _mm256_extracti128_si256(b, 1)));
    }
    /* codes are below 16, so bits stay in their bytes */
    _mm_storeu_si128((__m128i *)(void *)to, _mm_or_si128(code[0], _mm_slli_epi16(code[1], 4)));
    memcpy(to + 16, &signs, sizeof signs);
}

/* As k_values_pack_ref for one block of n dimensions, 1 to 64. Returns the step. */
static uint8_t values_pack_block(const float *from, uint32_t n, char *to)
{
    __m256 x[8];
    __m256i bits = _mm256_setzero_si256();
    uint32_t lanes[8];
    uint32_t most = 0;
    for (uint32_t i = 0; i < 8; i++)
        x[i] = n > 8 * i ? avx2_load(from + 8 * (size_t)i, n - 8 * i) : _mm256_setzero_ps();
    if (n >= KV_TILE_BLOCK)
        hadamard_block(x);
    for (int i = 0; i < 8; i++)
        bits = _mm256_max_epu32(bits,
                                _mm256_castps_si256(_mm256_andnot_ps(_mm256_set1_ps(-0.0f), x[i])));
    _mm256_storeu_si256((__m256i *)(void *)lanes, bits);
    for (int i = 0; i < 8; i++)
        most = lanes[i] > most ? lanes[i] : most;
    const uint8_t step = kv_tile_step_code(most < 0x7f800000u ? half_bits_float(most) : NAN);
    const bool has_codes = step > 0 && step < KV_TILE_STEP_NAN;
    const __m256 inverse = _mm256_set1_ps(has_codes ? 1.0f / kv_tile_step(step) : 0);
    for (int i = 0; i < 8 && !has_codes; i++)
        x[i] = _mm256_setzero_ps();
    values_pack_part(x, inverse, to);
    if (n > KV_TILE_PART)
        values_pack_part(x + 4, inverse, to + KV_TILE_PART_BYTES);
    return step;
}

void k_values_pack_avx2(const float *x, uint32_t n, uint32_t token, void *group)
{
    char *to = (char *)group + token * kv_tile_packed_bytes(n);
    uint8_t *steps = (uint8_t *)group + kv_tile_steps_offset(n, 0) + token;
    for (uint32_t d = 0; d < n; d += KV_TILE_BLOCK, to += 2 * KV_TILE_PART_BYTES) {
        *steps = values_pack_block(x + d, n - d, to);
        steps += KV_TILE_KEYS;
    }
}

/* Unpacks 8 dimensions, whose magnitudes are the lowest 8 bytes, to halves. */
static inline __m128i values_unpack_eight(__m128i magnitudes, uint32_t signs, __m256 step)
{
    const __m128i bit = _mm_setr_epi16(1, 2, 4, 8, 16, 32, 64, 128);
    const __m256 size =
        _mm256_add_ps(_mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(magnitudes)), _mm256_set1_ps(0.5f));
    const __m128i halves = _mm256_cvtps_ph(_mm256_mul_ps(step, size), _MM_FROUND_TO_NEAREST_INT);
    const __m128i is_set =
        _mm_cmpeq_epi16(_mm_and_si128(_mm_set1_epi16((int16_t)(signs & 255)), bit), bit);
    return _mm_xor_si128(halves, _mm_slli_epi16(is_set, 15));
}

void k_values_unpack_avx2(const void *group, uint32_t n, uint32_t tokens, uint16_t *to)
{
    const uint8_t *steps = (const uint8_t *)group + kv_tile_steps_offset(n, 0);
    const __m128i low4 = _mm_set1_epi8(15);
    const char *from = group;
    for (uint32_t t = 0; t < tokens; t++)
        for (uint32_t d = 0; d < n; d += KV_TILE_PART, from += KV_TILE_PART_BYTES) {
            const __m256 step =
                _mm256_set1_ps(kv_tile_step(steps[d / KV_TILE_BLOCK * KV_TILE_KEYS + t]));
            const __m128i codes = _mm_loadu_si128((const __m128i *)(const void *)from);
            const __m128i nibbles[2] = {_mm_and_si128(codes, low4),
                                        _mm_and_si128(_mm_srli_epi16(codes, 4), low4)};
            uint16_t part[KV_TILE_PART];
            uint16_t *at = to + (size_t)t * n + d;
            uint16_t *block = n - d < KV_TILE_PART ? part : at;
            uint32_t signs;
            memcpy(&signs, from + 16, sizeof signs);
            for (int i = 0; i < 2; i++, signs >>= 16, block += 16) {
                _mm_storeu_si128((__m128i *)(void *)block,
                                 values_unpack_eight(nibbles[i], signs, step));
                _mm_storeu_si128(
                    (__m128i *)(void *)(block + 8),
                    values_unpack_eight(_mm_srli_si128(nibbles[i], 8), signs >> 8, step));
            }
            if (n - d < KV_TILE_PART)
                memcpy(at, part, (n - d) * sizeof *part);
        }
}
