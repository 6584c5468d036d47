#include "kernels/cuda/cuda_attention.cuh"

void cuda_attention_bf16(struct cuda_backend *backend, struct attention_call *call, uint32_t works)
{
    attention_launch<KV_TYPE_BF16>(backend, call, works);
}
