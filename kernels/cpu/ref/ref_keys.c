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
