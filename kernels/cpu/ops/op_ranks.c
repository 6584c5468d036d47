#include "kernels/cpu/ops/ops.h"

#include <string.h>

#include "config/base/limits.h"
#include "kernels/ranks.h"

enum { SLOT_FLOATS = RANKS_SLOT_BYTES / sizeof(float) };

/* One piece of a sum: written to this rank's slot, or read from those of all. */
struct reduce_job {
    float *x;
    uint32_t count;
    uint32_t ranks;
    float *own;
    const float *slots[LIMIT_RANKS];
};

static void op_ranks_out_job(void *context, uint32_t thread, uint32_t count)
{
    const struct reduce_job *job = context;
    uint32_t begin;
    uint32_t end;
    threads_share(job->count, thread, count, &begin, &end);
    memcpy(job->own + begin, job->x + begin, (end - begin) * sizeof(float));
}

/* Sums from rank 0 on in every process, so that all have the same bits. */
static void op_ranks_sum_job(void *context, uint32_t thread, uint32_t count)
{
    const struct reduce_job *job = context;
    uint32_t begin;
    uint32_t end;
    threads_share(job->count, thread, count, &begin, &end);
    memcpy(job->x + begin, job->slots[0] + begin, (end - begin) * sizeof(float));
    for (uint32_t rank = 1; rank < job->ranks; rank++)
        for (uint32_t i = begin; i < end; i++)
            job->x[i] += job->slots[rank][i];
}

static enum status reduce_piece(struct kernels *kernels, float *x, uint32_t count)
{
    struct ranks *ranks = kernels->ranks;
    const struct ops_work work = {.op = KERNELS_OP_all_reduce};
    struct reduce_job job = {.x = x,
                             .count = count,
                             .ranks = ranks_count(ranks),
                             .own = ranks_slot(ranks, ranks_own(ranks))};
    for (uint32_t rank = 0; rank < job.ranks; rank++)
        job.slots[rank] = ranks_slot(ranks, rank);
    ops_run(kernels, &work, count, op_ranks_out_job, &job);
    TRY(ranks_meet(ranks));
    ops_run(kernels, &work, count, op_ranks_sum_job, &job);
    return STATUS_OK;
}

void op_ranks_reduce(struct kernels *kernels, const struct all_reduce_args *args)
{
    size_t left = (size_t)args->rows * args->cols;
    ASSERT(kernels->ranks != NULL);
    for (float *x = args->x; left > 0 && !kernels->is_lost;) {
        uint32_t count = left < SLOT_FLOATS ? (uint32_t)left : SLOT_FLOATS;
        kernels->is_lost = reduce_piece(kernels, x, count) != STATUS_OK;
        x += count;
        left -= count;
    }
}

/* Rows [first, first + rows) of `width` columns from `column` on, of each rank's part. */
struct gather_piece {
    const struct all_gather_args *args;
    uint32_t first;
    uint32_t rows;
    uint32_t column;
    uint32_t width;
};

/* Returns how many of the piece's columns a rank has, and where its part begins. */
static uint32_t gather_width(const struct gather_piece *piece, uint32_t rank, uint32_t ranks,
                             uint32_t *begin, uint32_t *part)
{
    uint32_t end;
    threads_share(piece->args->cols, rank, ranks, begin, &end);
    *part = end - *begin;
    uint32_t left = *part > piece->column ? *part - piece->column : 0;
    return left < piece->width ? left : piece->width;
}

static enum status gather_piece(struct ranks *ranks, const struct gather_piece *piece)
{
    const struct all_gather_args *args = piece->args;
    const uint32_t count = ranks_count(ranks);
    const float *slots[LIMIT_RANKS];
    float *own = ranks_slot(ranks, ranks_own(ranks));
    uint32_t begin;
    uint32_t part;
    uint32_t width = gather_width(piece, ranks_own(ranks), count, &begin, &part);
    for (uint32_t r = 0; r < piece->rows; r++)
        memcpy(own + (size_t)r * piece->width,
               args->part + (size_t)(piece->first + r) * part + piece->column,
               width * sizeof(float));
    for (uint32_t rank = 0; rank < count; rank++)
        slots[rank] = ranks_slot(ranks, rank);
    TRY(ranks_meet(ranks));
    for (uint32_t rank = 0; rank < count && ranks_own(ranks) == 0; rank++) {
        width = gather_width(piece, rank, count, &begin, &part);
        for (uint32_t r = 0; r < piece->rows; r++)
            memcpy(args->out + (size_t)(piece->first + r) * args->cols + begin + piece->column,
                   slots[rank] + (size_t)r * piece->width, width * sizeof(float));
    }
    return STATUS_OK;
}

void op_ranks_gather(struct kernels *kernels, const struct all_gather_args *args)
{
    ASSERT(kernels->ranks != NULL);
    const uint32_t widest = args->cols / ranks_count(kernels->ranks) + 1;
    const uint32_t width = widest < SLOT_FLOATS ? widest : SLOT_FLOATS;
    struct gather_piece piece = {.args = args, .width = width};
    for (; piece.first < args->rows; piece.first += piece.rows) {
        piece.rows = SLOT_FLOATS / width;
        if (piece.rows > args->rows - piece.first)
            piece.rows = args->rows - piece.first;
        for (piece.column = 0; piece.column < widest && !kernels->is_lost; piece.column += width)
            kernels->is_lost = gather_piece(kernels->ranks, &piece) != STATUS_OK;
    }
}
