/* gpu_faults: the one error path of kernels/cuda: the runtime fails at its n-th call, for every n,
 * and memory is short. Over tests/kit/simt alone, which can fail on demand. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/cuda/cuda_draw.h"
#include "kernels/cuda/cuda_ops.h"

/* tests/kit/simt */
extern int simt_calls_left;
extern int simt_error;
extern size_t simt_memory_bytes;

enum { ROWS = 3, COLS = 64, VOCAB = 40 };

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "line %d: %s\n", __LINE__, #condition);                                \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

static const struct cuda_backend_options OPTIONS = {
    .rows_max = 8, .cols_max = COLS, .tables_max = 16, .split_bytes = 1 << 16};

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

/* Some operations of a step; each may be called after a failure. */
static enum status run_step(struct bed *bed)
{
    static const uint32_t sequence[ROWS] = {0, 0, 1};
    static const uint32_t position[ROWS] = {15, 16, 0};
    static const uint32_t table[2] = {0, 1};
    static const uint32_t *const tables[2] = {table, table};
    static const uint32_t swapped[2] = {1, 0};
    struct cuda_backend *backend = bed->backend;
    const struct kv_rows kv = {.layout = &bed->layout,
                               .pages = bed->pages,
                               .sequence = sequence,
                               .position = position,
                               .page_tables = tables};
    enum status status = cuda_backend_batch(backend, &kv, ROWS);
    if (status != STATUS_OK)
        return status;
    cuda_rmsnorm(backend, &(struct rmsnorm_args){bed->x, bed->x, bed->x, ROWS, COLS, 1e-5f});
    cuda_linear(
        backend,
        &(struct linear_args){
            .x = bed->x, .rows = ROWS, .count = 1, .weights = {&bed->weight}, .y = {bed->y}});
    cuda_kv_write(backend, &(struct kv_write_args){bed->x, bed->x, ROWS, 0, kv, {NULL}});
    cuda_attention(
        backend,
        &(struct attention_args){
            .q = bed->x, .out = bed->y, .rows = ROWS, .heads = 4, .scale = 0.25f, .kv = kv});
    cuda_pages_copy(backend, &(struct pages_copy_args){bed->pinned, bed->pages, swapped, table, 2,
                                                       bed->layout.page_bytes});
    cuda_pages_wait(backend);
    static const struct draw draws[ROWS] = {{.row = 0}, {.row = 1, .temperature = 1}, {.row = 2}};
    struct draw_result out[ROWS];
    status = cuda_draw_run(bed->draw, &(struct draw_args){bed->y, draws, ROWS, NULL, out});
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
    TRY(cuda_kv_layout(KV_TYPE_F16, 16, 1, 4, 16, &bed->layout));
    TRY(cuda_backend_open(&bed->backend, &OPTIONS));
    TRY(cuda_backend_weight_create(bed->backend, &bed->weight, &tensor));
    TRY(cuda_backend_alloc(bed->backend, &bed->pages, 2 * bed->layout.page_bytes, "pages"));
    TRY(cuda_backend_alloc_host(bed->backend, &bed->pinned, 2 * bed->layout.page_bytes, "pages"));
    TRY(cuda_draw_open(bed->backend, &bed->draw, VOCAB));
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

/* The device is lost at the n-th call: told once and again, nothing runs behind it, all is
 * freed. */
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
        CHECK(strstr(status_note()->message, "no device memory for ") != NULL);
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

/* Too long tables are refused by number, and the next batch is well. */
static void check_tables(void)
{
    static const uint32_t none = 0;
    static const uint32_t far = 16 * 16;
    static const uint32_t table[17];
    static const uint32_t *const tables[1] = {table};
    struct bed bed = {0};
    CHECK(run_open(&bed) == STATUS_OK);
    const struct kv_rows kv = {.layout = &bed.layout,
                               .pages = bed.pages,
                               .sequence = &none,
                               .position = &far,
                               .page_tables = tables};
    CHECK(cuda_backend_batch(bed.backend, &kv, 1) == STATUS_LIMIT);
    CHECK(run_step(&bed) == STATUS_OK);
    close_bed(&bed);
}

int main(void)
{
    check_lost_device();
    check_no_memory();
    check_tables();
    return 0;
}
