/* gpu_parity: every operation of kernels/cuda against the table `ref` on the processor, within a
 * bound that is said here, and bits that must not depend on what is computed beside.
 *
 * usage: gpu_parity [--large] [--json FILE]
 *   --large  layers of an 8B model too, which take `ref` minutes
 * One line an operation and shape: worst error ÷ bound. Ends with 0, 1 when one is above its bound,
 * or NO_DEVICE (77). Linked with kernels/cuda for a device, or with tests/kit/simt, which runs the
 * same kernels on the processor. */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config/base/rng.h"
#include "kernels/cuda/cuda_device.h"
#include "kernels/cuda/cuda_ops.h"
#include "kernels/half.h"
#include "kernels/kernels.h"

enum {
    NO_DEVICE = 77,
    ROWS_MAX = 512,
    COLS_MAX = 14336,
    TABLES_MAX = 4096,
    SPLIT_BYTES = 64 << 20,
    RESULTS_MAX = 512,
    PAGE_TOKENS = 64
};

struct result {
    char name[64];
    double worst; /* error ÷ bound; 0 for equal bits */
};

static struct {
    struct cuda_backend *device;
    struct kernels *ref;
    struct rng rng;
    struct result results[RESULTS_MAX];
    uint32_t count;
    bool is_large;
} parity;

static void must(enum status status, const char *what)
{
    if (status == STATUS_OK)
        return;
    fprintf(stderr, "gpu_parity: %s: %s\n", what, status_note()->message);
    exit(1);
}

__attribute__((format(printf, 2, 3))) static void tell(double worst, const char *format, ...)
{
    struct result *result = &parity.results[parity.count];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(result->name, sizeof result->name, format, arguments);
    va_end(arguments);
    result->worst = worst;
    printf("%-56s %8.3f %s\n", result->name, worst, worst <= 1 ? "ok" : "ABOVE ITS BOUND");
    fflush(stdout);
    if (parity.count + 1 < RESULTS_MAX)
        parity.count++;
}

/* --- data on both sides --- */

static void *host(size_t bytes)
{
    void *out = calloc(1, bytes + 64);
    if (out == NULL)
        exit(1);
    return out;
}

static float *randoms(size_t n, float scale)
{
    float *out = host(n * sizeof *out);
    for (size_t i = 0; i < n; i++)
        out[i] = (float)(rng_unit(rng_next(&parity.rng)) * 2 - 1) * scale;
    return out;
}

static float *copy(const float *from, size_t n)
{
    return memcpy(host(n * sizeof(float)), from, n * sizeof(float));
}

static void *up(const void *from, size_t bytes)
{
    void *out;
    must(cuda_backend_alloc(parity.device, &out, bytes, "a test's data"), "alloc");
    cuda_backend_upload(parity.device, out, from, bytes);
    return out;
}

static float *up_randoms(size_t n, float scale)
{
    float *data = randoms(n, scale);
    float *out = up(data, n * sizeof *data);
    free(data);
    return out;
}

static void down(void *to, void *from, size_t bytes)
{
    must(cuda_backend_download(parity.device, to, from, bytes), "download");
}

static void drop(void *memory)
{
    cuda_backend_free(parity.device, memory);
}

/* NaN is no agreement. */
static double worst_of(const float *a, const float *b, size_t n, double bound)
{
    double worst = 0;
    for (size_t i = 0; i < n; i++) {
        double error = fabs((double)a[i] - (double)b[i]) / bound;
        if (!(error <= worst))
            worst = error >= 0 ? error : INFINITY;
    }
    return worst;
}

static double same_bits(const void *a, const void *b, size_t bytes)
{
    return memcmp(a, b, bytes) == 0 ? 0 : INFINITY;
}

/* --- rows --- */

static void check_rmsnorm(uint32_t rows, uint32_t cols)
{
    const size_t n = (size_t)rows * cols;
    float *x = randoms(n, 3);
    float *weight = randoms(cols, 1);
    float *y = host(n * sizeof *y);
    float *got = host(n * sizeof *got);
    struct rmsnorm_args args = {
        .x = x, .weight = weight, .y = y, .rows = rows, .cols = cols, .epsilon = 1e-5f};
    kernels_rmsnorm(parity.ref, &args);
    args.x = up(x, n * sizeof *x);
    args.weight = up(weight, cols * sizeof *weight);
    args.y = up(y, n * sizeof *y);
    cuda_rmsnorm(parity.device, &args);
    down(got, args.y, n * sizeof *got);
    /* Results up to 3 × √cols at the utmost, some ulp each. */
    tell(worst_of(got, y, n, 4e-6), "rmsnorm %u × %u", rows, cols);
    drop((void *)(uintptr_t)args.x);
    drop((void *)(uintptr_t)args.weight);
    drop(args.y);
    free(x), free(weight), free(y), free(got);
}

static void check_rope(uint32_t rows, uint32_t heads, uint32_t head_dim, uint32_t pairs,
                       enum rope_pairing pairing)
{
    const size_t n = (size_t)rows * heads * head_dim;
    const size_t angles = (size_t)rows * pairs * 2;
    float *x = randoms(n, 2);
    float *x_device = up(x, n * sizeof *x);
    float *frequencies = randoms(pairs, 1);
    float *table = host(angles * sizeof *table);
    float *got = host((n > angles ? n : angles) * sizeof *got);
    uint32_t *positions = host(rows * sizeof *positions);
    for (uint32_t r = 0; r < rows; r++)
        positions[r] = r * 1031;
    struct rope_table_args angle = {positions, frequencies, rows, pairs, table};
    kernels_rope_table(parity.ref, &angle);
    angle.positions = up(positions, rows * sizeof *positions);
    angle.frequencies = up(frequencies, pairs * sizeof *frequencies);
    angle.table = up(table, angles * sizeof *table);
    cuda_rope_table(parity.device, &angle);
    down(got, angle.table, angles * sizeof *got);
    /* The last bit of cos and sin in double may turn the rounding. */
    tell(worst_of(got, table, angles, 1.2e-7), "rope_table %u × %u", rows, pairs);
    struct rope_args args = {x, table, rows, heads, head_dim, pairs, pairing};
    kernels_rope(parity.ref, &args);
    args.x = x_device;
    args.table = angle.table;
    cuda_rope(parity.device, &args);
    down(got, args.x, n * sizeof *got);
    tell(worst_of(got, x, n, 2e-6), "rope %u × %u × %u, %s", rows, heads, head_dim,
         pairing == ROPE_HALVES ? "halves" : "interleaved");
    drop(x_device);
    drop(angle.table);
    drop((void *)(uintptr_t)angle.positions);
    drop((void *)(uintptr_t)angle.frequencies);
    free(x), free(frequencies), free(table), free(got), free(positions);
}

static void check_silu_mul(uint32_t rows, uint32_t cols)
{
    const size_t n = (size_t)rows * cols;
    float *gate = randoms(n, 8);
    float *mine = up(gate, n * sizeof *gate);
    float *factor = randoms(n, 2);
    float *got = host(n * sizeof *got);
    struct silu_mul_args args = {gate, factor, rows, cols};
    kernels_silu_mul(parity.ref, &args);
    args.gate = mine;
    args.up = up(factor, n * sizeof *factor);
    cuda_silu_mul(parity.device, &args);
    down(got, mine, n * sizeof *got);
    tell(worst_of(got, gate, n, 1e-5), "silu_mul %u × %u", rows, cols);
    drop(mine);
    drop((void *)(uintptr_t)args.up);
    free(gate), free(factor), free(got);
}

static void check_logits(uint32_t rows, uint32_t vocab)
{
    const size_t n = (size_t)rows * vocab;
    float *logits = randoms(n, 12);
    struct logits_stats *want = host(rows * sizeof *want);
    struct logits_stats *got = host(rows * sizeof *got);
    double worst = 0;
    for (uint32_t r = 0; r < rows; r++) /* a tie of the greatest: the first counts */
        logits[(size_t)r * vocab + vocab / 3] = logits[(size_t)r * vocab + vocab - 1] = 13;
    kernels_logits_stats(parity.ref, logits, rows, vocab, want);
    float *mine = up(logits, n * sizeof *logits);
    struct logits_stats *out = up(got, rows * sizeof *got);
    cuda_logits_stats(parity.device, mine, rows, vocab, out);
    down(got, out, rows * sizeof *got);
    for (uint32_t r = 0; r < rows; r++) {
        const double error = fabs((double)got[r].log_sum_exp - (double)want[r].log_sum_exp) / 4e-6;
        worst = error > worst ? error : worst;
        if (got[r].argmax != want[r].argmax || !(got[r].max == want[r].max) || !(error >= 0))
            worst = INFINITY;
    }
    tell(worst, "logits_stats %u × %u", rows, vocab);
    drop(mine);
    drop(out);
    free(logits), free(want), free(got);
}

static void check_gather(void)
{
    enum { ROWS = 5, COLS = 37 };
    const uint32_t order[ROWS] = {4, 0, 2, 2, 9};
    float *from = randoms(10 * COLS, 1);
    float want[ROWS * COLS];
    float got[ROWS * COLS];
    for (uint32_t r = 0; r < ROWS; r++)
        memcpy(want + r * COLS, from + order[r] * COLS, COLS * sizeof *from);
    float *there = up(from, 10 * COLS * sizeof *from);
    uint32_t *there_order = up(order, sizeof order);
    float *out = up(want, sizeof want);
    cuda_gather(parity.device, &(struct cuda_gather_args){out, there, there_order, ROWS, COLS});
    down(got, out, sizeof got);
    tell(same_bits(got, want, sizeof got), "gather %d × %d", ROWS, COLS);
    drop(there), drop(there_order), drop(out);
    free(from);
}

/* --- weights --- */

/* Blocks of random codes whose factors give weights of about ±0.3. */
static void half_at(unsigned char *at, float value)
{
    const uint16_t half = half_from_float(value);
    memcpy(at, &half, sizeof half);
}

static void block_factors(uint32_t id, unsigned char *block)
{
    const float value = (float)(rng_unit(rng_next(&parity.rng)) * 2 - 1) * 0.3f;
    const float m = (float)(rng_unit(rng_next(&parity.rng)) * 2 - 1) * 0.2f;
    switch (id) {
    case TENSOR_TYPE_bf16:
        memcpy(block, (const char *)&value + 2, 2);
        return;
    case TENSOR_TYPE_f16:
        half_at(block, value);
        return;
    case TENSOR_TYPE_q6_k:
        half_at(block + 208, value / 4096);
        return;
    case TENSOR_TYPE_q4_k:
    case TENSOR_TYPE_q5_k:
        half_at(block, value / 63 / (id == TENSOR_TYPE_q4_k ? 15 : 31));
        half_at(block + 2, m / 63);
        return;
    case TENSOR_TYPE_q4_1:
    case TENSOR_TYPE_q5_1:
        half_at(block + 2, m);
        break;
    default:
        break;
    }
    half_at(block, value / (id == TENSOR_TYPE_q8_0 ? 127 : 12));
}

static struct tensor random_tensor(uint32_t id, uint32_t rows, uint32_t cols)
{
    const struct tensor_type_info *type = tensor_type_info(id);
    const size_t blocks = (size_t)rows * (cols / type->block_elements);
    unsigned char *data = host(blocks * type->block_bytes);
    for (size_t i = 0; i < blocks * type->block_bytes; i++)
        data[i] = (unsigned char)rng_next(&parity.rng);
    for (size_t b = 0; b < blocks; b++)
        block_factors(id, data + b * type->block_bytes);
    return (struct tensor){.type = type,
                           .dim_count = 2,
                           .dims = {cols, rows, 1, 1},
                           .data = data,
                           .bytes = blocks * type->block_bytes};
}

/* What rounding may do to one result: of each input by half a place of 11 bits (8 of bfloat16), of
 * each block's factor likewise, of inputs far below the row's greatest by 2^-33 of that; float32
 * sums. */
static double linear_bound(const struct tensor *tensor, const float *x, uint32_t output)
{
    const uint32_t cols = (uint32_t)tensor->dims[0];
    const uint32_t id = tensor->type->id;
    const double places = id == TENSOR_TYPE_bf16  ? 0x1p-8
                          : id == TENSOR_TYPE_f16 ? 0x1p-11
                                                  : 0x1p-10;
    float *w = host(cols * sizeof *w);
    double products = 0;
    double weights = 0;
    double max = 0;
    tensor_row_to_f32(tensor, output, w);
    for (uint32_t i = 0; i < cols; i++) {
        products += fabs((double)w[i] * (double)x[i]);
        weights += fabs((double)w[i]);
        max = fmax(max, fabs((double)x[i]));
    }
    free(w);
    return products * (places * 1.01 + cols * 0x1p-24) + weights * max * 0x1p-33 + 1e-30;
}

/* Of types with m the factors and m add up to more than their sum: their own halves are rounded. */
static double linear_slack(const struct tensor *tensor)
{
    switch (tensor->type->id) {
    case TENSOR_TYPE_q4_k:
    case TENSOR_TYPE_q5_k:
        return 8; /* a × code and b cancel: Σ |a × code| + |b| is up to so much of Σ |w| */
    case TENSOR_TYPE_q4_1:
    case TENSOR_TYPE_q5_1:
        return 4;
    default:
        return 1;
    }
}

static void run_linear(const struct weight *weight, const float *x, uint32_t rows, float *y,
                       bool accumulate)
{
    const size_t in = (size_t)rows * weight->cols * sizeof *x;
    const size_t out = (size_t)rows * weight->rows * sizeof *y;
    float *x_there = up(x, in);
    float *y_there = up(y, out);
    cuda_linear(parity.device, &(struct linear_args){.x = x_there,
                                                     .rows = rows,
                                                     .count = 1,
                                                     .weights = {weight},
                                                     .y = {y_there},
                                                     .accumulate = accumulate});
    down(y, y_there, out);
    drop(x_there);
    drop(y_there);
}

static double compare_linear(const struct tensor *tensor, const float *x, const float *got,
                             const float *want, uint32_t rows)
{
    const uint32_t outputs = (uint32_t)tensor->dims[1];
    double worst = 0;
    for (uint32_t r = 0; r < rows; r++)
        for (uint32_t o = 0; o < outputs; o++) {
            const size_t at = (size_t)r * outputs + o;
            const double bound =
                linear_slack(tensor) * linear_bound(tensor, x + r * tensor->dims[0], o) +
                fabs((double)want[at]) * 0x1p-23;
            worst = fmax(worst, worst_of(got + at, want + at, 1, bound));
        }
    return worst;
}

/* On the way of a linear layer: the bits of the operations alone. */
static void check_fused(uint32_t id)
{
    enum { ROWS = 3, COLS = 512, OUT = 96 };
    const size_t out = ROWS * OUT * sizeof(float);
    struct tensor tensors[2] = {random_tensor(id, OUT, COLS), random_tensor(id, OUT, COLS)};
    struct weight weights[2];
    float *x = up_randoms(ROWS * COLS, 5);
    float *norm = up_randoms(COLS, 1);
    float *normed = up_randoms(ROWS * COLS, 1);
    float *y[2] = {up_randoms(ROWS * OUT, 1), up_randoms(ROWS * OUT, 1)};
    float *gated = up_randoms(ROWS * OUT, 1);
    float want[ROWS * OUT];
    float got[ROWS * OUT];
    for (int i = 0; i < 2; i++)
        must(cuda_backend_weight_create(parity.device, &weights[i], &tensors[i]), "weight");
    cuda_rmsnorm(parity.device, &(struct rmsnorm_args){x, norm, normed, ROWS, COLS, 1e-5f});
    struct linear_args args = {.x = normed,
                               .rows = ROWS,
                               .count = 2,
                               .weights = {&weights[0], &weights[1]},
                               .y = {y[0], y[1]}};
    cuda_linear(parity.device, &args);
    cuda_silu_mul(parity.device, &(struct silu_mul_args){y[0], y[1], ROWS, OUT});
    down(want, y[0], out);
    args.x = x;
    args.norm = norm;
    args.epsilon = 1e-5f;
    args.is_gated = true;
    args.y[0] = gated;
    args.y[1] = NULL;
    cuda_linear(parity.device, &args);
    down(got, gated, out);
    tell(same_bits(got, want, out), "linear %s, normed and gated: bits", tensors[0].type->name);
    for (int i = 0; i < 2; i++) {
        cuda_backend_weight_destroy(parity.device, &weights[i]);
        free((void *)(uintptr_t)tensors[i].data);
        drop(y[i]);
    }
    drop(x), drop(norm), drop(normed), drop(gated);
}

/* Rows one by one, a few together and many together: the same bits of each. */
static void check_linear_bits(const struct tensor *tensor, const struct weight *weight)
{
    enum { ROWS = 70 };
    static const uint32_t cuts[] = {1, 7, 8, 9, 16, 17, 31, 33, 64};
    const uint32_t cols = weight->cols;
    float *x = randoms((size_t)ROWS * cols, 1);
    float *all = host((size_t)ROWS * weight->rows * sizeof *all);
    float *part = host((size_t)ROWS * weight->rows * sizeof *part);
    double worst = 0;
    run_linear(weight, x, ROWS, all, false);
    for (size_t c = 0; c < sizeof cuts / sizeof *cuts; c++) {
        const uint32_t first = ROWS - cuts[c];
        run_linear(weight, x + (size_t)first * cols, cuts[c], part, false);
        worst = fmax(worst, same_bits(part, all + (size_t)first * weight->rows,
                                      (size_t)cuts[c] * weight->rows * sizeof *part));
    }
    tell(worst, "linear %s %u × %u: bits of a row", tensor->type->name, weight->rows, cols);
    free(x), free(all), free(part);
}

static void check_linear(uint32_t id, uint32_t outputs, uint32_t cols)
{
    static const uint32_t row_counts[] = {1, 5, 12, 30, 40};
    struct tensor tensor = random_tensor(id, outputs, cols);
    struct weight weight;
    struct weight judge;
    must(cuda_backend_weight_create(parity.device, &weight, &tensor), tensor.type->name);
    must(kernels_weight_create(parity.ref, &judge, &tensor), tensor.type->name);
    for (size_t i = 0; i < sizeof row_counts / sizeof *row_counts; i++) {
        const uint32_t rows = row_counts[i];
        const size_t n = (size_t)rows * outputs;
        float *x = randoms((size_t)rows * cols, 1);
        float *want = randoms(n, 1);
        float *got = copy(want, n);
        for (uint32_t r = 0; r < rows; r++) /* rows of other sizes, one far from all */
            for (uint32_t c = 0; c < cols; c++)
                x[(size_t)r * cols + c] *= r == 3 ? 1e6f : (float)(1 + r);
        const bool accumulate = i % 2 == 1;
        kernels_linear(parity.ref, &(struct linear_args){.x = x,
                                                         .rows = rows,
                                                         .count = 1,
                                                         .weights = {&judge},
                                                         .y = {want},
                                                         .accumulate = accumulate});
        run_linear(&weight, x, rows, got, accumulate);
        tell(compare_linear(&tensor, x, got, want, rows), "linear %s %u × %u, %u rows",
             tensor.type->name, outputs, cols, rows);
        free(x), free(want), free(got);
    }
    check_linear_bits(&tensor, &weight);
    cuda_backend_weight_destroy(parity.device, &weight);
    kernels_weight_destroy(parity.ref, &judge);
    free((void *)(uintptr_t)tensor.data);
}

static void check_embed(uint32_t id, uint32_t vocab, uint32_t cols)
{
    enum { ROWS = 6 };
    const uint32_t tokens[ROWS] = {0, vocab - 1, 15, 16, 17, vocab / 2};
    const size_t n = (size_t)ROWS * cols;
    struct tensor tensor = random_tensor(id, vocab, cols);
    struct weight weight;
    struct weight judge;
    float *want = host(n * sizeof *want);
    float *got = host(n * sizeof *got);
    must(cuda_backend_weight_create(parity.device, &weight, &tensor), tensor.type->name);
    must(kernels_weight_create(parity.ref, &judge, &tensor), tensor.type->name);
    kernels_embed(parity.ref, &(struct embed_args){&judge, tokens, ROWS, want});
    uint32_t *tokens_there = up(tokens, sizeof tokens);
    float *out = up(got, n * sizeof *got);
    cuda_embed(parity.device, &(struct embed_args){&weight, tokens_there, ROWS, out});
    down(got, out, n * sizeof *got);
    /* Factors of small blocks are rounded to 11 bits: of terms up to 0.6. */
    tell(worst_of(got, want, n, 0.6 * 0x1p-11), "embed %s %u × %u", tensor.type->name, vocab, cols);
    cuda_backend_weight_destroy(parity.device, &weight);
    kernels_weight_destroy(parity.ref, &judge);
    drop(tokens_there), drop(out);
    free(want), free(got), free((void *)(uintptr_t)tensor.data);
}

/* --- pages --- */

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
    bed.table = host((size_t)SEQUENCES * bed.pages_each * sizeof *bed.table);
    for (uint32_t s = 0; s < SEQUENCES; s++) {
        bed.tables[s] = bed.table + (size_t)s * bed.pages_each;
        for (uint32_t p = 0; p < bed.pages_each; p++)
            bed.table[s * bed.pages_each + p] = p * SEQUENCES + (s ^ (p & 3));
    }
    must(kernels_kv_layout(parity.ref, KV_TYPE_F16, shape->page_tokens, PAGES_LAYERS,
                           shape->kv_heads, shape->head_dim, &bed.ref.layout),
         "layout");
    must(cuda_kv_layout(KV_TYPE_F16, shape->page_tokens, PAGES_LAYERS, shape->kv_heads,
                        shape->head_dim, &bed.device.layout),
         "layout");
    const size_t pages = (size_t)SEQUENCES * bed.pages_each;
    bed.ref.pages = host(pages * bed.ref.layout.page_bytes);
    char *stale = host(pages * bed.device.layout.page_bytes);
    memset(stale, 0xff, pages * bed.device.layout.page_bytes); /* NaN: never to be used */
    bed.device.pages = up(stale, pages * bed.device.layout.page_bytes);
    free(stale);
    const size_t n = (size_t)SEQUENCES * bed.tokens * shape->kv_heads * shape->head_dim;
    bed.k = randoms(n, 2);
    bed.v = randoms(n, 1);
    return bed;
}

static void bed_free(struct pages_bed *bed)
{
    drop(bed->device.pages);
    free(bed->ref.pages), free(bed->table), free(bed->k), free(bed->v);
}

/* Rows `from` … of one sequence written on both sides. */
static void bed_write(struct pages_bed *bed, uint32_t sequence, uint32_t from, uint32_t rows)
{
    const uint32_t pairs = bed->shape->head_dim / 2;
    const size_t each = (size_t)bed->shape->kv_heads * bed->shape->head_dim;
    const float *k = bed->k + ((size_t)sequence * bed->tokens + from) * each;
    const float *v = bed->v + ((size_t)sequence * bed->tokens + from) * each;
    uint32_t sequences[ROWS_MAX];
    uint32_t positions[ROWS_MAX];
    for (uint32_t r = 0; r < rows; r++) {
        sequences[r] = sequence;
        positions[r] = from + r;
    }
    float *rotated = copy(k, rows * each);
    float *angles = host((size_t)rows * pairs * 2 * sizeof *angles);
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
    must(cuda_backend_batch(parity.device, &args.kv, rows), "batch");
    rope.x = up(k, rows * each * sizeof *k);
    rope.table = up(angles, (size_t)rows * pairs * 2 * sizeof *angles);
    args.k = rope.x;
    args.v = up(v, rows * each * sizeof *v);
    cuda_kv_write(parity.device, &args);
    must(cuda_backend_end(parity.device), "kv_write");
    drop(rope.x);
    drop((void *)(uintptr_t)rope.table);
    drop((void *)(uintptr_t)args.v);
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
    args.q = up(q, bytes);
    args.out = up(q, bytes);
    must(cuda_backend_batch(device, &args.kv, args.rows), "batch");
    cuda_attention(device, &args);
    must(cuda_backend_download(device, out, args.out, bytes), "attention");
    drop((void *)(uintptr_t)args.q);
    drop(args.out);
}

/* Each row alone, which splits long texts over the device, and without splitting. */
static double attention_bits(struct attention_args args, const float *all, size_t row_bytes)
{
    const size_t each = row_bytes / sizeof *all;
    const struct cuda_backend_options whole = {
        .rows_max = ROWS_MAX, .cols_max = 64, .tables_max = TABLES_MAX};
    struct cuda_backend *unsplit;
    float *one = host(row_bytes * args.rows);
    const struct attention_args together = args;
    double worst = 0;
    must(cuda_backend_open(&unsplit, &whole), "open");
    device_attention(unsplit, together, row_bytes * args.rows, one);
    worst = fmax(worst, same_bits(one, all, row_bytes * args.rows));
    for (uint32_t r = 0; r < together.rows; r += 1 + together.rows / 7) {
        args.rows = 1;
        args.q = together.q + r * each;
        args.kv.sequence = together.kv.sequence + r;
        args.kv.position = together.kv.position + r;
        device_attention(parity.device, args, row_bytes, one);
        worst = fmax(worst, same_bits(one, all + r * each, row_bytes));
    }
    cuda_backend_close(unsplit);
    free(one);
    return worst;
}

static void check_pages(const struct pages_case *shape)
{
    struct pages_bed bed = bed_make(shape);
    uint32_t sequences[ROWS_MAX];
    uint32_t positions[ROWS_MAX];
    for (int t = 0; t < TEXTS; t++) {
        const struct text *text = &shape->texts[t];
        for (uint32_t at = 0; at < text->from + text->rows; at += ROWS_MAX) {
            const uint32_t left = text->from + text->rows - at;
            bed_write(&bed, text->sequence, at, left < ROWS_MAX ? left : ROWS_MAX);
        }
    }
    const uint32_t rows = bed_rows(&bed, sequences, positions);
    const size_t each = (size_t)shape->heads * shape->head_dim;
    float *q = randoms(rows * each, 2);
    float *want = host(rows * each * sizeof *want);
    float *got = host(rows * each * sizeof *got);
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
    tell(worst_of(got, want, rows * each, 4e-3),
         "attention %u/%u heads of %u, pages of %u, %u rows", shape->heads, shape->kv_heads,
         shape->head_dim, shape->page_tokens, rows);
    tell(attention_bits(args, got, each * sizeof *got),
         "attention %u/%u heads of %u: bits of a row", shape->heads, shape->kv_heads,
         shape->head_dim);
    bed_free(&bed);
    free(q), free(want), free(got);
}

/* Out to pinned memory and back to other places: the same bytes; a part of a page alone. */
static void check_copies(void)
{
    enum { PAGES = 9, MOVED = 5, TOKENS = 21 };
    static const uint32_t from[MOVED] = {2, 3, 4, 8, 0};
    static const uint32_t stored[MOVED] = {1, 2, 3, 0, 4};
    static const uint32_t back[MOVED] = {0, 1, 2, 3, 7};
    struct kv_layout layout;
    must(cuda_kv_layout(KV_TYPE_F16, 32, 2, 3, 16, &layout), "layout");
    const size_t bytes = layout.page_bytes;
    uint16_t *pages = host(PAGES * bytes);
    uint16_t *got = host(PAGES * bytes);
    void *pinned;
    for (size_t i = 0; i < PAGES * bytes / 2; i++)
        pages[i] = (uint16_t)rng_next(&parity.rng);
    char *there = up(pages, PAGES * bytes);
    char *other = up(got, PAGES * bytes);
    must(cuda_backend_alloc_host(parity.device, &pinned, PAGES * bytes, "pages"), "pinned");
    cuda_pages_copy(parity.device,
                    &(struct pages_copy_args){pinned, there, stored, from, MOVED, bytes});
    cuda_pages_copy(parity.device,
                    &(struct pages_copy_args){other, pinned, back, stored, MOVED, bytes});
    cuda_pages_wait(parity.device);
    down(got, other, PAGES * bytes);
    double worst = 0;
    for (int i = 0; i < MOVED; i++)
        worst = fmax(worst, same_bits((char *)got + back[i] * bytes,
                                      (char *)pages + from[i] * bytes, bytes));
    tell(worst, "pages_copy, out and back");
    cuda_kv_copy(parity.device, &layout, other, there + 5 * bytes, TOKENS);
    uint16_t *before = host(bytes);
    memcpy(before, got, bytes);
    down(got, other, bytes);
    const size_t tile = layout.tile_bytes / 2;
    worst = 0;
    for (size_t i = 0; i < bytes / 2; i++) {
        const size_t in = i % tile;
        const size_t token = i / tile % 2 == 0 ? in / 16 : in % 32;
        const uint16_t want = token < TOKENS ? pages[5 * bytes / 2 + i] : before[i];
        worst = got[i] == want ? worst : INFINITY;
    }
    tell(worst, "kv_copy of %d tokens", TOKENS);
    cuda_backend_free_host(parity.device, pinned);
    drop(there), drop(other);
    free(pages), free(got), free(before);
}

/* --- all --- */

static const uint32_t TYPES[] = {
    TENSOR_TYPE_f16,  TENSOR_TYPE_bf16, TENSOR_TYPE_q8_0, TENSOR_TYPE_q4_0, TENSOR_TYPE_q4_1,
    TENSOR_TYPE_q5_0, TENSOR_TYPE_q5_1, TENSOR_TYPE_q4_k, TENSOR_TYPE_q5_k, TENSOR_TYPE_q6_k};

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

static void run_all(void)
{
    check_rmsnorm(1, 64), check_rmsnorm(5, 576), check_rmsnorm(3, 4096);
    check_rope(3, 9, 64, 32, ROPE_INTERLEAVED), check_rope(2, 2, 128, 64, ROPE_HALVES);
    check_rope(4, 1, 48, 16, ROPE_HALVES);
    check_silu_mul(1, 1), check_silu_mul(7, 1537);
    check_logits(1, 1), check_logits(3, 255), check_logits(2, 32000);
    check_gather();
    for (size_t t = 0; t < sizeof TYPES / sizeof *TYPES; t++) {
        check_linear(TYPES[t], 37, 256);
        check_linear(TYPES[t], 16, 4864); /* more segments than a block has warps */
        check_fused(TYPES[t]);
        check_embed(TYPES[t], 50, 512);
    }
    check_linear(TENSOR_TYPE_f16, 9, 40), check_linear(TENSOR_TYPE_bf16, 64, 1);
    check_linear(TENSOR_TYPE_q4_1, 80, 608);
    for (size_t i = 0; i < sizeof SMALL_PAGES / sizeof *SMALL_PAGES; i++)
        check_pages(&SMALL_PAGES[i]);
    check_copies();
    if (!parity.is_large)
        return;
    for (size_t t = 0; t < sizeof TYPES / sizeof *TYPES; t++) {
        check_linear(TYPES[t], 1024, 4096);
        check_linear(TYPES[t], 512, 14336);
    }
    for (size_t i = 0; i < sizeof LARGE_PAGES / sizeof *LARGE_PAGES; i++)
        check_pages(&LARGE_PAGES[i]);
}

static bool write_json(const char *path)
{
    FILE *file = fopen(path, "w");
    if (file == NULL)
        return false;
    fprintf(file, "{\"checks\": [");
    for (uint32_t i = 0; i < parity.count; i++) /* infinity is no number of JSON */
        fprintf(file, "%s\n  {\"name\": \"%s\", \"error_to_bound\": %.4g}", i > 0 ? "," : "",
                parity.results[i].name, fmin(parity.results[i].worst, 1e9));
    fprintf(file, "\n]}\n");
    return fclose(file) == 0;
}

int main(int argc, char **argv)
{
    const char *json = NULL;
    uint32_t above = 0;
    for (int i = 1; i < argc; i++)
        if (strcmp(argv[i], "--large") == 0)
            parity.is_large = true;
        else if (strcmp(argv[i], "--json") == 0 && i + 1 < argc)
            json = argv[++i];
        else
            return fprintf(stderr, "usage: gpu_parity [--large] [--json FILE]\n"), 2;
    if (cuda_device_count() == 0)
        return printf("no CUDA device\n"), NO_DEVICE;
    parity.rng.seed = 9;
    must(cuda_backend_open(&parity.device,
                           &(struct cuda_backend_options){.rows_max = ROWS_MAX,
                                                          .cols_max = COLS_MAX,
                                                          .tables_max = TABLES_MAX,
                                                          .split_bytes = SPLIT_BYTES}),
         "open");
    must(kernels_create(
             &parity.ref,
             &(struct kernels_options){.isa = "ref", .rows_max = ROWS_MAX, .cols_max = COLS_MAX}),
         "ref");
    run_all();
    for (uint32_t i = 0; i < parity.count; i++)
        above += !(parity.results[i].worst <= 1);
    printf("%u checks, %u above their bound\n", parity.count, above);
    if (json != NULL && !write_json(json))
        return fprintf(stderr, "gpu_parity: cannot write %s\n", json), 1;
    kernels_destroy(parity.ref);
    cuda_backend_close(parity.device);
    return above == 0 ? 0 : 1;
}
