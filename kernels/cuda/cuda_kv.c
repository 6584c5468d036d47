#include "kernels/cuda/cuda_kv.h"

#include "config/base/limits.h"
#include "kernels/cuda/cuda_ops.h"

enum status cuda_kv_layout(enum kv_type type, uint32_t page_tokens, uint32_t layers,
                           uint32_t kv_heads, uint32_t head_dim, struct kv_layout *out)
{
    if (type == KV_TYPE_F32 || kernels_kv_has_groups(type))
        FAIL(STATUS_UNSUPPORTED, "the kernels for CUDA have no KV pages of type %s",
             kernels_kv_type_name(type));
    if (page_tokens < CUDA_KV_TOKENS || page_tokens > LIMIT_PAGE_TOKENS ||
        page_tokens % CUDA_KV_TOKENS != 0)
        FAIL(STATUS_UNSUPPORTED, "pages of %u tokens; multiples of %d up to %d are supported",
             page_tokens, CUDA_KV_TOKENS, LIMIT_PAGE_TOKENS);
    if (head_dim < CUDA_KV_DIMS || head_dim > CUDA_KV_DIM_MAX || head_dim % CUDA_KV_DIMS != 0)
        FAIL(STATUS_UNSUPPORTED,
             "heads of %u dimensions; the kernels for CUDA support multiples of %d up to %d",
             head_dim, CUDA_KV_DIMS, CUDA_KV_DIM_MAX);
    if (layers < 1 || layers > LIMIT_LAYERS || kv_heads < 1 || kv_heads > LIMIT_HEADS)
        FAIL(STATUS_UNSUPPORTED, "%u layers of %u KV heads; up to %d of %d are supported", layers,
             kv_heads, LIMIT_LAYERS, LIMIT_HEADS);
    struct kv_layout layout = {.type = type,
                               .page_tokens = page_tokens,
                               .layers = layers,
                               .kv_heads = kv_heads,
                               .head_dim = head_dim};
    layout.tile_bytes = (size_t)page_tokens * head_dim * cuda_kv_element_bytes(&layout);
    if (cuda_kv_has_codes(&layout))
        layout.tile_bytes += page_tokens * sizeof(float);
    layout.head_bytes = 2 * layout.tile_bytes;
    layout.layer_bytes = layout.head_bytes * kv_heads;
    layout.page_bytes = layout.layer_bytes * layers;
    *out = layout;
    return STATUS_OK;
}
