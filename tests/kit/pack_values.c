#include "tests/kit/pack_values.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "config/base/rng.h"

enum {
    TYPE_F32 = 0,
    TYPE_F16 = 1,
    TYPE_Q4_0 = 2,
    TYPE_Q4_1 = 3,
    TYPE_Q5_0 = 6,
    TYPE_Q5_1 = 7,
    TYPE_Q8_0 = 8,
    TYPE_Q4_K = 12,
    TYPE_Q5_K = 13,
    TYPE_Q6_K = 14,
    TYPE_BF16 = 30,
    BLOCK = 32,
    SUPER_BLOCK = 256,
};

/* Rounds to the nearest half, ties to even; for |x| < 65,504. Subnormal results become 0. */
static uint16_t half_of(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    uint32_t sign = (bits >> 16) & 0x8000;
    uint32_t magnitude = bits & 0x7fffffff;
    if (magnitude < 0x38800000)
        return (uint16_t)sign;
    magnitude += 0xfff + ((magnitude >> 13) & 1);
    return (uint16_t)(sign | ((magnitude - 0x38000000) >> 13));
}

static float half_to(uint16_t half)
{
    uint32_t bits = ((uint32_t)(half & 0x8000) << 16) | (((half & 0x7fffu) << 13) + 0x38000000);
    float x;
    memcpy(&x, &bits, sizeof x);
    return (half & 0x7fff) != 0 ? x : 0;
}

static void pack_half(uint8_t *out, uint16_t half)
{
    memcpy(out, &half, sizeof half);
}

static uint32_t pack_level(float value, float scale, uint32_t levels)
{
    float level = scale != 0 ? roundf(value / scale) : 0;
    return level < 0 ? 0 : level > (float)levels ? levels : (uint32_t)level;
}

/* Packs 32 codes of 4 or 5 bits: byte j of 16 holds codes j and j + 16; the fifth bits come before.
 */
static size_t pack_codes(const float *x, float base, float step, bool has_fifths, uint8_t *out)
{
    uint32_t fifths = 0;
    uint8_t *nibbles = out + (has_fifths ? sizeof fifths : 0);
    memset(nibbles, 0, BLOCK / 2);
    for (uint32_t i = 0; i < BLOCK; i++) {
        uint32_t code = pack_level(x[i] - base, step, has_fifths ? 31 : 15);
        nibbles[i % 16] |= (uint8_t)((code & 15) << (i < 16 ? 0 : 4));
        fifths |= code >> 4 << i;
    }
    if (has_fifths)
        memcpy(out, &fifths, sizeof fifths);
    return BLOCK / 2 + (has_fifths ? sizeof fifths : 0);
}

/* Packs one block of 32 values; returns its bytes. */
static size_t pack_block(uint32_t type, const float *x, uint8_t *out)
{
    float low = x[0];
    float high = x[0];
    for (uint32_t i = 1; i < BLOCK; i++) {
        low = fminf(low, x[i]);
        high = fmaxf(high, x[i]);
    }
    bool has_fifths = type == TYPE_Q5_0 || type == TYPE_Q5_1;
    bool has_m = type == TYPE_Q4_1 || type == TYPE_Q5_1;
    float most = fmaxf(fabsf(low), fabsf(high));
    float middle = has_fifths ? 16 : 8;
    uint16_t scale = half_of(type == TYPE_Q8_0 ? most / 127
                             : has_m           ? (high - low) / (2 * middle - 1)
                                               : most / (middle - 1));
    float step = half_to(scale);
    pack_half(out, scale);
    if (type == TYPE_Q8_0) {
        for (uint32_t i = 0; i < BLOCK; i++)
            out[2 + i] = (uint8_t)(int8_t)(step != 0 ? roundf(x[i] / step * 0.999f) : 0);
        return 34;
    }
    if (has_m)
        pack_half(out + 2, half_of(low));
    float base = has_m ? half_to(half_of(low)) : -middle * step;
    size_t head = has_m ? 4 : 2;
    return head + pack_codes(x, base, step, has_fifths, out + head);
}

/* Packs 256 values of about the magnitude of x, with random codes and scales; no test needs them
 * close to x. */
static size_t pack_super_block(uint32_t type, const float *x, uint8_t *out)
{
    const size_t bytes = type == TYPE_Q4_K ? 144 : type == TYPE_Q5_K ? 176 : 210;
    uint32_t seed;
    float most = 0;
    memcpy(&seed, x, sizeof seed);
    for (uint32_t i = 0; i < SUPER_BLOCK; i++)
        most = fmaxf(most, fabsf(x[i]));
    for (size_t i = 0; i < bytes; i++)
        out[i] = (uint8_t)rng_at(seed, 5, i);
    if (type == TYPE_Q6_K) { /* d × scale (here −8 … 7) × code (to ±32); no d below 2^-14 */
        for (uint32_t i = 192; i < 208; i++)
            out[i] = (uint8_t)((out[i] & 15) - 8);
        pack_half(out + 208, half_of(most / (8 * 32)));
        return bytes;
    }
    float codes = type == TYPE_Q4_K ? 15 : 31; /* d × scale (to 63) × code − m × min (to 63) */
    pack_half(out, half_of(most / (16 * codes)));
    pack_half(out + 2, half_of(most / 32));
    return bytes;
}

uint8_t *pack_values(uint32_t type, const float *x, size_t count, size_t *bytes)
{
    uint8_t *out = malloc(count * sizeof *x + 64);
    if (out == NULL)
        abort();
    *bytes = 0;
    if (type == TYPE_F32) {
        *bytes = count * sizeof *x;
        memcpy(out, x, *bytes);
    } else if (type == TYPE_F16) {
        for (size_t i = 0; i < count; i++)
            pack_half(out + 2 * i, half_of(x[i]));
        *bytes = 2 * count;
    } else if (type == TYPE_BF16) {
        for (size_t i = 0; i < count; i++)
            memcpy(out + 2 * i, (const uint8_t *)&x[i] + 2, 2);
        *bytes = 2 * count;
    } else if (type >= TYPE_Q4_K) {
        for (size_t i = 0; i < count; i += SUPER_BLOCK)
            *bytes += pack_super_block(type, x + i, out + *bytes);
    } else {
        for (size_t i = 0; i < count; i += BLOCK)
            *bytes += pack_block(type, x + i, out + *bytes);
    }
    return out;
}
