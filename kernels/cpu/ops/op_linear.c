#include "kernels/cpu/ops/ops.h"

struct linear_job {
    struct kernels *kernels;
    const struct linear_args *args;
    bool input_wanted;
};

/* One thread's part: output groups [begin, end) of all matrices one after another, rows
 * [first, first + rows). */
struct linear_part {
    uint32_t thread;
    uint32_t begin;
    uint32_t end;
    uint32_t first;
    uint32_t rows;
    const void *input;
};

/* With this many rows for each thread they are cut by rows: what a thread rounds it reads itself,
 * out of its own cache, and nobody waits; each reads all weights, as often as it would a part. */
enum { LINEAR_ROWS_EACH = 32 };

static void linear_cut(const struct linear_args *args, uint32_t thread, uint32_t count,
                       struct linear_part *out)
{
    uint32_t groups = 0;
    for (uint32_t i = 0; i < args->count; i++)
        groups += table_groups(args->weights[i]->rows);
    *out = (struct linear_part){.thread = thread, .end = groups, .rows = args->rows};
    if (args->rows < LINEAR_ROWS_EACH * count) {
        threads_share(groups, thread, count, &out->begin, &out->end);
        return;
    }
    uint32_t end;
    threads_share(args->rows, thread, count, &out->first, &end);
    out->rows = end - out->first;
}

/* With few rows each thread packs all of the input for itself: less work than waiting for the
 * other. The bits are the same. */
static const void *linear_input(const struct linear_job *job, const struct linear_part *part,
                                uint32_t count)
{
    const struct kernel_table *table = job->kernels->table;
    const struct linear_args *args = job->args;
    const uint32_t cols = args->weights[0]->cols;
    const float *x = args->x + (size_t)part->first * cols;
    const uint32_t units = table->input_units(part->rows, cols);
    char *out = (char *)job->kernels->input + table->input_bytes(part->first, cols);
    uint32_t begin = 0;
    uint32_t end = units;
    if (!job->input_wanted)
        return NULL;
    const bool is_shared = count > 1 && part->rows == args->rows && part->rows > OPS_FEW_ROWS;
    if (is_shared)
        threads_share(units, part->thread, count, &begin, &end);
    else if (count > 1 && part->rows == args->rows)
        out = ops_thread_scratch(job->kernels, part->thread);
    table->input_pack(x, part->rows, cols, begin, end, out);
    if (is_shared)
        threads_barrier(job->kernels->threads);
    return out;
}

static void op_linear_job(void *context, uint32_t thread, uint32_t count)
{
    const struct linear_job *job = context;
    const struct linear_args *args = job->args;
    struct linear_part part;
    linear_cut(args, thread, count, &part);
    part.input = linear_input(job, &part, count);
    uint32_t before = 0; /* groups of the matrices before this one */
    for (uint32_t i = 0; i < args->count; i++) {
        const struct weight *weight = args->weights[i];
        uint32_t groups = table_groups(weight->rows);
        uint32_t from = part.begin > before ? part.begin - before : 0;
        uint32_t to = part.end > before ? part.end - before : 0;
        if (to > groups)
            to = groups;
        before += groups;
        if (from >= to)
            continue;
        struct table_linear call = {
            .weight = weight,
            .x = args->x + (size_t)part.first * weight->cols,
            .input = part.input,
            .rows = part.rows,
            .group_begin = from,
            .group_end = to,
            .y = args->y[i] + (size_t)part.first * weight->rows,
            .accumulate = args->accumulate,
            .scratch = ops_row_scratch(job->kernels, thread),
        };
        if (!job->kernels->table->input_wanted(weight->type))
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
