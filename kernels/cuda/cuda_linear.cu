#include "kernels/cuda/cuda_backend.cuh"
#include "kernels/cuda/cuda_machine.cuh"
#include "kernels/cuda/cuda_ops.h"
#include "kernels/cuda/cuda_weight.h"

/* y = x · Wᵀ on matrix instructions, for any number of rows by one order of sums: outputs are the
 * rows of the instruction (A, straight from memory, each byte once), rows of x its columns (B). A
 * sum over the inputs is cut at absolute places into segments of 16 parts of 32; each is summed
 * from zero, part by part, and segments are added as a left fold. With few rows the warps of a
 * block take segments in turn, with many a warp takes all of them: equal bits.
 *
 * Codes of 4 and 8 bits are multiplied as whole numbers, exactly, and the part's (half part's) sum
 * takes the factor: total = a × Σ code × x + total, and + b × Σ x where the type has m. */

enum linear_form {
    LINEAR_F16,
    LINEAR_BF16,
    LINEAR_4,
    LINEAR_4_M,
    LINEAR_8,
    LINEAR_8_M,
    LINEAR_8_SPLIT
};

enum {
    LINEAR_SEGMENT = 16, /* parts */
    LINEAR_FEW_WARPS = 8,
    LINEAR_MANY_WARPS = 4,
    LINEAR_MANY_TILES = CUDA_PLAN_ROWS_MANY / 8, /* of rows */
    LINEAR_INPUT_EXPONENT = 8, /* a row's greatest input, scaled, is in [2^8, 2^9) */
};

struct linear_input {
    const float *x; /* [rows][cols] */
    uint32_t rows;
    uint32_t cols;
    uint32_t parts;
    bool is_bf16;
    const float *norm; /* [cols], or NULL */
    float epsilon;
    uint16_t *packed; /* [tile of 8 rows][step][lane][register][2]: the B side */
    float *sums;      /* [row][part] of the rounded inputs */
    float *scales;    /* [row] what undoes the row's scale */
};

/* By so much a row is multiplied, a power of two; *undo is its reciprocal. */
static __device__ float linear_scale(float max, float *undo)
{
    uint32_t exponent = 254 + LINEAR_INPUT_EXPONENT - (__float_as_uint(max) >> 23);
    exponent = exponent > 253 ? 253 : exponent;
    *undo = __uint_as_float((254 - exponent) << 23);
    return __uint_as_float(exponent << 23);
}

/* Of the row, what its norm multiplies it by: k_rmsnorm_f32_cuda's sum, its bits. */
static __device__ float linear_norm(const struct linear_input *input, uint32_t row)
{
    const float *x = input->x + (size_t)row * input->cols;
    float squares = 0;
    if (input->norm == NULL)
        return 1;
    for (uint32_t i = threadIdx.x; row < input->rows && i < input->cols; i += CUDA_MACHINE_BLOCK)
        squares = fmaf(x[i], x[i], squares);
    squares = cuda_machine_block_sum(squares);
    return 1 / sqrtf(squares / (float)input->cols + input->epsilon);
}

static __device__ float linear_element(const struct linear_input *input, uint32_t row, uint32_t col,
                                       float norm)
{
    const float x = input->x[(size_t)row * input->cols + col];
    return input->norm == NULL ? x : x * norm * input->norm[col];
}

static __device__ uint16_t linear_round(const struct linear_input *input, uint32_t row,
                                        uint32_t col, float norm, float scale)
{
    if (row >= input->rows || col >= input->cols)
        return 0;
    const float x = linear_element(input, row, col, norm);
    return input->is_bf16 ? cuda_machine_bf16(x) : cuda_machine_half(x * scale);
}

/* A block is one row; rows behind the last are zeros. */
__global__ void k_linear_input_cuda(struct linear_input input)
{
    const uint32_t row = blockIdx.x;
    const float norm = linear_norm(&input, row);
    float max = 0;
    float undo = 1;
    float scale = 1;
    if (!input.is_bf16) {
        for (uint32_t col = threadIdx.x; row < input.rows && col < input.cols;
             col += CUDA_MACHINE_BLOCK)
            max = fmaxf(max, fabsf(linear_element(&input, row, col, norm)));
        scale = linear_scale(cuda_machine_block_max(max), &undo);
    }
    for (uint32_t col = threadIdx.x; col < input.parts * CUDA_WEIGHT_PART;
         col += CUDA_MACHINE_BLOCK) {
        const size_t step = (size_t)row / 8 * input.parts * 2 + col / CUDA_WEIGHT_STEP;
        const uint32_t lane = row % 8 * 4 + col % 8 / 2;
        const uint32_t word = col % CUDA_WEIGHT_STEP / 8;
        input.packed[((step * 32 + lane) * 2 + word) * 2 + col % 2] =
            linear_round(&input, row, col, norm, scale);
    }
    for (uint32_t part = threadIdx.x; part < input.parts; part += CUDA_MACHINE_BLOCK) {
        float sum = 0;
        for (uint32_t i = 0; i < CUDA_WEIGHT_PART && !input.is_bf16; i++)
            sum += cuda_machine_half_float(
                linear_round(&input, row, part * CUDA_WEIGHT_PART + i, norm, scale));
        input.sums[(size_t)row * input.parts + part] = sum;
    }
    if (threadIdx.x == 0)
        input.scales[row] = undo;
}

struct linear_call {
    const unsigned char *packed; /* the weight */
    size_t factors_at;
    uint32_t tiles; /* of 16 outputs */
    uint32_t parts;
    uint32_t outputs;
    uint32_t rows;
    const uint2 *input; /* B side: a lane's two registers */
    const float *sums;
    const float *scales;
    float *y;
    bool accumulate;
};

static __device__ constexpr bool linear_is_float(int form)
{
    return form == LINEAR_F16 || form == LINEAR_BF16;
}

static __device__ constexpr bool linear_has_m(int form)
{
    return form == LINEAR_4_M || form == LINEAR_8_M;
}

static __device__ constexpr uint32_t linear_codes_bytes(int form)
{
    return linear_is_float(form) ? 1024 : form == LINEAR_4 || form == LINEAR_4_M ? 256 : 512;
}

/* Factors of 16 outputs of a part, in halves. */
static __device__ constexpr uint32_t linear_factors(int form)
{
    return linear_has_m(form) || form == LINEAR_8_SPLIT ? 32 : 16;
}

/* Two registers out of a word of 8-bit codes + 128, and one out of 4-bit ones: 1024 + code is a
 * half whose lowest ten bits are the code. */
static __device__ void linear_bytes(uint32_t word, uint32_t *a)
{
    a[0] = cuda_machine_half2_sub((word & 0x00ff00ffu) | 0x64006400u, 0x64806480u);
    a[1] = cuda_machine_half2_sub((word >> 8 & 0x00ff00ffu) | 0x64006400u, 0x64806480u);
}

template <int F>
static __device__ void linear_nibbles(uint32_t word, uint32_t *a)
{
    const uint32_t offset = linear_has_m(F) ? 0x64006400u : 0x64086408u;
#pragma unroll
    for (int r = 0; r < 4; r++)
        a[r] = cuda_machine_half2_sub((word >> 4 * r & 0x000f000fu) | 0x64006400u, offset);
}

/* The A side of both steps of one part of a tile. */
template <int F>
static __device__ void linear_codes(const unsigned char *codes, uint32_t lane, uint32_t (*a)[4])
{
    if (linear_is_float(F)) {
#pragma unroll
        for (int step = 0; step < 2; step++) {
            const uint4 words = ((const uint4 *)codes)[step * 32 + lane];
            a[step][0] = words.x;
            a[step][1] = words.y;
            a[step][2] = words.z;
            a[step][3] = words.w;
        }
    } else if (F == LINEAR_4 || F == LINEAR_4_M) {
        const uint2 words = ((const uint2 *)codes)[lane];
        linear_nibbles<F>(words.x, a[0]);
        linear_nibbles<F>(words.y, a[1]);
    } else {
        const uint4 words = ((const uint4 *)codes)[lane];
        linear_bytes(words.x, a[0]);
        linear_bytes(words.y, a[0] + 2);
        linear_bytes(words.z, a[1]);
        linear_bytes(words.w, a[1] + 2);
    }
}

template <int F>
static __device__ void linear_multiply(float *c, const uint32_t *a, const uint32_t *b)
{
    if (F == LINEAR_BF16)
        cuda_machine_mma_bf16(c, a, b);
    else
        cuda_machine_mma_f16(c, a, b);
}

/* total += a × sum, for the two outputs and two rows of a lane: halves at `factors` of output g and
 * 8 further on, `each` halves an output. */
static __device__ void linear_scale_sum(float *total, const float *sum, const uint16_t *factors,
                                        uint32_t each)
{
    const uint32_t g = threadIdx.x % 32 / 4;
#pragma unroll
    for (int i = 0; i < 4; i++)
        total[i] = fmaf(cuda_machine_half_float(factors[(g + i / 2 * 8) * each]), sum[i], total[i]);
}

/* One part: both steps, then factors. */
template <int F>
static __device__ void linear_part(const struct linear_call *call, const uint32_t (*a)[4],
                                   const uint16_t *factors, uint32_t row_tile, uint32_t part,
                                   float *total)
{
    const uint32_t lane = threadIdx.x % 32;
    const uint2 *input = call->input + ((size_t)row_tile * call->parts + part) * 2 * 32 + lane;
    const uint2 first = input[0];
    const uint2 second = input[32];
    const uint32_t b[2][2] = {{first.x, first.y}, {second.x, second.y}};
    float sum[4] = {0, 0, 0, 0};
    if (linear_is_float(F)) {
        linear_multiply<F>(total, a[0], b[0]);
        linear_multiply<F>(total, a[1], b[1]);
        return;
    }
    linear_multiply<F>(sum, a[0], b[0]);
    if (F == LINEAR_8_SPLIT) {
        linear_scale_sum(total, sum, factors, 1);
        sum[0] = sum[1] = sum[2] = sum[3] = 0;
        factors += CUDA_WEIGHT_TILE;
    }
    linear_multiply<F>(sum, a[1], b[1]);
    linear_scale_sum(total, sum, factors, linear_has_m(F) ? 2 : 1);
    if (linear_has_m(F)) {
        const float *of = call->sums + ((size_t)row_tile * 8 + lane % 4 * 2) * call->parts + part;
        const float sums[4] = {of[0], of[call->parts], of[0], of[call->parts]};
        linear_scale_sum(total, sums, factors + 1, 2);
    }
}

/* One segment, from zero: 16 outputs × N tiles of 8 rows. */
template <int F, int N>
static __device__ void linear_segment(const struct linear_call *call, uint32_t tile,
                                      uint32_t row_tile, uint32_t segment, float (*total)[4])
{
    const uint32_t lane = threadIdx.x % 32;
    const uint32_t begin = segment * LINEAR_SEGMENT;
    const uint32_t end =
        begin + LINEAR_SEGMENT < call->parts ? begin + LINEAR_SEGMENT : call->parts;
#pragma unroll
    for (int n = 0; n < N; n++)
        total[n][0] = total[n][1] = total[n][2] = total[n][3] = 0;
#pragma unroll 2
    for (uint32_t part = begin; part < end; part++) {
        const size_t index = (size_t)tile * call->parts + part;
        const uint16_t *factors = (const uint16_t *)(call->packed + call->factors_at) +
                                  (linear_is_float(F) ? 0 : index * linear_factors(F));
        uint32_t a[2][4];
        linear_codes<F>(call->packed + CUDA_WEIGHT_HEAD + index * linear_codes_bytes(F), lane, a);
#pragma unroll
        for (int n = 0; n < N; n++)
            linear_part<F>(call, a, factors, row_tile + n, part, total[n]);
    }
}

/* Element i of a lane's sums. */
static __device__ void linear_store(const struct linear_call *call, uint32_t tile,
                                    uint32_t row_tile, uint32_t lane, uint32_t i, float sum)
{
    const uint32_t output = tile * CUDA_WEIGHT_TILE + lane / 4 + i / 2 * 8;
    const uint32_t row = row_tile * 8 + lane % 4 * 2 + i % 2;
    if (output >= call->outputs || row >= call->rows)
        return;
    float *y = call->y + (size_t)row * call->outputs + output;
    const float value = sum * call->scales[row] * *(const float *)call->packed;
    *y = call->accumulate ? *y + value : value;
}

/* A block is 16 outputs, N × 8 rows; its warps take the segments in turn. */
template <int F, int N>
__global__ void __launch_bounds__(LINEAR_FEW_WARPS * 32) k_linear_few_cuda(struct linear_call call)
{
    __shared__ float sums[LINEAR_FEW_WARPS][N * 128];
    const uint32_t warp = threadIdx.x / 32;
    const uint32_t lane = threadIdx.x % 32;
    const uint32_t segments = (call.parts + LINEAR_SEGMENT - 1) / LINEAR_SEGMENT;
    float folded[(N + 1) / 2] = {}; /* elements threadIdx.x, + 256, … of N × 32 lanes × 4 */
    for (uint32_t begin = 0; begin < segments; begin += LINEAR_FEW_WARPS) {
        if (begin + warp < segments) {
            float total[N][4];
            linear_segment<F, N>(&call, blockIdx.x, blockIdx.y * N, begin + warp, total);
#pragma unroll
            for (int n = 0; n < N; n++)
#pragma unroll
                for (int i = 0; i < 4; i++)
                    sums[warp][(n * 32 + lane) * 4 + i] = total[n][i];
        }
        __syncthreads();
#pragma unroll
        for (int e = 0; e < (N + 1) / 2; e++)
            for (uint32_t s = 0; s < LINEAR_FEW_WARPS && begin + s < segments; s++)
                if (threadIdx.x + e * 256 < N * 128)
                    folded[e] += sums[s][threadIdx.x + e * 256];
        __syncthreads();
    }
#pragma unroll
    for (int e = 0; e < (N + 1) / 2; e++) {
        const uint32_t at = threadIdx.x + e * 256;
        if (at < N * 128)
            linear_store(&call, blockIdx.x, blockIdx.y * N + at / 128, at % 128 / 4, at % 4,
                         folded[e]);
    }
}

/* A warp is 16 outputs, 64 rows; neighbours in the grid read the same weights. */
template <int F>
__global__ void __launch_bounds__(LINEAR_MANY_WARPS * 32)
    k_linear_many_cuda(struct linear_call call)
{
    const uint32_t tile = blockIdx.y * LINEAR_MANY_WARPS + threadIdx.x / 32;
    const uint32_t segments = (call.parts + LINEAR_SEGMENT - 1) / LINEAR_SEGMENT;
    float folded[LINEAR_MANY_TILES][4] = {};
    if (tile >= call.tiles)
        return;
    for (uint32_t segment = 0; segment < segments; segment++) {
        float total[LINEAR_MANY_TILES][4];
        linear_segment<F, LINEAR_MANY_TILES>(&call, tile, blockIdx.x * LINEAR_MANY_TILES, segment,
                                             total);
#pragma unroll
        for (int n = 0; n < LINEAR_MANY_TILES; n++)
#pragma unroll
            for (int i = 0; i < 4; i++)
                folded[n][i] += total[n][i];
    }
#pragma unroll
    for (int n = 0; n < LINEAR_MANY_TILES; n++)
#pragma unroll
        for (int i = 0; i < 4; i++)
            linear_store(&call, tile, blockIdx.x * LINEAR_MANY_TILES + n, threadIdx.x % 32, i,
                         folded[n][i]);
}

template <int F>
static void linear_launch(struct cuda_backend *backend, const struct linear_call *call)
{
    const uint32_t tiles = (call->rows + 7) / 8; /* of rows */
    const uint32_t few = LINEAR_FEW_WARPS * 32;
    const char *what = "linear";
    if (call->rows > CUDA_PLAN_ROWS_FEW)
        cuda_backend_launch(backend, what,
                            dim3((call->rows + CUDA_PLAN_ROWS_MANY - 1) / CUDA_PLAN_ROWS_MANY,
                                 (call->tiles + LINEAR_MANY_WARPS - 1) / LINEAR_MANY_WARPS),
                            LINEAR_MANY_WARPS * 32, k_linear_many_cuda<F>, *call);
    else if (tiles > 2)
        cuda_backend_launch(backend, what, dim3(call->tiles), few, k_linear_few_cuda<F, 4>, *call);
    else if (tiles == 2)
        cuda_backend_launch(backend, what, dim3(call->tiles), few, k_linear_few_cuda<F, 2>, *call);
    else
        cuda_backend_launch(backend, what, dim3(call->tiles), few, k_linear_few_cuda<F, 1>, *call);
}

static void linear_run(struct cuda_backend *backend, const struct cuda_weight_form *form,
                       const struct linear_call *call)
{
    if (form->bits == 16)
        form->is_bf16 ? linear_launch<LINEAR_BF16>(backend, call)
                      : linear_launch<LINEAR_F16>(backend, call);
    else if (form->bits == 4)
        form->has_m ? linear_launch<LINEAR_4_M>(backend, call)
                    : linear_launch<LINEAR_4>(backend, call);
    else if (form->has_m)
        linear_launch<LINEAR_8_M>(backend, call);
    else
        form->is_split ? linear_launch<LINEAR_8_SPLIT>(backend, call)
                       : linear_launch<LINEAR_8>(backend, call);
}

/* Rounds the input to the kind of float that `is_bf16` names. Rows are filled up to whole blocks of
 * the kernel that reads them. */
static void linear_pack(struct cuda_backend *backend, const struct linear_args *args, bool is_bf16,
                        const struct cuda_weight_form *form)
{
    const uint32_t tile = args->rows > CUDA_PLAN_ROWS_FEW ? CUDA_PLAN_ROWS_MANY
                          : args->rows > 16               ? CUDA_PLAN_ROWS_FEW
                          : args->rows > 8                ? 16
                                                          : 8;
    struct linear_input input = {};
    input.x = args->x;
    input.rows = args->rows;
    input.cols = args->weights[0]->cols;
    input.parts = form->parts;
    input.is_bf16 = is_bf16;
    input.norm = args->norm;
    input.epsilon = args->epsilon;
    input.packed = (uint16_t *)backend->input;
    input.sums = backend->input_sums;
    input.scales = backend->input_scales;
    cuda_backend_launch(backend, "linear's input", dim3((args->rows + tile - 1) / tile * tile),
                        CUDA_MACHINE_BLOCK, k_linear_input_cuda, input);
}

extern "C" void cuda_linear(struct cuda_backend *backend, const struct linear_args *args)
{
    bool is_packed = false;
    bool is_bf16 = false; /* what is packed */
    ASSERT(args->rows <= backend->options.rows_max);
    ASSERT(args->weights[0]->cols <= backend->options.cols_max);
    if (args->is_gated) {
        ASSERT(args->count == 2);
        ASSERT(!args->accumulate);
        ASSERT(args->weights[0]->rows == args->weights[1]->rows);
        ASSERT(args->weights[0]->rows <= backend->options.cols_max);
    }
    for (uint32_t i = 0; i < args->count && args->rows > 0; i++) {
        const struct weight *weight = args->weights[i];
        struct cuda_weight_form form;
        struct linear_call call = {};
        ASSERT(weight->cols == args->weights[0]->cols);
        if (cuda_weight_form(&form, weight->type, weight->rows, weight->cols) != STATUS_OK)
            return; /* no such weight was made */
        if (!is_packed || is_bf16 != form.is_bf16)
            linear_pack(backend, args, form.is_bf16, &form);
        is_packed = true;
        is_bf16 = form.is_bf16;
        call.packed = (const unsigned char *)weight->packed;
        call.factors_at = form.factors_at;
        call.tiles = form.tiles;
        call.parts = form.parts;
        call.outputs = weight->rows;
        call.rows = args->rows;
        call.input = (const uint2 *)backend->input;
        call.sums = backend->input_sums;
        call.scales = backend->input_scales;
        call.y = i == 1 && args->is_gated ? backend->gated : args->y[i];
        call.accumulate = args->accumulate;
        linear_run(backend, &form, &call);
    }
    if (args->is_gated) {
        const struct silu_mul_args gated = {args->y[0], backend->gated, args->rows,
                                            args->weights[0]->rows};
        cuda_silu_mul(backend, &gated);
    }
}
