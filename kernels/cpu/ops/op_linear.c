#include "kernels/cpu/ops/ops.h"

struct linear_job {
    struct kernels *kernels;
    const struct linear_args *args;
    bool input_wanted;
};

/* With few rows each thread packs all of the input for itself: less work than waiting for the
 * other. The bits are the same. */
static const void *linear_input(const struct linear_job *job, uint32_t thread, uint32_t count)
{
    const struct kernel_table *table = job->kernels->table;
    const struct linear_args *args = job->args;
    uint32_t cols = args->weights[0]->cols;
    if (!job->input_wanted)
        return NULL;
    uint32_t units = table->input_units(args->rows, cols);
    if (count == 1 || args->rows <= OPS_FEW_ROWS) {
        void *own = count == 1 ? job->kernels->input : ops_thread_scratch(job->kernels, thread);
        table->input_pack(args->x, args->rows, cols, 0, units, own);
        return own;
    }
    uint32_t begin;
    uint32_t end;
    threads_share(units, thread, count, &begin, &end);
    table->input_pack(args->x, args->rows, cols, begin, end, job->kernels->input);
    threads_barrier(job->kernels->threads);
    return job->kernels->input;
}

static void op_linear_job(void *context, uint32_t thread, uint32_t count)
{
    const struct linear_job *job = context;
    const struct linear_args *args = job->args;
    const void *input = linear_input(job, thread, count);
    uint32_t total = 0;
    for (uint32_t i = 0; i < args->count; i++)
        total += table_groups(args->weights[i]->rows);
    uint32_t begin;
    uint32_t end;
    threads_share(total, thread, count, &begin, &end);
    /* The groups of all matrices in one row; this thread's part may span several of them. */
    uint32_t first = 0;
    for (uint32_t i = 0; i < args->count; i++) {
        uint32_t groups = table_groups(args->weights[i]->rows);
        uint32_t from = begin > first ? begin - first : 0;
        uint32_t to = end > first ? end - first : 0;
        if (to > groups)
            to = groups;
        first += groups;
        if (from >= to)
            continue;
        struct table_linear call = {
            .weight = args->weights[i],
            .x = args->x,
            .input = input,
            .rows = args->rows,
            .group_begin = from,
            .group_end = to,
            .y = args->y[i],
            .accumulate = args->accumulate,
            .scratch = ops_row_scratch(job->kernels, thread),
        };
        if (!job->kernels->table->input_wanted(call.weight->type))
            call.input = NULL;
        job->kernels->table->linear(&call);
    }
}

void op_linear(struct kernels *kernels, const struct linear_args *args)
{
    struct linear_job job = {.kernels = kernels, .args = args};
    struct ops_work work = {.op = KERNELS_OP_linear};
    size_t elements = 0;
    ASSERT(args->count >= 1);
    ASSERT(args->count <= LINEAR_WEIGHTS_MAX);
    ASSERT(args->rows <= kernels->rows_max);
    work.inputs = args->weights[0]->cols;
    for (uint32_t i = 0; i < args->count; i++) {
        const struct weight *weight = args->weights[i];
        ASSERT(weight->cols == work.inputs);
        size_t products = (size_t)weight->rows * weight->cols * args->rows;
        bool input_wanted = kernels->table->input_wanted(weight->type);
        elements += products;
        job.input_wanted |= input_wanted;
        work.outputs += weight->rows;
        work.bytes += weight->packed_bytes;
        *(input_wanted ? &work.int8_operations : &work.f32_operations) += 2 * products;
    }
    if (args->rows > 0)
        ops_run(kernels, &work, elements, op_linear_job, &job);
}
