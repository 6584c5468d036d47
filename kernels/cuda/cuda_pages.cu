#include "kernels/cuda/cuda_backend.cuh"
#include "kernels/cuda/cuda_kv.h"
#include "kernels/cuda/cuda_machine.cuh"
#include "kernels/cuda/cuda_ops.h"
#include "kernels/cuda/cuda_rope.cuh"

/* Writes into pages, and copies parts of them. */

struct pages_write {
    const float *k;
    const float *v;
    const struct cuda_plan_row *rows;
    const uint32_t *tables;
    char *pages;
    struct kv_layout layout;
    uint32_t row_count;
    uint32_t group;
    uint32_t layer;
    struct rope_args keys;    /* x NULL: keys are not rotated here */
    struct rope_args queries; /* rotated in the same launch; heads 0: none */
};

static __device__ float pages_warp_max(float value)
{
    for (int lane = 16; lane > 0; lane /= 2)
        value = fmaxf(value, __shfl_xor_sync(0xffffffffu, value, lane));
    return value;
}

/* Computes the scale of a token and head from its greatest magnitude, and the factor of x. Both as
 * in `ref`. */
template <enum kv_type T>
static __device__ void pages_scale(float max, float *scale, float *factor)
{
    const float least = T == KV_TYPE_FP8 ? 0x1p-118f : 1e-30f;
    *factor = 0;
    *scale = max < least ? 0.0f : NAN;
    if (!(max >= least))
        return;
    if (T == KV_TYPE_FP8) {
        const uint32_t exponent = ((__float_as_uint(max) + 0x1fffffu) >> 23) - 8;
        *factor = __uint_as_float((254 - exponent) << 23);
        *scale = __uint_as_float(exponent << 23);
    } else {
        *factor = 127.0f / max;
        *scale = max / 127.0f;
    }
}

/* Stores an element in the form of the page. Without a factor (all zeros, or a value that is not
 * finite) codes are 0. */
template <enum kv_type T>
static __device__ void pages_store(char *tile, size_t index, float x, float factor)
{
    if (T == KV_TYPE_F16)
        ((uint16_t *)tile)[index] = cuda_machine_half(x);
    else if (T == KV_TYPE_BF16)
        ((uint16_t *)tile)[index] = cuda_machine_bf16(x);
    else if (T == KV_TYPE_FP8)
        tile[index] = factor > 0 ? (char)cuda_machine_e4m3(x * factor) : 0;
    else
        tile[index] = factor > 0 ? (char)(int)rintf(x * factor) : 0;
}

/* A warp takes one head of a row: its keys and values, or its queries. Lanes take dimensions in
 * turn. */
template <enum kv_type T>
__global__ void k_kv_write_cuda(struct pages_write call)
{
    cuda_machine_begin();
    const struct kv_layout *layout = &call.layout;
    const uint32_t n = layout->head_dim;
    const uint32_t lane = threadIdx.x % 32;
    const size_t warp = (size_t)blockIdx.x * (CUDA_MACHINE_BLOCK / 32) + threadIdx.x / 32;
    const uint32_t each = layout->kv_heads + call.queries.heads; /* warps of a row */
    const size_t index = warp / each;
    const uint32_t head = (uint32_t)(warp % each);
    if (index >= call.row_count)
        return;
    const struct cuda_plan_row row = call.rows[index];
    if (row.position == CUDA_PLAN_NONE) /* true for the whole warp or none of it */
        return;
    if (head >= layout->kv_heads) {
        cuda_rope_head(&call.queries, index, head - layout->kv_heads);
        return;
    }
    if (call.keys.x != NULL)
        cuda_rope_head(&call.keys, index, head);
    __syncwarp();
    const uint32_t token = row.position % layout->page_tokens;
    const uint32_t page = call.tables[cuda_plan_entry(&row, call.group, layout->window_units,
                                                      row.position / layout->page_tokens)];
    char *tile = call.pages + page * layout->page_bytes + cuda_kv_tile(layout, call.layer, head);
    for (int is_value = 0; is_value < 2; is_value++, tile += layout->tile_bytes) {
        const float *x = (is_value ? call.v : call.k) + (index * layout->kv_heads + head) * n;
        float factor = 1;
        if (T == KV_TYPE_I8 || T == KV_TYPE_FP8) {
            float max = 0;
            float scale;
            /* a value that is not finite counts as infinite */
            for (uint32_t d = lane; d < n; d += 32)
                max = fabsf(x[d]) < INFINITY ? fmaxf(max, fabsf(x[d])) : INFINITY;
            max = pages_warp_max(max);
            pages_scale<T>(max < INFINITY ? max : NAN, &scale, &factor);
            if (lane == 0)
                ((float *)(tile + cuda_kv_scales(layout)))[token] = scale;
        }
        for (uint32_t d = lane; d < n; d += 32)
            pages_store<T>(tile,
                           is_value ? cuda_kv_v_index(layout->page_tokens, token, d)
                                    : cuda_kv_k_index(n, token, d),
                           x[d], factor);
    }
}

static void (*pages_write_kernel(enum kv_type type))(struct pages_write call)
{
    switch (type) {
    case KV_TYPE_I8:
        return k_kv_write_cuda<KV_TYPE_I8>;
    case KV_TYPE_FP8:
        return k_kv_write_cuda<KV_TYPE_FP8>;
    case KV_TYPE_BF16:
        return k_kv_write_cuda<KV_TYPE_BF16>;
    default:
        return k_kv_write_cuda<KV_TYPE_F16>;
    }
}

extern "C" void cuda_kv_write(struct cuda_backend *backend, const struct kv_write_args *args)
{
    const struct kv_layout *layout = args->kv.layout;
    const struct cuda_step_set *all = &backend->step.sets[CUDA_STEP_ALL];
    struct pages_write call = {};
    ASSERT(backend->is_failed || args->rows == all->rows);
    ASSERT(args->layer < layout->layers);
    ASSERT(args->group <= layout->window_units);
    for (int i = 0; i < KV_WRITE_ROPES; i++)
        if (args->rope[i] != NULL) {
            ASSERT(args->rope[i]->rows == args->rows);
            ASSERT(args->rope[i]->pairs * 2 <= args->rope[i]->head_dim);
            ASSERT(args->rope[i]->x == args->k || call.queries.heads == 0);
            *(args->rope[i]->x == args->k ? &call.keys : &call.queries) = *args->rope[i];
        }
    call.k = args->k;
    call.v = args->v;
    call.rows = all->row;
    call.tables = backend->step.tables;
    call.pages = (char *)args->kv.pages;
    call.layout = *layout;
    call.row_count = args->rows;
    call.group = args->group;
    call.layer = args->layer;
    const size_t threads = (size_t)args->rows * (layout->kv_heads + call.queries.heads) * 32;
    cuda_backend_launch_early(
        backend, "kv_write",
        dim3((unsigned)((threads + CUDA_MACHINE_BLOCK - 1) / CUDA_MACHINE_BLOCK)),
        CUDA_MACHINE_BLOCK, pages_write_kernel(layout->type), call);
}

struct pages_part {
    char *to;
    const char *from;
    struct kv_layout layout;
    uint32_t tokens;
};

/* A block is one K tile and the V tile behind it. Elements beyond `tokens` stay as they are. */
template <typename E>
__global__ void k_kv_copy_cuda(struct pages_part call)
{
    const struct kv_layout *layout = &call.layout;
    const uint32_t n = layout->head_dim;
    char *to = call.to + (size_t)blockIdx.x * layout->head_bytes;
    const char *from = call.from + (size_t)blockIdx.x * layout->head_bytes;
    for (int is_value = 0; is_value < 2; is_value++) {
        for (uint32_t i = threadIdx.x; i < call.tokens * n; i += CUDA_MACHINE_BLOCK) {
            const size_t at =
                is_value ? cuda_kv_v_index(layout->page_tokens, i % call.tokens, i / call.tokens)
                         : i;
            ((E *)to)[at] = ((const E *)from)[at];
        }
        if (cuda_kv_has_codes(layout))
            for (uint32_t t = threadIdx.x; t < call.tokens; t += CUDA_MACHINE_BLOCK)
                ((float *)(to + cuda_kv_scales(layout)))[t] =
                    ((const float *)(from + cuda_kv_scales(layout)))[t];
        to += layout->tile_bytes;
        from += layout->tile_bytes;
    }
}

extern "C" void cuda_kv_copy(struct cuda_backend *backend, const struct kv_layout *layout,
                             void *to_page, const void *from_page, uint32_t tokens)
{
    struct pages_part call = {};
    ASSERT(tokens <= layout->page_tokens);
    call.to = (char *)to_page;
    call.from = (const char *)from_page;
    call.layout = *layout;
    call.tokens = tokens;
    cuda_backend_launch(
        backend, "kv_copy", dim3(layout->layers * layout->kv_heads), CUDA_MACHINE_BLOCK,
        cuda_kv_has_codes(layout) ? k_kv_copy_cuda<uint8_t> : k_kv_copy_cuda<uint16_t>, call);
}
