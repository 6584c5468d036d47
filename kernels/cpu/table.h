/* table: what one instruction set must provide: leaves for each operation, and the shapes they get.
 *
 * Owns:     nothing; each instruction set defines one constant struct kernel_table.
 * Thread:   leaves run on any compute thread, each on its own part of the output.
 * Cost:     leaves use no threads, no allocation, no system calls; scratch is passed in.
 * Not here: dividing work into parts (ops), choosing a table (registry).
 *
 * The bits that a leaf writes for a row depend on that row's inputs alone, however rows and outputs
 * are divided into calls. ref_int8 defines in plain C which float operations run in which order;
 * the other integer tables do the same operations.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernels/kernels.h"

enum {
    /* Elements that share one scale when inputs are rounded to int8; larger blocks cost accuracy
     * (64: twice the loss of perplexity). Also the block of the 4-bit and 8-bit weights. */
    TABLE_BLOCK = 32,
    /* Outputs that always go to the same thread: 16 float32 fill a cache line, so that two threads
     * never write the same line. */
    TABLE_GROUP = 16,
    /* Queries (rows × heads over one KV head) of one call of the attention leaf. */
    TABLE_QUERIES_MAX = 48,
    TABLE_QUERY_ROWS_MAX = 16,
    /* Keys of one softmax block and of one segment (absolute positions). */
    TABLE_KEYS_BLOCK = ATTENTION_BLOCK_KEYS,
    TABLE_KEYS_SEGMENT = 256,
};

#define TABLE_SHARED_ALL UINT32_MAX
#define TABLE_NO_ROW     UINT32_MAX

/* What input_pack packs: x, or the norm of x, with the same bits. */
struct table_input {
    const float *x; /* [rows][cols] */
    uint32_t rows;
    uint32_t cols;
    const float *norm; /* [cols]; NULL: x as it is */
    const float *norm_bias;
    enum norm_kind norm_kind;
    float epsilon;
    const uint32_t *order; /* [rows], without a norm: row i is row order[i] of x. NULL: row i */
};

/* One matrix, output groups [group_begin, group_end), all rows. `input` is the result of input_pack
 * for x (NULL when the table's path for this type reads x itself). */
struct table_linear {
    const struct weight *weight;
    const float *x;
    const void *input;
    uint32_t rows;
    uint32_t group_begin;
    uint32_t group_end;
    float *y; /* output group_begin × TABLE_GROUP of the first row */
    size_t y_stride;
    const float *bias; /* from the same output on; NULL: none */
    bool accumulate;
    bool has_dots; /* BF16 weights by dot products, with the same bits */
    void *scratch; /* table_linear_scratch(weight->cols); never the memory of `input` */
};

/* Rows of one sequence at rising positions, or of several sequences that begin with the same pages.
 * Query heads [head, head + heads) all read KV head `kv_head`; rows × heads ≤ TABLE_QUERIES_MAX. A
 * leaf may use `shared` to read a block once for several rows, or take each row alone: the bits are
 * the same. */
struct table_attention {
    const struct attention_args *args;
    const uint32_t *order; /* [rows] indexes of rows of `args` */
    /* [rows] keys in common with the row before (undefined for the first): whole blocks, or
     * TABLE_SHARED_ALL within one sequence */
    const uint32_t *shared;
    uint32_t rows;
    uint32_t kv_head;
    uint32_t head;
    uint32_t heads;
    /* A row and KV head that this thread reads from its first key on after this call, so that the
     * leaf can prefetch; or TABLE_NO_ROW. */
    uint32_t next_row;
    uint32_t next_kv_head;
    void *scratch; /* attention_scratch_bytes */
};

/* y = Σ weight[i] × result[i] in the order of i, or y += that sum. */
struct table_experts {
    float *y;
    bool accumulate;
    uint32_t count;
    const float *weight;
    const float *const *result;
};

struct kernel_table {
    const char *name;
    uint32_t needs;    /* set of enum cpu_feature */
    uint32_t kv_types; /* set of 1 << enum kv_type; f32 only in references */
    size_t attention_scratch_bytes;

    /* Returns the packed size; 0: the table does not support this type and shape. */
    size_t (*weight_bytes)(const struct tensor_type_info *type, uint32_t rows, uint32_t cols);
    /* Packs outputs of groups [group_begin, group_end); several parts may be packed at the same
     * time. */
    void (*weight_pack)(const struct tensor *tensor, uint32_t group_begin, uint32_t group_end,
                        void *packed);
    /* Writes one row of the matrix as floats, exactly; BF16 as half_bf16_normal in all tables but
     * `ref`. */
    void (*weight_row)(const struct weight *weight, uint32_t row, float *out);

    /* Returns whether `linear` needs x packed for this weight type. */
    bool (*input_wanted)(const struct tensor_type_info *type);
    size_t (*input_bytes)(uint32_t rows, uint32_t cols);
    /* The number of work units of packing, and the packing of units [begin, end). */
    uint32_t (*input_units)(uint32_t rows, uint32_t cols);
    void (*input_pack)(const struct table_input *input, uint32_t begin, uint32_t end, void *packed);

    void (*linear)(const struct table_linear *call);
    /* Returns whether dot products of bfloat16, which the processor has, are faster here than
     * multiply-adds and give the same bits. Takes some 100 µs; scratch as for linear. NULL: the
     * table has none. */
    bool (*dots_are_faster)(void *scratch);
    void (*attention)(const struct table_attention *call);

    /* Over rows [begin, end). */
    void (*norm)(const struct norm_args *args, uint32_t begin, uint32_t end);
    void (*rope)(const struct rope_args *args, uint32_t begin, uint32_t end);
    void (*act)(const struct act_args *args, uint32_t begin, uint32_t end);
    /* Over columns [begin, end) of one row, multiples of TABLE_GROUP. */
    void (*experts_sum)(const struct table_experts *sum, uint32_t begin, uint32_t end);
    void (*kv_write)(const struct kv_write_args *args, uint32_t begin, uint32_t end);
    /* Packs a full open group [n][16] into a group of a K tile of 4-bit codes. */
    void (*keys_pack)(const uint16_t *open, uint32_t n, void *group);

    /* x = cap × tanh(x ÷ cap) of `count` elements. */
    void (*softcap)(float *x, size_t count, float cap);

    /* Copies large memory that is not needed again soon: 64-byte aligned, a multiple of 64, no
     * overlap. */
    void (*copy)(void *to, const void *from, size_t bytes);

    /* Computes max, argmax, and Σ e^(x − max) of one row. */
    float (*logits_stats)(const float *logits, uint32_t vocab, struct logits_stats *out);

    /* As kernels.h says. */
    float (*row_exp)(const float *x, uint32_t count, float max, float scale, float *out);
    uint32_t (*row_above)(const float *x, uint32_t count, float least, uint32_t *ids);
    uint32_t (*row_noise)(const struct row_noise_args *args, uint32_t *ids);

    /* For the ceilings: as many multiply-adds of int8 or float32 as the machine can do in about
     * `rounds` × 16 instructions, and one pass over memory (a multiple of 64 bytes). The spins
     * return the operations done (two for a multiply-add). `sink` receives a value, so that nothing
     * is optimised away. */
    uint64_t (*spin_int8)(uint64_t rounds, uint64_t *sink);
    uint64_t (*spin_f32)(uint64_t rounds, uint64_t *sink);
    void (*read)(const void *bytes, size_t count, uint64_t *sink);
};

/* Returns the first key that a row sees. Rows whose window hides keys get a call each. */
static inline uint32_t table_first_key(const struct attention_args *args, uint32_t row)
{
    const uint32_t keys = args->kv.position[row] + 1;
    return args->window > 0 && keys > args->window ? keys - args->window : 0;
}

static inline uint32_t table_groups(uint32_t outputs)
{
    return (outputs + TABLE_GROUP - 1) / TABLE_GROUP;
}

/* Returns the bytes of scratch of a linear layer over so many inputs: as many rows of inputs,
 * rounded for BF16 weights, as stay in the second-level cache (1 MiB or more); at least 8. */
static inline size_t table_linear_scratch(uint32_t cols)
{
    const size_t least = 8 * (size_t)(cols + TABLE_GROUP) * sizeof(float);
    return least > 512 * 1024 ? least : 512 * 1024;
}
