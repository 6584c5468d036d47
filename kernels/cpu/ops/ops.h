/* ops: the framework of operations: divides the work and calls the chosen table's leaves.
 *
 * Owns:     struct kernels: table, threads and scratch (for a device only the first two).
 * Thread:   the caller of kernels.h, which is thread 0 of every job.
 * Cost:     no allocation after creation; one hand-over to the threads per operation, none when the
 *           work is smaller than the hand-over.
 * Not here: arithmetic (leaves), the public contract (kernels.h).
 */
#pragma once

#include "kernels/cpu/table.h"
#include "kernels/kernels_ops.h"
#include "kernels/threads.h"

/* Rows that the attention leaf takes together. */
struct ops_tile {
    uint32_t first; /* in `order` */
    uint32_t rows;
    uint64_t cost; /* of one unit of its work (op_attention): roughly keys × heads */
};

struct cuda_nccl;
struct ops_chunk; /* memory of weights: op_weight */

/* What a run of the threads is counted as; the numbers are those of struct kernels_time. */
struct ops_work {
    enum kernels_op op;
    uint32_t outputs;
    uint32_t inputs;
    uint64_t int8_operations;
    uint64_t f32_operations;
    uint64_t bytes;
};

struct op_times {
    bool is_on;
    uint32_t count;
    struct kernels_time entries[KERNELS_TIMES_MAX];
};

struct kernels {
    const struct kernels_ops *ops;
    void *device; /* state of a device's operations; NULL on the processor */
    const struct kernel_table *table;
    struct threads *threads;
    uint32_t rows_max;
    uint32_t cols_max;
    void *input;          /* packed inputs of a linear layer, all rows */
    float *normed;        /* [rows_max][cols_max], for paths that read floats */
    char *thread_scratch; /* threads × thread_scratch_bytes */
    size_t thread_scratch_bytes;
    /* in a thread's scratch, after a packed input of OPS_FEW_ROWS rows */
    size_t row_scratch_offset;
    size_t gated_scratch_offset; /* after the scratch of a linear layer */
    bool has_dots;               /* table_linear.has_dots, as measured at the start */
    struct ops_tile *tiles;      /* [rows_max]; order and shared: the rows in the order of tiles */
    uint32_t *order;
    uint32_t *shared;
    struct ops_chunk *chunks;
    uint64_t pages_batches; /* batches of page copies so far, all complete */
    struct ranks *ranks;    /* NULL: one process alone */
    bool is_lost;           /* one of the ranks has ended */
    bool has_own_device;    /* no two ranks share a device */
    struct cuda_nccl *nccl; /* for devices: NCCL; without it rows go over the host, through: */
    float *ranks_host;      /* [2 × LIMIT_VOCAB], pinned */
    const struct kernels_copies_told *told;
    struct op_times times;
};

static inline void *ops_thread_scratch(const struct kernels *kernels, uint32_t thread)
{
    return kernels->thread_scratch + thread * kernels->thread_scratch_bytes;
}

static inline void *ops_row_scratch(const struct kernels *kernels, uint32_t thread)
{
    return (char *)ops_thread_scratch(kernels, thread) + kernels->row_scratch_offset;
}

static inline void *ops_gated_scratch(const struct kernels *kernels, uint32_t thread)
{
    return (char *)ops_thread_scratch(kernels, thread) + kernels->gated_scratch_offset;
}

/* ops_gated_groups: groups of outputs whose values, for `rows` rows, a gated linear layer keeps in
 * its scratch. ops_gated_bytes: bytes that suffice for up to `rows`. */
enum { OPS_GATED_BYTES = 128 * 1024 };

static inline uint32_t ops_gated_groups(uint32_t rows)
{
    const uint32_t groups = OPS_GATED_BYTES / ((uint32_t)sizeof(float) * TABLE_GROUP) / rows;
    return groups > 0 ? groups : 1;
}

static inline size_t ops_gated_bytes(uint32_t rows)
{
    const size_t one = (size_t)rows * TABLE_GROUP * sizeof(float);
    return one > OPS_GATED_BYTES ? one : OPS_GATED_BYTES;
}

/* A hand-over costs about a microsecond; with fewer elements one thread is faster. */
enum { OPS_ALONE_ELEMENTS = 8192, OPS_FEW_ROWS = 4 };

/* 64-byte aligned and padded; NULL without memory. mem_free frees it. */
void *cpu_ops_buffer_create(size_t bytes);

void op_times_begin(struct kernels *kernels);
uint32_t op_times_end(struct kernels *kernels, struct kernels_time *out);
void op_times_run(struct kernels *kernels, const struct ops_work *work, bool is_alone,
                  threads_job job, void *context);

static inline void ops_run(struct kernels *kernels, const struct ops_work *work, size_t elements,
                           threads_job job, void *context)
{
    bool is_alone = elements <= OPS_ALONE_ELEMENTS;
    if (kernels->times.is_on)
        op_times_run(kernels, work, is_alone, job, context);
    else if (is_alone)
        job(context, 0, 1);
    else
        threads_run(kernels->threads, job, context);
}

/* Returns the rows with the page tables of one group as the first tables. */
static inline struct kv_rows ops_group(const struct kv_rows *kv, uint32_t group)
{
    struct kv_rows own = *kv;
    ASSERT(group <= kv->layout->window_units);
    own.page_tables += (size_t)group * kv->sequences;
    return own;
}

enum status op_weight_create(struct kernels *kernels, struct weight *out,
                             const struct tensor *tensor);
void op_weight_destroy(struct kernels *kernels, struct weight *weight);

void op_linear(struct kernels *kernels, const struct linear_args *args);

void op_route(struct kernels *kernels, const struct route_args *args);

size_t op_experts_bytes(const struct kernels *kernels, uint32_t rows_max, uint32_t used,
                        uint32_t width, uint32_t hidden);
void op_experts(struct kernels *kernels, const struct experts_args *args);

void op_attention(struct kernels *kernels, const struct attention_args *args);

enum status op_kv_layout(struct kernels *kernels, enum kv_type type, uint32_t page_tokens,
                         uint32_t layers, uint32_t kv_heads, uint32_t head_dim,
                         struct kv_layout *out);
void op_kv_copy(struct kernels *kernels, const struct kv_layout *layout, void *to_page,
                const void *from_page, uint32_t tokens);
void op_kv_write(struct kernels *kernels, const struct kv_write_args *args);

void op_pages_copy(struct kernels *kernels, const struct pages_copy_args *args);

void op_ranks_reduce(struct kernels *kernels, const struct all_reduce_args *args);
void op_ranks_gather(struct kernels *kernels, const struct all_gather_args *args);

void op_rows_embed(struct kernels *kernels, const struct embed_args *args);
void op_rows_norm(struct kernels *kernels, const struct norm_args *args);
void op_rows_rope_table(struct kernels *kernels, const struct rope_table_args *args);
void op_rows_rope(struct kernels *kernels, const struct rope_args *args);
void op_rows_act(struct kernels *kernels, const struct act_args *args);
void op_rows_softcap(struct kernels *kernels, const struct softcap_args *args);
void op_rows_gather(struct kernels *kernels, const struct gather_args *args);
void op_rows_logits_stats(struct kernels *kernels, const float *logits, uint32_t rows,
                          uint32_t vocab, struct logits_stats *out);
void op_rows_each(struct kernels *kernels, uint32_t threads_max, uint32_t count,
                  void (*each)(void *context, uint32_t index, uint32_t thread), void *context);
