/* cuda_kv: the layout of a KV page's elements on a device.
 *
 * Owns:     nothing.
 * Thread:   any.
 * Cost:     index arithmetic.
 * Not here: the processor's order (kernels/cpu/kv_tile), who owns pages (engine/kv/kv_pool).
 *
 * A page is [layer][kv_head] { K tile, V tile }:
 *     K  [token][head_dim]   a query's products run along a row of keys
 *     V  [head_dim][token]   and the weights' along a row of values: neighbours in the sum of a
 *                            matrix instruction are neighbours in memory, both times
 * The elements are float16, bfloat16, or codes of 8 bits followed by float scale[token]: element =
 * scale × code. A page of 64 tokens, 8 KV heads of 128 and 32 layers is 8 MiB of halves; one token
 * and head are 256 bytes of K in one piece, and 128 pieces of 2 bytes of V.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "kernels/cuda/cuda_both.h"
#include "kernels/kernels.h"

enum { CUDA_KV_TOKENS = 16, CUDA_KV_DIMS = 16, CUDA_KV_DIM_MAX = 256 };

/* In elements, from the tile's start. */
static inline CUDA_BOTH size_t cuda_kv_k_index(uint32_t head_dim, uint32_t token, uint32_t dim)
{
    return (size_t)token * head_dim + dim;
}

static inline CUDA_BOTH size_t cuda_kv_v_index(uint32_t page_tokens, uint32_t token, uint32_t dim)
{
    return (size_t)dim * page_tokens + token;
}

/* Returns whether elements are codes with a scale for each token and head. */
static inline CUDA_BOTH bool cuda_kv_has_codes(const struct kv_layout *layout)
{
    return layout->type == KV_TYPE_I8 || layout->type == KV_TYPE_FP8;
}

static inline CUDA_BOTH uint32_t cuda_kv_element_bytes(const struct kv_layout *layout)
{
    return cuda_kv_has_codes(layout) ? 1 : 2;
}

/* Returns the byte offset of a tile's scales, where it has them. */
static inline CUDA_BOTH size_t cuda_kv_scales(const struct kv_layout *layout)
{
    return (size_t)layout->page_tokens * layout->head_dim;
}

/* Returns the byte offset in a page of the K tile of a layer and head; V's follows tile_bytes
 * later. */
static inline CUDA_BOTH size_t cuda_kv_tile(const struct kv_layout *layout, uint32_t layer,
                                            uint32_t kv_head)
{
    return layer * layout->layer_bytes + kv_head * 2 * layout->tile_bytes;
}
