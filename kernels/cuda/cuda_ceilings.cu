#include "kernels/cuda/cuda_ceilings.h"

#include "kernels/cuda/cuda_backend.cuh"
#include "kernels/cuda/cuda_machine.cuh"

enum {
    CEILINGS_THREADS = 256,
    CEILINGS_BLOCKS = 4, /* of a multiprocessor */
    CEILINGS_SUMS = 8,   /* of a warp, independent of each other */
    CEILINGS_RUNS = 5
};

struct ceilings_call {
    float *out; /* one float, written so that nothing is optimised away */
    uint32_t rounds;
};

__global__ void k_ceilings_bf16_cuda(struct ceilings_call call)
{
    /* Different numbers near 1: products of zeros take less power. */
    const uint32_t a[4] = {0x3f803f81u + threadIdx.x, 0x3f823f83u, 0x3f843f85u, 0x3f863f87u};
    const uint32_t b[2] = {0xbf803f81u, 0x3f82bf83u + threadIdx.x};
    float sums[CEILINGS_SUMS][4] = {};
    for (uint32_t round = 0; round < call.rounds; round++)
#pragma unroll
        for (int i = 0; i < CEILINGS_SUMS; i++)
            cuda_machine_mma_bf16(sums[i], a, b);
    float sum = 0;
    for (int i = 0; i < CEILINGS_SUMS; i++)
        sum += sums[i][0] + sums[i][1] + sums[i][2] + sums[i][3];
    if (sum == 1.5f)
        *call.out = sum;
}

static enum status ceilings_copy(struct cuda_backend *backend, char *memory, size_t bytes,
                                 double *gbps)
{
    for (int run = 0; run <= CEILINGS_RUNS; run++) { /* the first run warms up */
        enum { COPIES = 8 };
        const double begin = cuda_backend_seconds();
        for (int i = 0; i < COPIES; i++)
            cuda_backend_is_well(backend,
                                 cudaMemcpyAsync(memory + (i % 2 == 0 ? bytes : 0),
                                                 memory + (i % 2 == 0 ? 0 : bytes), bytes,
                                                 cudaMemcpyDefault, backend->stream),
                                 "copy");
        TRY(cuda_backend_end(backend));
        const double rate =
            2.0 * COPIES * (double)bytes / (cuda_backend_seconds() - begin + 1e-9) / 1e9;
        if (run > 0 && rate > *gbps)
            *gbps = rate;
    }
    return STATUS_OK;
}

/* Doubles the rounds until a launch takes 5 ms. */
static enum status ceilings_products(struct cuda_backend *backend, float *out, double *gflops)
{
    const uint32_t blocks = CEILINGS_BLOCKS * backend->processors;
    double seconds = 0;
    for (uint32_t rounds = 1; seconds < 5e-3 && rounds < 1u << 22; rounds *= 2) {
        const struct ceilings_call call = {out, rounds};
        const double begin = cuda_backend_seconds();
        cuda_backend_launch(backend, "products", dim3(blocks), CEILINGS_THREADS,
                            k_ceilings_bf16_cuda, call);
        TRY(cuda_backend_end(backend));
        seconds = cuda_backend_seconds() - begin + 1e-9;
        const double rate = 2.0 * 16 * 8 * 16 * CEILINGS_SUMS * rounds * blocks *
                            (CEILINGS_THREADS / 32) / seconds / 1e9;
        if (rate > *gflops)
            *gflops = rate;
    }
    return STATUS_OK;
}

extern "C" enum status cuda_ceilings(struct cuda_backend *backend, size_t bytes,
                                     struct kernels_ceilings *out)
{
    void *memory;
    TRY(cuda_backend_alloc(backend, &memory, 2 * bytes, "a copy to measure"));
    enum status status = ceilings_copy(backend, (char *)memory, bytes, &out->read_gbps_dram);
    if (status == STATUS_OK)
        status = ceilings_products(backend, (float *)memory, &out->f32_gflops);
    if (out->read_gbps_dram > out->read_gbps_model)
        out->read_gbps_model = out->read_gbps_dram;
    cuda_backend_free_apart(memory);
    return status;
}
