/* gpu_bench_draw: sampling from 64 rows of logits of 128,256 tokens: greedy, from all tokens, with
 * filters, and under masks. Each call waits for its tokens. */
#include "kernels/cuda/cuda_draw.h"
#include "tests/gpu/gpu_bench.h"

enum { ROWS = 64, VOCAB = 128256, TINY_ROWS = 2, TINY_VOCAB = 1000 };

struct draw_case {
    struct cuda_draw *draw;
    struct draw_args args;
};

static void draw_once(const void *context, uint32_t index)
{
    (void)index;
    const struct draw_case *of = context;
    bench_must(cuda_draw_run(of->draw, &of->args));
}

static void bench_kind(struct draw_case *of, struct draw *draws, const char *name,
                       struct draw settings)
{
    for (uint32_t r = 0; r < of->args.count; r++) {
        draws[r] = settings;
        draws[r].row = r;
        draws[r].stream = r + 1;
    }
    bench_figure(bench_time(draw_once, of) * 1e6, "us", "draw_%s_%u_us", name, of->args.count);
}

void gpu_bench_draw(void)
{
    const uint32_t vocab = gpu_bench.is_tiny ? TINY_VOCAB : VOCAB;
    static uint32_t mask[VOCAB / 32];
    struct draw draws[ROWS];
    static struct draw_result results[ROWS];
    struct draw_case of = {
        .args = {.draws = draws, .count = gpu_bench.is_tiny ? TINY_ROWS : ROWS, .out = results}};
    of.args.logits = bench_alloc((size_t)of.args.count * vocab * sizeof(float));
    bench_must(cuda_draw_open(gpu_bench.device, &of.draw, vocab, ROWS));
    bench_kind(&of, draws, "greedy", (struct draw){.top_p = 1});
    bench_kind(&of, draws, "all", (struct draw){.temperature = 1, .top_p = 1});
    bench_kind(&of, draws, "filtered",
               (struct draw){.temperature = 0.8f, .top_p = 0.9f, .min_p = 0.01f, .top_k = 100});
    memset(mask, 0x55, sizeof mask);
    bench_kind(&of, draws, "masked", (struct draw){.temperature = 1, .top_p = 1, .mask = mask});
    cuda_draw_close(of.draw);
    bench_drop(of.args.logits);
}
