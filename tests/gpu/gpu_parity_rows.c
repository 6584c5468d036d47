/* gpu_parity_rows: norms, rope, activations, soft cap, statistics of logits, gather. */
#include "tests/gpu/gpu_parity.h"

static void check_norm(uint32_t rows, uint32_t cols, enum norm_kind kind, bool accumulate)
{
    const size_t n = (size_t)rows * cols;
    float *x = parity_randoms(n, 3);
    float *weight = parity_randoms(cols, 1);
    float *bias = parity_randoms(cols, 1);
    float *y = parity_randoms(n, 1);
    float *got = parity_host(n * sizeof *got);
    struct norm_args args = {.x = x,
                             .weight = weight,
                             .y = y,
                             .rows = rows,
                             .cols = cols,
                             .epsilon = 1e-5f,
                             .kind = kind,
                             .bias = kind == NORM_LAYER ? bias : NULL,
                             .accumulate = accumulate};
    float *mine = accumulate ? parity_up(y, n * sizeof *y) : parity_poison(n * sizeof *y);
    kernels_norm(parity.ref, &args);
    args.x = parity_up(x, n * sizeof *x);
    args.weight = parity_up(weight, cols * sizeof *weight);
    args.bias = kind == NORM_LAYER ? parity_up(bias, cols * sizeof *bias) : NULL;
    args.y = mine;
    cuda_norm(parity.device, &args);
    parity_down(got, args.y, n * sizeof *got);
    /* Results are at most 3 × √cols, with some ulp of error each. */
    parity_tell(parity_worst(got, y, n, 4e-6), "norm %u × %u%s%s", rows, cols,
                kind == NORM_LAYER ? ", layer" : "", accumulate ? ", added" : "");
    parity_drop((void *)(uintptr_t)args.x);
    parity_drop((void *)(uintptr_t)args.weight);
    if (args.bias != NULL)
        parity_drop((void *)(uintptr_t)args.bias);
    parity_drop(args.y);
    free(x), free(weight), free(bias), free(y), free(got);
}

static void check_rope(uint32_t rows, uint32_t heads, uint32_t head_dim, uint32_t pairs,
                       enum rope_pairing pairing, bool has_norm)
{
    const size_t n = (size_t)rows * heads * head_dim;
    const size_t angles = (size_t)rows * pairs * 2;
    float *x = parity_randoms(n, 2);
    float *x_device = parity_up(x, n * sizeof *x);
    float *frequencies = parity_randoms(pairs, 1);
    float *norm = parity_randoms(head_dim, 1);
    float *table = parity_host(angles * sizeof *table);
    float *got = parity_host((n > angles ? n : angles) * sizeof *got);
    uint32_t *positions = parity_host(rows * sizeof *positions);
    for (uint32_t r = 0; r < rows; r++)
        positions[r] = r * 1031;
    struct rope_table_args angle = {.positions = positions,
                                    .frequencies = frequencies,
                                    .rows = rows,
                                    .pairs = pairs,
                                    .table = table,
                                    .factor = has_norm ? 1.25f : 0};
    kernels_rope_table(parity.ref, &angle);
    angle.positions = parity_up(positions, rows * sizeof *positions);
    angle.frequencies = parity_up(frequencies, pairs * sizeof *frequencies);
    angle.table = parity_poison(angles * sizeof *table);
    cuda_rope_table(parity.device, &angle);
    parity_down(got, angle.table, angles * sizeof *got);
    /* The last bit of cos and sin in double may change the rounding. */
    parity_tell(parity_worst(got, table, angles, has_norm ? 1.6e-7 : 1.2e-7),
                "rope_table %u × %u%s", rows, pairs, has_norm ? ", factor" : "");
    struct rope_args args = {.x = x,
                             .table = table,
                             .rows = rows,
                             .heads = heads,
                             .head_dim = head_dim,
                             .pairs = pairs,
                             .pairing = pairing,
                             .norm = has_norm ? norm : NULL,
                             .epsilon = 1e-6f};
    kernels_rope(parity.ref, &args);
    args.x = x_device;
    if (has_norm)
        args.norm = parity_up(norm, head_dim * sizeof *norm);
    args.table = angle.table;
    cuda_rope(parity.device, &args);
    parity_down(got, args.x, n * sizeof *got);
    parity_tell(parity_worst(got, x, n, 2e-6), "rope %u × %u × %u, %s%s", rows, heads, head_dim,
                pairing == ROPE_HALVES ? "halves" : "interleaved", has_norm ? ", normed" : "");
    if (has_norm)
        parity_drop((void *)(uintptr_t)args.norm);
    parity_drop(x_device);
    parity_drop(angle.table);
    parity_drop(angle.positions);
    parity_drop(angle.frequencies);
    free(x), free(frequencies), free(norm), free(table), free(got), free(positions);
}

static void check_act(enum act_kind kind, uint32_t rows, uint32_t cols)
{
    static const char *const names[] = {[ACT_SILU_MUL] = "silu_mul",
                                        [ACT_GELU_MUL] = "gelu_mul",
                                        [ACT_CLAMPED_MUL] = "clamped_mul",
                                        [ACT_GELU_TANH] = "gelu_tanh",
                                        [ACT_GELU_ERF] = "gelu_erf"};
    const size_t n = (size_t)rows * cols;
    float *x = parity_randoms(n, 8);
    float *mine = parity_up(x, n * sizeof *x);
    float *factor = parity_randoms(n, kind == ACT_CLAMPED_MUL ? 8 : 2);
    float *factor_there = parity_up(factor, n * sizeof *factor);
    float *got = parity_host(n * sizeof *got);
    const bool takes_two = kernels_act_takes_two(kind);
    struct act_args args = {
        .kind = kind, .x = x, .up = takes_two ? factor : NULL, .rows = rows, .cols = cols};
    kernels_act(parity.ref, &args);
    args.x = mine;
    args.up = takes_two ? factor_there : NULL;
    cuda_act(parity.device, &args);
    parity_down(got, mine, n * sizeof *got);
    parity_tell(parity_worst(got, x, n, 1e-5), "%s %u × %u", names[kind], rows, cols);
    parity_drop(mine);
    parity_drop(factor_there);
    free(x), free(factor), free(got);
}

static void check_softcap(uint32_t rows, uint32_t cols)
{
    const size_t n = (size_t)rows * cols;
    float *x = parity_randoms(n, 90);
    float *mine = parity_up(x, n * sizeof *x);
    float *got = parity_host(n * sizeof *got);
    kernels_softcap(parity.ref, &(struct softcap_args){x, rows, cols, 30});
    cuda_softcap(parity.device, &(struct softcap_args){mine, rows, cols, 30});
    parity_down(got, mine, n * sizeof *got);
    /* two ulp of the result, and of a quotient whose change the cap's slope does not raise */
    parity_tell(parity_worst(got, x, n, 8e-6), "softcap %u × %u", rows, cols);
    parity_drop(mine);
    free(x), free(got);
}

static void check_logits(uint32_t rows, uint32_t vocab)
{
    const size_t n = (size_t)rows * vocab;
    float *logits = parity_randoms(n, 12);
    struct logits_stats *want = parity_host(rows * sizeof *want);
    struct logits_stats *got = parity_host(rows * sizeof *got);
    double worst = 0;
    for (uint32_t r = 0; r < rows; r++) /* two equal greatest values: the first counts */
        logits[(size_t)r * vocab + vocab / 3] = logits[(size_t)r * vocab + vocab - 1] = 13;
    kernels_logits_stats(parity.ref, logits, rows, vocab, want);
    float *mine = parity_up(logits, n * sizeof *logits);
    struct logits_stats *out = parity_poison(rows * sizeof *got);
    cuda_logits_stats(parity.device, mine, rows, vocab, out);
    parity_down(got, out, rows * sizeof *got);
    for (uint32_t r = 0; r < rows; r++) {
        const double error = fabs((double)got[r].log_sum_exp - (double)want[r].log_sum_exp) / 4e-6;
        worst = error > worst ? error : worst;
        if (got[r].argmax != want[r].argmax || !(got[r].max == want[r].max) || !(error >= 0))
            worst = INFINITY;
    }
    parity_tell(worst, "logits_stats %u × %u", rows, vocab);
    parity_drop(mine);
    parity_drop(out);
    free(logits), free(want), free(got);
}

static void check_gather(void)
{
    enum { ROWS = 5, COLS = 37 };
    const uint32_t order[ROWS] = {4, 0, 2, 2, 9};
    float *from = parity_randoms(10 * COLS, 1);
    float want[ROWS * COLS];
    float got[ROWS * COLS];
    for (uint32_t r = 0; r < ROWS; r++)
        memcpy(want + r * COLS, from + order[r] * COLS, COLS * sizeof *from);
    float *there = parity_up(from, 10 * COLS * sizeof *from);
    uint32_t *there_order = parity_up(order, sizeof order);
    float *out = parity_poison(sizeof want);
    cuda_gather(parity.device, &(struct gather_args){out, there, there_order, ROWS, COLS});
    parity_down(got, out, sizeof got);
    parity_tell(parity_same(got, want, sizeof got), "gather %d × %d", ROWS, COLS);
    parity_drop(there), parity_drop(there_order), parity_drop(out);
    free(from);
}

void gpu_parity_rows(void)
{
    check_norm(1, 64, NORM_RMS, false), check_norm(5, 576, NORM_RMS, false);
    check_norm(3, 4096, NORM_RMS, false), check_norm(2, 257, NORM_RMS, true);
    check_norm(1, 64, NORM_LAYER, false), check_norm(3, 1000, NORM_LAYER, true);
    check_rope(3, 9, 64, 32, ROPE_INTERLEAVED, false),
        check_rope(2, 2, 128, 64, ROPE_HALVES, false);
    check_rope(4, 1, 48, 16, ROPE_HALVES, false), check_rope(3, 5, 64, 32, ROPE_INTERLEAVED, true);
    check_rope(2, 2, 128, 32, ROPE_HALVES, true);
    for (enum act_kind kind = ACT_SILU_MUL; kind <= ACT_GELU_ERF; kind++)
        check_act(kind, 1, 1), check_act(kind, 7, 1537);
    check_softcap(1, 1), check_softcap(3, 1000);
    check_logits(1, 1), check_logits(3, 255), check_logits(2, 32000);
    check_gather();
}
