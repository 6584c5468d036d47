#include "kernels/cuda/cuda_attention.cuh"

/* A block of 32 threads folds one query of a row whose segments left their states in memory. */
__global__ void k_attention_fold_f32_cuda(struct attention_call call)
{
    cuda_machine_begin();
    const uint32_t n = call.layout.head_dim;
    const uint32_t entry = blockIdx.x / call.heads;
    const uint32_t head = blockIdx.x % call.heads;
    if (entry >= call.tiles->rows)
        return;
    const struct cuda_tiles_row row = cuda_tiles_rows(call.tiles)[entry];
    if (row.states == CUDA_TILES_NONE)
        return;
    const uint32_t keys = call.rows[row.row].position + 1;
    const uint32_t hidden = call.window > 0 && keys > call.window ? keys - call.window : 0;
    const uint32_t segments = (keys + CUDA_PLAN_SEGMENT - 1) / CUDA_PLAN_SEGMENT;
    float mean[CUDA_KV_DIM_MAX / 32] = {};
    float max = -INFINITY;
    float sum = 0;
#pragma unroll 4
    for (uint32_t segment = hidden / CUDA_PLAN_SEGMENT; segment < segments; segment++) {
        const float *partial = attention_partial(&call, &row, segment, head);
        float before;
        float of;
        attention_fold(&max, &sum, partial[0], partial[1], &before, &of);
#pragma unroll
        for (uint32_t i = 0; i < CUDA_KV_DIM_MAX / 32; i++)
            if (threadIdx.x + 32 * i < n)
                mean[i] =
                    fmaf(partial[CUDA_TILES_STATE + threadIdx.x + 32 * i], of, mean[i] * before);
    }
    const float factor = attention_factor(&call, head, max, sum);
    float *out = call.out + ((size_t)row.row * call.heads + head) * n;
#pragma unroll
    for (uint32_t i = 0; i < CUDA_KV_DIM_MAX / 32; i++)
        if (threadIdx.x + 32 * i < n)
            out[threadIdx.x + 32 * i] = mean[i] * factor;
}

extern "C" enum status cuda_attention_fits(const struct cuda_backend *backend,
                                           const struct kv_layout *layout)
{
    const size_t bytes = layout->head_dim <= 32   ? attention_bytes<32>(layout->type, 1)
                         : layout->head_dim <= 64 ? attention_bytes<64>(layout->type, 1)
                         : layout->head_dim <= 128
                             ? attention_bytes<128>(layout->type, 1)
                             : attention_bytes<CUDA_KV_DIM_MAX>(layout->type, 1);
    if (bytes > backend->shared_most)
        FAIL(STATUS_UNSUPPORTED,
             "attention over heads of %u dimensions stored as %s needs %zu bytes of a block's "
             "shared memory; the device has %zu",
             layout->head_dim, kernels_kv_type_name(layout->type), bytes, backend->shared_most);
    return STATUS_OK;
}

extern "C" void cuda_attention(struct cuda_backend *backend, const struct attention_args *args)
{
    const struct kv_layout *layout = args->kv.layout;
    const struct cuda_step_set *of =
        &backend->step.sets[args->is_wanted ? CUDA_STEP_WANTED : CUDA_STEP_ALL];
    const uint32_t *windows = backend->step.window;
    const bool is_second = windows[1] > 0 && args->window == windows[1];
    const struct cuda_step_plan *plan = &of->plans[is_second ? 1 : 0];
    struct attention_call call = {};
    ASSERT(backend->is_failed || args->rows == of->rows);
    ASSERT(backend->is_failed || args->heads == backend->step.heads);
    ASSERT(args->heads % layout->kv_heads == 0);
    ASSERT(args->heads / layout->kv_heads >= 1);
    ASSERT(args->heads / layout->kv_heads <= CUDA_PLAN_QUERIES);
    ASSERT(args->layer < layout->layers);
    ASSERT(backend->is_failed || is_second || windows[0] == 0 ||
           (args->window > 0 && args->window <= windows[0]));
    ASSERT(args->group <= layout->window_units);
    ASSERT(backend->is_failed || args->group == 0 || is_second);
    if (args->rows == 0)
        return;
    call.q = args->q;
    call.out = args->out;
    call.tiles = plan->tiles;
    call.rows = of->row;
    call.tables = backend->step.tables;
    call.pages = (const char *)args->kv.pages;
    call.sinks = args->sinks;
    call.partials = backend->partials;
    call.layout = *layout;
    call.heads = args->heads;
    call.group = args->heads / layout->kv_heads;
    call.unit = args->group;
    call.layer = args->layer;
    call.window = args->window;
    call.scale = args->scale * ATTENTION_LOG2E;
    call.softcap = args->softcap * ATTENTION_LOG2E;
    call.page_factor = (uint32_t)((1ull << 32) / layout->page_tokens) + 1;
    switch (layout->type) {
    case KV_TYPE_I8:
        cuda_attention_i8(backend, &call, plan->works);
        break;
    case KV_TYPE_FP8:
        cuda_attention_fp8(backend, &call, plan->works);
        break;
    case KV_TYPE_BF16:
        cuda_attention_bf16(backend, &call, plan->works);
        break;
    default:
        cuda_attention_f16(backend, &call, plan->works);
        break;
    }
    if (plan->has_states)
        cuda_backend_launch_early(backend, "attention", dim3(args->rows * args->heads), 32,
                                  k_attention_fold_f32_cuda, call);
}
