#include <math.h>

#include "kernels/cuda/cuda_gap.h"
#include "kernels/cuda/cuda_graph.h"
#include "kernels/cuda/cuda_step.h"
#include "tests/gpu/gpu_bench.h"

/* One stream's steps of a 1B shape at 2k keys, launched one by one and as a graph. It shows which
 * part of a step is the host's (the step by the host's clock, minus the graph launched after
 * itself), and which part of the graph lies between its kernels (their number × the gap between two
 * kernels of known length). */

/* of a layer, used in turn: more than caches hold */
enum { GAPS_PAGE_TOKENS = 64, GAPS_COPIES = 4 };
enum { GAPS_Q, GAPS_K, GAPS_V, GAPS_OUT, GAPS_GATE, GAPS_UP, GAPS_DOWN, GAPS_MATRICES };

static struct gaps {
    uint32_t layers, width, hidden, heads, kv_heads, head_dim, vocab, keys;
    struct weight weights[GAPS_COPIES][GAPS_MATRICES];
    struct weight head;
    struct kv_layout layout;
    struct kv_rows kv;
    float *x, *q, *k, *v, *attended, *gate, *angles, *norm, *logits;
} gaps;

static void gaps_linear(const float *x, const float *norm, const struct weight *weight, float *y)
{
    cuda_linear(gpu_bench.device, &(struct linear_args){.x = x,
                                                        .rows = 1,
                                                        .count = 1,
                                                        .weights = {weight},
                                                        .y = {y},
                                                        .accumulate = norm == NULL,
                                                        .norm = norm,
                                                        .epsilon = 1e-5f});
}

static void gaps_layer(const struct weight *weights, uint32_t layer)
{
    struct cuda_backend *device = gpu_bench.device;
    struct rope_args k = {.x = gaps.k,
                          .table = gaps.angles,
                          .rows = 1,
                          .heads = gaps.kv_heads,
                          .head_dim = gaps.head_dim,
                          .pairs = gaps.head_dim / 2,
                          .pairing = ROPE_INTERLEAVED};
    struct rope_args q = k;
    q.x = gaps.q;
    q.heads = gaps.heads;
    cuda_linear(device, &(struct linear_args){
                            .x = gaps.x,
                            .rows = 1,
                            .count = 3,
                            .weights = {&weights[GAPS_K], &weights[GAPS_V], &weights[GAPS_Q]},
                            .y = {gaps.k, gaps.v, gaps.q},
                            .norm = gaps.norm,
                            .epsilon = 1e-5f});
    cuda_kv_write(device,
                  &(struct kv_write_args){gaps.k, gaps.v, 1, 0, layer, gaps.kv, .rope = {&k, &q}});
    cuda_attention(device, &(struct attention_args){.q = gaps.q,
                                                    .out = gaps.attended,
                                                    .rows = 1,
                                                    .heads = gaps.heads,
                                                    .layer = layer,
                                                    .scale = 1 / sqrtf((float)gaps.head_dim),
                                                    .kv = gaps.kv});
    gaps_linear(gaps.attended, NULL, &weights[GAPS_OUT], gaps.x);
    cuda_linear(device, &(struct linear_args){.x = gaps.x,
                                              .rows = 1,
                                              .count = 2,
                                              .weights = {&weights[GAPS_GATE], &weights[GAPS_UP]},
                                              .y = {gaps.gate},
                                              .act = ACT_SILU_MUL,
                                              .norm = gaps.norm,
                                              .epsilon = 1e-5f});
    gaps_linear(gaps.gate, NULL, &weights[GAPS_DOWN], gaps.x);
}

static void gaps_forward(void *context)
{
    (void)context;
    for (uint32_t layer = 0; layer < gaps.layers; layer++)
        gaps_layer(gaps.weights[layer % GAPS_COPIES], layer);
    gaps_linear(gaps.x, gaps.norm, &gaps.head, gaps.logits);
}

static void gaps_step(const void *context, uint32_t index)
{
    static const uint32_t row = 0;
    (void)context;
    (void)index;
    const struct kernels_step step = {.rows = 1,
                                      .kv = gaps.kv,
                                      .logit_rows = 1,
                                      .logit_rows_max = 1,
                                      .logit_row = &row,
                                      .heads = gaps.heads};
    bench_must(cuda_step_run(gpu_bench.device, &step, gaps_forward, NULL));
    bench_must(cuda_backend_end(gpu_bench.device));
}

static void gaps_open(void)
{
    const uint32_t inner = gaps.heads * gaps.head_dim;
    const uint32_t kv = gaps.kv_heads * gaps.head_dim;
    const uint32_t shapes[GAPS_MATRICES][2] = {{inner, gaps.width},       {kv, gaps.width},
                                               {kv, gaps.width},          {gaps.width, inner},
                                               {gaps.hidden, gaps.width}, {gaps.hidden, gaps.width},
                                               {gaps.width, gaps.hidden}};
    for (int copy = 0; copy < GAPS_COPIES; copy++)
        for (int m = 0; m < GAPS_MATRICES; m++)
            gaps.weights[copy][m] = bench_weight(TENSOR_TYPE_bf16, shapes[m][0], shapes[m][1]);
    gaps.head = bench_weight(TENSOR_TYPE_bf16, gaps.vocab, gaps.width);
    float **const activations[] = {&gaps.x,      &gaps.q,        &gaps.k,
                                   &gaps.v,      &gaps.attended, &gaps.gate,
                                   &gaps.angles, &gaps.norm,     &gaps.logits};
    for (size_t i = 0; i < sizeof activations / sizeof *activations; i++)
        *activations[i] = bench_alloc((gaps.vocab + gaps.hidden + inner) * sizeof(float));
    bench_must(cuda_kv_layout(KV_TYPE_F16, GAPS_PAGE_TOKENS, gaps.layers, gaps.kv_heads,
                              gaps.head_dim, &gaps.layout));
}

static void gaps_close(void)
{
    const float *const activations[] = {gaps.x,      gaps.q,        gaps.k,
                                        gaps.v,      gaps.attended, gaps.gate,
                                        gaps.angles, gaps.norm,     gaps.logits};
    for (size_t i = 0; i < sizeof activations / sizeof *activations; i++)
        bench_drop(activations[i]);
    for (int copy = 0; copy < GAPS_COPIES; copy++)
        for (int m = 0; m < GAPS_MATRICES; m++)
            cuda_backend_weight_destroy(gpu_bench.device, &gaps.weights[copy][m]);
    cuda_backend_weight_destroy(gpu_bench.device, &gaps.head);
}

void gpu_bench_gaps(void)
{
    enum { PAGES = 32 };
    static const uint32_t zero = 0;
    static uint32_t table[PAGES];
    static const uint32_t *const tables[1] = {table};
    static uint32_t position;
    struct cuda_gap_times times;
    gaps = gpu_bench.is_tiny ? (struct gaps){.layers = 2,
                                             .width = 64,
                                             .hidden = 128,
                                             .heads = 4,
                                             .kv_heads = 2,
                                             .head_dim = 16,
                                             .vocab = 40,
                                             .keys = 100}
                             : (struct gaps){.layers = 16,
                                             .width = 2048,
                                             .hidden = 8192,
                                             .heads = 32,
                                             .kv_heads = 8,
                                             .head_dim = 64,
                                             .vocab = 128256,
                                             .keys = PAGES * GAPS_PAGE_TOKENS};
    gaps_open();
    for (uint32_t i = 0; i < PAGES; i++)
        table[i] = i;
    position = gaps.keys - 1;
    gaps.kv = (struct kv_rows){.layout = &gaps.layout,
                               .pages = bench_alloc(PAGES * gaps.layout.page_bytes),
                               .sequence = &zero,
                               .position = &position,
                               .page_tables = tables};
    cuda_graph_set(gpu_bench.device, false);
    const double one_by_one = bench_time(gaps_step, NULL);
    cuda_graph_set(gpu_bench.device, true);
    gaps_step(NULL, 0), gaps_step(NULL, 1); /* the second is captured */
    const double step = bench_time(gaps_step, NULL);
    bench_must(cuda_gap_measure(gpu_bench.device, &times));
    bench_figure(one_by_one * 1e6, "us", "1B step, launched one by one");
    bench_figure(step * 1e6, "us", "1B step, as a graph");
    bench_figure(times.graph_seconds * 1e6, "us", "its graph alone");
    bench_figure(times.kernels, "kernels", "kernels of it");
    bench_figure(times.gap_seconds * 1e6, "us", "gap between two kernels");
    bench_figure(100 * fmax(step - times.graph_seconds, 0) / step, "%", "gaps_host");
    bench_figure(100 * times.kernels * times.gap_seconds / times.graph_seconds, "%", "gaps_graph");
    bench_drop(gaps.kv.pages);
    gaps_close();
}
