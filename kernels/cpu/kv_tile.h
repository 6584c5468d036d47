/* kv_tile: the layout of a KV page's elements, the same for every table.
 *
 * Owns:     nothing.
 * Thread:   any.
 * Cost:     index arithmetic.
 * Not here: who owns pages (engine/kv/kv_pool), how numbers are rounded (ref.h).
 *
 * A page is [layer][kv_head] { K tile, V tile }, each of groups of 16 tokens:
 *     f32, f16*, bf16
 *                K  [head_dim][16]              scores of 16 keys are one vector
 *                V  [16][head_dim]              the output's dimensions are vectors
 *     i8         K  [width ÷ 4][16][4] bytes    code + 128: four dimensions are one dot product
 *                V  [16][width] bytes           codes
 *                after each: float scale[16]; element = scale × code
 *     fp8        as i8, with the codes as they are
 *     k4v8       K  [width ÷ 2][16] bytes       low nibble: an even dimension, high: the next one
 *                after it: half step[width], half least[width]; element = least + step × code,
 *                rounded to a half
 *                V  as i8
 *                open group: [layer][kv_head] { K [head_dim][16] halves }
 *     k4v4       K  as k4v8, and the open group too
 *                V  [16][parts][20] bytes       a part is 32 dimensions: 16 bytes of magnitudes
 *                                               (low nibble: one of 16 dimensions, high: the one 16
 *                                               later) and 32 sign bits
 *                after it: [blocks][16] bytes   steps of tokens; a block is 64 dimensions;
 *                                               element = ±step × (magnitude + ½)
 * width is head_dim, rounded up to a multiple of 4 for codes. Parts and blocks are rounded up too.
 * Codes beyond head_dim are 0. Before values of k4v4 are rounded, whole blocks of them are mixed by
 * a Hadamard matrix, which attention undoes in its results.
 */
#pragma once

#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernels/kernels.h"
#include "kernels/types/half.h"

enum {
    KV_TILE_KEYS = 16,
    KV_TILE_QUAD = 4,        /* dimensions of one dot product of bytes */
    KV_TILE_PART = 32,       /* dimensions of packed values whose bits lie together */
    KV_TILE_PART_BYTES = 20, /* magnitudes and signs of a part */
    KV_TILE_BLOCK = 64,      /* dimensions of packed values that share a step */
    KV_TILE_STEP_NAN = 255,  /* of values that are not finite */
    KV_TILE_STEP_BASE = 864, /* a step is the float32 whose first 12 bits are this more */
    KV_TILE_BIAS = 128,      /* keys are stored as unsigned bytes */
};

/* Returns whether values are bytes with a scale for each token and head. */
static inline bool kv_tile_values_codes(const struct kv_layout *layout)
{
    return layout->type == KV_TYPE_I8 || layout->type == KV_TYPE_K4V8 ||
           layout->type == KV_TYPE_FP8;
}

/* Returns whether values are signs and magnitudes, which leaves read as halves. */
static inline bool kv_tile_values_packed(const struct kv_layout *layout)
{
    return layout->type == KV_TYPE_K4V4;
}

/* Returns the bytes of an element of V, packed ones as they are read, and of K where K has the same
 * form. */
static inline size_t kv_tile_element_bytes(const struct kv_layout *layout)
{
    return layout->type == KV_TYPE_F32 ? 4 : kv_tile_values_codes(layout) ? 1 : 2;
}

/* Returns whether scores are products of codes, which the page stores or which reading produces. */
static inline bool kv_tile_scores_codes(const struct kv_layout *layout)
{
    return layout->type == KV_TYPE_I8 || layout->type == KV_TYPE_F16Q;
}

/* Returns the dimensions that a tile of codes stores for n. */
static inline uint32_t kv_tile_round(uint32_t n)
{
    return (n + KV_TILE_QUAD - 1) / KV_TILE_QUAD * KV_TILE_QUAD;
}

/* Returns the elements that a tile stores for a token. */
static inline uint32_t kv_tile_width(const struct kv_layout *layout)
{
    return kv_tile_values_codes(layout) ? kv_tile_round(layout->head_dim) : layout->head_dim;
}

/* Returns the bytes of the magnitudes and signs of a token's packed values. */
static inline size_t kv_tile_packed_bytes(uint32_t head_dim)
{
    return (size_t)(head_dim + KV_TILE_PART - 1) / KV_TILE_PART * KV_TILE_PART_BYTES;
}

/* Returns the offset of the steps of block `block` in a group of 16 tokens of packed values. */
static inline size_t kv_tile_steps_offset(uint32_t head_dim, uint32_t block)
{
    return KV_TILE_KEYS * (kv_tile_packed_bytes(head_dim) + block);
}

/* Returns the stored step of values whose greatest magnitude is max, at least max ÷ 16: it has 4
 * significant bits. `max` is NaN where a value is not finite. 0: all are below 2^-15. */
static inline uint8_t kv_tile_step_code(float max)
{
    const uint32_t code = (half_float_bits(max * 0x1p-4f) + 0xfffffu) >> 20;
    if (code <= KV_TILE_STEP_BASE)
        return 0;
    return code - KV_TILE_STEP_BASE < KV_TILE_STEP_NAN ? (uint8_t)(code - KV_TILE_STEP_BASE)
                                                       : KV_TILE_STEP_NAN;
}

static inline float kv_tile_step(uint8_t code)
{
    if (code == 0 || code == KV_TILE_STEP_NAN)
        return code == 0 ? 0 : NAN;
    return half_bits_float((code + (uint32_t)KV_TILE_STEP_BASE) << 20);
}

/* Returns the bytes of the scales of a group of 16 tokens, which follow its elements. */
static inline size_t kv_tile_scales_bytes(const struct kv_layout *layout)
{
    return kv_tile_values_codes(layout) ? KV_TILE_KEYS * sizeof(float) : 0;
}

/* Returns the bytes of 16 tokens of a V tile, and of a K tile of the same form. */
static inline size_t kv_tile_group_bytes(const struct kv_layout *layout)
{
    if (kv_tile_values_packed(layout))
        return kv_tile_steps_offset(layout->head_dim,
                                    (layout->head_dim + KV_TILE_BLOCK - 1) / KV_TILE_BLOCK);
    return KV_TILE_KEYS * kv_tile_width(layout) * kv_tile_element_bytes(layout) +
           kv_tile_scales_bytes(layout);
}

/* Returns the bytes of 16 tokens of a K tile. */
static inline size_t kv_tile_keys_bytes(const struct kv_layout *layout)
{
    if (kernels_kv_has_groups(layout->type))
        return kv_tile_round(layout->head_dim) * (KV_TILE_KEYS / 2 + 2 * sizeof(uint16_t));
    return kv_tile_group_bytes(layout);
}

/* Returns an element's index from the start of a K tile or a V tile; not where they are packed. */
static inline size_t kv_tile_k_index(const struct kv_layout *layout, uint32_t token, uint32_t dim)
{
    const uint32_t key = token % KV_TILE_KEYS;
    if (kv_tile_values_codes(layout))
        return token / KV_TILE_KEYS * kv_tile_group_bytes(layout) +
               ((size_t)(dim / KV_TILE_QUAD) * KV_TILE_KEYS + key) * KV_TILE_QUAD +
               dim % KV_TILE_QUAD;
    return ((size_t)(token / KV_TILE_KEYS) * layout->head_dim + dim) * KV_TILE_KEYS + key;
}

static inline size_t kv_tile_v_index(const struct kv_layout *layout, uint32_t token, uint32_t dim)
{
    if (kv_tile_values_codes(layout))
        return token / KV_TILE_KEYS * kv_tile_group_bytes(layout) +
               (size_t)(token % KV_TILE_KEYS) * kv_tile_width(layout) + dim;
    return (size_t)token * layout->head_dim + dim;
}

/* Returns the byte offset of a token's scale in its V tile, or in a K tile of the same form. */
static inline size_t kv_tile_scale_offset(const struct kv_layout *layout, uint32_t token)
{
    return (token / KV_TILE_KEYS + 1) * kv_tile_group_bytes(layout) -
           (KV_TILE_KEYS - token % KV_TILE_KEYS) * sizeof(float);
}

/* Returns the K tile of one page, layer and head; its V tile follows tile_bytes later. */
static inline char *kv_tile_at(const struct kv_layout *layout, void *page, uint32_t layer,
                               uint32_t kv_head)
{
    return (char *)page + layer * layout->layer_bytes + kv_head * layout->head_bytes;
}

/* Returns the page of token `position` of a row's sequence. */
static inline void *kv_tile_page(const struct kv_rows *kv, uint32_t row, uint32_t position)
{
    uint32_t page = kv->page_tables[kv->sequence[row]][position / kv->layout->page_tokens];
    return (char *)kv->pages + (size_t)page * kv->layout->page_bytes;
}

/* Returns the keys of one layer and head in a row's own open group. */
static inline uint16_t *kv_tile_open(const struct kv_rows *kv, uint32_t row, uint32_t layer,
                                     uint32_t kv_head)
{
    const struct kv_layout *layout = kv->layout;
    const size_t at = ((size_t)layer * layout->kv_heads + kv_head) * layout->head_dim;
    return (uint16_t *)(void *)((char *)kv->open + kv->open_of[row] * layout->open_bytes) +
           at * KV_TILE_KEYS;
}

/* Returns whether two rows read the 64 keys from `first` on, which they have in common, from the
 * same addresses. They do, except where these keys include the own group of one row and the other
 * row is not of that group. */
static inline bool kv_tile_reads_alike(const struct kv_rows *kv, uint32_t a, uint32_t b,
                                       uint32_t first)
{
    const uint32_t own_a = kv->position[a] / KV_TILE_KEYS;
    const uint32_t own_b = kv->position[b] / KV_TILE_KEYS;
    const uint32_t after = first / KV_TILE_KEYS + ATTENTION_BLOCK_KEYS / KV_TILE_KEYS;
    return kv->layout->open_bytes == 0 || (own_a >= after && own_b >= after) ||
           (own_a == own_b && kv->sequence[a] == kv->sequence[b]);
}
