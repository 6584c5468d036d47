/* kv_tile: where the elements of a KV page lie; one order for every table.
 *
 * Owns:     nothing.
 * Thread:   any.
 * Cost:     index arithmetic.
 * Not here: who owns pages (engine/kv_pool), how numbers are rounded (ref.h).
 *
 * A page is [layer][kv_head] { K tile, V tile }, each of groups of 16 tokens:
 *     f32, f16*  K  [head_dim][16]              scores of 16 keys are one vector
 *                V  [16][head_dim]              the output's dimensions are vectors
 *     i8         K  [width ÷ 4][16][4] bytes    code + 128: four dimensions are one dot product
 *                V  [16][width] bytes           codes
 *                behind either float scale[16]: element = scale × code
 * width is head_dim, at 8 bits up to a multiple of 4; codes beyond head_dim are 0.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernels/kernels.h"

enum {
    KV_TILE_KEYS = 16,
    KV_TILE_QUAD = 4,   /* dimensions of one dot product of bytes */
    KV_TILE_BIAS = 128, /* keys are kept as unsigned bytes */
};

static inline size_t kv_tile_element_bytes(const struct kv_layout *layout)
{
    return layout->type == KV_TYPE_F32 ? 4 : layout->type == KV_TYPE_I8 ? 1 : 2;
}

/* Whether scores are products of codes: of those that pages keep or reading makes. */
static inline bool kv_tile_scores_codes(const struct kv_layout *layout)
{
    return layout->type == KV_TYPE_I8 || layout->type == KV_TYPE_F16Q;
}

/* Elements of a token that its place has. */
static inline uint32_t kv_tile_width(const struct kv_layout *layout)
{
    const uint32_t n = layout->head_dim;
    return layout->type == KV_TYPE_I8 ? (n + KV_TILE_QUAD - 1) / KV_TILE_QUAD * KV_TILE_QUAD : n;
}

/* Scales of a group of 16 tokens, behind its elements. */
static inline size_t kv_tile_scales_bytes(const struct kv_layout *layout)
{
    return layout->type == KV_TYPE_I8 ? KV_TILE_KEYS * sizeof(float) : 0;
}

/* 16 tokens of a tile. */
static inline size_t kv_tile_group_bytes(const struct kv_layout *layout)
{
    return KV_TILE_KEYS * kv_tile_width(layout) * kv_tile_element_bytes(layout) +
           kv_tile_scales_bytes(layout);
}

/* Elements from the start of a tile. */
static inline size_t kv_tile_k_index(const struct kv_layout *layout, uint32_t token, uint32_t dim)
{
    const uint32_t key = token % KV_TILE_KEYS;
    if (layout->type == KV_TYPE_I8)
        return token / KV_TILE_KEYS * kv_tile_group_bytes(layout) +
               ((size_t)(dim / KV_TILE_QUAD) * KV_TILE_KEYS + key) * KV_TILE_QUAD +
               dim % KV_TILE_QUAD;
    return ((size_t)(token / KV_TILE_KEYS) * layout->head_dim + dim) * KV_TILE_KEYS + key;
}

static inline size_t kv_tile_v_index(const struct kv_layout *layout, uint32_t token, uint32_t dim)
{
    if (layout->type == KV_TYPE_I8)
        return token / KV_TILE_KEYS * kv_tile_group_bytes(layout) +
               (size_t)(token % KV_TILE_KEYS) * kv_tile_width(layout) + dim;
    return (size_t)token * layout->head_dim + dim;
}

/* The scale of a token in its K or V tile, in bytes from the tile's start; i8 only. */
static inline size_t kv_tile_scale_offset(const struct kv_layout *layout, uint32_t token)
{
    return (token / KV_TILE_KEYS + 1) * kv_tile_group_bytes(layout) -
           (KV_TILE_KEYS - token % KV_TILE_KEYS) * sizeof(float);
}

/* The K tile of one page, layer and head; its V tile follows tile_bytes later. */
static inline char *kv_tile_at(const struct kv_layout *layout, void *page, uint32_t layer,
                               uint32_t kv_head)
{
    return (char *)page + layer * layout->layer_bytes + kv_head * 2 * layout->tile_bytes;
}

/* The page of token `position` of a row's sequence. */
static inline void *kv_tile_page(const struct kv_rows *kv, uint32_t row, uint32_t position)
{
    uint32_t page = kv->page_tables[kv->sequence[row]][position / kv->layout->page_tokens];
    return (char *)kv->pages + (size_t)page * kv->layout->page_bytes;
}
