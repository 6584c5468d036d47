#include "kernels/cpu/ops/ops.h"

#include "config/base/limits.h"

struct attention_job {
    struct kernels *kernels;
    const struct attention_args *args;
    uint32_t tiles;
    uint32_t group; /* query heads over one KV head */
    uint64_t cost;  /* of all tiles and heads */
};

/* Tiles are runs of rows of one sequence in rising position, so that a leaf reads keys once for
 * all of them. Which rows share a tile never changes bits. */
static uint32_t attention_tiles(struct kernels *kernels, const struct attention_args *args,
                                uint32_t group)
{
    uint32_t rows_most = TABLE_QUERIES_MAX / group;
    uint32_t tiles = 0;
    if (rows_most > TABLE_QUERY_ROWS_MAX)
        rows_most = TABLE_QUERY_ROWS_MAX;
    if (rows_most < 1)
        rows_most = 1;
    for (uint32_t r = 0; r < args->rows; r++) {
        const struct kv_rows *kv = &args->kv;
        struct ops_tile *last = tiles > 0 ? &kernels->tiles[tiles - 1] : NULL;
        uint64_t keys = (uint64_t)kv->position[r] + 1;
        if (last != NULL && last->rows < rows_most && kv->sequence[r] == kv->sequence[r - 1] &&
            kv->position[r] > kv->position[r - 1]) {
            last->rows++;
            last->cost += keys;
            continue;
        }
        /* Starting a tile costs about as much as a few dozen keys. */
        kernels->tiles[tiles++] = (struct ops_tile){.row = r, .rows = 1, .cost = keys + 32};
    }
    return tiles;
}

/* Heads [begin, end) of one tile, cut where the KV head changes. */
static void attention_heads(const struct attention_job *job, const struct ops_tile *tile,
                            uint32_t begin, uint32_t end, void *scratch)
{
    while (begin < end) {
        uint32_t kv_head = begin / job->group;
        uint32_t heads = (kv_head + 1) * job->group - begin;
        if (heads > end - begin)
            heads = end - begin;
        if (heads > TABLE_QUERIES_MAX)
            heads = TABLE_QUERIES_MAX;
        struct table_attention call = {.args = job->args,
                                       .row = tile->row,
                                       .rows = tile->rows,
                                       .kv_head = kv_head,
                                       .head = begin,
                                       .heads = heads,
                                       .scratch = scratch};
        job->kernels->table->attention(&call);
        begin += heads;
    }
}

/* First head of a tile whose work starts at or after `bound`. */
static uint32_t attention_head_from(uint64_t bound, uint64_t start, uint64_t cost, uint32_t heads)
{
    if (bound <= start)
        return 0;
    uint64_t head = (bound - start + cost - 1) / cost;
    return head < heads ? (uint32_t)head : heads;
}

/* The work of all (tile, head) stands in one line by cost; a thread takes what starts in its part.
 */
static void op_attention_job(void *context, uint32_t thread, uint32_t count)
{
    const struct attention_job *job = context;
    uint64_t from = job->cost * thread / count;
    uint64_t to = job->cost * (thread + 1) / count;
    uint64_t start = 0;
    void *scratch = ops_thread_scratch(job->kernels, thread);
    for (uint32_t t = 0; t < job->tiles && start < to; t++) {
        const struct ops_tile *tile = &job->kernels->tiles[t];
        uint32_t begin = attention_head_from(from, start, tile->cost, job->args->heads);
        uint32_t end = attention_head_from(to, start, tile->cost, job->args->heads);
        attention_heads(job, tile, begin, end, scratch);
        start += tile->cost * job->args->heads;
    }
}

void op_attention(struct kernels *kernels, const struct attention_args *args)
{
    const struct kv_layout *layout = args->kv.layout;
    ASSERT(args->rows <= kernels->rows_max);
    ASSERT(args->layer < layout->layers);
    ASSERT(args->heads > 0);
    ASSERT(args->heads % layout->kv_heads == 0);
    ASSERT(layout->head_dim <= LIMIT_HEAD_DIM);
    ASSERT(layout->type == KV_TYPE_F16 || kernels->table->has_f32_kv);
    if (args->rows == 0)
        return;
    struct attention_job job = {
        .kernels = kernels, .args = args, .group = args->heads / layout->kv_heads};
    job.tiles = attention_tiles(kernels, args, job.group);
    for (uint32_t t = 0; t < job.tiles; t++)
        job.cost += kernels->tiles[t].cost * args->heads;
    ops_run(kernels, (size_t)job.cost * layout->head_dim, op_attention_job, &job);
}
