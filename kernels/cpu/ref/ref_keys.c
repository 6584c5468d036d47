#include <math.h>
#include <string.h>

#include "kernels/cpu/fixed_math.h"
#include "kernels/cpu/kv_tile.h"
#include "kernels/cpu/ref/ref.h"
#include "kernels/types/half.h"

enum { KEYS_CODE_MAX = 15, KEYS_NAN = 0x7e00 };

/* Computes the codes of one channel's 16 keys. */
static void keys_pack_channel(const uint16_t *open, uint8_t codes[KV_TILE_KEYS], uint16_t *step,
                              uint16_t *least)
{
    float min = half_to_float(open[0]);
    float max = min;
    bool is_finite = true;
    memset(codes, 0, KV_TILE_KEYS);
    for (uint32_t i = 0; i < KV_TILE_KEYS; i++) {
        const float x = half_to_float(open[i]);
        is_finite = is_finite && fabsf(x) < INFINITY;
        min = x < min ? x : min;
        max = x > max ? x : max;
    }
    *step = is_finite ? half_from_float((max - min) * (1.0f / KEYS_CODE_MAX)) : KEYS_NAN;
    *least = is_finite ? half_from_float(min + 0.0f) : KEYS_NAN; /* + 0 turns −0 into +0 */
    if (!is_finite || *step == 0)
        return;
    const float inverse = 1.0f / half_to_float(*step);
    for (uint32_t i = 0; i < KV_TILE_KEYS; i++) {
        const float x = (half_to_float(open[i]) - min) * inverse + FIXED_MATH_ROUND;
        const uint32_t code = half_float_bits(x) & 0xffu;
        codes[i] = (uint8_t)(code < KEYS_CODE_MAX ? code : KEYS_CODE_MAX);
    }
}

void k_keys_pack_ref(const uint16_t *open, uint32_t n, void *group)
{
    const uint32_t width = kv_tile_round(n);
    uint8_t *bytes = group;
    char *steps = (char *)group + (size_t)width / 2 * KV_TILE_KEYS;
    memset(group, 0, (size_t)width * (KV_TILE_KEYS / 2 + 2 * sizeof *open));
    for (uint32_t d = 0; d < n; d++) {
        uint8_t codes[KV_TILE_KEYS];
        uint16_t step;
        uint16_t least;
        keys_pack_channel(open + (size_t)d * KV_TILE_KEYS, codes, &step, &least);
        for (uint32_t i = 0; i < KV_TILE_KEYS; i++)
            bytes[d / 2 * KV_TILE_KEYS + i] |= (uint8_t)(codes[i] << (d % 2 * 4));
        memcpy(steps + d * sizeof step, &step, sizeof step);
        memcpy(steps + (width + d) * sizeof least, &least, sizeof least);
    }
}

void k_keys_unpack_ref(const void *group, uint32_t n, uint16_t *open)
{
    const uint32_t width = kv_tile_round(n);
    const uint8_t *bytes = group;
    const char *steps = (const char *)group + (size_t)width / 2 * KV_TILE_KEYS;
    for (uint32_t d = 0; d < n; d++) {
        uint16_t step;
        uint16_t least;
        memcpy(&step, steps + d * sizeof step, sizeof step);
        memcpy(&least, steps + (width + d) * sizeof least, sizeof least);
        for (uint32_t i = 0; i < KV_TILE_KEYS; i++) {
            const uint32_t code = bytes[d / 2 * KV_TILE_KEYS + i] >> (d % 2 * 4) & KEYS_CODE_MAX;
            open[(size_t)d * KV_TILE_KEYS + i] =
                half_from_float(fmaf(half_to_float(step), (float)code, half_to_float(least)));
        }
    }
}

void k_hadamard_ref(float *x, uint32_t n)
{
    for (uint32_t block = 0; block + KV_TILE_BLOCK <= n; block += KV_TILE_BLOCK, x += KV_TILE_BLOCK)
        for (uint32_t apart = 1; apart < KV_TILE_BLOCK; apart *= 2)
            for (uint32_t i = 0; i < KV_TILE_BLOCK; i++) {
                if ((i & apart) != 0)
                    continue;
                const float a = x[i];
                const float b = x[i + apart];
                const float scale = 2 * apart < KV_TILE_BLOCK ? 1 : 0x1p-3f; /* 64^−½ */
                x[i] = (a + b) * scale;
                x[i + apart] = (a - b) * scale;
            }
}

/* Returns the greatest magnitude; NaN when one is not finite. */
static float values_max(const float *x, uint32_t n)
{
    /* compared as integers: magnitudes rise with their bits, and NaN is above all */
    uint32_t bits = 0;
    for (uint32_t i = 0; i < n; i++) {
        const uint32_t magnitude = half_float_bits(x[i]) & 0x7fffffffu;
        bits = magnitude > bits ? magnitude : bits;
    }
    return bits < 0x7f800000u ? half_bits_float(bits) : NAN;
}

/* Packs the magnitudes and signs of n dimensions, 1 to 32. */
static void values_pack_part(const float *x, uint32_t n, float inverse, uint8_t *to)
{
    memset(to, 0, KV_TILE_PART_BYTES);
    for (uint32_t i = 0; i < n; i++) {
        const uint32_t magnitude = (uint32_t)(fabsf(x[i]) * inverse);
        const uint32_t code = magnitude < KEYS_CODE_MAX ? magnitude : KEYS_CODE_MAX;
        to[i % 16] |= (uint8_t)(code << (i / 16 * 4));
        to[16 + i / 8] |= (uint8_t)((half_float_bits(x[i]) >> 31) << (i % 8));
    }
}

void k_values_pack_ref(const float *x, uint32_t n, uint32_t token, void *group)
{
    uint8_t *to = (uint8_t *)group + token * kv_tile_packed_bytes(n);
    for (uint32_t d = 0; d < n; d += KV_TILE_BLOCK) {
        const uint32_t count = n - d < KV_TILE_BLOCK ? n - d : KV_TILE_BLOCK;
        float mixed[KV_TILE_BLOCK];
        memcpy(mixed, x + d, count * sizeof *mixed);
        k_hadamard_ref(mixed, count);
        const uint8_t step = kv_tile_step_code(values_max(mixed, count));
        const bool has_codes = step > 0 && step < KV_TILE_STEP_NAN;
        ((uint8_t *)group)[kv_tile_steps_offset(n, d / KV_TILE_BLOCK) + token] = step;
        for (uint32_t i = 0; i < count; i += KV_TILE_PART, to += KV_TILE_PART_BYTES) {
            const uint32_t left = count - i < KV_TILE_PART ? count - i : KV_TILE_PART;
            values_pack_part(mixed + i, has_codes ? left : 0,
                             has_codes ? 1.0f / kv_tile_step(step) : 0, to);
        }
    }
}

void k_value_unpack_ref(const void *group, uint32_t n, uint32_t token, uint16_t *value)
{
    const uint8_t *bytes = group;
    for (uint32_t d = 0; d < n; d++) {
        const uint8_t *part = bytes + token * kv_tile_packed_bytes(n) +
                              (size_t)(d / KV_TILE_PART) * KV_TILE_PART_BYTES;
        const uint32_t i = d % KV_TILE_PART;
        const uint32_t magnitude = part[i % 16] >> (i / 16 * 4) & KEYS_CODE_MAX;
        const uint32_t sign = part[16 + i / 8] >> (i % 8) & 1;
        const float step = kv_tile_step(bytes[kv_tile_steps_offset(n, d / KV_TILE_BLOCK) + token]);
        value[d] = half_from_float(step * ((float)magnitude + 0.5f)) ^ (uint16_t)(sign << 15);
    }
}

void k_keys_read_ref(const struct attention_args *args, uint32_t row, uint32_t kv_head,
                     uint32_t key, uint16_t *open)
{
    const struct kv_layout *layout = args->kv.layout;
    const uint32_t group = key % layout->page_tokens / KV_TILE_KEYS;
    if (key / KV_TILE_KEYS == args->kv.position[row] / KV_TILE_KEYS) {
        memcpy(open, kv_tile_open(&args->kv, row, args->layer, kv_head),
               (size_t)layout->head_dim * KV_TILE_KEYS * sizeof *open);
        return;
    }
    void *page = kv_tile_page(&args->kv, row, key);
    const char *tile = kv_tile_at(layout, page, args->layer, kv_head);
    k_keys_unpack_ref(tile + group * kv_tile_keys_bytes(layout), layout->head_dim, open);
}
