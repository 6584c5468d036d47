/* gpu_experts: a captured step serves any routing. Steps of random rows whose routing changes from
 * step to step, launched one by one and as graphs, give equal bits, with one capture for each
 * bucket of rows. On the processor (tests/kit/simt), which counts the runtime's calls, it also
 * checks that a replayed step launches nothing by itself.
 *
 * usage: gpu_experts     ends with 77 without a device */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config/base/rng.h"
#include "kernels/cpu/ops/ops.h"
#include "kernels/kernels_experts.h"
#include "kernels/kernels_measure.h"
#include "kernels/kernels_step.h"
#include "tests/gpu/gpu_check.h"
#include "tests/gpu/gpu_data.h"
#include "tests/gpu/gpu_device.h"
#if BANYAN_SIMT
#include "tests/kit/simt/simt.h"
#endif

enum {
    ROWS_MAX = 16,
    EXPERTS = 12,
    USED = 3,
    WIDTH = 64,
    HIDDEN = 96,
    STEPS = 30,
    BUCKETS = 5 /* 1, 2, 4, 8, 16 */
};

struct side {
    struct kernels *kernels;
    struct kv_layout layout;
    void *pages;
    struct weight gate, up, down;
    struct kernels_routes routes;
    float *x;
    float *logits;
    float *y;
    void *buffer;
    void *scratch;
    uint32_t rows;
};

static void *make_buffer(struct side *side, size_t bytes)
{
    void *out = kernels_buffer_create(side->kernels, bytes);
    CHECK(out != NULL);
    return out;
}

static void make_weight(struct side *side, struct weight *out, uint64_t seed, uint32_t rows,
                        uint32_t cols)
{
    struct rng rng = {.seed = seed};
    const struct tensor_type_info *type = tensor_type_info(TENSOR_TYPE_mxfp4);
    const size_t blocks = (size_t)EXPERTS * rows * (cols / type->block_elements);
    void *data = malloc(blocks * type->block_bytes);
    CHECK(data != NULL);
    gpu_data_fill(&rng, type, 0.3f, blocks, data);
    const struct tensor tensor = {.type = type,
                                  .dim_count = 3,
                                  .dims = {cols, rows, EXPERTS, 1},
                                  .data = data,
                                  .bytes = blocks * type->block_bytes};
    CHECK(kernels_experts_weight(side->kernels, out, &tensor) == STATUS_OK);
    free(data);
}

static void open_side(struct side *side, bool has_graphs)
{
    CHECK(kernels_create(&side->kernels, &(struct kernels_options){
                                             .isa = "cuda",
                                             .threads = 1,
                                             .rows_max = ROWS_MAX,
                                             .cols_max = HIDDEN,
                                             .trial = {.no_graphs = !has_graphs}}) == STATUS_OK);
    CHECK(kernels_kv_layout(side->kernels, KV_TYPE_F16, kernels_page_tokens(side->kernels), 1, 1,
                            16, &side->layout) == STATUS_OK);
    make_weight(side, &side->gate, 1, HIDDEN, WIDTH);
    make_weight(side, &side->up, 2, HIDDEN, WIDTH);
    make_weight(side, &side->down, 3, WIDTH, HIDDEN);
    side->pages = make_buffer(side, side->layout.page_bytes);
    side->x = make_buffer(side, ROWS_MAX * WIDTH * sizeof *side->x);
    side->logits = make_buffer(side, ROWS_MAX * EXPERTS * sizeof *side->logits);
    side->y = make_buffer(side, ROWS_MAX * WIDTH * sizeof *side->y);
    side->buffer = make_buffer(side, kernels_routes_bytes(ROWS_MAX, EXPERTS, USED));
    side->scratch =
        make_buffer(side, kernels_experts_bytes(side->kernels, ROWS_MAX, USED, WIDTH, HIDDEN));
    kernels_routes_init(&side->routes, side->buffer, ROWS_MAX, EXPERTS, USED);
}

static void close_side(struct side *side)
{
    void *const buffers[] = {side->pages, side->x,      side->logits,
                             side->y,     side->buffer, side->scratch};
    for (size_t i = 0; i < sizeof buffers / sizeof *buffers; i++)
        kernels_buffer_destroy(side->kernels, buffers[i]);
    kernels_weight_destroy(side->kernels, &side->gate);
    kernels_weight_destroy(side->kernels, &side->up);
    kernels_weight_destroy(side->kernels, &side->down);
    kernels_destroy(side->kernels);
}

static void forward(void *context)
{
    const struct side *side = context;
    kernels_route(side->kernels, &(struct route_args){.logits = side->logits,
                                                      .rows = side->rows,
                                                      .is_normalised = true,
                                                      .routes = &side->routes});
    kernels_experts(side->kernels, &(struct experts_args){.x = side->x,
                                                          .y = side->y,
                                                          .rows = side->rows,
                                                          .routes = &side->routes,
                                                          .gate = &side->gate,
                                                          .up = &side->up,
                                                          .down = &side->down,
                                                          .act = ACT_SILU_MUL,
                                                          .scratch = side->scratch});
}

/* One step over rows whose inputs are uploaded before it. */
static void run_step(struct side *side, uint32_t rows, const float *x, const float *logits,
                     float *y)
{
    static const uint32_t zeros[ROWS_MAX];
    static const uint32_t *const tables[1] = {zeros};
    uint32_t positions[ROWS_MAX];
    for (uint32_t i = 0; i < rows; i++)
        positions[i] = i;
    const struct kernels_step step = {.rows = rows,
                                      .tokens = zeros,
                                      .kv = {.layout = &side->layout,
                                             .pages = side->pages,
                                             .sequence = zeros,
                                             .position = positions,
                                             .page_tables = tables}};
    kernels_upload(side->kernels, side->x, x, (size_t)rows * WIDTH * sizeof *x);
    kernels_upload(side->kernels, side->logits, logits, (size_t)rows * EXPERTS * sizeof *logits);
    side->rows = rows;
    CHECK(kernels_step_run(side->kernels, &step, forward, side) == STATUS_OK);
    CHECK(kernels_step_end(side->kernels) == STATUS_OK);
    CHECK(kernels_download(side->kernels, y, side->y, (size_t)rows * WIDTH * sizeof *y) ==
          STATUS_OK);
}

/* Rows in turn of each bucket, not all of them full. */
static uint32_t rows_of(struct rng *rng, uint32_t step)
{
    const uint32_t bucket = 1u << step % BUCKETS;
    return bucket - (uint32_t)rng_below(rng, (bucket + 1) / 2);
}

/* Random choices, all rows to the same experts, or each row to others. */
static void fill_logits(struct rng *rng, uint32_t step, uint32_t rows, float *logits)
{
    for (uint32_t i = 0; i < rows * EXPERTS; i++) {
        const uint32_t r = i / EXPERTS;
        const uint32_t e = i % EXPERTS;
        const uint32_t turned = (e + step + (step % 3 == 1 ? 0 : r * USED)) % EXPERTS;
        logits[i] = step % 3 == 0 ? (float)rng_unit(rng_next(rng)) * 8 : (float)turned;
    }
}

static uint64_t launches(void)
{
#if BANYAN_SIMT
    return simt_counts.launches;
#else
    return 0;
#endif
}

int main(void)
{
    static struct side eager;
    static struct side graphed;
    static float x[ROWS_MAX * WIDTH];
    static float logits[ROWS_MAX * EXPERTS];
    static float want[ROWS_MAX * WIDTH];
    static float got[ROWS_MAX * WIDTH];
    struct rng rng = {.seed = 22};
    uint64_t replays = 0;
    if (cuda_ops.count() == 0)
        return gpu_device_missing();
    open_side(&eager, false);
    open_side(&graphed, true);
    for (uint32_t step = 0; step < STEPS; step++) {
        const uint32_t rows = rows_of(&rng, step);
        for (uint32_t i = 0; i < rows * WIDTH; i++)
            x[i] = (float)rng_unit(rng_next(&rng)) - 0.5f;
        fill_logits(&rng, step, rows, logits);
        run_step(&eager, rows, x, logits, want);
        const uint64_t before = launches();
        const uint64_t captured = kernels_measure_captures(graphed.kernels).count;
        run_step(&graphed, rows, x, logits, got);
        CHECK(memcmp(got, want, (size_t)rows * WIDTH * sizeof *got) == 0);
        /* The first step of a bucket is launched, the second captured, the others replayed. */
        const bool is_replay = step >= 2 * BUCKETS;
        CHECK(!is_replay || launches() == before);
        CHECK(!is_replay || kernels_measure_captures(graphed.kernels).count == captured);
        replays += is_replay;
    }
    CHECK(kernels_measure_captures(graphed.kernels).count == BUCKETS);
    CHECK(kernels_measure_captures(eager.kernels).count == 0);
    printf("%d steps, %llu replayed with another routing, %d captures: equal bits\n", STEPS,
           (unsigned long long)replays, BUCKETS);
    close_side(&eager);
    close_side(&graphed);
    return 0;
}
