/* gpu_parity_attention: writing of pages and attention over them. */
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
};

struct pages_side {
    struct kv_layout layout;
    char *pages;
};

struct pages_bed {
    const struct pages_case *shape;
    uint32_t tokens; /* of the longest text */
    uint32_t pages_each;
    uint32_t *table;
    const uint32_t *tables[SEQUENCES];
    struct pages_side ref;
    struct pages_side device;
    float *k; /* [SEQUENCES][tokens][kv_heads][head_dim] */
    float *v;
};

enum { PAGES_LAYERS = 2, PAGES_LAYER = 1 };

static struct pages_bed bed_make(const struct pages_case *shape)
{
    struct pages_bed bed = {.shape = shape};
    for (int t = 0; t < TEXTS; t++)
        if (shape->texts[t].from + shape->texts[t].rows > bed.tokens)
            bed.tokens = shape->texts[t].from + shape->texts[t].rows;
    bed.pages_each = (bed.tokens + shape->page_tokens - 1) / shape->page_tokens;
    bed.table = parity_host((size_t)SEQUENCES * bed.pages_each * sizeof *bed.table);
    for (uint32_t s = 0; s < SEQUENCES; s++) {
        bed.tables[s] = bed.table + (size_t)s * bed.pages_each;
        for (uint32_t p = 0; p < bed.pages_each; p++)
            bed.table[s * bed.pages_each + p] = p * SEQUENCES + (s ^ (p & 3));
    }
    parity_must(kernels_kv_layout(parity.ref, KV_TYPE_F16, shape->page_tokens, PAGES_LAYERS,
                                  shape->kv_heads, shape->head_dim, &bed.ref.layout),
                "layout");
    parity_must(cuda_kv_layout(KV_TYPE_F16, shape->page_tokens, PAGES_LAYERS, shape->kv_heads,
                               shape->head_dim, &bed.device.layout),
                "layout");
    const size_t pages = (size_t)SEQUENCES * bed.pages_each;
    bed.ref.pages = parity_host(pages * bed.ref.layout.page_bytes);
    bed.device.pages = parity_poison(pages * bed.device.layout.page_bytes); /* never to be used */
    const size_t n = (size_t)SEQUENCES * bed.tokens * shape->kv_heads * shape->head_dim;
    bed.k = parity_randoms(n, 2);
    bed.v = parity_randoms(n, 1);
    return bed;
}

static void bed_free(struct pages_bed *bed)
{
    parity_drop(bed->device.pages);
    free(bed->ref.pages), free(bed->table), free(bed->k), free(bed->v);
}

/* Rows `from` … of one sequence written on both sides. */
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
                             .pairs = pairs};
    struct kv_write_args args = {
        .k = rotated,
        .v = v,
        .rows = rows,
        .layer = PAGES_LAYER,
        .kv = {&bed->ref.layout, bed->ref.pages, sequences, positions, bed->tables, NULL, NULL},
        .rope = {&rope}};
    kernels_kv_write(parity.ref, &args);
    args.kv.layout = &bed->device.layout;
    args.kv.pages = bed->device.pages;
    parity_must(cuda_backend_batch(parity.device, &args.kv, rows), "batch");
    rope.x = parity_up(k, rows * each * sizeof *k);
    rope.table = parity_up(angles, (size_t)rows * pairs * 2 * sizeof *angles);
    args.k = rope.x;
    args.v = parity_up(v, rows * each * sizeof *v);
    cuda_kv_write(parity.device, &args);
    parity_must(cuda_backend_end(parity.device), "kv_write");
    parity_drop(rope.x);
    parity_drop(rope.table);
    parity_drop(args.v);
    free(rotated), free(angles);
}

/* The texts' rows as one batch over a side. Returns how many. */
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

static void device_attention(struct cuda_backend *device, struct attention_args args, size_t bytes,
                             float *out)
{
    const float *q = args.q;
    args.q = parity_up(q, bytes);
    args.out = parity_poison(bytes);
    parity_must(cuda_backend_batch(device, &args.kv, args.rows), "batch");
    cuda_attention(device, &args);
    parity_must(cuda_backend_download(device, out, args.out, bytes), "attention");
    parity_drop(args.q);
    parity_drop(args.out);
}

/* Each row alone, which splits long texts over the device, and without splitting. */
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
    device_attention(unsplit, together, row_bytes * args.rows, one);
    worst = fmax(worst, parity_same(one, all, row_bytes * args.rows));
    for (uint32_t r = 0; r < together.rows; r += 1 + together.rows / 7) {
        args.rows = 1;
        args.q = together.q + r * each;
        args.kv.sequence = together.kv.sequence + r;
        args.kv.position = together.kv.position + r;
        device_attention(parity.device, args, row_bytes, one);
        worst = fmax(worst, parity_same(one, all + r * each, row_bytes));
    }
    cuda_backend_close(unsplit);
    free(one);
    return worst;
}

static void check_pages(const struct pages_case *shape)
{
    struct pages_bed bed = bed_make(shape);
    uint32_t sequences[PARITY_ROWS_MAX];
    uint32_t positions[PARITY_ROWS_MAX];
    for (int t = 0; t < TEXTS; t++) {
        const struct text *text = &shape->texts[t];
        for (uint32_t at = 0; at < text->from + text->rows; at += PARITY_ROWS_MAX) {
            const uint32_t left = text->from + text->rows - at;
            bed_write(&bed, text->sequence, at, left < PARITY_ROWS_MAX ? left : PARITY_ROWS_MAX);
        }
    }
    const uint32_t rows = bed_rows(&bed, sequences, positions);
    const size_t each = (size_t)shape->heads * shape->head_dim;
    float *q = parity_randoms(rows * each, 2);
    float *want = parity_host(rows * each * sizeof *want);
    float *got = parity_host(rows * each * sizeof *got);
    struct attention_args args = {
        .q = q,
        .out = want,
        .rows = rows,
        .heads = shape->heads,
        .layer = PAGES_LAYER,
        .scale = 1 / sqrtf((float)shape->head_dim),
        .kv = {&bed.ref.layout, bed.ref.pages, sequences, positions, bed.tables, NULL, NULL}};
    kernels_attention(parity.ref, &args);
    args.kv.layout = &bed.device.layout;
    args.kv.pages = bed.device.pages;
    device_attention(parity.device, args, rows * each * sizeof *got, got);
    /* Queries and weights are rounded by half a place of 11 bits: scores of up to about 8 by 2^-9,
     * of values up to 1. */
    parity_tell(parity_worst(got, want, rows * each, 4e-3),
                "attention %u/%u heads of %u, pages of %u, %u rows", shape->heads, shape->kv_heads,
                shape->head_dim, shape->page_tokens, rows);
    parity_tell(attention_bits(args, got, each * sizeof *got),
                "attention %u/%u heads of %u: bits of a row", shape->heads, shape->kv_heads,
                shape->head_dim);
    bed_free(&bed);
    free(q), free(want), free(got);
}

static const struct pages_case SMALL_PAGES[] = {
    {16, 3, 3, 16, {{0, 0, 1}, {1, 14, 5}, {2, 63, 2}, {3, 90, 1}}},
    {64, 9, 3, 64, {{0, 0, 40}, {1, 255, 1}, {2, 250, 9}, {3, 600, 1}}},
    {48, 8, 1, 48, {{0, 100, 11}, {1, 1, 1}, {2, 3, 1}, {3, 511, 2}}},
    {64, 4, 2, 128, {{0, 700, 1}, {1, 0, 66}, {2, 320, 3}, {3, 127, 1}}},
    {32, 32, 1, 80, {{0, 5, 3}, {1, 31, 2}, {2, 0, 1}, {3, 290, 1}}},
    {64, 2, 2, 96, {{0, 64, 70}, {1, 0, 1}, {2, 65, 1}, {3, 1, 2}}},
    {16, 5, 5, 112, {{0, 0, 17}, {1, 300, 1}, {2, 2, 1}, {3, 1, 1}}},
    {80, 2, 1, 32, {{0, 79, 2}, {1, 80, 1}, {2, 159, 4}, {3, 0, 3}}},
};

static const struct pages_case LARGE_PAGES[] = {
    {64, 32, 8, 128, {{0, 2047, 1}, {1, 1500, 100}, {2, 8191, 1}, {3, 0, 256}}},
    {64, 32, 8, 64, {{0, 2047, 1}, {1, 100, 100}, {2, 4095, 1}, {3, 0, 256}}},
};

void gpu_parity_attention(void)
{
    for (size_t i = 0; i < sizeof SMALL_PAGES / sizeof *SMALL_PAGES; i++)
        check_pages(&SMALL_PAGES[i]);
    for (size_t i = 0; parity.is_large && i < sizeof LARGE_PAGES / sizeof *LARGE_PAGES; i++)
        check_pages(&LARGE_PAGES[i]);
}
