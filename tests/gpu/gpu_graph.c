/* gpu_graph: steps of random shapes, launched one by one and as graphs, give logits and pages of
 * equal bits, whatever step a graph was captured from. On the processor (tests/kit/simt), which
 * counts the runtime's calls, it also checks what a step requests of the runtime.
 *
 * usage: gpu_graph     ends with 77 without a device */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "config/base/rng.h"
#include "engine/models/model.h"
#include "kernels/cpu/ops/ops.h"
#include "kernels/cuda/cuda_graph.h"
#include "kernels/cuda/cuda_plan.h"
#include "kernels/kernels_step.h"
#include "tests/gpu/gpu_check.h"
#include "tests/gpu/gpu_device.h"
#include "tests/kit/llama_file.h"
#if BANYAN_SIMT
#include "tests/kit/simt/simt.h"
#endif

enum {
    LOGIT_ROWS_MAX = 23,
    SEQUENCES = LOGIT_ROWS_MAX,
    PAGES_EACH = 5, /* of 64 tokens: two segments of keys */
    PAGE_TOKENS = 64,
    TOKENS = PAGES_EACH * PAGE_TOKENS,
    PAGES = SEQUENCES * PAGES_EACH,
    VOCAB = 40,
    ROWS_MAX = CUDA_GRAPH_ROWS_MAX + 1,
    STEPS = 72,      /* at least two of each shape that make_batch produces */
    STEPS_LARGE = 3, /* two of a bucket of many rows, and one of more rows than any */
    FIRST_LONG = CUDA_PLAN_SEGMENT
};

enum { BUCKETS_FEW = 6 };
static const uint32_t BUCKETS[BUCKETS_FEW + 1] = {1, 2, 4, 8, 16, LOGIT_ROWS_MAX, 128};

struct side {
    struct kernels *kernels;
    struct model *model;
    struct kv_layout layout;
    void *pages;
    float logits[LOGIT_ROWS_MAX * VOCAB];
};

struct batch {
    uint32_t rows;
    uint32_t tokens[ROWS_MAX];
    uint32_t sequence[ROWS_MAX];
    uint32_t position[ROWS_MAX];
    uint32_t logit_rows;
    uint32_t logit_row[LOGIT_ROWS_MAX];
};

static uint32_t page_ids[PAGES];
static const uint32_t *page_tables[SEQUENCES];

static struct cuda_graphs *graphs_of(const struct side *side)
{
    return cuda_graph_all(side->kernels->device);
}

static struct gguf *make_file(const struct llama_shape *shape)
{
    char path[] = "/tmp/gpu_graph_XXXXXX";
    struct buffer file;
    struct gguf *gguf;
    llama_file_build(shape, &file);
    const int descriptor = mkstemp(path);
    CHECK(descriptor >= 0);
    CHECK(write(descriptor, file.bytes, file.length) == (ssize_t)file.length);
    close(descriptor);
    CHECK(gguf_open(&gguf, path) == STATUS_OK);
    unlink(path);
    buffer_deinit(&file);
    return gguf;
}

/* Opens a side. Pages are filled with halves, so that a text may begin at any position. */
static void open_side(struct side *side, const struct gguf *gguf)
{
    struct model_config config;
    CHECK(model_config_read(&config, &(struct model_source){.gguf = gguf}) == STATUS_OK);
    CHECK(kernels_create(&side->kernels, &(struct kernels_options){
                                             .isa = "cuda",
                                             .threads = 1,
                                             .rows_max = ROWS_MAX,
                                             .cols_max = model_cols_max(&config)}) == STATUS_OK);
    CHECK(model_open(&side->model, side->kernels, &(struct model_source){.gguf = gguf}, ROWS_MAX,
                     LOGIT_ROWS_MAX) == STATUS_OK);
    CHECK(kernels_kv_layout(side->kernels, KV_TYPE_F16, PAGE_TOKENS, config.layers, config.kv_heads,
                            config.head_dim, &side->layout) == STATUS_OK);
    const size_t halves = PAGES * side->layout.page_bytes / sizeof(uint16_t);
    uint16_t *all = malloc(halves * sizeof *all);
    side->pages = kernels_buffer_create(side->kernels, halves * sizeof *all);
    CHECK(all != NULL && side->pages != NULL);
    for (size_t i = 0; i < halves; i++)
        all[i] = (uint16_t)(0x3000 | (rng_of(3, i) & 0x8bff)); /* 0.125 to 0.25, of both signs */
    kernels_upload(side->kernels, side->pages, all, halves * sizeof *all);
    free(all);
}

static void close_side(struct side *side)
{
    model_close(side->model);
    kernels_buffer_destroy(side->kernels, side->pages);
    kernels_destroy(side->kernels);
}

static void place_pages(struct rng *rng)
{
    for (uint32_t i = 0; i < PAGES; i++)
        page_ids[i] = i;
    for (uint32_t i = PAGES; i > 1; i--) {
        const uint32_t j = (uint32_t)rng_below(rng, i);
        const uint32_t held = page_ids[i - 1];
        page_ids[i - 1] = page_ids[j];
        page_ids[j] = held;
    }
    for (uint32_t s = 0; s < SEQUENCES; s++)
        page_tables[s] = page_ids + (size_t)s * PAGES_EACH;
}

/* Makes runs of rows of some sequences, with logits of none, of all rows, or of each run's last.
 * The texts have one segment of keys, or the first of them two. */
static void make_batch(struct batch *batch, struct rng *rng, uint32_t rows, uint32_t wants,
                       bool is_long)
{
    uint32_t sequence = (uint32_t)rng_below(rng, SEQUENCES);
    *batch = (struct batch){0};
    while (batch->rows < rows) {
        const uint32_t left = rows - batch->rows;
        const uint32_t run =
            rows > SEQUENCES ? rows : 1 + (uint32_t)rng_below(rng, left < 3 ? left : 3);
        const uint32_t first =
            (is_long && batch->rows == 0 ? FIRST_LONG : 0) + (uint32_t)rng_below(rng, 40);
        sequence = (sequence + 1) % SEQUENCES;
        for (uint32_t i = 0; i < run; i++) {
            const uint32_t row = batch->rows++;
            batch->tokens[row] = (uint32_t)rng_below(rng, VOCAB);
            batch->sequence[row] = sequence;
            batch->position[row] = first + i;
            if (wants == 1 || (wants == 2 && i + 1 == run))
                batch->logit_row[batch->logit_rows++] = row;
        }
    }
}

static void run_step(struct side *side, const struct batch *batch)
{
    const struct model_batch asked = {.rows = batch->rows,
                                      .tokens = batch->tokens,
                                      .kv = {.layout = &side->layout,
                                             .pages = side->pages,
                                             .sequence = batch->sequence,
                                             .position = batch->position,
                                             .page_tables = page_tables},
                                      .logit_rows = batch->logit_rows,
                                      .logit_row = batch->logit_row};
    const float *logits = model_forward(side->model, &asked);
    CHECK(logits != NULL);
    CHECK(kernels_step_end(side->kernels) == STATUS_OK);
    CHECK(kernels_download(side->kernels, side->logits, logits,
                           batch->logit_rows * VOCAB * sizeof *logits) == STATUS_OK);
}

static void check_pages(const struct side *a, const struct side *b)
{
    const size_t bytes = PAGES * a->layout.page_bytes;
    char *of_a = malloc(bytes);
    char *of_b = malloc(bytes);
    CHECK(of_a != NULL && of_b != NULL);
    CHECK(kernels_download(a->kernels, of_a, a->pages, bytes) == STATUS_OK);
    CHECK(kernels_download(b->kernels, of_b, b->pages, bytes) == STATUS_OK);
    CHECK(memcmp(of_a, of_b, bytes) == 0);
    free(of_a);
    free(of_b);
}

#if BANYAN_SIMT
/* Checks what one step requests of the runtime: one copy of its arrays, then launches or a graph.
 * It waits at its end only, and takes memory only for a graph when that is captured. */
static void check_calls(struct side *side, const struct batch *batch)
{
    const struct cuda_graphs before = *graphs_of(side);
    const struct simt_counts calls = simt_counts;
    run_step(side, batch);
    const bool is_captured = graphs_of(side)->captured > before.captured;
    const bool is_replayed = graphs_of(side)->replayed > before.replayed;
    const uint64_t downloads = batch->logit_rows > 0;
    CHECK(simt_counts.copies - calls.copies == 1 + downloads);
    CHECK(simt_counts.waits - calls.waits == 2); /* the step's end, and the download's */
    CHECK(simt_counts.allocations == calls.allocations);
    CHECK(simt_counts.events - calls.events == 1);
    CHECK((simt_counts.launches == calls.launches) == (is_replayed && !is_captured));
    CHECK(simt_counts.graphs - calls.graphs == is_replayed);
    CHECK((simt_counts.captures == calls.captures) == !is_captured);
}

/* More batches of copies than there are events: requesting one more does not wait. */
static void check_copies(struct side *side)
{
    enum { BATCHES = 100 };
    const uint32_t page = 0;
    const size_t bytes = side->layout.page_bytes;
    void *host = kernels_host_create(side->kernels, bytes);
    const struct pages_copy_args args = {host, side->pages, &page, &page, 1, bytes};
    const uint64_t waits = simt_counts.waits;
    CHECK(host != NULL);
    for (uint64_t batch = 1; batch <= BATCHES; batch++)
        CHECK(kernels_pages_copy(side->kernels, &args) == batch);
    kernels_pages_wait(side->kernels, 1);
    CHECK(simt_counts.waits == waits);
    CHECK(kernels_pages_ended(side->kernels) == BATCHES);
    CHECK(kernels_pages_end(side->kernels) == STATUS_OK);
    kernels_host_destroy(side->kernels, host);
}
#else
static void check_calls(struct side *side, const struct batch *batch)
{
    run_step(side, batch);
}

static void check_copies(struct side *side)
{
    (void)side;
}
#endif

/* There are graphs of few rows, of as many as there may be logits, and of many. */
static void check_buckets(const struct cuda_graphs *graphs)
{
    for (size_t b = 0; b < sizeof BUCKETS / sizeof *BUCKETS; b++) {
        uint32_t found = 0;
        for (uint32_t i = 0; i < graphs->count; i++)
            found += graphs->graphs[i].launches != NULL && graphs->graphs[i].key.rows == BUCKETS[b];
        CHECK(found > 0);
    }
}

static void check_steps(const struct gguf *gguf)
{
    static struct side eager;
    static struct side graphed;
    static struct batch batch;
    struct rng rng = {.seed = 31};
    open_side(&eager, gguf);
    open_side(&graphed, gguf);
    cuda_graph_set(eager.kernels->device, false);
    for (uint32_t i = 0; i < STEPS + STEPS_LARGE; i++) {
        const uint32_t bucket = BUCKETS[i % BUCKETS_FEW];
        uint32_t rows = bucket - (uint32_t)rng_below(&rng, (bucket + 1) / 2);
        if (i >= STEPS)
            rows = i + 1 == STEPS + STEPS_LARGE ? ROWS_MAX : 65 + 3 * (i - STEPS);
        if (i % 16 == 0)
            place_pages(&rng);
        make_batch(&batch, &rng, rows, i < STEPS ? i / BUCKETS_FEW % 3 : 0,
                   i < STEPS && i % 4 == 0);
        run_step(&eager, &batch);
        check_calls(&graphed, &batch);
        CHECK(memcmp(eager.logits, graphed.logits, batch.logit_rows * VOCAB * sizeof(float)) == 0);
    }
    check_pages(&eager, &graphed);
    check_copies(&eager);
    const struct cuda_graphs *graphs = graphs_of(&graphed);
    CHECK(!graphs->is_off);
    CHECK(graphs_of(&eager)->replayed == 0);
    CHECK(graphs->captured > 10);
    CHECK(graphs->replayed > STEPS / 3);
    check_buckets(graphs);
    printf("%d steps, %llu of them from %llu graphs: equal bits\n", STEPS + STEPS_LARGE,
           (unsigned long long)graphs->replayed, (unsigned long long)graphs->captured);
    close_side(&eager);
    close_side(&graphed);
}

/* More query heads over a KV head than a block of attention takes are refused at load. */
static void check_heads(struct llama_shape shape)
{
    struct model_config config;
    struct kernels *kernels;
    struct model *model = NULL;
    shape.heads = ATTENTION_DEVICE_HEADS + 1;
    shape.kv_heads = 1;
    struct gguf *gguf = make_file(&shape);
    CHECK(model_config_read(&config, &(struct model_source){.gguf = gguf}) == STATUS_OK);
    CHECK(kernels_create(&kernels, &(struct kernels_options){
                                       .isa = "cuda",
                                       .threads = 1,
                                       .rows_max = 1,
                                       .cols_max = model_cols_max(&config)}) == STATUS_OK);
    CHECK(model_open(&model, kernels, &(struct model_source){.gguf = gguf}, 1, 1) ==
          STATUS_UNSUPPORTED);
    CHECK(strstr(status_note()->message, "65 query heads") != NULL);
    kernels_destroy(kernels);
    gguf_close(gguf);
}

int main(void)
{
    struct llama_shape shape = llama_file_shape();
    shape.type = TENSOR_TYPE_f16;
    shape.vocab = VOCAB;
    shape.context = TOKENS;
    if (cuda_ops.count() == 0)
        return gpu_device_missing();
    check_heads(shape);
    struct gguf *gguf = make_file(&shape);
    check_steps(gguf);
    gguf_close(gguf);
    return 0;
}
