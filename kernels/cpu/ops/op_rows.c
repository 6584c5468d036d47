#include "kernels/cpu/ops/ops.h"

#include <math.h>
#include <string.h>

/* Operations on independent rows, which are divided evenly. */
struct rows_job {
    struct kernels *kernels;
    const void *args;
    uint32_t rows;
    struct ops_work work;
    void (*part)(struct kernels *kernels, const void *args, uint32_t begin, uint32_t end);
};

static void op_rows_job(void *context, uint32_t thread, uint32_t count)
{
    const struct rows_job *job = context;
    uint32_t begin;
    uint32_t end;
    threads_share(job->rows, thread, count, &begin, &end);
    if (begin < end)
        job->part(job->kernels, job->args, begin, end);
}

static void rows_run(struct rows_job *job, size_t elements)
{
    if (job->rows > 0)
        ops_run(job->kernels, &job->work, job->rows == 1 ? 0 : elements, op_rows_job, job);
}

static void rows_embed_part(struct kernels *kernels, const void *args, uint32_t begin, uint32_t end)
{
    const struct embed_args *embed = args;
    const uint32_t cols = embed->table->cols;
    for (uint32_t r = begin; r < end; r++) {
        float *out = embed->out + (size_t)r * cols;
        kernels->table->weight_row(embed->table, embed->tokens[r], out);
        for (uint32_t i = 0; embed->scale != 0 && i < cols; i++)
            out[i] *= embed->scale;
        const float *added =
            embed->added != NULL ? embed->added + (size_t)embed->positions[r] * cols : NULL;
        for (uint32_t i = 0; added != NULL && i < cols; i++)
            out[i] += added[i];
    }
}

void op_rows_embed(struct kernels *kernels, const struct embed_args *args)
{
    for (uint32_t r = 0; r < args->rows; r++)
        ASSERT(args->tokens[r] < args->table->rows);
    struct rows_job job = {kernels, args, args->rows, {.op = KERNELS_OP_embed}, rows_embed_part};
    rows_run(&job, (size_t)args->rows * args->table->cols);
}

static void rows_norm_part(struct kernels *kernels, const void *args, uint32_t begin, uint32_t end)
{
    kernels->table->norm(args, begin, end);
}

void op_rows_norm(struct kernels *kernels, const struct norm_args *args)
{
    const size_t elements = (size_t)args->rows * args->cols;
    struct rows_job job = {kernels, args, args->rows, {.op = KERNELS_OP_norm}, rows_norm_part};
    if (args->accumulate) /* x and y are read, y is written; the weights stay in the cache */
        job.work = (struct ops_work){.op = KERNELS_OP_norm_add,
                                     .f32_operations = 5 * elements,
                                     .bytes = 3 * elements * sizeof(float)};
    ASSERT(args->bias == NULL || args->kind == NORM_LAYER);
    ASSERT(!args->accumulate || args->x != args->y);
    rows_run(&job, elements);
}

/* The angle is a float32 product, as in the programs that trained the models; its cosine is
 * computed in double and rounded once. The code is the same for all tables. */
static void rows_rope_table_part(struct kernels *kernels, const void *args, uint32_t begin,
                                 uint32_t end)
{
    const struct rope_table_args *rope = args;
    const double factor = rope->factor != 0 ? (double)rope->factor : 1;
    (void)kernels;
    for (uint32_t r = begin; r < end; r++)
        for (uint32_t i = 0; i < rope->pairs; i++) {
            float *entry = rope->table + ((size_t)r * rope->pairs + i) * 2;
            float angle = (float)rope->positions[r] * rope->frequencies[i];
            entry[0] = (float)(cos((double)angle) * factor);
            entry[1] = (float)(sin((double)angle) * factor);
        }
}

void op_rows_rope_table(struct kernels *kernels, const struct rope_table_args *args)
{
    struct rows_job job = {
        kernels, args, args->rows, {.op = KERNELS_OP_rope_table}, rows_rope_table_part};
    rows_run(&job, (size_t)args->rows * args->pairs * 64);
}

static void rows_rope_part(struct kernels *kernels, const void *args, uint32_t begin, uint32_t end)
{
    kernels->table->rope(args, begin, end);
}

void op_rows_rope(struct kernels *kernels, const struct rope_args *args)
{
    ASSERT(args->pairs * 2 <= args->head_dim);
    struct rows_job job = {kernels, args, args->rows, {.op = KERNELS_OP_rope}, rows_rope_part};
    rows_run(&job, (size_t)args->rows * args->heads * args->head_dim);
}

static void rows_act_part(struct kernels *kernels, const void *args, uint32_t begin, uint32_t end)
{
    kernels->table->act(args, begin, end);
}

void op_rows_act(struct kernels *kernels, const struct act_args *args)
{
    ASSERT(args->kind != ACT_NONE);
    ASSERT(!kernels_act_takes_two(args->kind) || args->up != NULL);
    struct rows_job job = {kernels, args, args->rows, {.op = KERNELS_OP_act}, rows_act_part};
    rows_run(&job, (size_t)args->rows * args->cols * 4);
}

/* Logits are wide and few, so pieces of rows are divided. */
enum { SOFTCAP_PIECE = 1024 };

static size_t rows_softcap_count(const struct softcap_args *args)
{
    return (size_t)args->rows * args->cols;
}

static void rows_softcap_part(struct kernels *kernels, const void *args, uint32_t begin,
                              uint32_t end)
{
    const struct softcap_args *call = args;
    const size_t from = (size_t)begin * SOFTCAP_PIECE;
    const size_t all = rows_softcap_count(call);
    const size_t to = (size_t)end * SOFTCAP_PIECE < all ? (size_t)end * SOFTCAP_PIECE : all;
    kernels->table->softcap(call->x + from, to - from, call->cap);
}

void op_rows_softcap(struct kernels *kernels, const struct softcap_args *args)
{
    const size_t all = rows_softcap_count(args);
    struct rows_job job = {kernels,
                           args,
                           (uint32_t)((all + SOFTCAP_PIECE - 1) / SOFTCAP_PIECE),
                           {.op = KERNELS_OP_softcap, .bytes = 2 * all * sizeof(float)},
                           rows_softcap_part};
    ASSERT(args->cap > 0);
    rows_run(&job, all * 4);
}

/* Few rows that were just written: not enough work for more than the caller. */
void op_rows_gather(struct kernels *kernels, const struct gather_args *args)
{
    (void)kernels;
    for (uint32_t r = 0; r < args->rows; r++)
        memcpy(args->to + (size_t)r * args->cols, args->from + (size_t)args->order[r] * args->cols,
               args->cols * sizeof *args->to);
}

struct rows_logits {
    const float *logits;
    uint32_t vocab;
    struct logits_stats *out;
};

static void rows_logits_stats_part(struct kernels *kernels, const void *args, uint32_t begin,
                                   uint32_t end)
{
    const struct rows_logits *call = args;
    for (uint32_t r = begin; r < end; r++) {
        struct logits_stats *out = &call->out[r];
        float sum =
            kernels->table->logits_stats(call->logits + (size_t)r * call->vocab, call->vocab, out);
        out->log_sum_exp = (float)((double)out->max + log((double)sum));
    }
}

void op_rows_logits_stats(struct kernels *kernels, const float *logits, uint32_t rows,
                          uint32_t vocab, struct logits_stats *out)
{
    struct rows_logits call = {logits, vocab, out};
    ASSERT(vocab > 0);
    struct rows_job job = {
        kernels, &call, rows, {.op = KERNELS_OP_logits_stats}, rows_logits_stats_part};
    rows_run(&job, (size_t)rows * vocab * 4);
}

struct rows_each {
    uint32_t threads_max;
    uint32_t count;
    void (*each)(void *context, uint32_t index, uint32_t thread);
    void *context;
};

static void op_rows_each_job(void *context, uint32_t thread, uint32_t count)
{
    const struct rows_each *job = context;
    uint32_t begin;
    uint32_t end;
    if (thread >= job->threads_max)
        return;
    threads_share(job->count, thread, count < job->threads_max ? count : job->threads_max, &begin,
                  &end);
    for (uint32_t i = begin; i < end; i++)
        job->each(job->context, i, thread);
}

void op_rows_each(struct kernels *kernels, uint32_t threads_max, uint32_t count,
                  void (*each)(void *context, uint32_t index, uint32_t thread), void *context)
{
    struct rows_each job = {threads_max, count, each, context};
    bool is_alone = count == 1 || threads_max == 1;
    ASSERT(threads_max >= 1);
    if (count > 0)
        ops_run(kernels, &(struct ops_work){.op = KERNELS_OP_each},
                is_alone ? 0 : OPS_ALONE_ELEMENTS + 1, op_rows_each_job, &job);
}
