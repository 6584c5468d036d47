/* packed: weights and inputs in the order in which the leaves of vector tables read them.
 *
 * Owns:     the forms below; weights are packed once, at load.
 * Thread:   any compute thread, each on its own groups.
 * Cost:     packing is O(weights) in plain C.
 * Not here: reading the blocks of files (types), rounding inputs to int8 (the tables), arithmetic.
 *
 * Weights, per group of 16 outputs and 32 inputs (a unit). r is the output; w[v] are the bytes
 * [r][i] of inputs 4v + i, v < 8, with the type's offset added:
 *     4 bits  { uint8 n[4][16 r][4] }                     n[v]: low nibble w[v], high one w[4 + v]
 *     5 bits  { the same; uint8 h[16 r][4] }              bit v of h: bit 4 of w[v]
 *     6 bits  { the same; uint8 h[2][16 r][4] }           bits 2(v mod 4) of h[v ÷ 4]: bits 4, 5
 *     8 bits  { uint8 q[8][16 r][4] }
 * then its factors:
 *     blocks of 32   { half d[16]; half m[16] }           m where the type has it
 *     blocks of 256  { int8 scale[16]; int8 min[16] }, q6_k { int8 scale[2 halves][16] },
 *                    and { half d[16]; half m[16] } before each 8 units
 *     floats, per input, no units                         { type w[16 r] }
 *     bfloat16, per two inputs (an odd last one: 0)       { bf16 w[16 r][2] }, half_bf16_normal
 * Inputs, per tile of n rows and 32 inputs:
 *     { int8 q[n][32]; float scale[n]; float scaled_sum[n]; int32 start[n]; int32 start_high[n] }
 *     start = −8 × Σ q, start_high = −8 × Σ of the last 16
 */
#pragma once

#include "kernels/cpu/table.h"
#include "kernels/types/half.h"
#include "kernels/types/types.h"

enum {
    PACKED_INPUT_BYTES = TABLE_BLOCK + 16, /* of one row and 32 inputs */
    PACKED_UNITS = 8,                      /* between the factors of blocks of 256 */
};

static inline size_t packed_code_bytes(struct types_form form)
{
    return form.bits == 8 ? 512 : 256 + 64 * (size_t)(form.bits - 4);
}

/* Returns the bytes of d and m of 16 outputs. */
static inline size_t packed_factor_bytes(struct types_form form)
{
    return form.has_m ? 64 : 32;
}

static inline size_t packed_unit_bytes(struct types_form form)
{
    return packed_code_bytes(form) + (types_has_scales(form) ? 32 : packed_factor_bytes(form));
}

/* Returns the inputs of a row as float weights are packed; bfloat16 in whole pairs. */
static inline uint32_t packed_cols(const struct tensor_type_info *type, uint32_t cols)
{
    return type->id == TENSOR_TYPE_bf16 ? cols + cols % 2 : cols;
}

/* Returns the bytes of one group over all inputs. */
static inline size_t packed_group_bytes(const struct tensor_type_info *type, uint32_t cols)
{
    const struct types_form form = types_form(type->id);
    if (form.bits == 0)
        return (size_t)packed_cols(type, cols) * TABLE_GROUP * type->block_bytes;
    size_t units = cols / TABLE_BLOCK;
    size_t heads = types_has_scales(form) ? units / PACKED_UNITS : 0;
    return units * packed_unit_bytes(form) + heads * packed_factor_bytes(form);
}

/* Leaves of struct kernel_table. */
size_t packed_weight_bytes(const struct tensor_type_info *type, uint32_t rows, uint32_t cols);
void packed_weight_pack(const struct tensor *tensor, uint32_t group_begin, uint32_t group_end,
                        void *packed);
void packed_weight_row(const struct weight *weight, uint32_t row, float *out);

/* Rows are spread evenly over the fewest tiles of at most `most`: tile i begins at row ⌊rows × i ÷
 * tiles⌋. */
static inline uint32_t packed_tiles(uint32_t rows, uint32_t most)
{
    return (rows + most - 1) / most;
}

static inline uint32_t packed_tile_begin(uint32_t rows, uint32_t tiles, uint32_t tile)
{
    return (uint32_t)((uint64_t)rows * tile / tiles);
}

static inline size_t packed_input_bytes(uint32_t rows, uint32_t cols)
{
    return (size_t)rows * (cols / TABLE_BLOCK) * PACKED_INPUT_BYTES;
}

/* Rounds 32 inputs like k_quantise_block_ref_int8. `sums` are the sums of all and of the last 16.
 */
typedef float packed_quantise(const float *x, int8_t *q, int32_t sums[2]);

/* Packs one block of the n rows of a tile, `step` floats apart, into its unit. */
typedef void packed_tile(const float *x, size_t step, uint32_t n, char *unit);

/* The factors of a row's norm, of ref_int8.h. */
struct packed_norm {
    float mean; /* of NORM_LAYER only */
    float scale;
};

/* packed_norm_of computes the factors of a row. packed_norm_apply applies them to the 32 inputs x
 * of columns `col` on. It stores vectors as wide as the following loads, because narrower stores
 * would delay those. */
typedef struct packed_norm packed_norm_of(const struct table_input *input, const float *row);
typedef void packed_norm_apply(const struct table_input *input, struct packed_norm norm, size_t col,
                               const float *x, float *out);

enum { PACKED_TILE_MAX = 16 };

/* A packed_tile that works row by row. */
static inline __attribute__((always_inline)) void
packed_rows(packed_quantise *quantise, const float *x, size_t step, uint32_t n, char *unit)
{
    char *factors = unit + (size_t)n * TABLE_BLOCK;
    for (uint32_t lane = 0; lane < n; lane++, x += step, factors += 4) {
        int32_t sums[2];
        float scale = quantise(x, (int8_t *)unit + (size_t)lane * TABLE_BLOCK, sums);
        float scaled_sum = scale * (float)sums[0];
        sums[0] *= -8;
        sums[1] *= -8;
        memcpy(factors, &scale, 4);
        memcpy(factors + 4 * n, &scaled_sum, 4);
        memcpy(factors + 8 * n, &sums[0], 4);
        memcpy(factors + 12 * n, &sums[1], 4);
    }
}

/* Copies one block of n rows, from row `first` on in the given order. */
static inline __attribute__((always_inline)) void
packed_gather(const struct table_input *input, uint32_t first, uint32_t n, size_t block, float *out)
{
    for (uint32_t i = 0; i < n; i++)
        memcpy(out + (size_t)i * TABLE_BLOCK,
               input->x + (size_t)input->order[first + i] * input->cols + block * TABLE_BLOCK,
               TABLE_BLOCK * sizeof *out);
}

/* input_pack for tiles of at most `most` rows. A unit is one block of one tile, so that threads
 * write separate ranges of memory. The norms of a tile are computed when its first unit is packed.
 * The rows are in the cache then, and the normed values are written to the stack only, as
 * are rows in an order. */
static inline __attribute__((always_inline)) void
packed_input(packed_tile *pack, packed_norm_of *norm_of, packed_norm_apply *apply, uint32_t most,
             const struct table_input *input, uint32_t begin, uint32_t end, void *packed)
{
    const uint32_t blocks = input->cols / TABLE_BLOCK;
    const uint32_t tiles = packed_tiles(input->rows, most);
    _Alignas(64) float normed[PACKED_TILE_MAX * TABLE_BLOCK];
    struct packed_norm norms[PACKED_TILE_MAX];
    for (uint32_t u = begin; u < end; u++) {
        const uint32_t first = packed_tile_begin(input->rows, tiles, u / blocks);
        const uint32_t n = packed_tile_begin(input->rows, tiles, u / blocks + 1) - first;
        const size_t b = u % blocks;
        const float *rows = input->x + (size_t)first * input->cols;
        char *unit = (char *)packed + ((size_t)first * blocks + b * n) * PACKED_INPUT_BYTES;
        if (input->order != NULL) {
            packed_gather(input, first, n, b, normed);
            pack(normed, TABLE_BLOCK, n, unit);
            continue;
        }
        if (input->norm == NULL) {
            pack(rows + b * TABLE_BLOCK, input->cols, n, unit);
            continue;
        }
        for (uint32_t i = 0; i < n; i++) {
            const float *row = rows + (size_t)i * input->cols;
            if (u == begin || b == 0)
                norms[i] = norm_of(input, row);
            apply(input, norms[i], b * TABLE_BLOCK, row + b * TABLE_BLOCK,
                  normed + (size_t)i * TABLE_BLOCK);
        }
        pack(normed, TABLE_BLOCK, n, unit);
    }
}

/* Returns the biases of a group's outputs, or NULL. */
static inline const float *packed_bias(const struct table_linear *call, uint32_t group)
{
    return call->bias != NULL ? call->bias + (size_t)(group - call->group_begin) * TABLE_GROUP
                              : NULL;
}

/* Rounds one row for BF16 weights: to floats, or to bfloat16 where `is_pairs`; [packed_cols]. */
static inline void packed_round(const float *x, uint32_t cols, bool is_pairs, void *out)
{
    uint16_t *pairs = out;
    float *floats = out;
    for (uint32_t i = 0; i < cols && is_pairs; i++)
        pairs[i] = half_bf16_from_float(x[i]);
    for (uint32_t i = 0; i < cols && !is_pairs; i++)
        floats[i] = half_bf16_to_float(half_bf16_from_float(x[i]));
    if (cols % 2 == 1)
        memset((char *)out + cols * (is_pairs ? sizeof *pairs : sizeof *floats), 0,
               is_pairs ? sizeof *pairs : sizeof *floats);
}

/* Runs `linear` with x rounded, as many rows at a time as fit the scratch. */
static inline void packed_rounded(const struct table_linear *call, bool is_pairs,
                                  void (*linear)(const struct table_linear *rounded))
{
    const uint32_t cols = call->weight->cols;
    const size_t bytes = (size_t)(cols + cols % 2) * (is_pairs ? sizeof(uint16_t) : sizeof(float));
    const uint32_t most = (uint32_t)(table_linear_scratch(cols) / bytes / 8) * 8;
    struct table_linear part = *call;
    part.x = call->scratch;
    for (uint32_t row = 0; row < call->rows; row += part.rows) {
        part.rows = call->rows - row < most ? call->rows - row : most;
        part.y = call->y + row * call->y_stride;
        for (uint32_t r = 0; r < part.rows; r++)
            packed_round(call->x + (size_t)(row + r) * cols, cols, is_pairs,
                         (char *)call->scratch + r * bytes);
        linear(&part);
    }
}
