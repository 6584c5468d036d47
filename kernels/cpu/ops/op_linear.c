#include "kernels/cpu/ops/ops.h"

struct linear_job {
    struct kernels *kernels;
    const struct linear_args *args;
    bool input_wanted;
};

/* One thread's part: output groups [begin, end), counted over all matrices (over both at once when
 * one gates the other), for rows [first, first + rows). */
struct linear_part {
    uint32_t thread;
    uint32_t begin;
    uint32_t end;
    uint32_t first;
    uint32_t rows;
    const void *input;
};

/* With at least this many rows for each thread, the rows are divided. A thread then reads what it
 * has rounded from its own cache, and no thread waits. Each thread reads all weights as often as it
 * would read a part of them. */
enum { LINEAR_ROWS_EACH = 32 };

static void linear_cut(const struct linear_args *args, uint32_t thread, uint32_t count,
                       struct linear_part *out)
{
    uint32_t groups = 0;
    for (uint32_t i = 0; i < (kernels_act_takes_two(args->act) ? 1 : args->count); i++)
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

/* With few rows each thread packs the whole input for itself, which is less work than waiting for
 * the others. The bits are the same. */
static const void *linear_input(const struct linear_job *job, const struct linear_part *part,
                                uint32_t count)
{
    const struct kernel_table *table = job->kernels->table;
    const struct linear_args *args = job->args;
    const uint32_t cols = args->weights[0]->cols;
    const struct table_input input = {.x = args->x + (size_t)part->first * cols,
                                      .rows = part->rows,
                                      .cols = cols,
                                      .norm = args->norm,
                                      .norm_bias = args->norm_bias,
                                      .norm_kind = args->norm_kind,
                                      .epsilon = args->epsilon};
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
    table->input_pack(&input, begin, end, out);
    if (is_shared)
        threads_barrier(job->kernels->threads);
    return out;
}

/* Computes groups [begin, end) of one matrix, for all rows of the part. */
static void linear_leaf(const struct linear_job *job, const struct linear_part *part, uint32_t i,
                        uint32_t begin, uint32_t end, float *y, size_t y_stride)
{
    const struct kernel_table *table = job->kernels->table;
    const struct weight *weight = job->args->weights[i];
    const struct table_linear call = {
        .weight = weight,
        .x = job->args->x + (size_t)part->first * weight->cols,
        .input = table->input_wanted(weight->type) ? part->input : NULL,
        .rows = part->rows,
        .group_begin = begin,
        .group_end = end,
        .y = y,
        .y_stride = y_stride,
        .bias =
            job->args->bias[i] != NULL ? job->args->bias[i] + (size_t)begin * TABLE_GROUP : NULL,
        .accumulate = job->args->accumulate,
        .has_dots = job->kernels->has_dots,
        .scratch = ops_row_scratch(job->kernels, part->thread),
    };
    table->linear(&call);
}

/* Computes groups [begin, end) of matrix i with the activation behind it. Takes as many groups at
 * once as leave the results of all rows, and the factors of a gate, in the second-level cache; the
 * factors are never written anywhere else. */
static void linear_act(const struct linear_job *job, const struct linear_part *part, uint32_t i,
                       uint32_t begin, uint32_t end)
{
    const struct linear_args *args = job->args;
    const uint32_t outputs = args->weights[i]->rows;
    const uint32_t together = ops_gated_groups(part->rows);
    float *up = ops_gated_scratch(job->kernels, part->thread);
    for (uint32_t from = begin; from < end; from += together) {
        const uint32_t to = end - from < together ? end : from + together;
        const size_t stride = (size_t)(to - from) * TABLE_GROUP;
        const size_t first = (size_t)from * TABLE_GROUP;
        float *y = args->y[i] + (size_t)part->first * outputs + first;
        linear_leaf(job, part, i, from, to, y, outputs);
        if (kernels_act_takes_two(args->act))
            linear_leaf(job, part, i + 1, from, to, up, stride);
        for (uint32_t r = 0; r < part->rows; r++) {
            const struct act_args act = {
                .kind = args->act,
                .x = y + (size_t)r * outputs,
                .up = up + r * stride,
                .rows = 1,
                .cols = outputs - first < stride ? outputs - (uint32_t)first : (uint32_t)stride,
            };
            job->kernels->table->act(&act, 0, 1);
        }
    }
}

static void op_linear_job(void *context, uint32_t thread, uint32_t count)
{
    const struct linear_job *job = context;
    const struct linear_args *args = job->args;
    struct linear_part part;
    linear_cut(args, thread, count, &part);
    part.input = linear_input(job, &part, count);
    if (kernels_act_takes_two(args->act)) {
        linear_act(job, &part, 0, part.begin, part.end);
        return;
    }
    uint32_t before = 0; /* groups of the matrices before this one */
    for (uint32_t i = 0; i < args->count; i++) {
        const uint32_t outputs = args->weights[i]->rows;
        uint32_t groups = table_groups(outputs);
        uint32_t from = part.begin > before ? part.begin - before : 0;
        uint32_t to = part.end > before ? part.end - before : 0;
        if (to > groups)
            to = groups;
        before += groups;
        if (from < to && args->act != ACT_NONE)
            linear_act(job, &part, i, from, to);
        else if (from < to)
            linear_leaf(job, &part, i, from, to,
                        args->y[i] + (size_t)part.first * outputs + (size_t)from * TABLE_GROUP,
                        outputs);
    }
}

/* For paths that read floats, the norm is applied first. */
static struct linear_args linear_normed(struct kernels *kernels, const struct linear_args *args)
{
    struct linear_args out = *args;
    const struct norm_args norm = {.x = args->x,
                                   .weight = args->norm,
                                   .y = kernels->normed,
                                   .rows = args->rows,
                                   .cols = args->weights[0]->cols,
                                   .epsilon = args->epsilon,
                                   .kind = args->norm_kind,
                                   .bias = args->norm_bias};
    op_rows_norm(kernels, &norm);
    out.x = kernels->normed;
    out.norm = NULL;
    return out;
}

void op_linear(struct kernels *kernels, const struct linear_args *args)
{
    struct linear_args own = *args;
    struct linear_job job = {.kernels = kernels, .args = &own};
    struct ops_work work = {.op = KERNELS_OP_linear};
    size_t elements = 0;
    bool reads_floats = false;
    ASSERT(args->count >= 1);
    ASSERT(args->count <= LINEAR_WEIGHTS_MAX);
    ASSERT(args->rows <= kernels->rows_max);
    ASSERT(args->act == ACT_NONE || !args->accumulate);
    ASSERT(!kernels_act_takes_two(args->act) ||
           (args->count == 2 && args->weights[0]->rows == args->weights[1]->rows));
    work.inputs = args->weights[0]->cols;
    for (uint32_t i = 0; i < args->count; i++) {
        const struct weight *weight = args->weights[i];
        ASSERT(weight->cols == work.inputs);
        size_t products = (size_t)weight->rows * weight->cols * args->rows;
        bool input_wanted = kernels->table->input_wanted(weight->type);
        elements += products;
        job.input_wanted |= input_wanted;
        reads_floats |= !input_wanted;
        work.outputs += weight->rows;
        work.bytes += weight->packed_bytes;
        *(input_wanted ? &work.int8_operations : &work.f32_operations) += 2 * products;
    }
    if (args->rows == 0)
        return;
    if (args->norm != NULL && reads_floats)
        own = linear_normed(kernels, args);
    ops_run(kernels, &work, elements, op_linear_job, &job);
}
