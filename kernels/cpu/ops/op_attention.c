#include "kernels/cpu/ops/ops.h"

#include "config/base/limits.h"
#include "kernels/cpu/kv_tile.h"

/* Divides the work into units: for a tile of one row a unit is one head; otherwise one row and all
 * query heads over one KV head. */
struct attention_job {
    struct kernels *kernels;
    const struct attention_args *args;
    uint32_t tiles;
    uint32_t group; /* query heads over one KV head */
    uint64_t cost;  /* of all tiles */
};

/* Sets the order of the rows, and the keys that each shares with the one before. */
static void attention_order(struct kernels *kernels, const struct attention_args *args)
{
    const struct kv_rows *kv = &args->kv;
    for (uint32_t i = 0; i < args->rows; i++) {
        uint32_t row = args->groups != NULL ? args->groups->order[i] : i;
        uint32_t before = i > 0 ? kernels->order[i - 1] : row;
        ASSERT(row < args->rows);
        kernels->order[i] = row;
        kernels->shared[i] = args->groups != NULL ? args->groups->shared[i] : 0;
        ASSERT(kernels->shared[i] % TABLE_KEYS_BLOCK == 0);
        /* Rows of an encoder's text have one position: each reads all keys. */
        if (i > 0 && kv->sequence[row] == kv->sequence[before])
            kernels->shared[i] = kv->position[row] >= kv->position[before] ? TABLE_SHARED_ALL : 0;
        if (table_first_key(args, row) > 0 || table_first_key(args, before) > 0)
            kernels->shared[i] = 0;
    }
}

/* Returns how many keys a row reads. */
static uint64_t attention_keys(const struct attention_args *args, uint32_t row)
{
    return (uint64_t)args->kv.position[row] + 1 - table_first_key(args, row);
}

/* Forms tiles, runs of rows that share keys, so that a leaf reads those once for all of them. The
 * division into tiles never changes bits. */
static uint32_t attention_tiles(struct kernels *kernels, const struct attention_args *args,
                                uint32_t group)
{
    uint32_t rows_most = TABLE_QUERIES_MAX / group;
    uint32_t tiles = 0;
    if (rows_most > TABLE_QUERY_ROWS_MAX)
        rows_most = TABLE_QUERY_ROWS_MAX;
    for (uint32_t i = 0; i < args->rows; i++) {
        struct ops_tile *last = tiles > 0 ? &kernels->tiles[tiles - 1] : NULL;
        uint64_t keys = attention_keys(args, kernels->order[i]);
        if (last != NULL && last->rows < rows_most && kernels->shared[i] > 0) {
            last->rows++;
            last->cost += keys;
            continue;
        }
        /* Starting a tile costs about as much as a few dozen keys. */
        kernels->tiles[tiles++] = (struct ops_tile){.first = i, .rows = 1, .cost = keys + 32};
    }
    for (uint32_t t = 0; t < tiles; t++)
        if (kernels->tiles[t].rows > 1)
            kernels->tiles[t].cost = kernels->tiles[t].cost * group / kernels->tiles[t].rows;
    return tiles;
}

static uint32_t attention_units(const struct attention_job *job, const struct ops_tile *tile)
{
    const struct attention_args *args = job->args;
    return tile->rows > 1 ? args->kv.layout->kv_heads * tile->rows : args->heads;
}

/* Returns the row of a tile that sees the most keys. */
static uint32_t attention_last(const struct kernels *kernels, const struct ops_tile *tile)
{
    return kernels->order[tile->first + tile->rows - 1];
}

/* Makes one call of the leaf from unit `begin` of a tile, at most to the end of one KV head;
 * returns where it ends. `after` is the thread's next tile, or NULL. */
static uint32_t attention_call(const struct attention_job *job, const struct ops_tile *tile,
                               const struct ops_tile *after, uint32_t begin, uint32_t end,
                               void *scratch)
{
    const struct kernels *kernels = job->kernels;
    struct table_attention call = {.args = job->args, .rows = 1, .scratch = scratch};
    uint32_t row = tile->first;
    uint32_t each = tile->rows > 1 ? tile->rows : job->group; /* units over a KV head */
    uint32_t units = each - begin % each;
    if (units > end - begin)
        units = end - begin;
    if (units > TABLE_QUERIES_MAX)
        units = TABLE_QUERIES_MAX;
    call.kv_head = begin / each;
    if (tile->rows > 1) {
        row += begin % each;
        call.rows = units;
        call.head = call.kv_head * job->group;
        call.heads = job->group;
    } else {
        call.head = begin;
        call.heads = units;
    }
    call.order = kernels->order + row;
    call.shared = kernels->shared + row;
    begin += units;
    call.next_row = TABLE_NO_ROW;
    if (begin < end) {
        call.next_row = attention_last(kernels, tile);
        call.next_kv_head = begin / each;
    } else if (after != NULL) {
        call.next_row = attention_last(kernels, after);
    }
    kernels->table->attention(&call);
    return begin;
}

/* Returns the first unit of a tile whose work starts at or after `bound`. */
static uint32_t attention_unit_from(uint64_t bound, uint64_t start, uint64_t cost, uint32_t units)
{
    if (bound <= start)
        return 0;
    uint64_t unit = (bound - start + cost - 1) / cost;
    return unit < units ? (uint32_t)unit : units;
}

/* The units of all tiles form one line by cost. A thread takes the units that start in its part. */
static void op_attention_job(void *context, uint32_t thread, uint32_t count)
{
    const struct attention_job *job = context;
    uint64_t from = job->cost * thread / count;
    uint64_t to = job->cost * (thread + 1) / count;
    uint64_t start = 0;
    void *scratch = ops_thread_scratch(job->kernels, thread);
    for (uint32_t t = 0; t < job->tiles && start < to; t++) {
        const struct ops_tile *tile = &job->kernels->tiles[t];
        uint32_t units = attention_units(job, tile);
        uint32_t unit = attention_unit_from(from, start, tile->cost, units);
        uint32_t end = attention_unit_from(to, start, tile->cost, units);
        start += tile->cost * units;
        const struct ops_tile *after = t + 1 < job->tiles && start < to ? tile + 1 : NULL;
        while (unit < end)
            unit = attention_call(job, tile, after, unit, end, scratch);
    }
}

/* Counts the products of queries and keys, and of weights and values; pages count once for all rows
 * that share them. */
static struct ops_work attention_work(const struct kernels *kernels,
                                      const struct attention_args *args)
{
    const struct kv_layout *layout = args->kv.layout;
    struct ops_work work = {.op = KERNELS_OP_attention};
    uint64_t keys_read = 0;
    if (!kernels->times.is_on)
        return work;
    for (uint32_t i = 0; i < args->rows; i++) {
        uint64_t keys = attention_keys(args, kernels->order[i]);
        uint64_t common = kernels->shared[i];
        if (common == TABLE_SHARED_ALL)
            common = (uint64_t)args->kv.position[kernels->order[i - 1]] + 1;
        /* of keys; values have as many */
        uint64_t products = 2 * keys * args->heads * layout->head_dim;
        work.f32_operations += kv_tile_scores_codes(layout) ? products : 2 * products;
        work.int8_operations += kv_tile_scores_codes(layout) ? products : 0;
        keys_read += keys - common;
    }
    work.bytes = keys_read * (layout->layer_bytes / layout->page_tokens);
    return work;
}

void op_attention(struct kernels *kernels, const struct attention_args *asked)
{
    struct attention_args own = *asked;
    const struct attention_args *args = &own;
    const struct kv_layout *layout = args->kv.layout;
    ASSERT(args->group == 0 || args->window > 0);
    own.kv = ops_group(&asked->kv, asked->group);
    ASSERT(args->rows <= kernels->rows_max);
    ASSERT(args->layer < layout->layers);
    ASSERT(args->heads > 0);
    ASSERT(args->heads % layout->kv_heads == 0);
    ASSERT(layout->head_dim <= LIMIT_HEAD_DIM);
    ASSERT(args->softcap >= 0);
    ASSERT(kernels->table->kv_types >> layout->type & 1);
    if (args->rows == 0)
        return;
    struct attention_job job = {
        .kernels = kernels, .args = args, .group = args->heads / layout->kv_heads};
    attention_order(kernels, args);
    job.tiles = attention_tiles(kernels, args, job.group);
    for (uint32_t t = 0; t < job.tiles; t++)
        job.cost += kernels->tiles[t].cost * attention_units(&job, &kernels->tiles[t]);
    struct ops_work work = attention_work(kernels, args);
    ops_run(kernels, &work, (size_t)job.cost * layout->head_dim, op_attention_job, &job);
}
