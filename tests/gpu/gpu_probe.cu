/* gpu_probe: compares sums of the matrix instructions of an sm_90: where they cut terms off,
 * whether wgmma (HGMMA) gives the bits of m16n8k16 (HMMA), and which algorithms of cuBLASLt do.
 *
 * usage: gpu_probe [--json FILE] --json  appends one line for each figure to FILE
 *
 * Prints one line for each variant: how many results differ in bits from a chain of m16n8k16 over
 * rising inputs, and the worst error of either against sums in double. Where wgmma's errors are far
 * above the chain's, this program lays its inputs out wrongly; the line then says so instead of
 * counting bits. Exits with 0, with 1 when a call fails, or with 77 without a device of sm_90. */
#include <cuda_runtime.h>
#include <math.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/cuda/cuda_machine.cuh"
#include "kernels/types/half.h"
#include "tests/gpu/gpu_wgmma.h"
#ifdef BANYAN_CUBLAS
#include <cublasLt.h>
#endif

enum {
    NO_DEVICE = 77,
    PROBE_OUTPUTS = 64, /* rows of A in one wgmma */
    PROBE_COLS_MAX = 256,
    PROBE_INPUTS = 4096,
    PROBE_STEP = 16,
    PROBE_PLACES_MAX = 40
};

static FILE *json;

static void probe_must(cudaError_t error, const char *what)
{
    if (error == cudaSuccess)
        return;
    fprintf(stderr, "gpu_probe: %s: %s\n", what, cudaGetErrorString(error));
    exit(1);
}

/* Prints one figure, and appends it to the file of --json. */
__attribute__((format(printf, 3, 4))) static void probe_figure(double value, const char *unit,
                                                               const char *name, ...)
{
    char text[128];
    va_list arguments;
    va_start(arguments, name);
    vsnprintf(text, sizeof text, name, arguments);
    va_end(arguments);
    printf("%-64s %12.6g %s\n", text, value, unit);
    if (json != NULL)
        fprintf(json, "{\"name\": \"%s\", \"value\": %.6g, \"unit\": \"%s\"}\n", text, value, unit);
    fflush(NULL);
}

/* --- the chain of m16n8k16: a warp computes 16 outputs × 8 columns --- */

struct probe_call {
    const uint16_t *a; /* [outputs][inputs] */
    const uint16_t *b; /* [columns][inputs] */
    float *out;        /* [columns][outputs] */
    uint32_t outputs;
    uint32_t inputs;
    bool is_bf16;
};

static __device__ uint32_t probe_two(const uint16_t *at)
{
    return *(const uint32_t *)at;
}

/* Loads the A side of an m16n8k16 or of a wgmma, from `row` on. */
static __device__ void probe_a(const struct probe_call *call, uint32_t row, uint32_t k, uint32_t *a)
{
    for (uint32_t i = 0; i < 4; i++) {
        const struct gpu_wgmma_place place = gpu_wgmma_of_a(threadIdx.x, i);
        a[i] = probe_two(call->a + (size_t)(row + place.row) * call->inputs + k + place.column);
    }
}

/* Stores a thread's sums: 4 of an m16n8k16, N / 2 of a wgmma. */
template <int COUNT>
static __device__ void probe_store(const struct probe_call *call, uint32_t row, uint32_t column,
                                   const float *sum)
{
#pragma unroll
    for (uint32_t i = 0; i < COUNT; i++) {
        const struct gpu_wgmma_place place = gpu_wgmma_of_sum(threadIdx.x, i);
        call->out[(size_t)(column + place.column) * call->outputs + row + place.row] = sum[i];
    }
}

__global__ void k_probe_chain_cuda(struct probe_call call)
{
    const uint32_t lane = threadIdx.x % 32;
    const uint32_t row = blockIdx.x * 16;
    const uint32_t column = blockIdx.y * 8;
    const uint16_t *at = call.b + (size_t)(column + lane / 4) * call.inputs + lane % 4 * 2;
    float sum[4] = {0, 0, 0, 0};
    for (uint32_t k = 0; k < call.inputs; k += PROBE_STEP) {
        uint32_t a[4];
        const uint32_t b[2] = {probe_two(at + k), probe_two(at + k + 8)};
        probe_a(&call, row, k, a);
        if (call.is_bf16)
            cuda_machine_mma_bf16(sum, a, b);
        else
            cuda_machine_mma_f16(sum, a, b);
    }
    probe_store<4>(&call, row, column, sum);
}

/* --- wgmma: four warps compute 64 outputs × N columns --- */

static __device__ uint64_t probe_descriptor(const void *shared)
{
    return gpu_wgmma_descriptor((uint32_t)__cvta_generic_to_shared(shared));
}

static __device__ void probe_stage(const uint16_t *from, uint32_t rows, uint32_t inputs, uint32_t k,
                                   unsigned char *to)
{
    for (uint32_t i = threadIdx.x; i < rows * PROBE_STEP; i += blockDim.x) {
        const uint32_t row = i / PROBE_STEP;
        const uint32_t in = i % PROBE_STEP;
        *(uint16_t *)(to + gpu_wgmma_staged(row, in)) = from[(size_t)row * inputs + k + in];
    }
}

/* The sums of a width, as operands and by their numbers in the instruction. */
#define PROBE_SUMS_4(d) "+f"((d)[0]), "+f"((d)[1]), "+f"((d)[2]), "+f"((d)[3])
#define PROBE_SUMS_16(d)                                                                           \
    PROBE_SUMS_4(d), PROBE_SUMS_4((d) + 4), PROBE_SUMS_4((d) + 8), PROBE_SUMS_4((d) + 12)
#define PROBE_SUMS_64(d)                                                                           \
    PROBE_SUMS_16(d), PROBE_SUMS_16((d) + 16), PROBE_SUMS_16((d) + 32), PROBE_SUMS_16((d) + 48)
#define PROBE_SUMS_128(d) PROBE_SUMS_64(d), PROBE_SUMS_64((d) + 64)
#define PROBE_NUMBERS_4   "%0, %1, %2, %3"
#define PROBE_NUMBERS_64                                                                           \
    "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "                       \
    "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "             \
    "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "             \
    "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
#define PROBE_NUMBERS_128                                                                          \
    PROBE_NUMBERS_64                                                                               \
    ", "                                                                                           \
    "%64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, "             \
    "%80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95, "             \
    "%96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, "       \
    "%111, "                                                                                       \
    "%112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, "         \
    "%126, %127"

#define PROBE_WGMMA(n, count, type, operands, ...)                                                 \
    asm volatile("wgmma.mma_async.sync.aligned.m64n" #n "k16.f32." type "." type                   \
                 " {" PROBE_NUMBERS_##count "}, " operands                                         \
                 : PROBE_SUMS_##count(d)                                                           \
                 : __VA_ARGS__)

/* probe_wgmma_n adds a product of 64 outputs × n columns × 16 inputs to d. A is at a_at in shared
 * memory, or in the registers a. `shared` and `registers` are the operand lists after d. */
#define PROBE_WIDTH(n, count, shared, registers)                                                   \
    template <bool IS_BF16, bool IS_SHARED>                                                        \
    static __device__ __forceinline__ void probe_wgmma_##n(float *d, const uint32_t *a,            \
                                                           uint64_t a_at, uint64_t b_at)           \
    {                                                                                              \
        if (IS_SHARED && IS_BF16)                                                                  \
            PROBE_WGMMA(n, count, "bf16", shared, "l"(a_at), "l"(b_at));                           \
        else if (IS_SHARED)                                                                        \
            PROBE_WGMMA(n, count, "f16", shared, "l"(a_at), "l"(b_at));                            \
        else if (IS_BF16)                                                                          \
            PROBE_WGMMA(n, count, "bf16", registers, "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]),   \
                        "l"(b_at));                                                                \
        else                                                                                       \
            PROBE_WGMMA(n, count, "f16", registers, "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]),    \
                        "l"(b_at));                                                                \
    }
PROBE_WIDTH(8, 4, "%4, %5, 1, 1, 1, 0, 0;", "{%4, %5, %6, %7}, %8, 1, 1, 1, 0;")
PROBE_WIDTH(128, 64, "%64, %65, 1, 1, 1, 0, 0;", "{%64, %65, %66, %67}, %68, 1, 1, 1, 0;")
PROBE_WIDTH(256, 128, "%128, %129, 1, 1, 1, 0, 0;", "{%128, %129, %130, %131}, %132, 1, 1, 1, 0;")

/* probe_wgmma_N. */
template <int N, bool IS_BF16, bool IS_SHARED>
static __device__ __forceinline__ void probe_wgmma(float *d, const uint32_t *a, uint64_t a_at,
                                                   uint64_t b_at)
{
    if constexpr (N == 8)
        probe_wgmma_8<IS_BF16, IS_SHARED>(d, a, a_at, b_at);
    else if constexpr (N == 128)
        probe_wgmma_128<IS_BF16, IS_SHARED>(d, a, a_at, b_at);
    else
        probe_wgmma_256<IS_BF16, IS_SHARED>(d, a, a_at, b_at);
}

template <int N, bool IS_BF16, bool IS_SHARED>
__global__ void __launch_bounds__(128, 1) k_probe_wgmma_cuda(struct probe_call call)
{
    __shared__ __align__(256) unsigned char staged_a[PROBE_OUTPUTS * PROBE_STEP * 2];
    __shared__ __align__(256) unsigned char staged_b[N * PROBE_STEP * 2];
    float sum[N / 2] = {};
    for (uint32_t k = 0; k < call.inputs; k += PROBE_STEP) {
        uint32_t a[4];
        probe_a(&call, 0, k, a);
        __syncthreads();
        probe_stage(call.a, PROBE_OUTPUTS, call.inputs, k, staged_a);
        probe_stage(call.b, N, call.inputs, k, staged_b);
        asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
        __syncthreads();
        asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
        probe_wgmma<N, IS_BF16, IS_SHARED>(sum, a, probe_descriptor(staged_a),
                                           probe_descriptor(staged_b));
        asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
        asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
        for (uint32_t i = 0; i < N / 2; i++) /* no sum is read before the wait */
            asm volatile("" : "+f"(sum[i])::"memory");
    }
    probe_store<N / 2>(&call, 0, 0, sum);
}

/* --- host side --- */

struct probe {
    uint16_t *a, *b; /* in host memory */
    uint16_t *a_there, *b_there;
    float *out_there;
    double *exact; /* [columns][outputs] */
    float *chain;
    float *got;
};

static void *probe_host(size_t bytes)
{
    void *out = calloc(1, bytes);
    if (out == NULL)
        exit(1);
    return out;
}

static uint16_t probe_bits(float value, bool is_bf16)
{
    return is_bf16 ? half_bf16_from_float(value) : half_from_float(value);
}

static float probe_value(uint16_t bits, bool is_bf16)
{
    return is_bf16 ? half_bf16_to_float(bits) : half_to_float(bits);
}

static void probe_fill(uint16_t *out, size_t count, bool is_bf16, uint64_t seed)
{
    uint64_t state = seed;
    for (size_t i = 0; i < count; i++) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        out[i] = probe_bits((float)((double)(int64_t)state * 0x1p-63), is_bf16);
    }
}

static void probe_exact(const struct probe *probe, bool is_bf16)
{
    float *a = (float *)probe_host((size_t)PROBE_OUTPUTS * PROBE_INPUTS * sizeof *a);
    float *b = (float *)probe_host((size_t)PROBE_COLS_MAX * PROBE_INPUTS * sizeof *b);
    for (size_t i = 0; i < (size_t)PROBE_OUTPUTS * PROBE_INPUTS; i++)
        a[i] = probe_value(probe->a[i], is_bf16);
    for (size_t i = 0; i < (size_t)PROBE_COLS_MAX * PROBE_INPUTS; i++)
        b[i] = probe_value(probe->b[i], is_bf16);
    for (uint32_t c = 0; c < PROBE_COLS_MAX; c++)
        for (uint32_t o = 0; o < PROBE_OUTPUTS; o++) {
            double sum = 0;
            for (uint32_t k = 0; k < PROBE_INPUTS; k++)
                sum += (double)a[(size_t)o * PROBE_INPUTS + k] *
                       (double)b[(size_t)c * PROBE_INPUTS + k];
            probe->exact[c * PROBE_OUTPUTS + o] = sum;
        }
    free(a), free(b);
}

static void probe_open(struct probe *probe, bool is_bf16)
{
    const size_t a = (size_t)PROBE_OUTPUTS * PROBE_INPUTS;
    const size_t b = (size_t)PROBE_COLS_MAX * PROBE_INPUTS;
    const size_t out = (size_t)PROBE_COLS_MAX * PROBE_OUTPUTS;
    probe->a = (uint16_t *)probe_host(a * sizeof *probe->a);
    probe->b = (uint16_t *)probe_host(b * sizeof *probe->b);
    probe->exact = (double *)probe_host(out * sizeof *probe->exact);
    probe->chain = (float *)probe_host(out * sizeof *probe->chain);
    probe->got = (float *)probe_host(out * sizeof *probe->got);
    probe_fill(probe->a, a, is_bf16, 1);
    probe_fill(probe->b, b, is_bf16, 2);
    probe_exact(probe, is_bf16);
    probe_must(cudaMalloc((void **)&probe->a_there, a * sizeof *probe->a), "memory");
    probe_must(cudaMalloc((void **)&probe->b_there, b * sizeof *probe->b), "memory");
    probe_must(cudaMalloc((void **)&probe->out_there, out * sizeof(float)), "memory");
    probe_must(cudaMemcpy(probe->a_there, probe->a, a * 2, cudaMemcpyDefault), "copy");
    probe_must(cudaMemcpy(probe->b_there, probe->b, b * 2, cudaMemcpyDefault), "copy");
}

static void probe_close(struct probe *probe)
{
    void *const host[] = {probe->a, probe->b, probe->exact, probe->chain, probe->got};
    void *const there[] = {probe->a_there, probe->b_there, probe->out_there};
    for (void *memory : host)
        free(memory);
    for (void *memory : there)
        (void)cudaFree(memory);
}

static struct probe_call probe_call_of(const struct probe *probe, bool is_bf16)
{
    return {probe->a_there, probe->b_there, probe->out_there, PROBE_OUTPUTS, PROBE_INPUTS, is_bf16};
}

static void probe_download(const struct probe *probe, float *to, uint32_t columns)
{
    probe_must(cudaGetLastError(), "launch");
    probe_must(cudaMemcpy(to, probe->out_there, (size_t)columns * PROBE_OUTPUTS * sizeof *to,
                          cudaMemcpyDefault),
               "results");
}

static double probe_error(const struct probe *probe, const float *of, uint32_t columns)
{
    double worst = 0;
    for (uint32_t i = 0; i < columns * PROBE_OUTPUTS; i++) {
        const double error = fabs((double)of[i] - probe->exact[i]);
        worst = error >= worst ? error : isnan(error) ? INFINITY : worst;
    }
    return worst;
}

/* Compares the last results with the chain's and prints the figures. */
static void probe_compare(const struct probe *probe, uint32_t columns, const char *name)
{
    uint32_t others = 0;
    probe_download(probe, probe->got, columns);
    for (uint32_t i = 0; i < columns * PROBE_OUTPUTS; i++)
        others += memcmp(&probe->got[i], &probe->chain[i], sizeof(float)) != 0;
    const double of_chain = probe_error(probe, probe->chain, columns);
    const double error = probe_error(probe, probe->got, columns);
    if (error > 16 * of_chain)
        printf(
            "%s: errors of %g beside %g: this is not the wanted product, so its bits say nothing\n",
            name, error, of_chain);
    else
        probe_figure(100.0 * others / (columns * PROBE_OUTPUTS), "% other bits", "%s", name);
    probe_figure(error / of_chain, "x the chain's error", "%s, error", name);
}

template <int N, bool IS_BF16, bool IS_SHARED>
static void probe_wgmma_bits(const struct probe *probe)
{
    char name[96];
    const struct probe_call call = probe_call_of(probe, IS_BF16);
    snprintf(name, sizeof name, "wgmma %s n%d, A from %s", IS_BF16 ? "bf16" : "f16", N,
             IS_SHARED ? "shared memory" : "registers");
    k_probe_wgmma_cuda<N, IS_BF16, IS_SHARED><<<1, 128>>>(call);
    probe_compare(probe, N, name);
}

template <bool IS_BF16>
static void probe_bits_of_type()
{
    struct probe probe = {};
    probe_open(&probe, IS_BF16);
    k_probe_chain_cuda<<<dim3(PROBE_OUTPUTS / 16, PROBE_COLS_MAX / 8), 32>>>(
        probe_call_of(&probe, IS_BF16));
    probe_download(&probe, probe.chain, PROBE_COLS_MAX);
    probe_wgmma_bits<8, IS_BF16, false>(&probe);
    probe_wgmma_bits<8, IS_BF16, true>(&probe);
    probe_wgmma_bits<128, IS_BF16, false>(&probe);
    probe_wgmma_bits<128, IS_BF16, true>(&probe);
    probe_wgmma_bits<256, IS_BF16, false>(&probe);
    probe_wgmma_bits<256, IS_BF16, true>(&probe);
    probe_close(&probe);
}

/* --- where sums are cut off: 1 + 2^-p − 1 is 2^-p if p bits below the greatest are kept --- */

/* Returns how many bits below the greatest term one instruction keeps of a product at input `of`,
 * where 1 and −1 are products at inputs 0 and `less`. */
static int probe_places(bool is_bf16, bool is_wgmma, int of, int less)
{
    struct probe probe = {};
    int places = 0;
    probe_open(&probe, is_bf16);
    struct probe_call call = probe_call_of(&probe, is_bf16);
    call.inputs = PROBE_STEP;
    for (int p = 1; p <= PROBE_PLACES_MAX; p++) {
        uint16_t a[PROBE_OUTPUTS * PROBE_STEP] = {};
        uint16_t b[PROBE_COLS_MAX * PROBE_STEP] = {};
        a[0] = b[0] = a[less] = probe_bits(1, is_bf16);
        b[less] = probe_bits(-1, is_bf16);
        a[of] = probe_bits((float)ldexp(1, -(p / 2)), is_bf16);
        b[of] = probe_bits((float)ldexp(1, -(p - p / 2)), is_bf16);
        probe_must(cudaMemcpy(probe.a_there, a, sizeof a, cudaMemcpyDefault), "copy");
        probe_must(cudaMemcpy(probe.b_there, b, sizeof b, cudaMemcpyDefault), "copy");
        if (!is_wgmma)
            k_probe_chain_cuda<<<dim3(1, 1), 32>>>(call);
        else if (is_bf16)
            k_probe_wgmma_cuda<8, true, true><<<1, 128>>>(call);
        else
            k_probe_wgmma_cuda<8, false, true><<<1, 128>>>(call);
        probe_download(&probe, probe.got, 1);
        if (probe.got[0] != 0)
            places = p;
    }
    probe_close(&probe);
    return places;
}

static void probe_cuts()
{
    for (int is_wgmma = 0; is_wgmma < 2; is_wgmma++)
        for (int is_bf16 = 0; is_bf16 < 2; is_bf16++) {
            const char *name = is_wgmma ? "wgmma" : "m16n8k16";
            const char *type = is_bf16 ? "bf16" : "f16";
            probe_figure(probe_places(is_bf16, is_wgmma, 1, 2), "places", "%s %s keeps", name,
                         type);
            probe_figure(probe_places(is_bf16, is_wgmma, 8, 9), "places",
                         "%s %s keeps, of inputs 8 on", name, type);
        }
}

/* --- cuBLASLt's algorithms --- */

#ifdef BANYAN_CUBLAS
enum { LT_ALGORITHMS = 16, LT_WORKSPACE = 32 << 20 };

static void lt_must(cublasStatus_t status, const char *what)
{
    if (status == CUBLAS_STATUS_SUCCESS)
        return;
    fprintf(stderr, "gpu_probe: cuBLASLt: %s: %s\n", what, cublasLtGetStatusString(status));
    exit(1);
}

static int lt_number(const cublasLtMatmulAlgo_t *algo, cublasLtMatmulAlgoConfigAttributes_t which)
{
    int value = -1;
    size_t written = 0;
    if (cublasLtMatmulAlgoConfigGetAttribute(algo, which, &value, sizeof value, &written) !=
        CUBLAS_STATUS_SUCCESS)
        return -1;
    return value;
}

struct lt {
    cublasLtHandle_t handle;
    cublasLtMatmulDescOpaque_t product;
    cublasLtMatrixLayoutOpaque_t a, b, out;
    cublasLtMatmulPreferenceOpaque_t preference;
    void *workspace;
};

static void lt_describe(struct lt *lt, uint32_t columns)
{
    const cublasOperation_t turned = CUBLAS_OP_T;
    const size_t bytes = LT_WORKSPACE;
    lt_must(cublasLtMatmulDescInit(&lt->product, CUBLAS_COMPUTE_32F, CUDA_R_32F), "product");
    lt_must(cublasLtMatmulDescSetAttribute(&lt->product, CUBLASLT_MATMUL_DESC_TRANSA, &turned,
                                           sizeof turned),
            "product");
    lt_must(
        cublasLtMatrixLayoutInit(&lt->a, CUDA_R_16BF, PROBE_INPUTS, PROBE_OUTPUTS, PROBE_INPUTS),
        "layout");
    lt_must(cublasLtMatrixLayoutInit(&lt->b, CUDA_R_16BF, PROBE_INPUTS, columns, PROBE_INPUTS),
            "layout");
    lt_must(cublasLtMatrixLayoutInit(&lt->out, CUDA_R_32F, PROBE_OUTPUTS, columns, PROBE_OUTPUTS),
            "layout");
    lt_must(cublasLtMatmulPreferenceInit(&lt->preference), "preference");
    lt_must(cublasLtMatmulPreferenceSetAttribute(
                &lt->preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &bytes, sizeof bytes),
            "preference");
}

static void lt_columns(struct lt *lt, const struct probe *probe, uint32_t columns)
{
    cublasLtMatmulHeuristicResult_t results[LT_ALGORITHMS];
    const float alpha = 1;
    const float beta = 0;
    int count = 0;
    lt_describe(lt, columns);
    lt_must(cublasLtMatmulAlgoGetHeuristic(lt->handle, &lt->product, &lt->a, &lt->b, &lt->out,
                                           &lt->out, &lt->preference, LT_ALGORITHMS, results,
                                           &count),
            "algorithms");
    for (int i = 0; i < count; i++) {
        char name[96];
        const cublasLtMatmulAlgo_t *algo = &results[i].algo;
        if (cublasLtMatmul(lt->handle, &lt->product, &alpha, probe->a_there, &lt->a, probe->b_there,
                           &lt->b, &beta, probe->out_there, &lt->out, probe->out_there, &lt->out,
                           algo, lt->workspace, LT_WORKSPACE, 0) != CUBLAS_STATUS_SUCCESS)
            continue;
        snprintf(name, sizeof name,
                 "cublasLt bf16 %u rows, algorithm %d tile %d stages %d split %d", columns,
                 lt_number(algo, CUBLASLT_ALGO_CONFIG_ID),
                 lt_number(algo, CUBLASLT_ALGO_CONFIG_TILE_ID),
                 lt_number(algo, CUBLASLT_ALGO_CONFIG_STAGES_ID),
                 lt_number(algo, CUBLASLT_ALGO_CONFIG_SPLITK_NUM));
        probe_compare(probe, columns, name);
    }
}

static void probe_lt()
{
    struct probe probe = {};
    struct lt lt = {};
    probe_open(&probe, true);
    k_probe_chain_cuda<<<dim3(PROBE_OUTPUTS / 16, PROBE_COLS_MAX / 8), 32>>>(
        probe_call_of(&probe, true));
    probe_download(&probe, probe.chain, PROBE_COLS_MAX);
    lt_must(cublasLtCreate(&lt.handle), "handle");
    probe_must(cudaMalloc(&lt.workspace, LT_WORKSPACE), "workspace");
    for (uint32_t columns = 64; columns <= PROBE_COLS_MAX; columns *= 2)
        lt_columns(&lt, &probe, columns);
    (void)cudaFree(lt.workspace);
    lt_must(cublasLtDestroy(lt.handle), "handle");
    probe_close(&probe);
}
#else
static void probe_lt()
{
    printf("cuBLASLt is not in this build: its algorithms are not compared\n");
}
#endif

int main(int argc, char **argv)
{
    int count = 0;
    cudaDeviceProp properties;
    if (argc == 3 && strcmp(argv[1], "--json") == 0)
        json = fopen(argv[2], "a");
    else if (argc != 1)
        return fprintf(stderr, "usage: gpu_probe [--json FILE]\n"), 2;
    const cudaError_t error = cudaGetDeviceCount(&count);
    if (error != cudaSuccess || count == 0)
        return printf("no CUDA device: %s\n", cudaGetErrorString(error)), NO_DEVICE;
    probe_must(cudaGetDeviceProperties(&properties, 0), "device");
    if (properties.major != 9)
        return printf("no device of sm_90: %s is of sm_%d%d\n", properties.name, properties.major,
                      properties.minor),
               NO_DEVICE;
    probe_cuts();
    probe_bits_of_type<false>();
    probe_bits_of_type<true>();
    probe_lt();
    return json != NULL && fclose(json) != 0 ? 1 : 0;
}
