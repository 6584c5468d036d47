/* gpu_parity_linear: linear layers of every type of weight, norm and gate inside them, embedding.
 */
#include "tests/gpu/gpu_parity.h"

/* Σ |a b| in four sums side by side: a single sum would wait for each addition, and large layers
 * have 22 thousand million products. */
static double linear_products(const float *a, const float *b, uint32_t n)
{
    double sums[4] = {0};
    uint32_t i = 0;
    for (; i + 4 <= n; i += 4) {
        sums[0] += fabs((double)a[i] * (double)b[i]);
        sums[1] += fabs((double)a[i + 1] * (double)b[i + 1]);
        sums[2] += fabs((double)a[i + 2] * (double)b[i + 2]);
        sums[3] += fabs((double)a[i + 3] * (double)b[i + 3]);
    }
    for (; i < n; i++)
        sums[0] += fabs((double)a[i] * (double)b[i]);
    return sums[0] + sums[1] + sums[2] + sums[3];
}

static double linear_total(const float *a, uint32_t n)
{
    double sum = 0;
    for (uint32_t i = 0; i < n; i++)
        sum += fabs((double)a[i]);
    return sum;
}

static float linear_most(const float *x, uint32_t n)
{
    float most = 0;
    for (uint32_t i = 0; i < n; i++)
        most = fabsf(x[i]) > most ? fabsf(x[i]) : most;
    return most;
}

/* The bound of one result's rounding: each input by half a unit of 11 bits (8 of bfloat16); each
 * block's factor likewise (float32: not at all); inputs far below the row's greatest by 2^-33 of
 * that; and the sum of a matrix instruction, which may truncate each of its seventeen terms at
 * 2^-24 of the greatest one, and itself at 2^-23, for sixteen inputs. For an output's weights and a
 * row's inputs: `products` is Σ |w x|, `weights` Σ |w|, `most` the greatest |x|. */
static double linear_bound(const struct tensor *tensor, double products, double weights, float most)
{
    const uint32_t cols = (uint32_t)tensor->dims[0];
    const uint32_t id = tensor->type->id;
    const double places = id == TENSOR_TYPE_f32    ? 0
                          : id == TENSOR_TYPE_bf16 ? 0x1p-8
                          : id == TENSOR_TYPE_f16  ? 0x1p-11
                                                   : 0x1p-10;
    return products * (places * 1.01 + cols * 0x1.3p-24) + weights * (double)most * 0x1p-33 + 1e-30;
}

/* For types with m, the magnitudes of a × code and m exceed that of their sum; each has its own
 * rounding. */
static double linear_slack(const struct tensor *tensor)
{
    switch (tensor->type->id) {
    case TENSOR_TYPE_q4_k:
    case TENSOR_TYPE_q5_k:
        /* a × code and b cancel: Σ |a × code| + |b| is up to this multiple of Σ |w| */
        return 8;
    case TENSOR_TYPE_q4_1:
    case TENSOR_TYPE_q5_1:
        return 4;
    default:
        return 1;
    }
}

/* `bias`: host, or NULL. */
static void run_linear(struct cuda_backend *device, const struct weight *weight, const float *x,
                       uint32_t rows, const float *bias, float *y, bool accumulate)
{
    const size_t in = (size_t)rows * weight->cols * sizeof *x;
    const size_t out = (size_t)rows * weight->rows * sizeof *y;
    float *x_there = parity_up(x, in);
    float *y_there = parity_up(y, out);
    float *bias_there = bias != NULL ? parity_up(bias, weight->rows * sizeof *bias) : NULL;
    cuda_linear(device, &(struct linear_args){.x = x_there,
                                              .rows = rows,
                                              .count = 1,
                                              .weights = {weight},
                                              .bias = {bias_there},
                                              .y = {y_there},
                                              .accumulate = accumulate});
    parity_must(cuda_backend_download(device, y, y_there, out), "linear");
    if (bias_there != NULL)
        parity_drop(bias_there);
    parity_drop(x_there);
    parity_drop(y_there);
}

static double compare_linear(const struct tensor *tensor, const float *x, const float *got,
                             const float *want, uint32_t rows)
{
    const uint32_t outputs = (uint32_t)tensor->dims[1];
    const uint32_t cols = (uint32_t)tensor->dims[0];
    const double slack = linear_slack(tensor);
    float *w = parity_host(cols * sizeof *w);
    float *most = parity_host(rows * sizeof *most);
    double worst = 0;
    for (uint32_t r = 0; r < rows; r++)
        most[r] = linear_most(x + (size_t)r * cols, cols);
    for (uint32_t o = 0; o < outputs; o++) {
        tensor_row_to_f32(tensor, o, w);
        const double weights = linear_total(w, cols);
        for (uint32_t r = 0; r < rows; r++) {
            const size_t at = (size_t)r * outputs + o;
            const double products = linear_products(w, x + (size_t)r * cols, cols);
            const double bound = slack * linear_bound(tensor, products, weights, most[r]) +
                                 fabs((double)want[at]) * 0x1p-23;
            worst = fmax(worst, parity_worst(got + at, want + at, 1, bound));
        }
    }
    free(most);
    free(w);
    return worst;
}

/* Norm and activation inside a linear layer give the bits of the separate operations. */
static void check_fused(uint32_t id, enum norm_kind kind, enum act_kind act)
{
    enum { ROWS = 3, COLS = 512, OUT = 96 };
    const size_t out = ROWS * OUT * sizeof(float);
    struct tensor tensors[2] = {parity_tensor(id, OUT, COLS), parity_tensor(id, OUT, COLS)};
    struct weight weights[2];
    float *x = parity_up_randoms(ROWS * COLS, 5);
    float *norm = parity_up_randoms(COLS, 1);
    float *bias = parity_up_randoms(COLS, 1);
    float *normed = parity_up_randoms(ROWS * COLS, 1);
    float *y[4];
    float want[ROWS * OUT];
    float got[ROWS * OUT];
    const bool takes_two = kernels_act_takes_two(act);
    double worst = 0;
    for (int i = 0; i < 4; i++)
        y[i] = parity_up_randoms(ROWS * OUT, 1);
    for (int i = 0; i < 2; i++)
        parity_must(cuda_backend_weight_create(parity.device, &weights[i], &tensors[i]), "weight");
    cuda_norm(parity.device, &(struct norm_args){.x = x,
                                                 .weight = norm,
                                                 .y = normed,
                                                 .rows = ROWS,
                                                 .cols = COLS,
                                                 .epsilon = 1e-5f,
                                                 .kind = kind,
                                                 .bias = kind == NORM_LAYER ? bias : NULL});
    struct linear_args args = {.x = normed,
                               .rows = ROWS,
                               .count = 2,
                               .weights = {&weights[0], &weights[1]},
                               .bias = {bias, kind == NORM_LAYER ? bias + OUT : NULL},
                               .y = {y[0], y[1]}};
    cuda_linear(parity.device, &args);
    for (int i = 0; i < (takes_two ? 1 : 2); i++)
        cuda_act(
            parity.device,
            &(struct act_args){
                .kind = act, .x = y[i], .up = takes_two ? y[1] : NULL, .rows = ROWS, .cols = OUT});
    args.x = x;
    args.norm = norm;
    args.norm_kind = kind;
    args.norm_bias = kind == NORM_LAYER ? bias : NULL;
    args.epsilon = 1e-5f;
    args.act = act;
    args.y[0] = y[2];
    args.y[1] = takes_two ? NULL : y[3];
    cuda_linear(parity.device, &args);
    for (int i = 0; i < (takes_two ? 1 : 2); i++) {
        parity_down(want, y[i], out);
        parity_down(got, y[2 + i], out);
        worst = fmax(worst, parity_same(got, want, out));
    }
    parity_tell(worst, "linear %s, norm %d and act %d inside: bits", tensors[0].type->name,
                (int)kind, (int)act);
    for (int i = 0; i < 2; i++) {
        cuda_backend_weight_destroy(parity.device, &weights[i]);
        free((void *)(uintptr_t)tensors[i].data);
    }
    for (int i = 0; i < 4; i++)
        parity_drop(y[i]);
    parity_drop(x), parity_drop(norm), parity_drop(bias), parity_drop(normed);
}

/* Three matrices over one input, the last of another type and the second of another height, with
 * few rows and many, give the bits of each alone. */
static void check_together(uint32_t id, uint32_t other)
{
    enum { ROWS = 37, COLS = 256, MATRICES = 3 };
    static const uint32_t outputs[MATRICES] = {40, 17, 24};
    struct tensor tensors[MATRICES];
    struct weight weights[MATRICES];
    float *x = parity_randoms(ROWS * COLS, 1);
    float *x_there = parity_up(x, ROWS * COLS * sizeof *x);
    struct linear_args args = {.x = x_there, .count = MATRICES};
    double worst = 0;
    for (int i = 0; i < MATRICES; i++) {
        tensors[i] = parity_tensor(i < 2 ? id : other, outputs[i], COLS);
        parity_must(cuda_backend_weight_create(parity.device, &weights[i], &tensors[i]), "weight");
        args.weights[i] = &weights[i];
        args.y[i] = parity_poison(ROWS * outputs[i] * sizeof *x);
    }
    for (args.rows = 2; args.rows <= ROWS; args.rows += ROWS - 2) {
        cuda_linear(parity.device, &args);
        for (int i = 0; i < MATRICES; i++) {
            float want[ROWS * 40];
            float got[ROWS * 40];
            const size_t bytes = (size_t)args.rows * outputs[i] * sizeof *got;
            parity_down(got, args.y[i], bytes);
            run_linear(parity.device, &weights[i], x, args.rows, NULL, want, false);
            worst = fmax(worst, parity_same(got, want, bytes));
        }
    }
    parity_tell(worst, "linear %s, %s together: bits", tensors[0].type->name,
                tensors[2].type->name);
    for (int i = 0; i < MATRICES; i++) {
        cuda_backend_weight_destroy(parity.device, &weights[i]);
        free((void *)(uintptr_t)tensors[i].data);
        parity_drop(args.y[i]);
    }
    parity_drop(x_there);
    free(x);
}

enum { BITS_ROWS = 70 };

/* Compares the last `rows` of `all` with the same rows computed by a backend that does not share
 * segments over blocks. */
static double compare_unsplit(const struct kernels_trial *trial, const struct weight *weight,
                              const float *x, const float *bias, const float *all, uint32_t rows)
{
    const struct cuda_backend_options whole = {
        .rows_max = BITS_ROWS, .cols_max = PARITY_COLS_MAX, .tables_max = 1, .trial = *trial};
    const size_t first = BITS_ROWS - rows;
    const size_t bytes = (size_t)rows * weight->rows * sizeof *all;
    struct cuda_backend *unsplit;
    float *part = parity_host(bytes);
    parity_must(cuda_backend_open(&unsplit, &whole), "open");
    run_linear(unsplit, weight, x + first * weight->cols, rows, bias, part, false);
    cuda_backend_close(unsplit);
    const double same = parity_same(part, all + first * weight->rows, bytes);
    free(part);
    return same;
}

/* Rows one by one, a few together and many together, without sharing segments over blocks, and with
 * few stages, have equal bits. */
static void check_linear_bits(const struct tensor *tensor, const struct weight *weight)
{
    enum { ROWS = BITS_ROWS };
    static const uint32_t cuts[] = {1, 7, 9, 16, 17, 33, 64};
    static const uint32_t staged[] = {9, 30, 40, ROWS}; /* of each kernel */
    const struct kernels_trial plain = {0};
    const struct kernels_trial few = {.few_stages = true};
    const uint32_t cols = weight->cols;
    float *x = parity_randoms((size_t)ROWS * cols, 1);
    float *all = parity_host((size_t)ROWS * weight->rows * sizeof *all);
    float *part = parity_host((size_t)ROWS * weight->rows * sizeof *part);
    float *bias = parity_randoms(weight->rows, 1);
    double worst = 0;
    run_linear(parity.device, weight, x, ROWS, bias, all, false);
    worst = compare_unsplit(&plain, weight, x, bias, all, ROWS);
    for (size_t i = 0; (cols == 256 || parity.is_large) && i < sizeof staged / sizeof *staged; i++)
        worst = fmax(worst, compare_unsplit(&few, weight, x, bias, all, staged[i]));
    for (size_t c = 0; c < sizeof cuts / sizeof *cuts; c++) {
        const uint32_t first = ROWS - cuts[c];
        run_linear(parity.device, weight, x + (size_t)first * cols, cuts[c], bias, part, false);
        worst = fmax(worst, parity_same(part, all + (size_t)first * weight->rows,
                                        (size_t)cuts[c] * weight->rows * sizeof *part));
    }
    parity_tell(worst, "linear %s %u × %u: bits of a row", tensor->type->name, weight->rows, cols);
    free(x), free(all), free(part), free(bias);
}

/* Gives all blocks of q4_1 in one group the factors of its first. */
static void share_factors(struct tensor *tensor, uint32_t group)
{
    unsigned char *blocks = (unsigned char *)(uintptr_t)tensor->data;
    const size_t bytes = tensor->type->block_bytes;
    const uint32_t each = (uint32_t)tensor->dims[0] / 32; /* of a row */
    for (size_t b = 0; b < tensor->dims[1] * each; b++)
        memcpy(blocks + b * bytes, blocks + (b - b % each % (group / 32)) * bytes, 4);
    tensor->group = group;
}

static void check_linear(uint32_t id, uint32_t outputs, uint32_t cols, uint32_t group)
{
    static const uint32_t row_counts[] = {1, 5, 12, 30, 40, 66};
    struct tensor tensor = parity_tensor(id, outputs, cols);
    struct weight weight;
    struct weight judge;
    if (group > 0)
        share_factors(&tensor, group);
    parity_must(cuda_backend_weight_create(parity.device, &weight, &tensor), tensor.type->name);
    parity_must(kernels_weight_create(parity.ref, &judge, &tensor), tensor.type->name);
    for (size_t i = 0; i < sizeof row_counts / sizeof *row_counts; i++) {
        const uint32_t rows = row_counts[i];
        const size_t n = (size_t)rows * outputs;
        float *x = parity_randoms((size_t)rows * cols, 1);
        float *want = parity_randoms(n, 1);
        float *got = parity_copy(want, n);
        /* rows of different magnitude, one far from the others */
        for (uint32_t r = 0; r < rows; r++)
            for (uint32_t c = 0; c < cols; c++)
                x[(size_t)r * cols + c] *= r == 3 ? 1e6f : (float)(1 + r);
        const bool accumulate = i % 2 == 1;
        float *biases = parity_randoms(outputs, 1);
        const float *bias = i % 3 > 0 ? biases : NULL;
        kernels_linear(parity.ref, &(struct linear_args){.x = x,
                                                         .rows = rows,
                                                         .count = 1,
                                                         .weights = {&judge},
                                                         .bias = {bias},
                                                         .y = {want},
                                                         .accumulate = accumulate});
        run_linear(parity.device, &weight, x, rows, bias, got, accumulate);
        parity_tell(compare_linear(&tensor, x, got, want, rows), "linear %s%s %u × %u, %u rows",
                    tensor.type->name, group > 0 ? " by groups" : "", outputs, cols, rows);
        free(x), free(want), free(got), free(biases);
    }
    check_linear_bits(&tensor, &weight);
    cuda_backend_weight_destroy(parity.device, &weight);
    kernels_weight_destroy(parity.ref, &judge);
    free((void *)(uintptr_t)tensor.data);
}

/* Many rows where the options allow cuBLASLt, from its fewest on (tests/kit/simt has none: there
 * Banyan's own kernels compute them). */
static void check_free(uint32_t id, uint32_t outputs, uint32_t cols)
{
    enum { ROWS_FREE = 130 };
    static const uint32_t row_counts[] = {65, ROWS_FREE};
    const struct cuda_backend_options options = {
        .rows_max = ROWS_FREE, .cols_max = PARITY_COLS_MAX, .tables_max = 1, .is_free = true};
    struct cuda_backend *device;
    struct tensor tensor = parity_tensor(id, outputs, cols);
    struct weight weight;
    struct weight judge;
    double worst = 0;
    parity_must(cuda_backend_open(&device, &options), "open");
    parity_must(cuda_backend_weight_create(device, &weight, &tensor), tensor.type->name);
    parity_must(kernels_weight_create(parity.ref, &judge, &tensor), tensor.type->name);
    for (size_t i = 0; i < sizeof row_counts / sizeof *row_counts; i++) {
        const uint32_t rows = row_counts[i];
        const size_t n = (size_t)rows * outputs;
        float *x = parity_randoms((size_t)rows * cols, 60);
        float *biases = parity_randoms(outputs, 1);
        const float *bias = i == 1 ? biases : NULL;
        float *want = parity_randoms(n, 1);
        float *got = parity_copy(want, n);
        kernels_linear(parity.ref, &(struct linear_args){.x = x,
                                                         .rows = rows,
                                                         .count = 1,
                                                         .weights = {&judge},
                                                         .bias = {bias},
                                                         .y = {want},
                                                         .accumulate = i % 2 == 1});
        run_linear(device, &weight, x, rows, bias, got, i % 2 == 1);
        worst = fmax(worst, compare_linear(&tensor, x, got, want, rows));
        free(x), free(want), free(got), free(biases);
    }
    parity_tell(worst, "linear %s %u × %u, free, many rows", tensor.type->name, outputs, cols);
    cuda_backend_weight_destroy(device, &weight);
    cuda_backend_close(device);
    kernels_weight_destroy(parity.ref, &judge);
    free((void *)(uintptr_t)tensor.data);
}

static void check_embed(uint32_t id, uint32_t vocab, uint32_t cols)
{
    enum { ROWS = 6 };
    const uint32_t tokens[ROWS] = {0, vocab - 1, 15, 16, 17, vocab / 2};
    const size_t n = (size_t)ROWS * cols;
    const float scale = id % 2 == 1 ? 2.5f : 0;
    struct tensor tensor = parity_tensor(id, vocab, cols);
    struct weight weight;
    struct weight judge;
    float *want = parity_host(n * sizeof *want);
    float *got = parity_host(n * sizeof *got);
    parity_must(cuda_backend_weight_create(parity.device, &weight, &tensor), tensor.type->name);
    parity_must(kernels_weight_create(parity.ref, &judge, &tensor), tensor.type->name);
    kernels_embed(
        parity.ref,
        &(struct embed_args){
            .table = &judge, .tokens = tokens, .rows = ROWS, .out = want, .scale = scale});
    uint32_t *tokens_there = parity_up(tokens, sizeof tokens);
    float *out = parity_poison(n * sizeof *got);
    cuda_embed(
        parity.device,
        &(struct embed_args){
            .table = &weight, .tokens = tokens_there, .rows = ROWS, .out = out, .scale = scale});
    parity_down(got, out, n * sizeof *got);
    /* Factors of small blocks are rounded to 11 bits, for terms up to 0.6. */
    parity_tell(parity_worst(got, want, n, (scale > 0 ? 2.5 : 1) * 0.6 * 0x1p-11),
                "embed %s %u × %u%s", tensor.type->name, vocab, cols, scale > 0 ? ", scaled" : "");
    cuda_backend_weight_destroy(parity.device, &weight);
    kernels_weight_destroy(parity.ref, &judge);
    parity_drop(tokens_there), parity_drop(out);
    free(want), free(got), free((void *)(uintptr_t)tensor.data);
}

static const uint32_t TYPES[] = {TENSOR_TYPE_f32,  TENSOR_TYPE_f16,  TENSOR_TYPE_bf16,
                                 TENSOR_TYPE_q8_0, TENSOR_TYPE_q4_0, TENSOR_TYPE_q4_1,
                                 TENSOR_TYPE_q5_0, TENSOR_TYPE_q5_1, TENSOR_TYPE_q4_k,
                                 TENSOR_TYPE_q5_k, TENSOR_TYPE_q6_k, TENSOR_TYPE_mxfp4};

void gpu_parity_linear(void)
{
    for (size_t t = 0; t < sizeof TYPES / sizeof *TYPES; t++) {
        check_linear(TYPES[t], 37, 256, 0);
        check_linear(TYPES[t], t % 3 == 0 ? 130 : 16, 768, 0); /* two blocks of tiles */
        check_together(TYPES[t], TYPES[(t + 5) % (sizeof TYPES / sizeof *TYPES)]);
        check_fused(TYPES[t], NORM_RMS, ACT_SILU_MUL);
        check_fused(TYPES[t], NORM_LAYER, (enum act_kind)(ACT_SILU_MUL + t % ACT_GELU_ERF));
        check_embed(TYPES[t], 50, 512);
    }
    check_linear(TENSOR_TYPE_f16, 9, 40, 0), check_linear(TENSOR_TYPE_bf16, 64, 1, 0);
    check_linear(TENSOR_TYPE_q4_1, 80, 608, 0), check_linear(TENSOR_TYPE_q4_1, 48, 320, 128);
    check_linear(TENSOR_TYPE_q4_0, 16, 4864, 0);
    check_free(TENSOR_TYPE_f16, 37, 256), check_free(TENSOR_TYPE_bf16, 40, 264);
    for (size_t t = 0; parity.is_large && t < sizeof TYPES / sizeof *TYPES; t++) {
        check_linear(TYPES[t], 1024, 4096, 0);
        check_linear(TYPES[t], 512, 14336, 0);
    }
    if (parity.is_large) {
        check_linear(TENSOR_TYPE_q4_1, 1024, 4096, 128);
        check_free(TENSOR_TYPE_f16, 1024, 4096), check_free(TENSOR_TYPE_bf16, 1024, 4096);
    }
}
