/* gpu_bench_attention: attention over pages: decode, prefill, and streams with a common beginning.
 */
#include "tests/gpu/gpu_bench.h"

enum { PAGE_TOKENS = 64, STREAMS = 64, CONTEXT = 2048, PREFIX = 4096, SUFFIX = 128 };

struct streams {
    uint32_t count;
    uint32_t rows;   /* of each stream: the last of its keys */
    uint32_t keys;   /* of each stream */
    uint32_t common; /* keys, from 0 on, that are in the same pages; whole pages */
    bool is_grouped; /* common pages are read once for all streams */
};

struct bed {
    struct kv_layout layout;
    uint32_t rows;
    uint32_t *numbers; /* holds all arrays below except the tables */
    uint32_t *table;
    const uint32_t **tables;
    struct attention_groups groups;
    struct attention_args args;
};

static void attention_once(const void *context, uint32_t index)
{
    const struct bed *bed = context;
    struct attention_args args = bed->args;
    args.layer = index % bed->layout.layers;
    cuda_attention(gpu_bench.device, &args);
}

/* Writes the page numbers of stream `s`; common pages are stream 0's. Returns the number of pages.
 */
static uint32_t bed_tables(struct bed *bed, const struct streams *streams)
{
    const uint32_t each = (streams->keys + PAGE_TOKENS - 1) / PAGE_TOKENS;
    uint32_t pages = 0;
    bed->table = calloc((size_t)streams->count * each, sizeof *bed->table);
    bed->tables = calloc(streams->count, sizeof *bed->tables);
    if (bed->table == NULL || bed->tables == NULL)
        exit(1);
    for (uint32_t s = 0; s < streams->count; s++) {
        uint32_t *table = bed->table + (size_t)s * each;
        bed->tables[s] = table;
        for (uint32_t p = 0; p < each; p++)
            table[p] = s > 0 && p < streams->common / PAGE_TOKENS ? bed->table[p] : pages++;
    }
    return pages;
}

static struct bed bed_make(const struct streams *streams)
{
    const struct gpu_bench_shape shape = gpu_bench_shape();
    struct bed bed = {.rows = streams->count * streams->rows};
    const size_t bytes = (size_t)bed.rows * shape.heads * shape.head_dim * sizeof(float);
    bench_must(cuda_kv_layout(KV_TYPE_F16, PAGE_TOKENS, shape.layers, shape.kv_heads,
                              shape.head_dim, &bed.layout));
    const uint32_t pages = bed_tables(&bed, streams);
    bed.numbers = calloc((size_t)bed.rows * 4, sizeof *bed.numbers);
    if (bed.numbers == NULL)
        exit(1);
    uint32_t *const sequence = bed.numbers;
    uint32_t *const position = sequence + bed.rows;
    uint32_t *const order = position + bed.rows;
    uint32_t *const shared = order + bed.rows;
    for (uint32_t r = 0; r < bed.rows; r++) {
        sequence[r] = r / streams->rows;
        position[r] = streams->keys - streams->rows + r % streams->rows;
        order[r] = r;
        shared[r] = r % streams->rows == 0 && r > 0 ? streams->common : 0;
    }
    bed.groups = (struct attention_groups){order, shared};
    bed.args = (struct attention_args){.q = bench_alloc(bytes),
                                       .out = bench_alloc(bytes),
                                       .rows = bed.rows,
                                       .heads = shape.heads,
                                       .scale = 0.0883883f,
                                       .kv = {.pages = bench_alloc(pages * bed.layout.page_bytes),
                                              .sequence = sequence,
                                              .position = position,
                                              .page_tables = bed.tables}};
    return bed;
}

/* Returns the seconds of one layer. */
static double bed_time(const struct streams *streams)
{
    struct bed bed = bed_make(streams);
    bed.args.kv.layout = &bed.layout;
    bed.args.groups = streams->is_grouped ? &bed.groups : NULL;
    bench_must(cuda_backend_batch(gpu_bench.device, &bed.args.kv, bed.rows, bed.args.heads,
                                  bed.args.window, bed.args.groups));
    const double seconds = bench_time(attention_once, &bed);
    bench_drop(bed.args.q), bench_drop(bed.args.out), bench_drop(bed.args.kv.pages);
    free(bed.numbers), free(bed.table), free(bed.tables);
    return seconds;
}

static void bench_streams(uint32_t count, uint32_t rows, uint32_t keys)
{
    const struct gpu_bench_shape shape = gpu_bench_shape();
    const struct streams streams = {.count = count, .rows = rows, .keys = keys};
    const double seconds = bed_time(&streams);
    const double read = (double)count * keys * shape.kv_heads * shape.head_dim * 2 * 2;
    const double seen = (double)keys - (rows - 1) / 2.0;
    bench_figure(seconds * 1e6, "us", "attention_%ux%u_%u_us", count, rows, keys);
    if (rows == 1)
        bench_figure(100 * read / seconds / 1e9 / gpu_bench.copy_gbps, "% of copying",
                     "attention_%ux%u_%u_read", count, rows, keys);
    else
        bench_figure(4.0 * count * rows * seen * shape.heads * shape.head_dim / seconds / 1e12,
                     "TFLOP/s", "attention_%ux%u_%u_tflops", count, rows, keys);
}

/* Streams with a common prefix: on their own pages, on the same pages, and on the same pages read
 * once for all. */
static void bench_shared(uint32_t count, uint32_t prefix, uint32_t suffix)
{
    struct streams streams = {.count = count, .rows = 1, .keys = prefix + suffix};
    const double own = bed_time(&streams);
    streams.common = prefix;
    const double same = bed_time(&streams);
    streams.is_grouped = true;
    const double once = bed_time(&streams);
    bench_figure(own * 1e6, "us", "shared_own_us");
    bench_figure(same * 1e6, "us", "shared_same_us");
    bench_figure(once * 1e6, "us", "shared_once_us");
    bench_figure(once / same, "of plain over the same pages", "shared_once_to_same");
    bench_figure(once / own, "of plain over unshared pages", "shared_once_to_own");
}

void gpu_bench_attention(void)
{
    if (gpu_bench.is_tiny) {
        bench_streams(2, 1, 100), bench_streams(1, 40, 70);
        bench_shared(3, 2 * PAGE_TOKENS, 20);
        return;
    }
    bench_streams(1, 1, CONTEXT), bench_streams(1, 1, 16 * CONTEXT);
    bench_streams(STREAMS, 1, CONTEXT);
    bench_streams(1, CONTEXT, CONTEXT), bench_streams(1, 512, 4 * CONTEXT);
    bench_shared(STREAMS, PREFIX, SUFFIX);
}
