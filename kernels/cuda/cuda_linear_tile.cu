#include "kernels/cuda/cuda_linear.cuh"

/* More rows: a block is 128 outputs × 128, 64 or 32 rows. Both sides are staged in shared memory by
 * asynchronous copies, in three stages of a pair of parts (64 inputs), with one barrier each.
 *
 * Bytes of a stage of 128 × 128, f16: 16 KB + 16 KB for 2.1 MFLOP, so 64 FLOP a byte of the
 * second-level cache. H200's delivers about 25 to 30 bytes a cycle and multiprocessor, so 1,600 to
 * 1,900 FLOP of the 4,096 that the tensor cores could do (m16n8k16 itself, not wgmma, reaches some
 * 2,600). Hence this kernel can reach 40 to 45 % of the peak on 16-bit floats; cuBLASLt, where bits
 * may change, reaches more. 4-bit codes: 4.5 KB + 16 KB, 100 FLOP a byte, so the instruction is the
 * limit. sm_80: 2,048 FLOP a cycle, all by m16n8k16, and 32 bytes: near its peak either way.
 *
 * Shared memory: three stages of 32 KB are 96 KB (sm_86 has 99). A warp is 32 outputs × 64 rows. It
 * reads 4 KB + 8 KB a stage; eight warps read 96 KB in 768 cycles of 128 bytes, beside about 800
 * cycles of products. The conversion of codes (35 instructions a tile of 16 outputs) serves 64
 * rows. Registers: 64 sums of the segment, 64 folded sums, about 60 others: one block a
 * multiprocessor.
 *
 * 64 and 32 rows are bound by memory. Where blocks are fewer than multiprocessors, they share the
 * segments: each segment's sum goes to memory unchanged, and another kernel folds them in the same
 * order. 8B, 64 rows, 4,096 outputs: 32 blocks of 8 segments each; 8.4 MB are written to and read
 * from the second-level cache beside 34 MB of weights. */

enum {
    TILE_STAGES = 3,
    TILE_STAGES_LEAST = 2,
    TILE_TILES = LINEAR_TILE_OUTPUTS / CUDA_WEIGHT_TILE
};

/* Offsets in a stage: codes [tile], factors [tile], inputs [row tile], sums [row]. */
template <int F, int RT>
struct tile_stage {
    static constexpr uint32_t CODES = linear_chunks(F) * LINEAR_CHUNK;
    static constexpr uint32_t FACTORS_AT = TILE_TILES * CODES;
    static constexpr uint32_t INPUT_AT = FACTORS_AT + TILE_TILES * linear_factors(F);
    static constexpr uint32_t SUMS_AT = INPUT_AT + RT * LINEAR_PAIR_INPUT;
    static constexpr uint32_t BYTES = SUMS_AT + (linear_has_m(F) ? RT * 64 : 0);
};

struct tile_place {
    const struct linear_matrix *matrix;
    uint32_t tile; /* the block's first tile */
    uint32_t row_tile;
};

/* Requests a stage, by all threads of the block; zeros beyond the last output and row. */
template <int F, int RT>
static __device__ __forceinline__ void tile_fetch(const struct linear_call *call,
                                                  const struct tile_place *place, uint32_t pair,
                                                  unsigned char *stage)
{
    typedef tile_stage<F, RT> at;
    const uint32_t lane = threadIdx.x % 32;
    const uint32_t warp = threadIdx.x / 32;
    const uint32_t last = place->matrix->tiles - 1;
#pragma unroll
    for (uint32_t i = warp; i < TILE_TILES * linear_chunks(F); i += LINEAR_WARPS) {
        const uint32_t tile = place->tile + i / linear_chunks(F);
        cuda_machine_copy16(stage + i * LINEAR_CHUNK + lane * 16,
                            linear_chunk_at<F>(call, place->matrix, tile < last ? tile : last, pair,
                                               i % linear_chunks(F), lane),
                            tile <= last ? 16 : 0);
    }
    if ((int)threadIdx.x < (int)(TILE_TILES * linear_factors(F)) / 16) { /* floats have none */
        const uint32_t each = linear_is_float(F) ? 1 : linear_factors(F) / 16;
        const uint32_t tile = place->tile + threadIdx.x / each;
        cuda_machine_copy16(
            stage + at::FACTORS_AT + threadIdx.x * 16,
            linear_factors_at<F>(call, place->matrix, tile < last ? tile : last, pair) +
                threadIdx.x % each * 16,
            tile <= last ? 16 : 0);
    }
#pragma unroll
    for (uint32_t i = warp; i < RT * 2; i += LINEAR_WARPS) {
        const uint32_t row = (place->row_tile + i / 2) * 8 + lane / 4;
        const bool is_there = row < call->rows;
        cuda_machine_copy16(stage + at::INPUT_AT + i * LINEAR_CHUNK + lane * 16,
                            call->input +
                                ((size_t)(is_there ? row : 0) * call->pairs + pair) * 128 +
                                i % 2 * 64 + lane % 4 * 16,
                            is_there ? 16 : 0);
    }
    if (linear_has_m(F) && threadIdx.x < RT * 8) {
        const uint32_t row = place->row_tile * 8 + threadIdx.x;
        const bool is_there = row < call->rows;
        cuda_machine_copy8(stage + at::SUMS_AT + threadIdx.x * 8,
                           call->sums + ((size_t)(is_there ? row : 0) * call->pairs + pair) * 2,
                           is_there ? 8 : 0);
    }
}

/* Multiplies a warp's M tiles × N tiles of rows of a stage, from the m0-th and n0-th on. */
template <int F, int RT, int M, int N>
static __device__ __forceinline__ void tile_multiply(const unsigned char *stage, uint32_t m0,
                                                     uint32_t n0, float (*total)[N][4])
{
    typedef tile_stage<F, RT> at;
    const uint32_t lane = threadIdx.x % 32;
    struct linear_factor factor[M];
    uint32_t a[M][2][2][4];
#pragma unroll
    for (int m = 0; m < M; m++) {
        linear_codes<F>((const uint4 *)(stage + (m0 + m) * at::CODES), lane, a[m]);
        linear_factor<F>((const uint16_t *)(stage + at::FACTORS_AT + (m0 + m) * linear_factors(F)),
                         lane, &factor[m]);
    }
#pragma unroll
    for (int n = 0; n < N; n++) {
        const uint4 *input =
            (const uint4 *)(stage + at::INPUT_AT + (n0 + n) * LINEAR_PAIR_INPUT) + lane;
        const float *sums =
            (const float *)(stage + at::SUMS_AT) + ((n0 + n) * 8 + lane % 4 * 2) * 2;
        const uint4 b[2] = {input[0], input[32]};
#pragma unroll
        for (int m = 0; m < M; m++)
            linear_pair<F>(total[m][n], a[m], &factor[m], b, sums);
    }
}

/* Stores a segment's sums unchanged, for another kernel to fold. */
static __device__ void tile_part(const struct linear_call *call, const struct linear_matrix *matrix,
                                 uint32_t segment, uint32_t tile, uint32_t row_tile,
                                 const float *sum)
{
    const uint32_t lane = threadIdx.x % 32;
#pragma unroll
    for (uint32_t i = 0; i < 4; i++) {
        const uint32_t output = tile * CUDA_WEIGHT_TILE + lane / 4 + i / 2 * 8;
        const uint32_t row = row_tile * 8 + lane % 4 * 2 + i % 2;
        if (output < matrix->outputs && row < call->rows)
            call->partials[((size_t)segment * call->rows + row) * call->columns + matrix->column +
                           output] = sum[i];
    }
}

/* Ends the copies of a stage. With fewer stages than all, an empty group follows, so that the wait
 * for all groups but the last TILE_STAGES - 2 leaves no copy under way. */
static __device__ __forceinline__ void tile_fetched(uint32_t stages)
{
    cuda_machine_copied();
    if (stages < TILE_STAGES)
        cuda_machine_copied();
}

/* Warps are [8 ÷ M tiles of outputs][RT ÷ N tiles of rows]. */
template <int F, int RT, int M, int N>
__global__ void __launch_bounds__(LINEAR_THREADS, 1) k_linear_tile_cuda(struct linear_call call)
{
    cuda_machine_begin();
    typedef tile_stage<F, RT> at;
    unsigned char *ring = (unsigned char *)cuda_machine_shared();
    const uint32_t warp = threadIdx.x / 32;
    const uint32_t m0 = warp / (RT / N) * M;
    const uint32_t n0 = warp % (RT / N) * N;
    const uint32_t first = blockIdx.z * call.segments_each * call.segment; /* pair */
    const uint32_t all = first + call.segments_each * call.segment;
    const uint32_t end = all < call.pairs ? all : call.pairs;
    float folded[M][N][4] = {};
    float total[M][N][4] = {};
    struct tile_place place;
    place.matrix = linear_matrix_of(&call, blockIdx.y, TILE_TILES, &place.tile);
    place.row_tile = blockIdx.x * RT;
    const bool is_idle =
        place.tile + m0 >= place.matrix->tiles || (place.row_tile + n0) * 8 >= call.rows;
    for (uint32_t s = 0; s + 1 < call.stages; s++) {
        if (first + s < end)
            tile_fetch<F, RT>(&call, &place, first + s, ring + s * at::BYTES);
        tile_fetched(call.stages);
    }
    for (uint32_t pair = first, now = 0; pair < end; pair++) {
        const uint32_t ahead = pair + call.stages - 1;
        cuda_machine_copied_wait<TILE_STAGES - 2>();
        /* all threads' copies are complete; all threads have left the stage before */
        __syncthreads();
        if (ahead < end)
            tile_fetch<F, RT>(&call, &place, ahead,
                              ring + (now == 0 ? call.stages - 1 : now - 1) * at::BYTES);
        tile_fetched(call.stages);
        if (!is_idle)
            tile_multiply<F, RT, M, N>(ring + now * at::BYTES, m0, n0, total);
        now = now + 1 == call.stages ? 0 : now + 1;
        if ((pair + 1) % call.segment != 0 && pair + 1 != call.pairs)
            continue;
#pragma unroll
        for (int m = 0; m < M; m++)
#pragma unroll
            for (int n = 0; n < N; n++) {
                if (call.partials != NULL)
                    tile_part(&call, place.matrix, pair / call.segment, place.tile + m0 + m,
                              place.row_tile + n0 + n, total[m][n]);
#pragma unroll
                for (int i = 0; i < 4; i++) {
                    folded[m][n][i] += total[m][n][i];
                    total[m][n][i] = 0;
                }
            }
    }
    cuda_machine_copied_wait<0>();
    if (call.partials != NULL)
        return;
#pragma unroll
    for (int m = 0; m < M; m++)
#pragma unroll
        for (int n = 0; n < N; n++)
#pragma unroll
            for (int i = 0; i < 4; i++)
                linear_store(&call, place.matrix, place.tile + m0 + m, place.row_tile + n0 + n,
                             threadIdx.x % 32, i, folded[m][n][i]);
}

/* A thread computes one result. */
__global__ void k_linear_fold_cuda(struct linear_call call)
{
    cuda_machine_begin();
    const size_t at = (size_t)blockIdx.x * LINEAR_THREADS + threadIdx.x;
    const size_t all = (size_t)call.rows * call.columns;
    const uint32_t column = (uint32_t)(at % call.columns);
    const uint32_t row = (uint32_t)(at / call.columns);
    uint32_t m = 0;
    float folded = 0;
    if (at >= all)
        return;
    for (uint32_t s = 0; s * call.segment < call.pairs; s++)
        folded += call.partials[s * all + at];
    while (m + 1 < call.count && column >= call.matrix[m + 1].column)
        m++;
    const struct linear_matrix *matrix = &call.matrix[m];
    linear_put(&call, matrix, row, column - matrix->column, folded);
}

template <int F, int RT, int M, int N>
static void tile_launch(struct cuda_backend *backend, const struct linear_call *call)
{
    struct linear_call split = *call;
    const uint32_t segments = (call->pairs + call->segment - 1) / call->segment;
    uint32_t blocks = 0;
    for (uint32_t m = 0; m < call->count; m++)
        blocks += (call->matrix[m].tiles + TILE_TILES - 1) / TILE_TILES;
    const uint32_t row_blocks = (call->rows + RT * 8 - 1) / (RT * 8);
    const uint32_t splits = cuda_weight_splits(blocks * row_blocks, backend->processors, segments,
                                               (uint64_t)call->rows * call->columns * sizeof(float),
                                               backend->options.split_bytes);
    split.segments_each = (segments + splits - 1) / splits;
    split.partials = splits > 1 ? backend->partials : NULL;
    split.stages = backend->options.trial.few_stages ? TILE_STAGES_LEAST : TILE_STAGES;
    cuda_backend_launch_early(backend, "linear", dim3(row_blocks, blocks, splits), LINEAR_THREADS,
                              k_linear_tile_cuda<F, RT, M, N>, split,
                              split.stages * tile_stage<F, RT>::BYTES);
    if (splits > 1)
        cuda_backend_launch_early(
            backend, "linear",
            dim3((unsigned)(((size_t)call->rows * call->columns + LINEAR_THREADS - 1) /
                            LINEAR_THREADS)),
            LINEAR_THREADS, k_linear_fold_cuda, split);
}

template <int F>
static void tile_run(struct cuda_backend *backend, const struct linear_call *call)
{
    if (call->rows > 64)
        tile_launch<F, 16, 2, 8>(backend, call);
    else if (call->rows > 32)
        tile_launch<F, 8, 2, 4>(backend, call);
    else
        tile_launch<F, 4, 1, 4>(backend, call);
}

void cuda_linear_tile(struct cuda_backend *backend, enum linear_form form,
                      const struct linear_call *call)
{
    static void (*const runs[])(struct cuda_backend *, const struct linear_call *) = {
        tile_run<LINEAR_F16>, tile_run<LINEAR_BF16>,    tile_run<LINEAR_4>,
        tile_run<LINEAR_4_M>, tile_run<LINEAR_4_GROUP>, tile_run<LINEAR_8>,
        tile_run<LINEAR_8_M>, tile_run<LINEAR_8_SPLIT>};
    runs[form](backend, call);
}
