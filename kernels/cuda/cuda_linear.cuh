/* cuda_linear.cuh: the common part of the kernels of linear layers: y = x · Wᵀ on matrix
 * instructions.
 *
 * Owns:     nothing.
 * Thread:   device code of a whole warp.
 * Cost:     a pair of parts (64 inputs) of 16 outputs × 8 rows is four instructions; 4-bit codes
 *           need about 35 more for the conversion, whatever the number of rows.
 * Not here: the choice of the kernel, rounding of inputs (cuda_linear.cu).
 *
 * Outputs are the rows of the instruction (A), rows of x its columns (B). A sum over the inputs is
 * divided at absolute positions into up to eight segments. Each is summed from zero, part by part,
 * and the segments are added as a left fold. With few rows the eight warps of a block take one
 * segment each (cuda_linear_few). With many, a block takes all of them, or blocks share them
 * (cuda_linear_tile). The bits are equal.
 *
 * Codes of 4 and 8 bits are whole numbers to the matrix instruction, so that each product with a
 * rounded input is exact. The sum of an instruction's sixteen products and the earlier value is not
 * exact: a device truncates every term about 2^-24 below the greatest one (linear_bound in
 * tests/gpu allows for that). The sum of a part (of half a part; for groups, of the pair) is
 * multiplied by its factor: total = a × Σ code × x + total, and + b × Σ x where the type has m.
 */
#pragma once

#include "kernels/cuda/cuda_backend.cuh"
#include "kernels/cuda/cuda_machine.cuh"
#include "kernels/cuda/cuda_weight.h"
#include "kernels/kernels_experts.h"

enum linear_form {
    LINEAR_F16,
    LINEAR_BF16,
    LINEAR_4,
    LINEAR_4_M,
    LINEAR_4_GROUP,
    LINEAR_8,
    LINEAR_8_M,
    LINEAR_8_SPLIT
};

enum {
    LINEAR_ROWS_FEW = 16,
    LINEAR_WARPS = 8,
    LINEAR_THREADS = LINEAR_WARPS * 32,
    LINEAR_SEGMENTS = 8,       /* most segments of all inputs */
    LINEAR_CHUNK = 32 * 16,    /* bytes of codes that a warp reads at once */
    LINEAR_PAIR_INPUT = 1024,  /* of 8 rows: [part][lane] */
    LINEAR_TILE_OUTPUTS = 128, /* of a block of cuda_linear_tile: eight tiles */
};

struct linear_matrix {
    const unsigned char *packed;
    size_t factors_at;
    float *y;
    const float *bias; /* [outputs], or NULL */
    uint32_t tiles;    /* of 16 outputs */
    uint32_t outputs;
    uint32_t column; /* index of its first output among those of all matrices */
};

/* Matrices of one form over one input. */
struct linear_call {
    struct linear_matrix matrix[LINEAR_WEIGHTS_MAX];
    uint32_t count;
    uint32_t columns; /* outputs of all */
    uint32_t pairs;   /* of parts */
    uint32_t segment; /* pairs */
    uint32_t rows;
    const unsigned char *input; /* [rows][pairs × 64] of 16 bits */
    const float *sums;          /* [rows][pairs × 2]: of the parts */
    const float *scales;        /* [rows] */
    float *partials;            /* [segment][rows][columns], where blocks share the segments */
    uint32_t segments_each;     /* of one block, where blocks share them */
    uint32_t stages;            /* of cuda_linear_tile: 2 or TILE_STAGES */
    bool accumulate;
};

/* The pieces of a routing (kernels_experts.h), in device memory. With `every` above 1 the weights
 * hold experts e with e mod every = own, and other experts' pieces are left out. */
struct linear_pieces {
    const struct kernels_experts_piece *piece; /* [count] */
    uint32_t count;
    uint32_t every;
    uint32_t own;
};

struct linear_piece {
    uint32_t expert; /* in the weights */
    uint32_t first;  /* pair */
    uint32_t rows;   /* 0: nothing to do */
};

static __device__ __forceinline__ struct linear_piece
linear_piece_of(const struct linear_pieces *pieces, uint32_t index)
{
    const struct kernels_experts_piece of = pieces->piece[index];
    const uint32_t every = pieces->every > 1 ? pieces->every : 1;
    struct linear_piece piece;
    piece.expert = of.expert / every;
    piece.first = of.first;
    piece.rows = every == 1 || of.expert % every == pieces->own ? of.pairs : 0;
    return piece;
}

static __device__ __host__ constexpr bool linear_is_float(int form)
{
    return form == LINEAR_F16 || form == LINEAR_BF16;
}

static __device__ __host__ constexpr bool linear_has_m(int form)
{
    return form == LINEAR_4_M || form == LINEAR_4_GROUP || form == LINEAR_8_M;
}

static __device__ __host__ constexpr bool linear_is_4(int form)
{
    return form == LINEAR_4 || form == LINEAR_4_M || form == LINEAR_4_GROUP;
}

/* Returns the chunks of a pair of parts of a tile. */
static __device__ __host__ constexpr uint32_t linear_chunks(int form)
{
    return linear_is_float(form) ? 4 : linear_is_4(form) ? 1 : 2;
}

/* Returns the bytes of factors of a pair of parts of a tile, or of its group. */
static __device__ __host__ constexpr uint32_t linear_factors(int form)
{
    return linear_is_float(form)                  ? 0
           : form == LINEAR_4 || form == LINEAR_8 ? 64
           : form == LINEAR_4_GROUP               ? 64
                                                  : 128;
}

/* Returns the address of a lane's 16 bytes of a chunk. */
template <int F>
static __device__ const unsigned char *
linear_chunk_at(const struct linear_call *call, const struct linear_matrix *matrix, uint32_t tile,
                uint32_t pair, uint32_t chunk, uint32_t lane)
{
    const unsigned char *codes = matrix->packed + CUDA_WEIGHT_HEAD;
    if (!linear_is_float(F))
        return codes +
               (((size_t)tile * call->pairs + pair) * linear_chunks(F) + chunk) * LINEAR_CHUNK +
               lane * 16;
    /* Chunks are [part][rows g, rows g + 8]; a lane's are eight neighbours of row g. */
    const size_t row = (size_t)tile * CUDA_WEIGHT_TILE + chunk % 2 * 8 + lane / 4;
    return codes + (row * call->pairs + pair) * 128 + chunk / 2 * 64 + lane % 4 * 16;
}

template <int F>
static __device__ const unsigned char *linear_factors_at(const struct linear_call *call,
                                                         const struct linear_matrix *matrix,
                                                         uint32_t tile, uint32_t pair)
{
    const size_t each = F == LINEAR_4_GROUP ? 2 : 1; /* pairs in one record */
    return matrix->packed + matrix->factors_at +
           ((size_t)tile * (call->pairs / each) + pair / each) * linear_factors(F);
}

/* Finds the matrix that a block works on, by tiles of `each`; *tile is the block's first tile
 * there. */
static __device__ const struct linear_matrix *
linear_matrix_of(const struct linear_call *call, uint32_t block, uint32_t each, uint32_t *tile)
{
    uint32_t m = 0;
    for (; m + 1 < call->count; m++) {
        const uint32_t blocks = (call->matrix[m].tiles + each - 1) / each;
        if (block < blocks)
            break;
        block -= blocks;
    }
    *tile = block * each;
    return &call->matrix[m];
}

/* Makes two registers from a word of 8-bit codes + 128: 1024 + code is a half whose lowest ten bits
 * are the code. */
static __device__ __forceinline__ void linear_bytes(uint32_t word, uint32_t *a)
{
    a[0] = cuda_machine_half2_sub((word & 0x00ff00ffu) | 0x64006400u, 0x64806480u);
    a[1] = cuda_machine_half2_sub((word >> 8 & 0x00ff00ffu) | 0x64006400u, 0x64806480u);
}

/* Makes four registers from a word of 4-bit codes: every second code is four bits higher, as 1024 +
 * 16 × code. */
template <int F>
static __device__ __forceinline__ void linear_nibbles(uint32_t word, uint32_t *a)
{
    const uint32_t offset = linear_has_m(F) ? 0x64006400u : 0x64086408u; /* 1024, 1032 */
    const uint32_t higher = linear_has_m(F) ? 0xd400d400u : 0xd480d480u; /* −64, −72 */
#pragma unroll
    for (int r = 0; r < 4; r += 2) {
        const uint32_t two = word >> 4 * r;
        a[r] = cuda_machine_half2_sub((two & 0x000f000fu) | 0x64006400u, offset);
        a[r + 1] = cuda_machine_half2_fma((two & 0x00f000f0u) | 0x64006400u, 0x2c002c00u, higher);
    }
}

/* Makes the A side of a pair of parts, [part][step][register], from its chunks. */
template <int F>
static __device__ __forceinline__ void linear_codes(const uint4 *chunks, uint32_t lane,
                                                    uint32_t (*a)[2][4])
{
#pragma unroll
    for (int part = 0; part < 2; part++) {
        if (linear_is_float(F)) {
            const uint4 low = chunks[part * 64 + lane];
            const uint4 high = chunks[part * 64 + 32 + lane];
            a[part][0][0] = low.x, a[part][0][1] = high.x;
            a[part][0][2] = low.y, a[part][0][3] = high.y;
            a[part][1][0] = low.z, a[part][1][1] = high.z;
            a[part][1][2] = low.w, a[part][1][3] = high.w;
        } else if (linear_is_4(F)) {
            const uint4 words = chunks[lane];
            linear_nibbles<F>(part == 0 ? words.x : words.z, a[part][0]);
            linear_nibbles<F>(part == 0 ? words.y : words.w, a[part][1]);
        } else {
            const uint4 words = chunks[part * 32 + lane];
            linear_bytes(words.x, a[part][0]);
            linear_bytes(words.y, a[part][0] + 2);
            linear_bytes(words.z, a[part][1]);
            linear_bytes(words.w, a[part][1] + 2);
        }
    }
}

/* The factors of a lane's outputs g and g + 8: [part][step, where halves differ][output]. */
struct linear_factor {
    float a[2][2][2];
    float b[2][2];
};

template <int F>
static __device__ __forceinline__ void linear_factor(const uint16_t *factors, uint32_t lane,
                                                     struct linear_factor *out)
{
    const uint32_t each = linear_has_m(F) ? 2 : 1;
    const int parts = linear_is_float(F) ? 0 : F == LINEAR_4_GROUP ? 1 : 2;
    const int steps = F == LINEAR_8_SPLIT ? 2 : 1;
#pragma unroll
    for (int i = 0; i < parts * steps * 2; i++) {
        const uint16_t *at = factors + (i / 2 * CUDA_WEIGHT_TILE + lane / 4 + i % 2 * 8) * each;
        out->a[i / 2 / steps][i / 2 % steps][i % 2] = cuda_machine_half_float(at[0]);
        if (linear_has_m(F))
            out->b[i / 2 / steps][i % 2] = cuda_machine_half_float(at[1]);
    }
}

template <int F>
static __device__ __forceinline__ void linear_multiply(float *c, const uint32_t *a, uint32_t low,
                                                       uint32_t high)
{
    const uint32_t b[2] = {low, high};
    if (F == LINEAR_BF16)
        cuda_machine_mma_bf16(c, a, b);
    else
        cuda_machine_mma_f16(c, a, b);
}

/* total += factor × sum, for the two outputs and two rows of a lane. */
static __device__ __forceinline__ void linear_add(float *total, const float *factor,
                                                  const float *sum)
{
#pragma unroll
    for (int i = 0; i < 4; i++)
        total[i] = fmaf(factor[i / 2], sum[i], total[i]);
}

/* Adds a pair of parts of 16 outputs × 8 rows. b: a lane's eight inputs of each part; sums: those
 * of its two rows, [row][part]. */
template <int F>
static __device__ __forceinline__ void linear_pair(float *total, const uint32_t (*a)[2][4],
                                                   const struct linear_factor *factor,
                                                   const uint4 *b, const float *sums)
{
    float sum[4] = {0, 0, 0, 0};
#pragma unroll
    for (int part = 0; part < 2; part++) {
        if (linear_is_float(F)) {
            linear_multiply<F>(total, a[part][0], b[part].x, b[part].y);
            linear_multiply<F>(total, a[part][1], b[part].z, b[part].w);
            continue;
        }
        linear_multiply<F>(sum, a[part][0], b[part].x, b[part].y);
        if (F == LINEAR_8_SPLIT) {
            linear_add(total, factor->a[part][0], sum);
            sum[0] = sum[1] = sum[2] = sum[3] = 0;
        }
        linear_multiply<F>(sum, a[part][1], b[part].z, b[part].w);
        if (F == LINEAR_4_GROUP && part == 0)
            continue;
        linear_add(total, factor->a[F == LINEAR_4_GROUP ? 0 : part][F == LINEAR_8_SPLIT], sum);
        sum[0] = sum[1] = sum[2] = sum[3] = 0;
        if (linear_has_m(F)) {
            const float rows[2] = {F == LINEAR_4_GROUP ? sums[0] + sums[1] : sums[part],
                                   F == LINEAR_4_GROUP ? sums[2] + sums[3] : sums[2 + part]};
            const float of[4] = {rows[0], rows[1], rows[0], rows[1]};
            linear_add(total, factor->b[F == LINEAR_4_GROUP ? 0 : part], of);
        }
    }
}

/* Stores the folded sum of an output and row. */
static __device__ __forceinline__ void linear_put(const struct linear_call *call,
                                                  const struct linear_matrix *matrix, uint32_t row,
                                                  uint32_t output, float sum)
{
    float *y = matrix->y + (size_t)row * matrix->outputs + output;
    float value = sum * call->scales[row] * *(const float *)matrix->packed;
    if (matrix->bias != NULL)
        value += matrix->bias[output];
    *y = call->accumulate ? *y + value : value;
}

/* Stores element i of a lane's sums of 16 outputs × 8 rows, after the fold. */
static __device__ __forceinline__ void linear_store(const struct linear_call *call,
                                                    const struct linear_matrix *matrix,
                                                    uint32_t tile, uint32_t row_tile, uint32_t lane,
                                                    uint32_t i, float sum)
{
    const uint32_t output = tile * CUDA_WEIGHT_TILE + lane / 4 + i / 2 * 8;
    const uint32_t row = row_tile * 8 + lane % 4 * 2 + i % 2;
    if (output < matrix->outputs && row < call->rows)
        linear_put(call, matrix, row, output, sum);
}

/* Launch the kernels for a form: `few` for up to LINEAR_ROWS_FEW rows, `tile` for any number. */
void cuda_linear_few(struct cuda_backend *backend, enum linear_form form,
                     const struct linear_call *call);
void cuda_linear_tile(struct cuda_backend *backend, enum linear_form form,
                      const struct linear_call *call);
/* The same for pieces: call->rows pairs in order, each of one row of input and of y; the tiles and
 * outputs of a matrix are those of one expert. */
void cuda_linear_few_pieces(struct cuda_backend *backend, enum linear_form form,
                            const struct linear_call *call, const struct linear_pieces *pieces);

/* Memory for rounded inputs. */
struct cuda_linear_room {
    uint16_t *packed;
    float *sums;
    float *scales;
};

/* A linear layer of experts: pair i reads row order[i] of x (NULL: row i), and its result is row i
 * of each y. */
struct cuda_linear_pieces {
    const float *x; /* [rows of x][cols of every weight] */
    const uint32_t *order;
    uint32_t rows;    /* pairs */
    uint32_t outputs; /* of one expert */
    uint32_t count;
    const struct weight *weights[LINEAR_WEIGHTS_MAX];
    const float *bias[LINEAR_WEIGHTS_MAX]; /* [experts of the weight][outputs], or NULL */
    float *y[LINEAR_WEIGHTS_MAX];          /* [rows][outputs] */
    struct linear_pieces pieces;
    struct cuda_linear_room room;
};
void cuda_linear_pieces(struct cuda_backend *backend, const struct cuda_linear_pieces *layer);
