#include "kernels/cuda/cuda_backend.cuh"
#include "kernels/cuda/cuda_kv.h"
#include "kernels/cuda/cuda_machine.cuh"
#include "kernels/cuda/cuda_ops.h"

/* Writing into pages, and pages as a whole. */

struct pages_write {
    const float *k;
    const float *v;
    const struct cuda_plan_row *rows;
    const uint32_t *tables;
    char *pages;
    struct kv_layout layout;
    uint32_t row_count;
    uint32_t layer;
};

/* An element of K and of V a thread. */
__global__ void k_kv_write_f16_cuda(struct pages_write call)
{
    const struct kv_layout *layout = &call.layout;
    const uint32_t n = layout->head_dim;
    const size_t i = (size_t)blockIdx.x * CUDA_MACHINE_BLOCK + threadIdx.x;
    const size_t each = (size_t)layout->kv_heads * n; /* of a row */
    if (i >= call.row_count * each)
        return;
    const struct cuda_plan_row row = call.rows[i / each];
    const uint32_t head = (uint32_t)(i % each / n);
    const uint32_t dim = (uint32_t)(i % n);
    const uint32_t token = row.position % layout->page_tokens;
    const uint32_t page = call.tables[row.table + row.position / layout->page_tokens];
    char *tile = call.pages + page * layout->page_bytes + cuda_kv_tile(layout, call.layer, head);
    uint16_t *k = (uint16_t *)tile;
    uint16_t *v = (uint16_t *)(tile + layout->tile_bytes);
    k[cuda_kv_k_index(n, token, dim)] = cuda_machine_half(call.k[i]);
    v[cuda_kv_v_index(layout->page_tokens, token, dim)] = cuda_machine_half(call.v[i]);
}

extern "C" void cuda_kv_write(struct cuda_backend *backend, const struct kv_write_args *args)
{
    const struct kv_layout *layout = args->kv.layout;
    const size_t elements = (size_t)args->rows * layout->kv_heads * layout->head_dim;
    struct pages_write call = {};
    ASSERT(backend->is_failed || args->rows == backend->all.row_count);
    ASSERT(args->layer < layout->layers);
    for (int i = 0; i < KV_WRITE_ROPES; i++)
        if (args->rope[i] != NULL)
            cuda_rope(backend, args->rope[i]);
    call.k = args->k;
    call.v = args->v;
    call.rows = backend->all.rows;
    call.tables = backend->tables;
    call.pages = (char *)args->kv.pages;
    call.layout = *layout;
    call.row_count = args->rows;
    call.layer = args->layer;
    cuda_backend_launch(backend, "kv_write",
                        dim3((unsigned)((elements + CUDA_MACHINE_BLOCK - 1) / CUDA_MACHINE_BLOCK)),
                        CUDA_MACHINE_BLOCK, k_kv_write_f16_cuda, call);
}

struct pages_part {
    char *to;
    const char *from;
    struct kv_layout layout;
    uint32_t tokens;
};

/* A block is one K tile and the V tile behind it. What lies beyond `tokens` stays as it is. */
__global__ void k_kv_copy_f16_cuda(struct pages_part call)
{
    const struct kv_layout *layout = &call.layout;
    const uint32_t n = layout->head_dim;
    const size_t at = (size_t)blockIdx.x * 2 * layout->tile_bytes;
    uint16_t *k = (uint16_t *)(call.to + at);
    uint16_t *v = (uint16_t *)(call.to + at + layout->tile_bytes);
    const uint16_t *from_k = (const uint16_t *)(call.from + at);
    const uint16_t *from_v = (const uint16_t *)(call.from + at + layout->tile_bytes);
    for (uint32_t i = threadIdx.x; i < call.tokens * n; i += CUDA_MACHINE_BLOCK) {
        const size_t value = cuda_kv_v_index(layout->page_tokens, i % call.tokens, i / call.tokens);
        k[i] = from_k[i];
        v[value] = from_v[value];
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
    cuda_backend_launch(backend, "kv_copy", dim3(layout->layers * layout->kv_heads),
                        CUDA_MACHINE_BLOCK, k_kv_copy_f16_cuda, call);
}

extern "C" void cuda_pages_copy(struct cuda_backend *backend, const struct pages_copy_args *args)
{
    struct cuda_plan_run run;
    if (backend->is_failed || args->count == 0)
        return;
    bool is_well =
        cuda_backend_is_well(backend, cudaEventRecord(backend->worked, backend->stream),
                             "pages_copy") &&
        cuda_backend_is_well(backend, cudaStreamWaitEvent(backend->copies, backend->worked, 0),
                             "pages_copy");
    for (uint32_t i = 0; is_well && i < args->count; i += run.count) {
        run = cuda_plan_copy(args, i);
        is_well = cuda_backend_is_well(
            backend,
            cudaMemcpyAsync((char *)args->to + run.to * args->page_bytes,
                            (const char *)args->from + run.from * args->page_bytes,
                            run.count * args->page_bytes, cudaMemcpyDefault, backend->copies),
            "pages_copy");
    }
}

extern "C" enum status cuda_pages_end(struct cuda_backend *backend)
{
    if (!backend->is_failed)
        cuda_backend_is_well(backend, cudaStreamSynchronize(backend->copies), "pages_copy");
    if (backend->is_failed)
        FAIL(STATUS_UNAVAILABLE, "%s", backend->message);
    return STATUS_OK;
}

extern "C" void cuda_pages_wait(struct cuda_backend *backend)
{
    if (!backend->is_failed &&
        cuda_backend_is_well(backend, cudaEventRecord(backend->copied, backend->copies),
                             "pages_copy"))
        cuda_backend_is_well(backend, cudaStreamWaitEvent(backend->stream, backend->copied, 0),
                             "pages_copy");
}
