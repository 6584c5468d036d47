/* gpu_parity_attention: writing of pages, and attention over them. */
#include "kernels/cuda/cuda_kv.h"
#include "tests/gpu/gpu_parity.h"

struct text {
    uint32_t sequence;
    uint32_t from; /* position of its first row in the batch */
    uint32_t rows;
};

enum { TEXTS = 4, SEQUENCES = 4 };

struct pages_case {
    uint32_t page_tokens, heads, kv_heads, head_dim;
    struct text texts[TEXTS];
    enum kv_type type; /* 0: f16 */
    uint32_t window;
    bool has_sinks;
    uint32_t shared; /* keys that all texts have in common, in the same pages */
    bool has_units;  /* the layer is in window units */
};

static enum kv_type type_of(const struct pages_case *shape)
{
    return shape->type != 0 ? shape->type : KV_TYPE_F16;
}

/* Queries and weights are rounded by half a unit of 11 bits: scores of up to about 8 by 2^-9, for
 * values up to 1; of bfloat16 they have 8 bits. Codes of int8 × scale are rounded to 11 bits once
 * more, for keys and for values; those of float8, scaled by a power of two, are exact halves. */
static double bound_of(const struct pages_case *shape)
{
    return type_of(shape) == KV_TYPE_BF16 ? 3.2e-2 : type_of(shape) == KV_TYPE_I8 ? 8e-3 : 4e-3;
}

enum { PAGES_LAYERS = 2, PAGES_LAYER = 1, PAGES_UNITS = 2, PAGES_GROUP = 2 };

struct pages_side {
    struct kv_layout layout;
    char *pages;
};

struct pages_bed {
    const struct pages_case *shape;
    uint32_t tokens; /* of the longest text */
    uint32_t pages_each;
    uint32_t *table;
    const uint32_t *tables[(1 + PAGES_UNITS) * SEQUENCES];
    struct pages_side ref;
    struct pages_side device;
    float *k; /* [SEQUENCES][tokens][kv_heads][head_dim] */
    float *v;
};

/* Gives each page window units, behind the pages of all sequences. */
static void bed_units(struct pages_bed *bed)
{
    const uint32_t pages = SEQUENCES * bed->pages_each;
    for (uint32_t s = 0; s < SEQUENCES; s++)
        for (uint32_t unit = 1; unit <= PAGES_UNITS; unit++) {
            uint32_t *table = bed->table + (size_t)(unit * SEQUENCES + s) * bed->pages_each;
            bed->tables[unit * SEQUENCES + s] = table;
            for (uint32_t p = 0; p < bed->pages_each; p++)
                table[p] = unit * pages + bed->tables[s][p];
        }
    bed->ref.layout.window_units = bed->device.layout.window_units = PAGES_UNITS;
    bed->ref.layout.window = bed->device.layout.window = bed->shape->window;
}

static uint32_t bed_group(const struct pages_bed *bed)
{
    return bed->shape->has_units ? PAGES_GROUP : 0;
}

static struct pages_bed bed_make(const struct pages_case *shape)
{
    struct pages_bed bed = {.shape = shape};
    for (int t = 0; t < TEXTS; t++)
        if (shape->texts[t].from + shape->texts[t].rows > bed.tokens)
            bed.tokens = shape->texts[t].from + shape->texts[t].rows;
    bed.pages_each = (bed.tokens + shape->page_tokens - 1) / shape->page_tokens;
    const uint32_t units = 1 + (shape->has_units ? PAGES_UNITS : 0);
    bed.table = parity_host((size_t)units * SEQUENCES * bed.pages_each * sizeof *bed.table);
    for (uint32_t s = 0; s < SEQUENCES; s++) {
        bed.tables[s] = bed.table + (size_t)s * bed.pages_each;
        for (uint32_t p = 0; p < bed.pages_each; p++)
            bed.table[s * bed.pages_each + p] = (p + 1) * shape->page_tokens <= shape->shared
                                                    ? p * SEQUENCES
                                                    : p * SEQUENCES + (s ^ (p & 3));
    }
    parity_must(kernels_kv_layout(parity.ref, type_of(shape), shape->page_tokens, PAGES_LAYERS,
                                  shape->kv_heads, shape->head_dim, &bed.ref.layout),
                "layout");
    parity_must(cuda_kv_layout(type_of(shape), shape->page_tokens, PAGES_LAYERS, shape->kv_heads,
                               shape->head_dim, &bed.device.layout),
                "layout");
    if (shape->has_units)
        bed_units(&bed);
    const size_t pages = (size_t)units * SEQUENCES * bed.pages_each;
    bed.ref.pages = parity_host(pages * bed.ref.layout.page_bytes);
    bed.device.pages = parity_poison(pages * bed.device.layout.page_bytes); /* never to be used */
    const size_t n = (size_t)SEQUENCES * bed.tokens * shape->kv_heads * shape->head_dim;
    bed.k = parity_randoms(n, 2);
    bed.v = parity_randoms(n, 1);
    const size_t each = (size_t)shape->kv_heads * shape->head_dim;
    for (uint32_t s = 1; s < SEQUENCES; s++) {
        memcpy(bed.k + s * bed.tokens * each, bed.k, shape->shared * each * sizeof *bed.k);
        memcpy(bed.v + s * bed.tokens * each, bed.v, shape->shared * each * sizeof *bed.v);
    }
    return bed;
}

static void bed_free(struct pages_bed *bed)
{
    parity_drop(bed->device.pages);
    free(bed->ref.pages), free(bed->table), free(bed->k), free(bed->v);
}

/* Writes rows `from` … of one sequence on both sides. */
static void bed_write(struct pages_bed *bed, uint32_t sequence, uint32_t from, uint32_t rows)
{
    const uint32_t pairs = bed->shape->head_dim / 2;
    const size_t each = (size_t)bed->shape->kv_heads * bed->shape->head_dim;
    const float *k = bed->k + ((size_t)sequence * bed->tokens + from) * each;
    const float *v = bed->v + ((size_t)sequence * bed->tokens + from) * each;
    uint32_t sequences[PARITY_ROWS_MAX];
    uint32_t positions[PARITY_ROWS_MAX];
    for (uint32_t r = 0; r < rows; r++) {
        sequences[r] = sequence;
        positions[r] = from + r;
    }
    float *rotated = parity_copy(k, rows * each);
    const bool has_norm = bed->shape->kv_heads == 2;
    float norm[CUDA_KV_DIM_MAX];
    for (uint32_t d = 0; d < bed->shape->head_dim; d++)
        norm[d] = (float)(1 + d % 5) / 4;
    float *angles = parity_host((size_t)rows * pairs * 2 * sizeof *angles);
    for (uint32_t i = 0; i < rows * pairs; i++) {
        angles[2 * i] = 0.6f;
        angles[2 * i + 1] = 0.8f;
    }
    struct rope_args rope = {.x = rotated,
                             .table = angles,
                             .rows = rows,
                             .heads = bed->shape->kv_heads,
                             .head_dim = bed->shape->head_dim,
                             .pairs = pairs,
                             .norm = has_norm ? norm : NULL,
                             .epsilon = 1e-6f};
    struct kv_write_args args = {.k = rotated,
                                 .v = v,
                                 .rows = rows,
                                 .group = bed_group(bed),
                                 .layer = PAGES_LAYER,
                                 .kv = {&bed->ref.layout, bed->ref.pages, sequences, positions,
                                        bed->tables, NULL, NULL, SEQUENCES},
                                 .rope = {&rope}};
    kernels_kv_write(parity.ref, &args);
    args.kv.layout = &bed->device.layout;
    args.kv.pages = bed->device.pages;
    parity_must(cuda_backend_batch(parity.device, &args.kv, rows, 0, 0, NULL), "batch");
    rope.x = parity_up(k, rows * each * sizeof *k);
    rope.table = parity_up(angles, (size_t)rows * pairs * 2 * sizeof *angles);
    if (has_norm)
        rope.norm = parity_up(norm, bed->shape->head_dim * sizeof *norm);
    args.k = rope.x;
    args.v = parity_up(v, rows * each * sizeof *v);
    cuda_kv_write(parity.device, &args);
    parity_must(cuda_backend_end(parity.device), "kv_write");
    parity_drop(rope.x);
    parity_drop(rope.table);
    if (has_norm)
        parity_drop((void *)(uintptr_t)rope.norm);
    parity_drop(args.v);
    free(rotated), free(angles);
}

/* Makes the texts' rows one batch over a side. Returns their number. */
static uint32_t bed_rows(const struct pages_bed *bed, uint32_t *sequences, uint32_t *positions)
{
    uint32_t rows = 0;
    for (int t = 0; t < TEXTS; t++)
        for (uint32_t r = 0; r < bed->shape->texts[t].rows; r++, rows++) {
            sequences[rows] = bed->shape->texts[t].sequence;
            positions[rows] = bed->shape->texts[t].from + r;
        }
    return rows;
}

/* Computes attention as planned for `window`. */
static void device_attention(struct cuda_backend *device, struct attention_args args,
                             uint32_t window, size_t bytes, float *out)
{
    const float *q = args.q;
    if (args.sinks != NULL)
        args.sinks = parity_up(args.sinks, args.heads * sizeof *args.sinks);
    args.q = parity_up(q, bytes);
    args.out = parity_poison(bytes);
    parity_must(cuda_backend_batch(device, &args.kv, args.rows, args.heads, window, args.groups),
                "batch");
    cuda_attention(device, &args);
    parity_must(cuda_backend_download(device, out, args.out, bytes), "attention");
    if (args.sinks != NULL)
        parity_drop(args.sinks);
    parity_drop(args.q);
    parity_drop(args.out);
}

/* Compares the bits with those of each row alone, which splits long texts over the device; without
 * splitting; and as planned for larger windows, which other layers may have. */
static double attention_bits(struct attention_args args, const float *all, size_t row_bytes)
{
    const size_t each = row_bytes / sizeof *all;
    const struct cuda_backend_options whole = {
        .rows_max = PARITY_ROWS_MAX, .cols_max = 64, .tables_max = PARITY_TABLES_MAX};
    struct cuda_backend *unsplit;
    float *one = parity_host(row_bytes * args.rows);
    const struct attention_args together = args;
    double worst = 0;
    parity_must(cuda_backend_open(&unsplit, &whole), "open");
    const uint32_t windows[] = {args.window, args.window > 0 ? args.window + 300 : 0, 0};
    for (int w = 0; w < 3; w++) {
        device_attention(unsplit, together, windows[w], row_bytes * args.rows, one);
        worst = fmax(worst, parity_same(one, all, row_bytes * args.rows));
        device_attention(parity.device, together, windows[w], row_bytes * args.rows, one);
        worst = fmax(worst, parity_same(one, all, row_bytes * args.rows));
    }
    for (uint32_t r = 0; r < together.rows; r += 1 + together.rows / 7) {
        args.rows = 1;
        args.q = together.q + r * each;
        args.kv.sequence = together.kv.sequence + r;
        args.kv.position = together.kv.position + r;
        device_attention(parity.device, args, args.window, row_bytes, one);
        worst = fmax(worst, parity_same(one, all + r * each, row_bytes));
    }
    cuda_backend_close(unsplit);
    free(one);
    return worst;
}

/* Compares the bits of all texts reading their common keys together with those of each by itself.
 */
static double shared_bits(const struct pages_case *shape, struct attention_args args,
                          const float *all, size_t bytes)
{
    uint32_t order[PARITY_ROWS_MAX];
    uint32_t shared[PARITY_ROWS_MAX];
    struct attention_groups groups = {order, shared};
    float *together = parity_host(bytes);
    for (uint32_t r = 0; r < args.rows; r++) {
        order[r] = r;
        shared[r] = r > 0 && args.kv.sequence[r] != args.kv.sequence[r - 1] ? shape->shared : 0;
    }
    args.groups = &groups;
    device_attention(parity.device, args, args.window, bytes, together);
    const double worst = parity_same(together, all, bytes);
    free(together);
    return worst;
}

static void bed_fill(struct pages_bed *bed)
{
    for (int t = 0; t < TEXTS; t++) {
        const struct text *text = &bed->shape->texts[t];
        for (uint32_t at = 0; at < text->from + text->rows; at += PARITY_ROWS_MAX) {
            const uint32_t left = text->from + text->rows - at;
            bed_write(bed, text->sequence, at, left < PARITY_ROWS_MAX ? left : PARITY_ROWS_MAX);
        }
    }
}

static void check_pages(const struct pages_case *shape, float softcap)
{
    struct pages_bed bed = bed_make(shape);
    uint32_t sequences[PARITY_ROWS_MAX];
    uint32_t positions[PARITY_ROWS_MAX];
    char name[80];
    bed_fill(&bed);
    const uint32_t rows = bed_rows(&bed, sequences, positions);
    const size_t each = (size_t)shape->heads * shape->head_dim;
    const size_t bytes = rows * each * sizeof(float);
    float *q = parity_randoms(rows * each, 2);
    float *sinks = parity_randoms(shape->heads, 4);
    float *want = parity_host(bytes);
    float *got = parity_host(bytes);
    struct attention_args args = {.q = q,
                                  .out = want,
                                  .rows = rows,
                                  .heads = shape->heads,
                                  .group = bed_group(&bed),
                                  .layer = PAGES_LAYER,
                                  .scale = 1 / sqrtf((float)shape->head_dim),
                                  .kv = {&bed.ref.layout, bed.ref.pages, sequences, positions,
                                         bed.tables, NULL, NULL, SEQUENCES},
                                  .window = shape->window,
                                  .sinks = shape->has_sinks ? sinks : NULL,
                                  .softcap = softcap};
    kernels_attention(parity.ref, &args);
    args.kv.layout = &bed.device.layout;
    args.kv.pages = bed.device.pages;
    device_attention(parity.device, args, args.window, bytes, got);
    snprintf(name, sizeof name, "attention %s %u/%u × %u%s%s%s%s",
             kernels_kv_type_name(type_of(shape)), shape->heads, shape->kv_heads, shape->head_dim,
             shape->window > 0 ? ", window" : "", shape->has_units ? " units" : "",
             shape->has_sinks ? ", sinks" : "", softcap > 0 ? ", soft cap" : "");
    parity_tell(parity_worst(got, want, rows * each, bound_of(shape)), "%s, pages of %u, %u rows",
                name, shape->page_tokens, rows);
    parity_tell(attention_bits(args, got, each * sizeof *got), "%s: bits of a row", name);
    if (shape->shared > 0)
        parity_tell(shared_bits(shape, args, got, bytes), "%s: bits, %u keys shared", name,
                    shape->shared);
    bed_free(&bed);
    free(q), free(sinks), free(want), free(got);
}

/* An infinite value reaches the rows that see it, and no other. */
static void check_infinite(enum kv_type type, uint32_t window)
{
    enum { ROWS = 70, ODD = 30, HEADS = 2, DIM = 32 };
    const struct pages_case shape = {16,   HEADS,  1,     DIM, {{0, 0, ROWS}},
                                     type, window, false, 0,   false};
    struct pages_bed bed = bed_make(&shape);
    uint32_t sequences[ROWS];
    uint32_t positions[ROWS];
    float got[2][ROWS][HEADS * DIM];
    double worst = 0;
    const uint32_t rows = bed_rows(&bed, sequences, positions);
    float *q = parity_randoms(sizeof *got / sizeof(float), 2);
    for (int is_odd = 0; is_odd < 2; is_odd++) {
        bed.v[ODD * DIM + 3] = is_odd ? INFINITY : 1;
        bed_fill(&bed);
        device_attention(
            parity.device,
            (struct attention_args){.q = q,
                                    .rows = rows,
                                    .heads = HEADS,
                                    .layer = PAGES_LAYER,
                                    .scale = 0.2f,
                                    .kv = {&bed.device.layout, bed.device.pages, sequences,
                                           positions, bed.tables, NULL, NULL, SEQUENCES},
                                    .window = window},
            window, sizeof *got, &got[is_odd][0][0]);
    }
    for (uint32_t r = 0; r < ROWS; r++) {
        const bool sees = r >= ODD && (window == 0 || r < ODD + window);
        if (sees ? isfinite(got[1][r][3]) : parity_same(got[1][r], got[0][r], sizeof *got[0]) > 0)
            worst = INFINITY;
    }
    parity_tell(worst, "attention %s%s: an infinite value", kernels_kv_type_name(type),
                window > 0 ? ", window" : "");
    bed_free(&bed);
    free(q);
}

static const struct pages_case SMALL_PAGES[] = {
    {16, 3, 3, 16, {{0, 0, 1}, {1, 14, 5}, {2, 63, 2}, {3, 90, 1}}, 0, 0, false, 0, false},
    {64, 9, 3, 64, {{0, 0, 40}, {1, 255, 1}, {2, 250, 9}, {3, 600, 1}}, 0, 0, false, 0, false},
    {48, 8, 1, 48, {{0, 100, 11}, {1, 1, 1}, {2, 3, 1}, {3, 511, 2}}, 0, 0, false, 0, false},
    {64, 4, 2, 128, {{0, 700, 1}, {1, 0, 66}, {2, 320, 3}, {3, 127, 1}}, 0, 0, false, 0, false},
    {32, 32, 1, 80, {{0, 5, 3}, {1, 31, 2}, {2, 0, 1}, {3, 290, 1}}, 0, 0, false, 0, false},
    {64, 2, 2, 96, {{0, 64, 70}, {1, 0, 1}, {2, 65, 1}, {3, 1, 2}}, 0, 0, false, 0, false},
    {16, 5, 5, 112, {{0, 0, 17}, {1, 300, 1}, {2, 2, 1}, {3, 1, 1}}, 0, 0, false, 0, false},
    {80, 2, 1, 32, {{0, 79, 2}, {1, 80, 1}, {2, 159, 4}, {3, 0, 3}}, 0, 0, false, 0, false},
    {64, 2, 1, 256, {{0, 64, 3}, {1, 0, 1}, {2, 300, 1}, {3, 1, 2}}, 0, 0, false, 0, false},
    {16, 3, 1, 144, {{0, 30, 5}, {1, 0, 1}, {2, 70, 1}, {3, 1, 2}}, 0, 0, false, 0, false},
    {64,
     4,
     2,
     128,
     {{0, 300, 1}, {1, 0, 20}, {2, 65, 3}, {3, 127, 1}},
     KV_TYPE_I8,
     0,
     false,
     0,
     false},
    {48,
     6,
     2,
     48,
     {{0, 0, 30}, {1, 255, 1}, {2, 250, 9}, {3, 500, 1}},
     KV_TYPE_I8,
     0,
     true,
     0,
     false},
    {16,
     3,
     1,
     64,
     {{0, 0, 30}, {1, 255, 1}, {2, 250, 9}, {3, 400, 1}},
     KV_TYPE_FP8,
     0,
     false,
     0,
     false},
    {64,
     4,
     2,
     256,
     {{0, 70, 1}, {1, 0, 5}, {2, 65, 1}, {3, 7, 1}},
     KV_TYPE_FP8,
     0,
     false,
     0,
     false},
    {32,
     4,
     1,
     80,
     {{0, 5, 3}, {1, 31, 2}, {2, 0, 1}, {3, 290, 1}},
     KV_TYPE_BF16,
     0,
     false,
     0,
     false},
    {64, 4, 2, 64, {{0, 0, 90}, {1, 255, 1}, {2, 250, 9}, {3, 600, 1}}, 0, 100, false, 0, false},
    {16, 2, 1, 16, {{0, 0, 9}, {1, 255, 1}, {2, 700, 2}, {3, 320, 1}}, 0, 1, false, 0, false},
    {64,
     4,
     4,
     32,
     {{0, 250, 9}, {1, 1000, 3}, {2, 519, 2}, {3, 1, 1}},
     KV_TYPE_I8,
     256,
     true,
     0,
     false},
    /* The common keys end inside a segment, or with one. */
    {64, 4, 2, 64, {{0, 700, 1}, {1, 650, 3}, {2, 777, 1}, {3, 640, 1}}, 0, 0, false, 640, false},
    {64, 8, 2, 32, {{0, 512, 1}, {1, 600, 2}, {2, 513, 1}, {3, 800, 9}}, 0, 300, true, 512, false},
    {64,
     4,
     1,
     64,
     {{0, 300, 1}, {1, 257, 3}, {2, 256, 1}, {3, 300, 1}},
     KV_TYPE_FP8,
     0,
     true,
     256,
     false},
    /* The window begins in the common keys, at another key for each row; or behind them. */
    {64,
     4,
     2,
     32,
     {{0, 1300, 1}, {1, 1400, 2}, {2, 1100, 1}, {3, 1030, 9}},
     0,
     600,
     true,
     1024,
     false},
    {16,
     6,
     3,
     16,
     {{0, 900, 1}, {1, 905, 1}, {2, 1300, 3}, {3, 520, 1}},
     0,
     390,
     false,
     512,
     false},
    /* More than 16 queries over a KV head, which are one warp's own, beside fewer, which all warps
     * share. */
    {32,
     4,
     1,
     80,
     {{0, 5, 30}, {1, 31, 2}, {2, 0, 1}, {3, 90, 1}},
     KV_TYPE_BF16,
     20,
     true,
     0,
     false},
    {16, 2, 1, 256, {{0, 0, 20}, {1, 63, 2}, {2, 64, 1}, {3, 70, 1}}, 0, 0, false, 0, false},
    {64,
     4,
     2,
     144,
     {{0, 50, 20}, {1, 0, 1}, {2, 64, 1}, {3, 7, 1}},
     KV_TYPE_FP8,
     0,
     true,
     0,
     false},
    {48,
     4,
     2,
     256,
     {{0, 50, 20}, {1, 0, 1}, {2, 64, 1}, {3, 7, 1}},
     KV_TYPE_I8,
     40,
     false,
     0,
     false},
    /* Window units: their tables begin with the page of the first key that is read. */
    {16, 4, 2, 64, {{0, 700, 1}, {1, 0, 70}, {2, 250, 9}, {3, 600, 1}}, 0, 100, true, 0, true},
    {64, 4, 2, 32, {{0, 1300, 1}, {1, 1400, 2}, {2, 1100, 1}, {3, 30, 9}}, 0, 600, false, 0, true},
    {64,
     4,
     1,
     64,
     {{0, 700, 1}, {1, 650, 3}, {2, 777, 1}, {3, 640, 1}},
     KV_TYPE_I8,
     128,
     false,
     640,
     true},
};

static const struct pages_case LARGE_PAGES[] = {
    {64,
     32,
     8,
     128,
     {{0, 2047, 1}, {1, 1500, 100}, {2, 8191, 1}, {3, 0, 256}},
     0,
     0,
     false,
     0,
     false},
    {64,
     32,
     8,
     64,
     {{0, 2047, 1}, {1, 100, 100}, {2, 4095, 1}, {3, 0, 256}},
     0,
     0,
     false,
     0,
     false},
};

void gpu_parity_attention(void)
{
    for (size_t i = 0; i < sizeof SMALL_PAGES / sizeof *SMALL_PAGES; i++)
        check_pages(&SMALL_PAGES[i], 0);
    for (size_t i = 1; i < sizeof SMALL_PAGES / sizeof *SMALL_PAGES; i += 4)
        check_pages(&SMALL_PAGES[i], 2);
    check_infinite(KV_TYPE_F16, 0), check_infinite(KV_TYPE_F16, 20), check_infinite(KV_TYPE_I8, 40);
    static const enum kv_type types[] = {KV_TYPE_F16, KV_TYPE_BF16, KV_TYPE_I8, KV_TYPE_FP8};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        check_infinite(types[i], 36); /* few queries, of which not all see it */
    for (size_t i = 0; parity.is_large && i < sizeof LARGE_PAGES / sizeof *LARGE_PAGES; i++)
        check_pages(&LARGE_PAGES[i], i == 0 ? 5 : 0);
}
