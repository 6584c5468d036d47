/* gpu_parity_rows: norm, rope, SwiGLU, statistics of logits, gather. */
#include "tests/gpu/gpu_parity.h"

static void check_rmsnorm(uint32_t rows, uint32_t cols)
{
    const size_t n = (size_t)rows * cols;
    float *x = parity_randoms(n, 3);
    float *weight = parity_randoms(cols, 1);
    float *y = parity_host(n * sizeof *y);
    float *got = parity_host(n * sizeof *got);
    struct norm_args args = {
        .x = x, .weight = weight, .y = y, .rows = rows, .cols = cols, .epsilon = 1e-5f};
    kernels_norm(parity.ref, &args);
    args.x = parity_up(x, n * sizeof *x);
    args.weight = parity_up(weight, cols * sizeof *weight);
    args.y = parity_poison(n * sizeof *y);
    cuda_norm(parity.device, &args);
    parity_down(got, args.y, n * sizeof *got);
    /* Results are at most 3 × √cols, with some ulp of error each. */
    parity_tell(parity_worst(got, y, n, 4e-6), "rmsnorm %u × %u", rows, cols);
    parity_drop(args.x);
    parity_drop(args.weight);
    parity_drop(args.y);
    free(x), free(weight), free(y), free(got);
}

static void check_rope(uint32_t rows, uint32_t heads, uint32_t head_dim, uint32_t pairs,
                       enum rope_pairing pairing)
{
    const size_t n = (size_t)rows * heads * head_dim;
    const size_t angles = (size_t)rows * pairs * 2;
    float *x = parity_randoms(n, 2);
    float *x_device = parity_up(x, n * sizeof *x);
    float *frequencies = parity_randoms(pairs, 1);
    float *table = parity_host(angles * sizeof *table);
    float *got = parity_host((n > angles ? n : angles) * sizeof *got);
    uint32_t *positions = parity_host(rows * sizeof *positions);
    for (uint32_t r = 0; r < rows; r++)
        positions[r] = r * 1031;
    struct rope_table_args angle = {.positions = positions,
                                    .frequencies = frequencies,
                                    .rows = rows,
                                    .pairs = pairs,
                                    .table = table};
    kernels_rope_table(parity.ref, &angle);
    angle.positions = parity_up(positions, rows * sizeof *positions);
    angle.frequencies = parity_up(frequencies, pairs * sizeof *frequencies);
    angle.table = parity_poison(angles * sizeof *table);
    cuda_rope_table(parity.device, &angle);
    parity_down(got, angle.table, angles * sizeof *got);
    /* The last bit of cos and sin in double may change the rounding. */
    parity_tell(parity_worst(got, table, angles, 1.2e-7), "rope_table %u × %u", rows, pairs);
    struct rope_args args = {.x = x,
                             .table = table,
                             .rows = rows,
                             .heads = heads,
                             .head_dim = head_dim,
                             .pairs = pairs,
                             .pairing = pairing};
    kernels_rope(parity.ref, &args);
    args.x = x_device;
    args.table = angle.table;
    cuda_rope(parity.device, &args);
    parity_down(got, args.x, n * sizeof *got);
    parity_tell(parity_worst(got, x, n, 2e-6), "rope %u × %u × %u, %s", rows, heads, head_dim,
                pairing == ROPE_HALVES ? "halves" : "interleaved");
    parity_drop(x_device);
    parity_drop(angle.table);
    parity_drop(angle.positions);
    parity_drop(angle.frequencies);
    free(x), free(frequencies), free(table), free(got), free(positions);
}

static void check_silu_mul(uint32_t rows, uint32_t cols)
{
    const size_t n = (size_t)rows * cols;
    float *gate = parity_randoms(n, 8);
    float *mine = parity_up(gate, n * sizeof *gate);
    float *factor = parity_randoms(n, 2);
    float *got = parity_host(n * sizeof *got);
    struct act_args args = {
        .kind = ACT_SILU_MUL, .x = gate, .up = factor, .rows = rows, .cols = cols};
    kernels_act(parity.ref, &args);
    args.x = mine;
    args.up = parity_up(factor, n * sizeof *factor);
    cuda_act(parity.device, &args);
    parity_down(got, mine, n * sizeof *got);
    parity_tell(parity_worst(got, gate, n, 1e-5), "silu_mul %u × %u", rows, cols);
    parity_drop(mine);
    parity_drop(args.up);
    free(gate), free(factor), free(got);
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
    check_rmsnorm(1, 64), check_rmsnorm(5, 576), check_rmsnorm(3, 4096);
    check_rope(3, 9, 64, 32, ROPE_INTERLEAVED), check_rope(2, 2, 128, 64, ROPE_HALVES);
    check_rope(4, 1, 48, 16, ROPE_HALVES);
    check_silu_mul(1, 1), check_silu_mul(7, 1537);
    check_logits(1, 1), check_logits(3, 255), check_logits(2, 32000);
    check_gather();
}
