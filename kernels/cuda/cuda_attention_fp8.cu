#include "kernels/cuda/cuda_attention.cuh"

void cuda_attention_fp8(struct cuda_backend *backend, struct attention_call *call, uint32_t works)
{
    attention_launch<KV_TYPE_FP8>(backend, call, works);
}
