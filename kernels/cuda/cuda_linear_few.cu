#include "kernels/cuda/cuda_linear.cuh"

/* Up to 16 rows: a block is one tile of 16 outputs, and each of its warps takes a segment of the
 * inputs, so that every warp reads a stream of its own without meeting the others before the end.
 *
 * Weights pass through a ring in shared memory by asynchronous copies; each lane waits for its own.
 * The bytes in flight must be bandwidth × latency: H200 4.8 TB/s × 0.7 µs ÷ 132 multiprocessors =
 * 25 KB each (A100: 1.5 TB/s × 0.6 µs ÷ 108 = 9 KB). A stage is a pair of parts: 2 KB of 16-bit
 * floats, 1.1 KB of 8-bit codes, 0.6 KB of 4-bit ones. With 4, 6 and 8 stages, less the one being
 * computed, two blocks of eight warps have 96, 85 and 63 KB in flight: enough for twice the
 * latency. 4,096 outputs are 256 blocks, so that each multiprocessor has two. Matrices over one
 * input (q, k, v; gate, up) are one launch, the narrow ones beside the wide ones.
 *
 * Instructions are the next limit: 4.8 TB/s is 21 bytes a cycle and multiprocessor, a pair of 4-bit
 * parts every 28 cycles. It takes about 85 instructions with one tile of rows, and 112 can be
 * issued.
 *
 * Inputs are read a pair ahead, by the lanes whose row exists: 128 bytes a row and pair. */

enum { FEW_STAGES_LEAST = 2 }; /* one being computed, one being copied */

/* Sums of all warps, of two tiles of rows. */
#define FEW_SHARED_LEAST (LINEAR_WARPS * 2 * 128 * sizeof(float))

static __device__ __host__ constexpr int few_stages(int form)
{
    return linear_is_float(form) ? 4 : linear_is_4(form) ? 8 : 6;
}

/* Codes, factors, sums of N × 8 rows. */
static __device__ __host__ constexpr uint32_t few_stage_bytes(int form, int n)
{
    return linear_chunks(form) * LINEAR_CHUNK + linear_factors(form) +
           (linear_has_m(form) ? n * 64 : 0);
}

template <int F>
static __device__ __forceinline__ void
few_weights(const struct linear_call *call, const struct linear_matrix *matrix, uint32_t tile,
            uint32_t pair, uint32_t lane, unsigned char *stage)
{
#pragma unroll
    for (uint32_t chunk = 0; chunk < linear_chunks(F); chunk++)
        cuda_machine_copy16(stage + chunk * LINEAR_CHUNK + lane * 16,
                            linear_chunk_at<F>(call, matrix, tile, pair, chunk, lane), 16);
    if ((int)lane < (int)linear_factors(F) / 16) /* floats have none */
        cuda_machine_copy16(stage + linear_chunks(F) * LINEAR_CHUNK + lane * 16,
                            linear_factors_at<F>(call, matrix, tile, pair) + lane * 16, 16);
}

/* Returns where a stage has the sums of a lane's row; NULL if its form or lane has none. */
template <int F, int N>
static __device__ __forceinline__ float *few_sums_at(unsigned char *stage, uint32_t lane)
{
    return linear_has_m(F) && lane < N * 8
               ? (float *)(stage + linear_chunks(F) * LINEAR_CHUNK + linear_factors(F)) + lane * 2
               : NULL;
}

static __device__ __forceinline__ const float *few_sums_of(const struct linear_call *call,
                                                           uint32_t pair, uint32_t lane)
{
    return call->sums + ((size_t)(lane < call->rows ? lane : 0) * call->pairs + pair) * 2;
}

/* Requests the weights of all stages but the last. They depend on no earlier launch, so they are
 * copied while the kernel before ends. */
template <int F, int N, int S>
static __device__ __forceinline__ void few_begin(const struct linear_call *call,
                                                 const struct linear_matrix *matrix, uint32_t tile,
                                                 uint32_t begin, uint32_t end, unsigned char *ring)
{
    for (int s = 0; s + 1 < S; s++) {
        if (begin + s < end)
            few_weights<F>(call, matrix, tile, begin + s, threadIdx.x % 32,
                           ring + s * few_stage_bytes(F, N));
        cuda_machine_copied();
    }
}

/* Reads the sums of these stages, which do depend on it. All are read before one is written, so
 * that they wait for memory together. */
template <int F, int N, int S>
static __device__ __forceinline__ void few_sums(const struct linear_call *call, uint32_t begin,
                                                uint32_t end, uint32_t lane, unsigned char *ring)
{
    float sums[S - 1][2];
    if (few_sums_at<F, N>(ring, lane) == NULL)
        return;
#pragma unroll
    for (int s = 0; s + 1 < S; s++) {
        const bool is_there = begin + s < end && lane < call->rows;
        const float *of = few_sums_of(call, begin + s, lane);
        sums[s][0] = is_there ? of[0] : 0;
        sums[s][1] = is_there ? of[1] : 0;
    }
#pragma unroll
    for (int s = 0; s + 1 < S; s++) {
        float *to = few_sums_at<F, N>(ring + s * few_stage_bytes(F, N), lane);
        to[0] = sums[s][0];
        to[1] = sums[s][1];
    }
}

template <int N>
static __device__ __forceinline__ void few_input(const struct linear_call *call, uint32_t pair,
                                                 uint32_t lane, uint4 (*b)[2])
{
#pragma unroll
    for (int n = 0; n < N; n++) {
        const uint32_t row = n * 8 + lane / 4;
        const uint4 *at =
            (const uint4 *)(call->input + ((size_t)row * call->pairs + pair) * 128) + lane % 4;
        const bool is_there = row < call->rows && pair < call->pairs;
        b[n][0] = is_there ? at[0] : make_uint4(0, 0, 0, 0);
        b[n][1] = is_there ? at[4] : make_uint4(0, 0, 0, 0);
    }
}

/* Computes a warp's segment from zero, after few_begin. */
template <int F, int N, int S>
static __device__ __forceinline__ void
few_segment(const struct linear_call *call, const struct linear_matrix *matrix, uint32_t tile,
            uint32_t begin, uint32_t end, unsigned char *ring, float (*total)[4])
{
    const uint32_t lane = threadIdx.x % 32;
    const uint32_t bytes = few_stage_bytes(F, N);
    uint4 b[N][2];
    few_input<N>(call, begin, lane, b);
    few_sums<F, N, S>(call, begin, end, lane, ring);
    uint32_t now = 0;
    for (uint32_t pair = begin; pair < end; pair++) {
        const unsigned char *stage = ring + now * bytes;
        const uint32_t ahead = pair + S - 1;
        struct linear_factor factor;
        uint32_t a[2][2][4];
        uint4 next[N][2];
        cuda_machine_copied_wait<S - 2>();
        __syncwarp(); /* other lanes copied the factors; and all lanes have left the stage before */
        if (ahead < end) {
            unsigned char *last = ring + (now == 0 ? S - 1 : now - 1) * bytes;
            float *sums = few_sums_at<F, N>(last, lane);
            few_weights<F>(call, matrix, tile, ahead, lane, last);
            if (sums != NULL)
                cuda_machine_copy8(sums, few_sums_of(call, ahead, lane), lane < call->rows ? 8 : 0);
        }
        cuda_machine_copied();
        few_input<N>(call, pair + 1, lane, next);
        linear_codes<F>((const uint4 *)stage, lane, a);
        stage += linear_chunks(F) * LINEAR_CHUNK;
        linear_factor<F>((const uint16_t *)stage, lane, &factor);
        stage += linear_factors(F);
#pragma unroll
        for (int n = 0; n < N; n++) {
            linear_pair<F>(total[n], a, &factor, b[n],
                           (const float *)stage + (n * 8 + lane % 4 * 2) * 2);
            b[n][0] = next[n][0];
            b[n][1] = next[n][1];
        }
        now = now + 1 == S ? 0 : now + 1;
    }
    cuda_machine_copied_wait<0>();
}

/* A warp's segment of the inputs, and its ring. */
struct few_warp {
    uint32_t begin;
    uint32_t end;
    unsigned char *ring;
};

template <int F, int N, int S>
static __device__ __forceinline__ struct few_warp few_warp_of(const struct linear_call *call)
{
    const uint32_t index = threadIdx.x / 32;
    struct few_warp warp;
    warp.begin = index * call->segment;
    warp.end = warp.begin + call->segment < call->pairs ? warp.begin + call->segment : call->pairs;
    warp.ring = (unsigned char *)cuda_machine_shared() + index * S * few_stage_bytes(F, N);
    return warp;
}

/* Computes the block's 16 outputs after few_begin: tile `of` of the weights, `tile` of y. */
template <int F, int N, int S>
static __device__ __forceinline__ void few_block(const struct linear_call *call,
                                                 const struct linear_matrix *matrix, uint32_t of,
                                                 uint32_t tile, const struct few_warp &warp)
{
    const uint32_t lane = threadIdx.x % 32;
    float(*sums)[N * 128] = (float(*)[N * 128]) cuda_machine_shared();
    float total[N][4] = {};
    if (warp.begin < warp.end)
        few_segment<F, N, S>(call, matrix, of, warp.begin, warp.end, warp.ring, total);
    __syncthreads(); /* the rings are not used any more */
#pragma unroll
    for (int n = 0; n < N; n++)
#pragma unroll
        for (int i = 0; i < 4; i++)
            sums[threadIdx.x / 32][(n * 32 + lane) * 4 + i] = total[n][i];
    __syncthreads();
    const uint32_t at = threadIdx.x;
    float folded = 0;
    if (at >= N * 128)
        return;
    for (uint32_t s = 0; s * call->segment < call->pairs; s++)
        folded += sums[s][at];
    linear_store(call, matrix, tile, at / 128, at % 128 / 4, at % 4, folded);
}

/* S: stages of a warp's ring. */
template <int F, int N, int S>
__global__ void __launch_bounds__(LINEAR_THREADS, 2) k_linear_few_cuda(struct linear_call call)
{
    const struct few_warp warp = few_warp_of<F, N, S>(&call);
    uint32_t tile;
    const struct linear_matrix *matrix = linear_matrix_of(&call, blockIdx.x, 1, &tile);
    few_begin<F, N, S>(&call, matrix, tile, warp.begin, warp.end, warp.ring);
    cuda_machine_begin();
    few_block<F, N, S>(&call, matrix, tile, tile, warp);
}

template <int F, int N, int S>
static void few_launch(struct cuda_backend *backend, const struct linear_call *call)
{
    const size_t ring = LINEAR_WARPS * S * few_stage_bytes(F, N);
    uint32_t tiles = 0;
    for (uint32_t m = 0; m < call->count; m++)
        tiles += call->matrix[m].tiles;
    cuda_backend_launch_early(backend, "linear", dim3(tiles), LINEAR_THREADS,
                              k_linear_few_cuda<F, N, S>, *call,
                              ring > FEW_SHARED_LEAST ? ring : FEW_SHARED_LEAST);
}

template <int F, int N>
static void few_launch_as(struct cuda_backend *backend, const struct linear_call *call)
{
    if (backend->options.trial.few_stages)
        few_launch<F, N, FEW_STAGES_LEAST>(backend, call);
    else
        few_launch<F, N, few_stages(F)>(backend, call);
}

template <int F>
static void few_run(struct cuda_backend *backend, const struct linear_call *call)
{
    call->rows > 8 ? few_launch_as<F, 2>(backend, call) : few_launch_as<F, 1>(backend, call);
}

void cuda_linear_few(struct cuda_backend *backend, enum linear_form form,
                     const struct linear_call *call)
{
    static void (*const runs[])(struct cuda_backend *, const struct linear_call *) = {
        few_run<LINEAR_F16>, few_run<LINEAR_BF16>,    few_run<LINEAR_4>,
        few_run<LINEAR_4_M>, few_run<LINEAR_4_GROUP>, few_run<LINEAR_8>,
        few_run<LINEAR_8_M>, few_run<LINEAR_8_SPLIT>};
    runs[form](backend, call);
}

/* --- pieces of a routing ---
 * A block is one tile of 16 outputs of one piece: up to 16 pairs of one expert. Which expert that
 * is stands in device memory, so weights are requested only after the routing is known. Pieces vary
 * faster than tiles, so that pieces of one expert read its weights from the second-level cache. */

struct few_pieces {
    struct linear_call call; /* rows: pairs; tiles and outputs of a matrix: those of one expert */
    struct linear_pieces pieces;
};

template <int F, int S>
__global__ void __launch_bounds__(LINEAR_THREADS, 2) k_linear_pieces_cuda(struct few_pieces of)
{
    cuda_machine_begin();
    enum { N = LINEAR_ROWS_FEW / 8 };
    const struct few_warp warp = few_warp_of<F, N, S>(&of.call);
    const struct linear_piece piece = linear_piece_of(&of.pieces, blockIdx.x);
    uint32_t tile;
    const struct linear_matrix *all = linear_matrix_of(&of.call, blockIdx.y, 1, &tile);
    struct linear_matrix matrix = *all;
    struct linear_call call = of.call;
    if (piece.rows == 0)
        return;
    call.rows = piece.rows;
    call.input += (size_t)piece.first * call.pairs * 128;
    call.sums += (size_t)piece.first * call.pairs * 2;
    call.scales += piece.first;
    matrix.y += (size_t)piece.first * matrix.outputs;
    if (matrix.bias != NULL)
        matrix.bias += (size_t)piece.expert * matrix.outputs;
    const uint32_t at = piece.expert * matrix.tiles + tile;
    few_begin<F, N, S>(&call, &matrix, at, warp.begin, warp.end, warp.ring);
    few_block<F, N, S>(&call, &matrix, at, tile, warp);
}

template <int F, int S>
static void few_pieces_launch(struct cuda_backend *backend, const struct few_pieces *of)
{
    const size_t ring = LINEAR_WARPS * S * few_stage_bytes(F, LINEAR_ROWS_FEW / 8);
    uint32_t tiles = 0;
    for (uint32_t m = 0; m < of->call.count; m++)
        tiles += of->call.matrix[m].tiles;
    cuda_backend_launch_early(backend, "experts", dim3(of->pieces.count, tiles), LINEAR_THREADS,
                              k_linear_pieces_cuda<F, S>, *of,
                              ring > FEW_SHARED_LEAST ? ring : FEW_SHARED_LEAST);
}

template <int F>
static void few_pieces_run(struct cuda_backend *backend, const struct few_pieces *of)
{
    if (backend->options.trial.few_stages)
        few_pieces_launch<F, FEW_STAGES_LEAST>(backend, of);
    else
        few_pieces_launch<F, few_stages(F)>(backend, of);
}

void cuda_linear_few_pieces(struct cuda_backend *backend, enum linear_form form,
                            const struct linear_call *call, const struct linear_pieces *pieces)
{
    static void (*const runs[])(struct cuda_backend *, const struct few_pieces *) = {
        few_pieces_run<LINEAR_F16>, few_pieces_run<LINEAR_BF16>,    few_pieces_run<LINEAR_4>,
        few_pieces_run<LINEAR_4_M>, few_pieces_run<LINEAR_4_GROUP>, few_pieces_run<LINEAR_8>,
        few_pieces_run<LINEAR_8_M>, few_pieces_run<LINEAR_8_SPLIT>};
    const struct few_pieces of = {*call, *pieces};
    runs[form](backend, &of);
}
