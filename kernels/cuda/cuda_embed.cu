#include "kernels/cuda/cuda_backend.cuh"
#include "kernels/cuda/cuda_machine.cuh"
#include "kernels/cuda/cuda_ops.h"
#include "kernels/cuda/cuda_weight.h"

/* Reads rows of the embedding table from the form in which the output layer reads the same weight.
 */

struct embed_call {
    const unsigned char *packed;
    struct cuda_weight_form form;
    const uint32_t *tokens;
    float *out;
    uint32_t rows;
    uint32_t cols;
    float scale;
};

static __device__ float embed_half(const struct cuda_weight_form *form, const void *at)
{
    const uint16_t bits = *(const uint16_t *)at;
    return form->is_bf16 ? cuda_machine_bf16_float(bits) : cuda_machine_half_float(bits);
}

static __device__ float embed_element(const struct embed_call *call, uint32_t token, uint32_t col)
{
    const struct cuda_weight_form *form = &call->form;
    /* index of its tile's first part */
    const size_t first = (size_t)(token / CUDA_WEIGHT_TILE) * form->parts;
    const uint32_t row = token % CUDA_WEIGHT_TILE;
    const unsigned char *codes = call->packed + CUDA_WEIGHT_HEAD + first * form->codes_bytes;
    const unsigned char *factor = call->packed + form->factors_at +
                                  first / form->group * form->factors_bytes +
                                  cuda_weight_factor(form, row, col);
    const size_t place = cuda_weight_place(form, row, col);
    float code;
    if (form->bits == 32)
        return *(const float *)(codes + place);
    if (form->bits == 16)
        return embed_half(form, codes + place);
    if (form->bits == 8)
        code = (float)codes[place] - 128;
    else
        code = (float)(codes[place / 2] >> 4 * (place % 2) & 15) - (form->has_m ? 0 : 8);
    const float unscale = *(const float *)call->packed;
    const float value = embed_half(form, factor) * code;
    return (form->has_m ? value + embed_half(form, factor + 2) : value) * unscale;
}

__global__ void k_embed_f32_cuda(struct embed_call call)
{
    cuda_machine_begin();
    const size_t i = (size_t)blockIdx.x * CUDA_MACHINE_BLOCK + threadIdx.x;
    if (i < (size_t)call.rows * call.cols)
        call.out[i] = embed_element(&call, call.tokens[i / call.cols], (uint32_t)(i % call.cols)) *
                      call.scale;
}

extern "C" void cuda_embed(struct cuda_backend *backend, const struct embed_args *args)
{
    const struct weight *table = args->table;
    const size_t elements = (size_t)args->rows * table->cols;
    struct embed_call call = {};
    if (cuda_weight_form(&call.form, table->type, table->rows, table->cols, table->group) !=
        STATUS_OK)
        return; /* such a weight was never created */
    call.packed = (const unsigned char *)table->packed;
    call.tokens = args->tokens;
    call.out = args->out;
    call.rows = args->rows;
    call.cols = table->cols;
    call.scale = args->scale != 0 ? args->scale : 1;
    cuda_backend_launch_early(
        backend, "embed",
        dim3((unsigned)((elements + CUDA_MACHINE_BLOCK - 1) / CUDA_MACHINE_BLOCK)),
        CUDA_MACHINE_BLOCK, k_embed_f32_cuda, call);
}
