/* gpu_faults: the error path of kernels/cuda: the runtime fails at its n-th call, for every n, and
 * memory is too small. Over tests/kit/simt only, which can fail on demand. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config/base/log.h"
#include "kernels/cuda/cuda_ceilings.h"
#include "kernels/cuda/cuda_draw.h"
#include "kernels/cuda/cuda_graph.h"
#include "kernels/cuda/cuda_ops.h"
#include "kernels/cuda/cuda_step.h"
#include "kernels/kernels.h"
#include "kernels/ranks.h"
#include "tests/gpu/gpu_check.h"
#include "tests/kit/simt/simt.h"

enum { ROWS = 3, COLS = 64, VOCAB = 40 };
enum { WIDE_DIM = 256, WIDE_ROWS = 12, WIDE_KEYS = 300, WIDE_PAGES = (WIDE_KEYS + 15) / 16 };

static const struct cuda_backend_options OPTIONS = {
    .rows_max = 8, .cols_max = COLS, .tables_max = 20, .split_bytes = 1 << 16};

static struct kernels_trial trial; /* of beds opened from now on */

struct bed {
    struct cuda_backend *backend;
    struct weight weight;
    struct kv_layout layout;
    void *pages;
    void *pinned;
    struct cuda_draw *draw;
    float *x;
    float *y;
};

/* Returns rows over the bed's pages. */
static struct kv_rows rows_of(const struct bed *bed, const uint32_t *sequence,
                              const uint32_t *position, const uint32_t *const *tables)
{
    return (struct kv_rows){.layout = &bed->layout,
                            .pages = bed->pages,
                            .sequence = sequence,
                            .position = position,
                            .page_tables = tables};
}

/* Runs some operations of a step; each may be called after a failure. */
static enum status run_step(struct bed *bed)
{
    static const uint32_t sequence[ROWS] = {0, 0, 1};
    static const uint32_t position[ROWS] = {15, 16, 0};
    static const uint32_t table[2] = {0, 1};
    static const uint32_t *const tables[2] = {table, table};
    static const uint32_t swapped[2] = {1, 0};
    struct cuda_backend *backend = bed->backend;
    const struct kv_rows kv = rows_of(bed, sequence, position, tables);
    enum status status = cuda_backend_batch(backend, &kv, ROWS, 4, 0, NULL);
    if (status != STATUS_OK)
        return status;
    cuda_norm(backend, &(struct norm_args){.x = bed->x,
                                           .weight = bed->x,
                                           .y = bed->x,
                                           .rows = ROWS,
                                           .cols = COLS,
                                           .epsilon = 1e-5f});
    cuda_linear(
        backend,
        &(struct linear_args){
            .x = bed->x, .rows = ROWS, .count = 1, .weights = {&bed->weight}, .y = {bed->y}});
    cuda_kv_write(backend, &(struct kv_write_args){bed->x, bed->x, ROWS, 0, 0, kv, {NULL}});
    cuda_attention(
        backend,
        &(struct attention_args){
            .q = bed->x, .out = bed->y, .rows = ROWS, .heads = 4, .scale = 0.25f, .kv = kv});
    cuda_pages_copy(backend, &(struct pages_copy_args){bed->pinned, bed->pages, swapped, table, 2,
                                                       bed->layout.page_bytes});
    cuda_pages_wait(backend);
    static const struct draw draws[ROWS] = {
        {.row = 0}, {.row = 1, .temperature = 1}, {.row = 2, .adjust_first = 7, .bias_count = 1}};
    static const struct draw_change change = {7, {3, 1}};
    struct draw_result out[ROWS];
    status = cuda_draw_run(bed->draw, &(struct draw_args){bed->y, draws, ROWS, &change, 1, out});
    for (uint32_t i = 0; status == STATUS_OK && i < ROWS; i++)
        CHECK(out[i].token < VOCAB);
    return status;
}

static enum status run_open(struct bed *bed)
{
    static float data[VOCAB * COLS];
    const struct tensor tensor = {.type = tensor_type_info(TENSOR_TYPE_f16),
                                  .dim_count = 2,
                                  .dims = {COLS, VOCAB, 1, 1},
                                  .data = data,
                                  .bytes = VOCAB * COLS * 2};
    const size_t bytes = 8 * COLS * sizeof(float);
    struct cuda_backend_options options = OPTIONS;
    options.trial = trial;
    TRY(cuda_kv_layout(KV_TYPE_F16, 16, 1, 4, 16, &bed->layout));
    TRY(cuda_backend_open(&bed->backend, &options));
    TRY(cuda_backend_weight_create(bed->backend, &bed->weight, &tensor));
    TRY(cuda_backend_alloc(bed->backend, &bed->pages, 2 * bed->layout.page_bytes, "pages"));
    TRY(cuda_backend_alloc_host(bed->backend, &bed->pinned, 2 * bed->layout.page_bytes, "pages"));
    TRY(cuda_draw_open(bed->backend, &bed->draw, VOCAB, 16));
    TRY(cuda_backend_alloc(bed->backend, (void **)&bed->x, bytes, "x"));
    TRY(cuda_backend_alloc(bed->backend, (void **)&bed->y, bytes, "y"));
    cuda_backend_upload(bed->backend, bed->x, data, bytes);
    return cuda_backend_end(bed->backend);
}

static void close_bed(struct bed *bed)
{
    if (bed->backend != NULL) {
        cuda_backend_weight_destroy(bed->backend, &bed->weight);
        cuda_backend_free(bed->backend, bed->pages);
        cuda_backend_free_host(bed->backend, bed->pinned);
        cuda_draw_close(bed->draw);
        cuda_backend_free(bed->backend, bed->x);
        cuda_backend_free(bed->backend, bed->y);
    }
    cuda_backend_close(bed->backend);
    *bed = (struct bed){0};
}

/* The device is lost at the n-th call: each later call reports it, nothing runs afterwards, and
 * everything is freed. */
static void check_lost_device(void)
{
    struct bed bed = {0};
    int n = 0;
    int in_step = 0;
    for (enum status status = STATUS_UNAVAILABLE; status != STATUS_OK; n++) {
        simt_calls_left = n;
        status = run_open(&bed);
        const bool is_open = status == STATUS_OK;
        if (is_open)
            status = run_step(&bed);
        if (status != STATUS_OK) {
            CHECK(status == STATUS_UNAVAILABLE);
            CHECK(!is_open || strstr(status_note()->message, "CUDA device 0: ") != NULL);
            CHECK(!is_open || strstr(status_note()->message, "launch failure") != NULL);
            in_step += is_open;
            if (is_open)
                CHECK(run_step(&bed) == STATUS_UNAVAILABLE); /* and stays lost */
        }
        simt_calls_left = -1;
        simt_error = 0;
        close_bed(&bed);
        CHECK(n < 1000);
    }
    CHECK(in_step > 10);
    printf("a lost device: %d places, %d of them in a step\n", n - 1, in_step);
}

static void check_no_memory(void)
{
    const size_t all = simt_memory_bytes;
    struct bed bed = {0};
    int refused = 0;
    for (simt_memory_bytes = 0; run_open(&bed) != STATUS_OK;
         simt_memory_bytes += 2048 + simt_memory_bytes / 16) {
        CHECK(status_note()->status == STATUS_NO_MEMORY);
        CHECK(strstr(status_note()->message, "no memory for ") != NULL);
        CHECK(strstr(status_note()->message, " are free") != NULL);
        close_bed(&bed);
        refused++;
    }
    CHECK(refused > 10);
    CHECK(run_step(&bed) == STATUS_OK);
    close_bed(&bed);
    simt_memory_bytes = all;
    printf("short memory: %d sizes refused\n", refused);
}

/* Page tables that are too long are refused with their number, and the next batch works. */
static void check_tables(void)
{
    static const uint32_t none = 0;
    static const uint32_t far = 16 * 20;
    static const uint32_t table[21];
    static const uint32_t *const tables[1] = {table};
    struct bed bed = {0};
    CHECK(run_open(&bed) == STATUS_OK);
    const struct kv_rows kv = rows_of(&bed, &none, &far, tables);
    CHECK(cuda_backend_batch(bed.backend, &kv, 1, 4, 0, NULL) == STATUS_LIMIT);
    CHECK(run_step(&bed) == STATUS_OK);
    close_bed(&bed);
}

/* All kernels of attention and of linear layers are launched early, and wait. */
static void check_early(void)
{
    static const uint32_t none = 0;
    static const uint32_t position = CUDA_PLAN_SEGMENT; /* two segments, which are folded */
    static const uint32_t table[CUDA_PLAN_SEGMENT / 16 + 1];
    static const uint32_t *const tables[1] = {table};
    struct bed bed = {0};
    CHECK(run_open(&bed) == STATUS_OK);
    const struct kv_rows kv = rows_of(&bed, &none, &position, tables);
    const struct simt_counts before = simt_counts;
    CHECK(cuda_backend_batch(bed.backend, &kv, 1, 4, 0, NULL) == STATUS_OK);
    cuda_kv_write(bed.backend, &(struct kv_write_args){bed.x, bed.x, 1, 0, 0, kv, {NULL}});
    cuda_attention(bed.backend,
                   &(struct attention_args){
                       .q = bed.x, .out = bed.y, .rows = 1, .heads = 4, .scale = 0.25f, .kv = kv});
    cuda_linear(bed.backend,
                &(struct linear_args){
                    .x = bed.x, .rows = 1, .count = 1, .weights = {&bed.weight}, .y = {bed.y}});
    CHECK(cuda_backend_end(bed.backend) == STATUS_OK);
    CHECK(simt_counts.launches - before.launches == 5);
    CHECK(simt_counts.early - before.early == 5);
    close_bed(&bed);
}

/* A device with less shared memory: pages whose blocks would not fit are refused by name. */
static void check_shared_memory(void)
{
    static const enum kv_type types[] = {KV_TYPE_F16, KV_TYPE_BF16, KV_TYPE_I8, KV_TYPE_FP8};
    const size_t most = simt_shared_most;
    struct bed bed = {0};
    simt_shared_most = 99 << 10; /* sm_86, sm_89 */
    CHECK(run_open(&bed) == STATUS_OK);
    for (uint32_t head_dim = 16; head_dim <= 256; head_dim += 16)
        for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
            struct kv_layout layout;
            const bool has_codes = types[i] == KV_TYPE_I8 || types[i] == KV_TYPE_FP8;
            CHECK(cuda_kv_layout(types[i], 16, 1, 4, head_dim, &layout) == STATUS_OK);
            CHECK(cuda_attention_fits(bed.backend, &layout) ==
                  (has_codes && head_dim > 128 ? STATUS_UNSUPPORTED : STATUS_OK));
        }
    CHECK(strstr(status_note()->message, "108544 bytes") != NULL);
    close_bed(&bed);
    simt_shared_most = most;
}

/* Computes the last rows of one text of 300 keys over heads of 256 dimensions. Of more than six
 * rows, not all see the infinite value. */
static void wide_attention(uint32_t rows, float *out)
{
    static const struct cuda_backend_options options = {
        .rows_max = WIDE_ROWS, .cols_max = COLS, .tables_max = WIDE_PAGES, .split_bytes = 1 << 20};
    static uint16_t halves[WIDE_PAGES][2][16 * WIDE_DIM];
    static float q[WIDE_ROWS * 2 * WIDE_DIM];
    static const uint32_t sequence[WIDE_ROWS];
    uint32_t position[WIDE_ROWS];
    uint32_t table[WIDE_PAGES];
    const uint32_t *const tables[1] = {table};
    const size_t bytes = rows * 2 * WIDE_DIM * sizeof *q;
    struct bed bed = {0};
    for (uint32_t i = 0; i < sizeof halves / sizeof(uint16_t); i++)
        ((uint16_t *)halves)[i] = (uint16_t)(0x3000 + i * 7919 % 0xc00 + (i % 3 == 0 ? 0x8000 : 0));
    halves[WIDE_PAGES - 1][1][3 * 16 + 6] = 0x7c00; /* dimension 3 of key 294 */
    for (uint32_t i = 0; i < rows * 2 * WIDE_DIM; i++)
        q[i] = (float)(i * 37 % 64) / 32 - 1;
    for (uint32_t r = 0; r < rows; r++)
        position[r] = WIDE_KEYS - rows + r;
    for (uint32_t p = 0; p < WIDE_PAGES; p++)
        table[p] = p;
    CHECK(cuda_kv_layout(KV_TYPE_F16, 16, 1, 1, WIDE_DIM, &bed.layout) == STATUS_OK);
    CHECK(bed.layout.page_bytes == sizeof halves[0]);
    CHECK(cuda_backend_open(&bed.backend, &options) == STATUS_OK);
    CHECK(cuda_backend_alloc(bed.backend, &bed.pages, sizeof halves, "pages") == STATUS_OK);
    CHECK(cuda_backend_alloc(bed.backend, (void **)&bed.x, bytes, "x") == STATUS_OK);
    CHECK(cuda_backend_alloc(bed.backend, (void **)&bed.y, bytes, "y") == STATUS_OK);
    cuda_backend_upload(bed.backend, bed.pages, halves, sizeof halves);
    cuda_backend_upload(bed.backend, bed.x, q, bytes);
    const struct kv_rows kv = rows_of(&bed, sequence, position, tables);
    CHECK(cuda_backend_batch(bed.backend, &kv, rows, 2, 0, NULL) == STATUS_OK);
    cuda_attention(
        bed.backend,
        &(struct attention_args){
            .q = bed.x, .out = bed.y, .rows = rows, .heads = 2, .scale = 0.0625f, .kv = kv});
    CHECK(cuda_backend_download(bed.backend, out, bed.y, bytes) == STATUS_OK);
    close_bed(&bed);
}

/* A block without room for two stages of keys and values (145,920 bytes) uses one: equal bits, for
 * few queries and for more. */
static void check_one_stage(void)
{
    static float want[WIDE_ROWS * 2 * WIDE_DIM];
    static float got[WIDE_ROWS * 2 * WIDE_DIM];
    const size_t most = simt_shared_most;
    for (uint32_t rows = 1; rows <= WIDE_ROWS; rows += WIDE_ROWS - 1) {
        wide_attention(rows, want);
        simt_shared_most = 99 << 10;
        wide_attention(rows, got);
        simt_shared_most = most;
        CHECK(memcmp(got, want, rows * 2 * WIDE_DIM * sizeof *want) == 0);
    }
    CHECK(isfinite(want[3]));
    CHECK(!isfinite(want[(WIDE_ROWS - 1) * 2 * WIDE_DIM + 3]));
}

/* A device named by the user is refused with these words. If none is named, the processor computes
 * instead, unless there are ranks. */
static void check_left_out(const char *words)
{
    struct ranks *ranks;
    struct kernels *kernels = NULL;
    struct cuda_backend *backend;
    struct kernels_options options = {.isa = "cuda", .threads = 1, .rows_max = 1, .cols_max = 64};
    CHECK(cuda_backend_open(&backend, &OPTIONS) == STATUS_UNSUPPORTED);
    CHECK(strstr(status_note()->message, words) != NULL);
    CHECK(kernels_create(&kernels, &options) == STATUS_UNSUPPORTED);
    CHECK(ranks_create(&ranks, 2) == STATUS_OK);
    options.isa = "auto";
    options.ranks = ranks;
    CHECK(kernels_create(&kernels, &options) == STATUS_UNSUPPORTED);
    ranks_destroy(ranks);
    options.ranks = NULL;
    CHECK(kernels_create(&kernels, &options) == STATUS_OK);
    CHECK(!kernels_is_device(kernels));
    kernels_destroy(kernels);
}

/* The build has no code for the device, or the device is too old beside another one. */
static void check_no_code(void)
{
    simt_has_code = 0;
    check_left_out("no kernel image");
    simt_has_code = 1;
    simt_devices = 2;
    simt_old_devices = 1;
    check_left_out("compute capability 7.5");
    simt_devices = 1;
    simt_old_devices = 0;
}

/* --- graphs --- */

static void forward_norm(void *context)
{
    const struct bed *bed = context;
    cuda_norm(
        bed->backend,
        &(struct norm_args){
            .x = bed->x, .weight = bed->x, .y = bed->y, .rows = 1, .cols = COLS, .epsilon = 1e-5f});
}

static void forward(void *context)
{
    const struct bed *bed = context;
    const uint32_t rows = cuda_step_rows(bed->backend, ROWS);
    const struct kv_rows kv = {.layout = &bed->layout, .pages = bed->pages};
    cuda_norm(bed->backend, &(struct norm_args){.x = bed->x,
                                                .weight = bed->x,
                                                .y = bed->y,
                                                .rows = rows,
                                                .cols = COLS,
                                                .epsilon = 1e-5f});
    cuda_kv_write(bed->backend, &(struct kv_write_args){bed->y, bed->y, rows, 0, 0, kv, {NULL}});
    cuda_attention(
        bed->backend,
        &(struct attention_args){
            .q = bed->y, .out = bed->y, .rows = rows, .heads = 4, .scale = 0.25f, .kv = kv});
}

/* Runs one step, which accumulates nothing, so that each step gives the same y. */
static enum status run_graph(struct bed *bed, float *out)
{
    static const uint32_t sequence[ROWS] = {0, 0, 1};
    static const uint32_t position[ROWS] = {15, 16, 0};
    static const uint32_t table[2] = {0, 1};
    static const uint32_t *const tables[2] = {table, table};
    const struct kernels_step step = {
        .rows = ROWS, .kv = rows_of(bed, sequence, position, tables), .heads = 4};
    TRY(cuda_step_run(bed->backend, &step, forward, bed));
    TRY(cuda_backend_end(bed->backend));
    return cuda_backend_download(bed->backend, out, bed->y, ROWS * COLS * sizeof *out);
}

/* The n-th call of the first capture fails: that step and all later ones run without graphs, with
 * equal results; nothing of the capture remains, and the log says so once. */
static void check_capture_fails(const float *want)
{
    enum { CALLS = 7 }; /* begin, three launches, end, instantiation, upload */
    char *line = NULL;
    size_t length = 0;
    size_t lines = 0;
    FILE *log = tmpfile();
    CHECK(log != NULL);
    log_open(fileno(log), LOG_WARN, "engine");
    for (int n = 0; n <= CALLS; n++) {
        struct bed bed = {0};
        float got[ROWS * COLS];
        CHECK(run_open(&bed) == STATUS_OK);
        const size_t before = simt_used_bytes;
        for (int step = 0; step < 4; step++) {
            simt_capture_calls_left = step == 1 ? n : -1;
            CHECK(run_graph(&bed, got) == STATUS_OK);
            CHECK(memcmp(got, want, sizeof got) == 0);
        }
        const struct cuda_graphs *graphs = cuda_graph_all(bed.backend);
        CHECK(graphs->is_off == (n < CALLS));
        CHECK(graphs->captured == (n == CALLS));
        CHECK(graphs->replayed == (n == CALLS ? 3 : 0));
        CHECK((simt_used_bytes == before) == (n < CALLS));
        close_bed(&bed);
        CHECK(simt_used_bytes == 0);
    }
    rewind(log);
    while (getline(&line, &length, log) > 0)
        lines += strstr(line, "\"cuda_graphs_off\"") != NULL && strstr(line, "capture") != NULL;
    CHECK(lines == CALLS);
    free(line);
    (void)fclose(log);
    log_open(2, LOG_ERROR, "engine");
    printf("a capture that fails: %d places, then eager with equal bits\n", CALLS);
}

/* A lack of memory for a graph is not a failure of the device either. */
static void check_graph_memory(const float *want)
{
    const size_t all = simt_memory_bytes;
    struct bed bed = {0};
    float got[ROWS * COLS];
    CHECK(run_open(&bed) == STATUS_OK);
    simt_memory_bytes = simt_used_bytes + SIMT_GRAPH_BYTES - 1;
    for (int step = 0; step < 3; step++) {
        CHECK(run_graph(&bed, got) == STATUS_OK);
        CHECK(memcmp(got, want, sizeof got) == 0);
    }
    CHECK(cuda_graph_all(bed.backend)->is_off);
    close_bed(&bed);
    simt_memory_bytes = all;
}

/* The device is lost at any call of four steps: without a graph, captured, replayed twice. */
static void check_graph_lost(void)
{
    int n = 0;
    for (enum status status = STATUS_UNAVAILABLE; status != STATUS_OK; n++) {
        struct bed bed = {0};
        float got[ROWS * COLS];
        CHECK(run_open(&bed) == STATUS_OK);
        simt_calls_left = n;
        status = STATUS_OK;
        for (int step = 0; step < 4 && status == STATUS_OK; step++)
            status = run_graph(&bed, got);
        if (status != STATUS_OK) {
            CHECK(status == STATUS_UNAVAILABLE);
            CHECK(strstr(status_note()->message, "launch failure") != NULL);
            CHECK(run_graph(&bed, got) == STATUS_UNAVAILABLE);
        }
        simt_calls_left = -1;
        simt_error = 0;
        close_bed(&bed);
        CHECK(n < 1000);
    }
    printf("a device lost among graphs: %d places\n", n - 1);
}

/* Measuring the ceilings between two runs leaves the steps' graphs alone. */
static void check_graphs_stay(void)
{
    struct kernels_ceilings ceilings = {0};
    struct bed bed = {0};
    float got[ROWS * COLS];
    CHECK(run_open(&bed) == STATUS_OK);
    const struct cuda_graphs *graphs = cuda_graph_all(bed.backend);
    for (int step = 0; step < 4; step++) {
        CHECK(run_graph(&bed, got) == STATUS_OK);
        CHECK(cuda_ceilings(bed.backend, 1 << 16, &ceilings) == STATUS_OK);
    }
    CHECK(graphs->captured == 1 && graphs->replayed == 3);
    CHECK(graphs->captured_bytes == graphs->bytes && graphs->bytes > 0);
    close_bed(&bed);
}

/* A trial's features are left out: no kernel is launched early, no step is captured. */
static void check_trials(const float *want)
{
    struct bed bed = {0};
    float got[ROWS * COLS];
    const uint64_t before = simt_counts.early;
    trial = (struct kernels_trial){true, true, true, true};
    CHECK(run_open(&bed) == STATUS_OK);
    for (int step = 0; step < 3; step++) {
        CHECK(run_graph(&bed, got) == STATUS_OK);
        CHECK(memcmp(got, want, sizeof got) == 0);
    }
    CHECK(simt_counts.early == before);
    CHECK(cuda_graph_all(bed.backend)->captured == 0);
    close_bed(&bed);
    trial = (struct kernels_trial){0};
}

/* 1 + 2^-10 − 1, products of one instruction: what lies below the place of truncation is lost. */
static void check_cut(void)
{
    static float data[VOCAB * COLS / 2]; /* of halves: the bed's weights are zeros, these are not */
    static const float x[COLS] = {1, 0x1p-10f, -1};
    struct bed bed = {0};
    struct weight weight;
    uint16_t *halves = (uint16_t *)data;
    halves[0] = halves[1] = halves[2] = 0x3c00;
    CHECK(run_open(&bed) == STATUS_OK);
    CHECK(cuda_backend_weight_create(bed.backend, &weight,
                                     &(struct tensor){.type = tensor_type_info(TENSOR_TYPE_f16),
                                                      .dim_count = 2,
                                                      .dims = {COLS, VOCAB, 1, 1},
                                                      .data = data,
                                                      .bytes = sizeof data}) == STATUS_OK);
    cuda_backend_upload(bed.backend, bed.x, x, sizeof x);
    for (int places = 0; places <= 24; places++) {
        float got;
        simt_cut_places = places;
        cuda_linear(bed.backend,
                    &(struct linear_args){
                        .x = bed.x, .rows = 1, .count = 1, .weights = {&weight}, .y = {bed.y}});
        CHECK(cuda_backend_download(bed.backend, &got, bed.y, sizeof got) == STATUS_OK);
        CHECK(got == (places > 0 && places < 10 ? 0 : 0x1p-10f));
    }
    simt_cut_places = 0;
    cuda_backend_weight_destroy(bed.backend, &weight);
    close_bed(&bed);
}

static void check_graphs(void)
{
    struct bed bed = {0};
    float want[ROWS * COLS];
    CHECK(run_open(&bed) == STATUS_OK);
    cuda_graph_set(bed.backend, false);
    CHECK(run_graph(&bed, want) == STATUS_OK);
    close_bed(&bed);
    check_capture_fails(want);
    check_graph_memory(want);
    check_graph_lost();
    check_graphs_stay();
    check_trials(want);
}

/* More shapes than graphs are allowed: number and memory stay within their bounds. */
static void check_many_graphs(void)
{
    struct cuda_graph_key key;
    struct bed bed = {0};
    memset(&key, 0, sizeof key);
    CHECK(run_open(&bed) == STATUS_OK);
    const size_t before = simt_used_bytes;
    const struct cuda_graphs *graphs = cuda_graph_all(bed.backend);
    CHECK(cuda_backend_batch(bed.backend, &(struct kv_rows){.layout = &bed.layout}, 0, 4, 0,
                             NULL) == STATUS_OK);
    for (uint32_t i = 0; i < 3 * LIMIT_CUDA_GRAPHS; i++) {
        key.layers = i;
        for (int use = 0; use < 2; use++)
            cuda_graph_run(bed.backend, &key, forward_norm, &bed);
        CHECK(graphs->count <= LIMIT_CUDA_GRAPHS);
        CHECK(graphs->bytes == simt_used_bytes - before);
    }
    CHECK(graphs->captured == 3 * LIMIT_CUDA_GRAPHS);
    CHECK(graphs->count == LIMIT_CUDA_GRAPHS);
    CHECK(cuda_backend_end(bed.backend) == STATUS_OK);
    cuda_graph_clear(bed.backend);
    CHECK(simt_used_bytes == before);
    close_bed(&bed);
}

int main(void)
{
    check_lost_device();
    check_no_memory();
    check_tables();
    check_early();
    check_shared_memory();
    check_one_stage();
    check_no_code();
    check_graphs();
    check_many_graphs();
    check_cut();
    return 0;
}
