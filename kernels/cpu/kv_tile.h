/* kv_tile: where the elements of a KV page lie; one order for every table.
 *
 * Owns:     nothing.
 * Thread:   any.
 * Cost:     index arithmetic.
 * Not here: who owns pages (engine/kv_pool).
 *
 * A page is [layer][kv_head] { K tile, V tile }, each of page_tokens × head_dim elements:
 *     K tile  [page_tokens ÷ 16][head_dim][16]   scores of 16 keys are one vector
 *     V tile  [page_tokens][head_dim]            the output's dimensions are vectors
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "kernels/kernels.h"

enum { KV_TILE_KEYS = 16 };

static inline size_t kv_tile_element_bytes(const struct kv_layout *layout)
{
    return layout->type == KV_TYPE_F32 ? 4 : 2;
}

/* Elements from the start of a tile. */
static inline size_t kv_tile_k_index(const struct kv_layout *layout, uint32_t token, uint32_t dim)
{
    return ((size_t)(token / KV_TILE_KEYS) * layout->head_dim + dim) * KV_TILE_KEYS +
           token % KV_TILE_KEYS;
}

static inline size_t kv_tile_v_index(const struct kv_layout *layout, uint32_t token, uint32_t dim)
{
    return (size_t)token * layout->head_dim + dim;
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
