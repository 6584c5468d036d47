#include "kernels/cuda/cuda_act.cuh"
#include "kernels/cuda/cuda_backend.cuh"
#include "kernels/cuda/cuda_machine.cuh"
#include "kernels/cuda/cuda_ops.h"
#include "kernels/cuda/cuda_rope.cuh"

/* Operations on independent rows or elements. A block of CUDA_MACHINE_BLOCK threads is one row
 * where the row is summed; otherwise each thread is one element. */

static dim3 rows_blocks(size_t elements)
{
    return dim3((unsigned)((elements + CUDA_MACHINE_BLOCK - 1) / CUDA_MACHINE_BLOCK));
}

static __device__ size_t rows_element()
{
    return (size_t)blockIdx.x * CUDA_MACHINE_BLOCK + threadIdx.x;
}

__global__ void k_norm_f32_cuda(struct norm_args args)
{
    cuda_machine_begin();
    const float *x = args.x + (size_t)blockIdx.x * args.cols;
    float *y = args.y + (size_t)blockIdx.x * args.cols;
    const struct cuda_act_norm norm = cuda_act_norm_of(args.kind, x, args.cols, args.epsilon);
    for (uint32_t i = threadIdx.x; i < args.cols; i += CUDA_MACHINE_BLOCK) {
        const float value = cuda_act_normed(args.kind, norm, x[i], args.weight[i],
                                            args.bias != NULL ? args.bias + i : NULL);
        y[i] = args.accumulate ? y[i] + value : value;
    }
}

extern "C" void cuda_norm(struct cuda_backend *backend, const struct norm_args *args)
{
    ASSERT(args->bias == NULL || args->kind == NORM_LAYER);
    ASSERT(!args->accumulate || args->x != args->y);
    cuda_backend_launch_early(backend, args->accumulate ? "norm_add" : "norm", dim3(args->rows),
                              CUDA_MACHINE_BLOCK, k_norm_f32_cuda, *args);
}

/* As in kernels/cpu/ops: the angle is a float32 product, its cosine rounded once from double. */
__global__ void k_rope_table_f32_cuda(struct rope_table_args args)
{
    cuda_machine_begin();
    const size_t i = rows_element();
    if (i >= (size_t)args.rows * args.pairs)
        return;
    const float angle = (float)args.positions[i / args.pairs] * args.frequencies[i % args.pairs];
    const double factor = args.factor != 0 ? (double)args.factor : 1;
    args.table[2 * i] = (float)(cos((double)angle) * factor);
    args.table[2 * i + 1] = (float)(sin((double)angle) * factor);
}

extern "C" void cuda_rope_table(struct cuda_backend *backend, const struct rope_table_args *args)
{
    cuda_backend_launch_early(backend, "rope_table", rows_blocks((size_t)args->rows * args->pairs),
                              CUDA_MACHINE_BLOCK, k_rope_table_f32_cuda, *args);
}

/* A warp is one head of a row. */
__global__ void k_rope_f32_cuda(struct rope_args args)
{
    cuda_machine_begin();
    const size_t head = (size_t)blockIdx.x * (CUDA_MACHINE_BLOCK / 32) + threadIdx.x / 32;
    if (head < (size_t)args.rows * args.heads)
        cuda_rope_head(&args, head / args.heads, (uint32_t)(head % args.heads));
}

extern "C" void cuda_rope(struct cuda_backend *backend, const struct rope_args *args)
{
    ASSERT(args->pairs * 2 <= args->head_dim);
    cuda_backend_launch_early(backend, "rope", rows_blocks((size_t)args->rows * args->heads * 32),
                              CUDA_MACHINE_BLOCK, k_rope_f32_cuda, *args);
}

__global__ void k_act_f32_cuda(struct act_args args)
{
    cuda_machine_begin();
    const size_t i = rows_element();
    if (i < (size_t)args.rows * args.cols)
        args.x[i] = cuda_act_of(args.kind, args.x[i], args.up != NULL ? args.up[i] : 1);
}

extern "C" void cuda_act(struct cuda_backend *backend, const struct act_args *args)
{
    ASSERT(args->kind != ACT_NONE);
    ASSERT(!kernels_act_takes_two(args->kind) || args->up != NULL);
    cuda_backend_launch_early(backend, "act", rows_blocks((size_t)args->rows * args->cols),
                              CUDA_MACHINE_BLOCK, k_act_f32_cuda, *args);
}

__global__ void k_softcap_f32_cuda(struct softcap_args args)
{
    cuda_machine_begin();
    const size_t i = rows_element();
    if (i < (size_t)args.rows * args.cols)
        args.x[i] = args.cap * tanhf(args.x[i] / args.cap);
}

extern "C" void cuda_softcap(struct cuda_backend *backend, const struct softcap_args *args)
{
    ASSERT(args->cap > 0);
    cuda_backend_launch_early(backend, "softcap", rows_blocks((size_t)args->rows * args->cols),
                              CUDA_MACHINE_BLOCK, k_softcap_f32_cuda, *args);
}

__global__ void k_gather_f32_cuda(struct gather_args args)
{
    cuda_machine_begin();
    const size_t i = rows_element();
    if (i < (size_t)args.rows * args.cols)
        args.to[i] = args.from[(size_t)args.order[i / args.cols] * args.cols + i % args.cols];
}

extern "C" void cuda_gather(struct cuda_backend *backend, const struct gather_args *args)
{
    cuda_backend_launch_early(backend, "gather", rows_blocks((size_t)args->rows * args->cols),
                              CUDA_MACHINE_BLOCK, k_gather_f32_cuda, *args);
}

struct rows_logits {
    const float *logits;
    uint32_t vocab;
    struct logits_stats *out;
};

/* Finds the greatest value and its first index; of two equal ones the lower index wins. */
static __device__ void logits_greatest(const float *x, uint32_t vocab, float *max, uint32_t *argmax)
{
    __shared__ float values[CUDA_MACHINE_BLOCK];
    __shared__ uint32_t indexes[CUDA_MACHINE_BLOCK];
    const uint32_t me = threadIdx.x;
    float value = -INFINITY;
    uint32_t index = UINT32_MAX; /* stays so in a thread that saw nothing greater */
    for (uint32_t i = me; i < vocab; i += CUDA_MACHINE_BLOCK)
        if (x[i] > value) {
            value = x[i];
            index = i;
        }
    values[me] = value;
    indexes[me] = index;
    __syncthreads();
    for (uint32_t half = CUDA_MACHINE_BLOCK / 2; half > 0; half /= 2) {
        if (me < half) {
            const float other = values[me + half];
            const uint32_t at = indexes[me + half];
            if (other > values[me] || (other == values[me] && at < indexes[me])) {
                values[me] = other;
                indexes[me] = at;
            }
        }
        __syncthreads();
    }
    *max = values[0];
    *argmax = indexes[0] == UINT32_MAX ? 0 : indexes[0];
}

__global__ void k_logits_stats_f32_cuda(struct rows_logits call)
{
    cuda_machine_begin();
    const float *x = call.logits + (size_t)blockIdx.x * call.vocab;
    float max;
    uint32_t argmax;
    float sum = 0;
    logits_greatest(x, call.vocab, &max, &argmax);
    for (uint32_t i = threadIdx.x; i < call.vocab; i += CUDA_MACHINE_BLOCK)
        sum += expf(x[i] - max);
    sum = cuda_machine_block_sum(sum);
    if (threadIdx.x != 0)
        return;
    struct logits_stats *out = call.out + blockIdx.x;
    out->max = max;
    out->argmax = argmax;
    out->log_sum_exp = (float)((double)max + log((double)sum));
}

extern "C" void cuda_logits_stats(struct cuda_backend *backend, const float *logits, uint32_t rows,
                                  uint32_t vocab, struct logits_stats *out)
{
    const struct rows_logits call = {logits, vocab, out};
    cuda_backend_launch_early(backend, "logits_stats", dim3(rows), CUDA_MACHINE_BLOCK,
                              k_logits_stats_f32_cuda, call);
}
