#include "kernels/cuda/cuda_linear_lt.cuh"

#ifdef BANYAN_CUBLAS

#include <cublasLt.h>
#include <stdio.h>

#include "config/base/mem.h"
#include "kernels/cuda/cuda_weight.h"

enum {
    /* a model's shapes × buckets of rows; a colliding plan replaces the older one */
    LT_PLANS = 256,
    LT_WORKSPACE_BYTES = 32 << 20 /* NVIDIA's advice for sm_90 */
};

struct lt_plan {
    uint32_t outputs;
    uint32_t cols;
    uint32_t rows; /* 0: none */
    bool is_bf16;
    bool accumulate;
    cublasLtMatmulAlgo_t algo;
};

struct cuda_linear_lt {
    cublasLtHandle_t handle;
    void *workspace;
    struct lt_plan plans[LT_PLANS];
};

/* The descriptors of one call. */
struct lt_call {
    cublasLtMatmulDescOpaque_t product;
    cublasLtMatrixLayoutOpaque_t w, x, y;
};

/* As cuda_backend_is_well; a failure during a capture fails the capture alone. */
static bool lt_is_well(struct cuda_backend *backend, cublasStatus_t status)
{
    if (status != CUBLAS_STATUS_SUCCESS && backend->graphs.is_capturing)
        return cuda_backend_is_well(backend, cudaErrorStreamCaptureInvalidated, "cuBLASLt");
    if (status != CUBLAS_STATUS_SUCCESS && !backend->is_failed) {
        backend->is_failed = true;
        snprintf(backend->message, sizeof backend->message, "CUDA device %d: cuBLASLt: %s",
                 backend->options.device, cublasLtGetStatusString(status));
    }
    return !backend->is_failed;
}

enum status cuda_linear_lt_open(struct cuda_backend *backend)
{
    if (!backend->options.is_free)
        return STATUS_OK;
    backend->lt = (struct cuda_linear_lt *)mem_zalloc(1, sizeof *backend->lt);
    if (backend->lt == NULL)
        FAIL(STATUS_NO_MEMORY, "no memory for the CUDA kernels");
    if (!lt_is_well(backend, cublasLtCreate(&backend->lt->handle)))
        FAIL(STATUS_UNAVAILABLE, "%s", backend->message);
    return cuda_backend_alloc(backend, &backend->lt->workspace, LT_WORKSPACE_BYTES,
                              "cuBLASLt's workspace");
}

void cuda_linear_lt_close(struct cuda_backend *backend)
{
    if (backend->lt == NULL)
        return;
    cuda_backend_free(backend, backend->lt->workspace);
    if (backend->lt->handle != NULL)
        (void)cublasLtDestroy(backend->lt->handle);
    mem_free(backend->lt);
    backend->lt = NULL;
}

/* cuBLASLt counts by columns, so both inputs are the transposed matrices: y [outputs][rows] = w of
 * [cols][outputs], transposed, × x of [cols][rows]. */
static bool lt_describe(struct cuda_backend *backend, const struct lt_plan *plan,
                        struct lt_call *call)
{
    const cudaDataType type = plan->is_bf16 ? CUDA_R_16BF : CUDA_R_16F;
    const cublasOperation_t turned = CUBLAS_OP_T;
    return lt_is_well(backend,
                      cublasLtMatmulDescInit(&call->product, CUBLAS_COMPUTE_32F, CUDA_R_32F)) &&
           lt_is_well(backend,
                      cublasLtMatmulDescSetAttribute(&call->product, CUBLASLT_MATMUL_DESC_TRANSA,
                                                     &turned, sizeof turned)) &&
           lt_is_well(backend, cublasLtMatrixLayoutInit(&call->w, type, plan->cols, plan->outputs,
                                                        plan->cols)) &&
           lt_is_well(backend, cublasLtMatrixLayoutInit(&call->x, type, plan->cols, plan->rows,
                                                        plan->cols)) &&
           lt_is_well(backend, cublasLtMatrixLayoutInit(&call->y, CUDA_R_32F, plan->outputs,
                                                        plan->rows, plan->outputs));
}

static bool lt_choose(struct cuda_backend *backend, struct lt_plan *plan, struct lt_call *call)
{
    const size_t bytes = LT_WORKSPACE_BYTES;
    cublasLtMatmulPreferenceOpaque_t preference;
    cublasLtMatmulHeuristicResult_t result;
    int count = 0;
    if (!lt_is_well(backend, cublasLtMatmulPreferenceInit(&preference)) ||
        !lt_is_well(backend, cublasLtMatmulPreferenceSetAttribute(
                                 &preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &bytes,
                                 sizeof bytes)) ||
        !lt_is_well(backend, cublasLtMatmulAlgoGetHeuristic(backend->lt->handle, &call->product,
                                                            &call->w, &call->x, &call->y, &call->y,
                                                            &preference, 1, &result, &count)))
        return false;
    if (count < 1)
        return lt_is_well(backend, CUBLAS_STATUS_NOT_SUPPORTED);
    plan->algo = result.algo;
    return true;
}

static bool lt_is_same(const struct lt_plan *a, const struct lt_plan *b)
{
    return a->outputs == b->outputs && a->cols == b->cols && a->rows == b->rows &&
           a->is_bf16 == b->is_bf16 && a->accumulate == b->accumulate;
}

void cuda_linear_lt(struct cuda_backend *backend, const struct weight *weight, uint32_t parts,
                    uint32_t rows, float *y, bool accumulate)
{
    struct lt_plan wanted = {};
    struct lt_call call;
    wanted.outputs = weight->rows;
    wanted.cols = parts * CUDA_WEIGHT_PART;
    wanted.rows = rows;
    wanted.is_bf16 = weight->type->id == TENSOR_TYPE_bf16;
    wanted.accumulate = accumulate;
    struct lt_plan *plan =
        &backend->lt
             ->plans[(wanted.outputs * 31 + wanted.cols * 17 + rows * 2 + accumulate) % LT_PLANS];
    if (backend->is_failed || !lt_describe(backend, &wanted, &call))
        return;
    if (!lt_is_same(plan, &wanted)) {
        if (!lt_choose(backend, &wanted, &call))
            return;
        *plan = wanted;
    }
    const float alpha = wanted.is_bf16 ? 1 : CUDA_LINEAR_LT_SCALE;
    const float beta = accumulate ? 1 : 0;
    lt_is_well(backend,
               cublasLtMatmul(backend->lt->handle, &call.product, &alpha,
                              (const char *)weight->packed + CUDA_WEIGHT_HEAD, &call.w,
                              backend->input, &call.x, &beta, y, &call.y, y, &call.y, &plan->algo,
                              backend->lt->workspace, LT_WORKSPACE_BYTES, backend->stream));
}

#endif
