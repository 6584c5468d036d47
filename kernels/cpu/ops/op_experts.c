#include <string.h>

#include "config/base/limits.h"
#include "kernels/cpu/ops/ops.h"

/* One job in three passes, with a barrier between them: gate, up and the activation; down; the
 * weighted sums. Pairs are in the order of the routes, so an expert's rows are neighbours in every
 * array of pairs, and each expert is a linear layer over its own range of a weight's groups. */

/* The work of one expert that some row uses. */
struct experts_run {
    uint32_t expert; /* in the weights */
    uint32_t first;  /* pair */
    uint32_t rows;
};

struct experts_job {
    struct kernels *kernels;
    const struct experts_args *args;
    struct experts_run runs[LIMIT_EXPERTS];
    uint32_t count; /* of runs */
    uint32_t pairs; /* of all runs, with gaps where experts are in other ranks */
    uint32_t rows_most;
    uint32_t width;
    uint32_t hidden;
    char *input;   /* packed inputs of all pairs */
    float *inner;  /* [pairs][hidden] */
    float *result; /* [pairs][width]; before that the gathered x, for paths that read floats */
};

/* What one pass of linear layers reads. */
struct experts_pass {
    const struct weight *weights[2];
    const float *biases[2]; /* [experts here][outputs of one]; NULL: none */
    uint32_t weight_count;
    const float *x;
    const uint32_t *order; /* row of x of each pair; NULL: pair i reads row i */
    uint32_t cols;
    uint32_t groups; /* of one expert's outputs in one matrix */
    bool input_wanted;
    bool reads_floats;
};

/* Reading a group's weights from memory takes as long as computing so many rows with it. */
enum { EXPERTS_READ_ROWS = 6 };

static uint64_t experts_cost(const struct experts_run *run)
{
    return run->rows + EXPERTS_READ_ROWS;
}

static struct experts_pass experts_pass_of(const struct experts_job *job,
                                           const struct weight *first, const struct weight *second,
                                           uint32_t outputs)
{
    const struct kernel_table *table = job->kernels->table;
    struct experts_pass pass = {.weights = {first, second},
                                .weight_count = second != NULL ? 2 : 1,
                                .cols = first->cols,
                                .groups = outputs / TABLE_GROUP};
    for (uint32_t i = 0; i < pass.weight_count; i++) {
        const bool is_wanted = table->input_wanted(pass.weights[i]->type);
        pass.input_wanted |= is_wanted;
        pass.reads_floats |= !is_wanted;
    }
    return pass;
}

/* --- inputs --- */

static struct table_input experts_rows(const struct experts_pass *pass,
                                       const struct experts_run *run)
{
    return (struct table_input){
        .x = pass->order != NULL ? pass->x : pass->x + (size_t)run->first * pass->cols,
        .rows = run->rows,
        .cols = pass->cols,
        .order = pass->order != NULL ? pass->order + run->first : NULL};
}

/* Packs the units [begin, end) of all runs together, counted run by run. */
static void experts_pack(const struct experts_job *job, const struct experts_pass *pass,
                         uint32_t begin, uint32_t end)
{
    const struct kernel_table *table = job->kernels->table;
    uint32_t before = 0;
    for (uint32_t i = 0; i < job->count && before < end; i++) {
        const struct experts_run *run = &job->runs[i];
        const uint32_t units = table->input_units(run->rows, pass->cols);
        const uint32_t from = begin > before ? begin - before : 0;
        const uint32_t to = end - before < units ? end - before : units;
        const struct table_input input = experts_rows(pass, run);
        if (from < to)
            table->input_pack(&input, from, to,
                              job->input + table->input_bytes(run->first, pass->cols));
        before += units;
    }
}

static uint32_t experts_units(const struct experts_job *job, const struct experts_pass *pass)
{
    uint32_t units = 0;
    for (uint32_t i = 0; i < job->count; i++)
        units += job->kernels->table->input_units(job->runs[i].rows, pass->cols);
    return units;
}

/* Whether each thread packs the inputs of its own experts: with few rows that is less work than
 * waiting for the others. The bits are the same. */
static bool experts_pack_alone(const struct experts_job *job)
{
    return job->rows_most <= OPS_FEW_ROWS;
}

/* Makes what all threads read: x gathered for paths that read floats, and packed inputs. */
static void experts_prepare(const struct experts_job *job, const struct experts_pass *pass,
                            uint32_t thread, uint32_t count)
{
    uint32_t begin;
    uint32_t end;
    const bool is_gathered = pass->reads_floats && pass->order != NULL;
    const bool is_packed = pass->input_wanted && !experts_pack_alone(job);
    if (is_gathered) {
        threads_share(job->pairs, thread, count, &begin, &end);
        for (uint32_t p = begin; p < end; p++)
            memcpy(job->result + (size_t)p * pass->cols,
                   pass->x + (size_t)pass->order[p] * pass->cols, pass->cols * sizeof *pass->x);
    }
    if (is_packed) {
        threads_share(experts_units(job, pass), thread, count, &begin, &end);
        experts_pack(job, pass, begin, end);
    }
    if (count > 1 && (is_gathered || is_packed))
        threads_barrier(job->kernels->threads);
}

/* Returns the packed inputs of a run, packed now if every thread packs its own. */
static const void *experts_input(const struct experts_job *job, const struct experts_pass *pass,
                                 const struct experts_run *run, uint32_t thread)
{
    const struct kernel_table *table = job->kernels->table;
    char *out = ops_thread_scratch(job->kernels, thread);
    if (!pass->input_wanted)
        return NULL;
    if (!experts_pack_alone(job))
        return job->input + table->input_bytes(run->first, pass->cols);
    const struct table_input input = experts_rows(pass, run);
    table->input_pack(&input, 0, table->input_units(run->rows, pass->cols), out);
    return out;
}

/* --- linear layers --- */

/* Computes groups [from, to) of a run's expert in one matrix. */
static void experts_leaf(const struct experts_job *job, const struct experts_pass *pass,
                         uint32_t index, const struct experts_run *run, const void *packed,
                         uint32_t thread, uint32_t from, uint32_t to, float *y, size_t y_stride)
{
    const struct kernel_table *table = job->kernels->table;
    const struct weight *weight = pass->weights[index];
    const float *x = pass->order != NULL ? job->result : pass->x;
    const uint32_t group = run->expert * pass->groups + from;
    const float *bias = pass->biases[index];
    const struct table_linear call = {
        .weight = weight,
        .x = x + (size_t)run->first * pass->cols,
        .input = table->input_wanted(weight->type) ? packed : NULL,
        .rows = run->rows,
        .group_begin = group,
        .group_end = group + to - from,
        .y = y,
        .y_stride = y_stride,
        .bias = bias != NULL ? bias + (size_t)group * TABLE_GROUP : NULL,
        .has_dots = job->kernels->has_dots,
        .scratch = ops_row_scratch(job->kernels, thread),
    };
    table->linear(&call);
}

/* Takes as many groups at once as leave gate and up of all rows in the second-level cache; `up` is
 * never written anywhere else. */
static void experts_gated(const struct experts_job *job, const struct experts_pass *pass,
                          const struct experts_run *run, const void *packed, uint32_t thread,
                          uint32_t begin, uint32_t end)
{
    const uint32_t together = ops_gated_groups(run->rows);
    float *up = ops_gated_scratch(job->kernels, thread);
    for (uint32_t from = begin; from < end; from += together) {
        const uint32_t to = end - from < together ? end : from + together;
        const uint32_t cols = (to - from) * TABLE_GROUP;
        float *gate = job->inner + (size_t)run->first * job->hidden + (size_t)from * TABLE_GROUP;
        experts_leaf(job, pass, 0, run, packed, thread, from, to, gate, job->hidden);
        experts_leaf(job, pass, 1, run, packed, thread, from, to, up, cols);
        for (uint32_t r = 0; r < run->rows; r++) {
            const struct act_args act = {.kind = job->args->act,
                                         .x = gate + (size_t)r * job->hidden,
                                         .up = up + (size_t)r * cols,
                                         .rows = 1,
                                         .cols = cols};
            job->kernels->table->act(&act, 0, 1);
        }
    }
}

/* Returns the first group of a run whose work begins at `cost` or later, counted from the run. */
static uint32_t experts_group_at(const struct experts_run *run, uint32_t groups, uint64_t before,
                                 uint64_t cost)
{
    const uint64_t each = experts_cost(run);
    if (cost <= before)
        return 0;
    const uint64_t group = (cost - before + each - 1) / each;
    return group < groups ? (uint32_t)group : groups;
}

/* Each thread has a range of the groups of all runs one behind the other, of equal cost. */
static void experts_linear(const struct experts_job *job, const struct experts_pass *pass,
                           uint32_t thread, uint32_t count)
{
    uint64_t total = 0;
    uint64_t before = 0;
    for (uint32_t i = 0; i < job->count; i++)
        total += pass->groups * experts_cost(&job->runs[i]);
    const uint64_t begin = total * thread / count;
    const uint64_t end = total * (thread + 1) / count;
    for (uint32_t i = 0; i < job->count && before < end; i++) {
        const struct experts_run *run = &job->runs[i];
        const uint32_t from = experts_group_at(run, pass->groups, before, begin);
        const uint32_t to = experts_group_at(run, pass->groups, before, end);
        before += pass->groups * experts_cost(run);
        if (from >= to)
            continue;
        const void *packed = experts_input(job, pass, run, thread);
        if (pass->weight_count == 2)
            experts_gated(job, pass, run, packed, thread, from, to);
        else
            experts_leaf(job, pass, 0, run, packed, thread, from, to,
                         job->result + (size_t)run->first * job->width + (size_t)from * TABLE_GROUP,
                         job->width);
    }
}

/* --- sums --- */

static bool experts_is_here(const struct experts_args *args, uint32_t expert)
{
    return args->every <= 1 || expert % args->every == args->own;
}

/* Sums columns [begin, end) of row r over the row's slots. */
static void experts_sum(const struct experts_job *job, uint32_t r, uint32_t begin, uint32_t end)
{
    const struct experts_args *args = job->args;
    const struct kernels_routes *routes = args->routes;
    const float *result[LIMIT_EXPERTS_USED];
    float weight[LIMIT_EXPERTS_USED];
    struct table_experts sum = {.y = args->y + (size_t)r * job->width,
                                .accumulate = args->accumulate,
                                .weight = weight,
                                .result = result};
    for (uint32_t slot = 0; slot < routes->used; slot++) {
        const size_t pair = (size_t)r * routes->used + slot;
        if (!experts_is_here(args, routes->expert[pair]))
            continue;
        weight[sum.count] = routes->weight[pair];
        result[sum.count] = job->result + (size_t)routes->place[pair] * job->width;
        sum.count++;
    }
    job->kernels->table->experts_sum(&sum, begin, end);
}

/* Threads divide the groups of columns of all rows. */
static void experts_sums(const struct experts_job *job, uint32_t thread, uint32_t count)
{
    const uint32_t groups = job->width / TABLE_GROUP;
    uint32_t begin;
    uint32_t end;
    threads_share(groups * job->args->rows, thread, count, &begin, &end);
    while (begin < end) {
        const uint32_t from = begin % groups;
        const uint32_t to = end - begin < groups - from ? from + (end - begin) : groups;
        experts_sum(job, begin / groups, from * TABLE_GROUP, to * TABLE_GROUP);
        begin += to - from;
    }
}

/* --- the operation --- */

static void op_experts_job(void *context, uint32_t thread, uint32_t count)
{
    const struct experts_job *job = context;
    const struct experts_args *args = job->args;
    struct experts_pass first = experts_pass_of(job, args->gate, args->up, job->hidden);
    struct experts_pass second = experts_pass_of(job, args->down, NULL, job->width);
    first.biases[0] = args->gate_bias;
    first.biases[1] = args->up_bias;
    second.biases[0] = args->down_bias;
    first.x = args->x;
    first.order = args->routes->row;
    second.x = job->inner;
    experts_prepare(job, &first, thread, count);
    experts_linear(job, &first, thread, count);
    if (count > 1)
        threads_barrier(job->kernels->threads);
    experts_prepare(job, &second, thread, count);
    experts_linear(job, &second, thread, count);
    if (count > 1)
        threads_barrier(job->kernels->threads);
    experts_sums(job, thread, count);
}

static size_t experts_floats(size_t pairs, uint32_t cols)
{
    return (pairs * cols * sizeof(float) + 127) / 64 * 64; /* and what leaves may read beyond */
}

size_t op_experts_bytes(const struct kernels *kernels, uint32_t rows_max, uint32_t used,
                        uint32_t width, uint32_t hidden)
{
    const size_t pairs = (size_t)rows_max * used;
    const uint32_t cols = width > hidden ? width : hidden;
    return experts_floats(pairs, hidden) + experts_floats(pairs, width) +
           kernels->table->input_bytes((uint32_t)pairs, cols);
}

/* Lists the experts that some row uses and whose weights are here. */
static void experts_list(struct experts_job *job)
{
    const struct experts_args *args = job->args;
    const struct kernels_routes *routes = args->routes;
    for (uint32_t e = 0; e < routes->experts; e++) {
        const uint32_t rows = routes->begin[e + 1] - routes->begin[e];
        if (rows == 0 || !experts_is_here(args, e))
            continue;
        job->runs[job->count++] =
            (struct experts_run){.expert = args->every > 1 ? e / args->every : e,
                                 .first = routes->begin[e],
                                 .rows = rows};
        job->rows_most = rows > job->rows_most ? rows : job->rows_most;
    }
    job->pairs = args->rows * routes->used;
}

/* Counts the products and the bytes that must be read: of the experts in use. */
static size_t experts_work(const struct experts_job *job, struct ops_work *work)
{
    const struct experts_args *args = job->args;
    const struct weight *const weights[] = {args->gate, args->up, args->down};
    size_t rows = 0;
    size_t elements = 0;
    for (uint32_t i = 0; i < job->count; i++)
        rows += job->runs[i].rows;
    for (size_t i = 0; i < sizeof weights / sizeof *weights; i++) {
        const struct weight *weight = weights[i];
        const uint32_t outputs = i < 2 ? job->hidden : job->width;
        const size_t products = rows * outputs * weight->cols;
        const bool is_int8 = job->kernels->table->input_wanted(weight->type);
        ASSERT(weight->rows % outputs == 0);
        ASSERT(outputs % KERNELS_EXPERTS_OUTPUTS == 0);
        elements += products;
        work->bytes += weight->packed_bytes / (weight->rows / outputs) * job->count;
        *(is_int8 ? &work->int8_operations : &work->f32_operations) += 2 * products;
    }
    work->outputs = 2 * job->hidden;
    work->inputs = job->width;
    return elements;
}

void op_experts(struct kernels *kernels, const struct experts_args *args)
{
    struct experts_job job = {.kernels = kernels, .args = args};
    struct ops_work work = {.op = KERNELS_OP_experts};
    char *scratch = args->scratch;
    if (args->rows == 0)
        return;
    ASSERT(args->rows <= kernels->rows_max);
    ASSERT(args->gate->cols == args->up->cols);
    ASSERT(args->gate->rows == args->up->rows);
    job.width = args->gate->cols;
    job.hidden = args->down->cols;
    experts_list(&job);
    job.inner = (float *)(void *)scratch;
    scratch += experts_floats(job.pairs, job.hidden);
    job.result = (float *)(void *)scratch;
    scratch += experts_floats(job.pairs, job.width);
    job.input = scratch;
    const size_t elements = experts_work(&job, &work);
    ops_run(kernels, &work, elements, op_experts_job, &job);
}
