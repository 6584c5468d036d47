#include "kernels/kernels_ops.h"

#include <string.h>
#include <sys/mman.h>

#include "config/base/mem.h"
#include "kernels/cpu/cpu_features.h"
#include "kernels/cpu/ops/cpu_ceilings.h"
#include "kernels/cpu/ops/ops.h"

/* The processor's table: op_* of cpu/ops, and functions that its own memory and order make simple.
 */

enum { CPU_ALIGNMENT = 64, CPU_PADDING = 64, CPU_PAGE_TOKENS = 16 };
#define CPU_HUGE_PAGE ((size_t)2 << 20)

static size_t cpu_round_up(size_t bytes)
{
    return (bytes + CPU_ALIGNMENT - 1) / CPU_ALIGNMENT * CPU_ALIGNMENT;
}

void *cpu_ops_buffer_create(size_t bytes)
{
    if (bytes > SIZE_MAX / 2)
        return NULL;
    size_t padded = cpu_round_up(bytes) + CPU_PADDING;
    bool is_huge = padded >= 2 * CPU_HUGE_PAGE;
    char *buffer = mem_alloc_aligned(is_huge ? CPU_HUGE_PAGE : CPU_ALIGNMENT, padded);
    if (buffer == NULL)
        return NULL;
    /* Only a hint: without huge pages everything works the same. */
    if (is_huge)
        (void)madvise(buffer, padded / CPU_HUGE_PAGE * CPU_HUGE_PAGE, MADV_HUGEPAGE);
    memset(buffer + bytes, 0, padded - bytes);
    return buffer;
}

/* Computes the scratch of one thread: a packed input of few rows, the scratch of a linear layer and
 * what a gated layer keeps; or, if larger, the attention leaf's own scratch. */
static void cpu_size_thread_scratch(struct kernels *kernels)
{
    const struct kernel_table *table = kernels->table;
    size_t input = cpu_round_up(table->input_bytes(OPS_FEW_ROWS, kernels->cols_max));
    size_t row = cpu_round_up(table_linear_scratch(kernels->cols_max));
    size_t bytes = input + row + ops_gated_bytes(kernels->rows_max);
    if (bytes < table->attention_scratch_bytes)
        bytes = table->attention_scratch_bytes;
    kernels->row_scratch_offset = input;
    kernels->gated_scratch_offset = input + row;
    kernels->thread_scratch_bytes = cpu_round_up(bytes + CPU_PADDING);
}

static void cpu_close(struct kernels *kernels)
{
    mem_free(kernels->input);
    mem_free(kernels->normed);
    mem_free(kernels->thread_scratch);
    mem_free(kernels->tiles);
    mem_free(kernels->order);
    mem_free(kernels->shared);
}

static enum status cpu_open(struct kernels *kernels, const struct kernels_options *options)
{
    const struct kernel_table *table = kernels->table;
    cpu_size_thread_scratch(kernels);
    size_t scratch_bytes = kernels->thread_scratch_bytes * threads_count(kernels->threads);
    size_t input_bytes = table->input_bytes(options->rows_max, options->cols_max);
    size_t normed_bytes = (size_t)options->rows_max * options->cols_max * sizeof(float);
    kernels->input = cpu_ops_buffer_create(input_bytes);
    kernels->normed = cpu_ops_buffer_create(normed_bytes);
    kernels->thread_scratch = cpu_ops_buffer_create(scratch_bytes);
    kernels->tiles = mem_zalloc(options->rows_max, sizeof *kernels->tiles);
    kernels->order = mem_zalloc(options->rows_max, sizeof *kernels->order);
    kernels->shared = mem_zalloc(options->rows_max, sizeof *kernels->shared);
    if (kernels->input == NULL || kernels->normed == NULL || kernels->thread_scratch == NULL ||
        kernels->tiles == NULL || kernels->order == NULL || kernels->shared == NULL) {
        cpu_close(kernels);
        FAIL(STATUS_NO_MEMORY, "no memory for %zu bytes of scratch of the kernels",
             scratch_bytes + input_bytes + normed_bytes);
    }
    kernels->has_dots = table->dots_are_faster != NULL &&
                        (cpu_features() & CPU_FEATURE_AVX512_BF16) != 0 &&
                        table->dots_are_faster(ops_row_scratch(kernels, 0));
    return STATUS_OK;
}

static void cpu_attach(struct kernels *kernels)
{
    (void)kernels; /* any thread may be thread 0 of a job */
}

static void *cpu_buffer_create(struct kernels *kernels, size_t bytes)
{
    (void)kernels;
    return cpu_ops_buffer_create(bytes);
}

static void cpu_buffer_destroy(struct kernels *kernels, void *buffer)
{
    (void)kernels;
    mem_free(buffer);
}

static void cpu_upload(struct kernels *kernels, void *to, const void *from, size_t bytes)
{
    (void)kernels;
    memcpy(to, from, bytes);
}

static enum status cpu_download(struct kernels *kernels, void *to, const void *from, size_t bytes)
{
    (void)kernels;
    memcpy(to, from, bytes);
    return STATUS_OK;
}

static uint64_t cpu_pages_copy(struct kernels *kernels, const struct pages_copy_args *args)
{
    op_pages_copy(kernels, args);
    return ++kernels->pages_batches;
}

static void cpu_pages_wait(struct kernels *kernels, uint64_t batch)
{
    ASSERT(batch <= kernels->pages_batches);
}

static uint64_t cpu_pages_ended(struct kernels *kernels)
{
    return kernels->pages_batches;
}

/* An operation is complete when it returns, so there is nothing to wait for. */
static enum status cpu_end(struct kernels *kernels)
{
    (void)kernels;
    return STATUS_OK;
}

static enum status cpu_step_run(struct kernels *kernels, const struct kernels_step *step,
                                void (*forward)(void *context), void *context)
{
    (void)step;
    forward(context);
    if (kernels->is_lost)
        FAIL(STATUS_UNAVAILABLE,
             "tensor parallel: a process that computes with this one has ended");
    return STATUS_OK;
}

const struct kernels_ops cpu_ops = {
    .page_tokens = CPU_PAGE_TOKENS,
    .open = cpu_open,
    .close = cpu_close,
    .attach = cpu_attach,
    .buffer_create = cpu_buffer_create,
    .buffer_destroy = cpu_buffer_destroy,
    .host_create = cpu_buffer_create,
    .host_destroy = cpu_buffer_destroy,
    .upload = cpu_upload,
    .download = cpu_download,
    .weight_create = op_weight_create,
    .weight_destroy = op_weight_destroy,
    .kv_layout = op_kv_layout,
    .kv_copy = op_kv_copy,
    .pages_copy = cpu_pages_copy,
    .pages_wait = cpu_pages_wait,
    .pages_ended = cpu_pages_ended,
    .pages_end = cpu_end,
    .step_run = cpu_step_run,
    .step_end = cpu_end,
    .embed = op_rows_embed,
    .norm = op_rows_norm,
    .linear = op_linear,
    .rope_table = op_rows_rope_table,
    .rope = op_rows_rope,
    .kv_write = op_kv_write,
    .attention = op_attention,
    .act = op_rows_act,
    .softcap = op_rows_softcap,
    .gather = op_rows_gather,
    .route = op_route,
    .experts_bytes = op_experts_bytes,
    .experts = op_experts,
    .ranks_open = cpu_end,
    .all_reduce = op_ranks_reduce,
    .all_gather = op_ranks_gather,
    .logits_stats = op_rows_logits_stats,
    .measure_ceilings = cpu_ceilings_measure,
};
