/* simt_kernels: all of kernels/cuda as plain C++, over simt. The names of a file begin with the
 * file's name, so that one translation unit can hold them all. */
#include "kernels/cuda/cuda_attention.cu"
#include "kernels/cuda/cuda_attention_bf16.cu"
#include "kernels/cuda/cuda_attention_f16.cu"
#include "kernels/cuda/cuda_attention_fp8.cu"
#include "kernels/cuda/cuda_attention_i8.cu"
#include "kernels/cuda/cuda_backend_weight.cu"
#include "kernels/cuda/cuda_ceilings.cu"
#include "kernels/cuda/cuda_copies.cu"
#include "kernels/cuda/cuda_device.cu"
#include "kernels/cuda/cuda_draw.cu"
#include "kernels/cuda/cuda_embed.cu"
#include "kernels/cuda/cuda_experts.cu"
#include "kernels/cuda/cuda_gap.cu"
#include "kernels/cuda/cuda_graph.cu"
#include "kernels/cuda/cuda_linear.cu"
#include "kernels/cuda/cuda_linear_few.cu"
#include "kernels/cuda/cuda_linear_tile.cu"
#include "kernels/cuda/cuda_open.cu"
#include "kernels/cuda/cuda_pages.cu"
#include "kernels/cuda/cuda_route.cu"
#include "kernels/cuda/cuda_rows.cu"
#include "kernels/cuda/cuda_step.cu"

/* Called by cuda_nccl only. */
static inline cudaError_t cudaMemcpy2DAsync(void *to, size_t to_pitch, const void *from,
                                            size_t from_pitch, size_t width, size_t height,
                                            cudaMemcpyKind, cudaStream_t)
{
    return simt_work(&simt_counts.copies, [=] {
        for (size_t row = 0; row < height; row++)
            memcpy((char *)to + row * to_pitch, (const char *)from + row * from_pitch, width);
    });
}

static inline cudaError_t cudaStreamQuery(cudaStream_t)
{
    return simt_call(&simt_counts.others);
}

#include "tests/kit/simt/simt_nccl.h"
#define dlopen  simt_nccl_open
#define dlsym   simt_nccl_symbol
#define dlclose simt_nccl_close
#include "kernels/cuda/cuda_nccl.cu"
