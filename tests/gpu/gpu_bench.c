/* gpu_bench: rates of the CUDA operations at the shapes of an 8B model, beside the device's own
 * rate of copying, measured in the same run. Ends with NO_DEVICE (77) without a device.
 *
 * Each figure is the best of five runs of many calls in a row, over weights or pages that together
 * are more than the device's caches hold, but for one stream's. Bytes are those that must be read,
 * each once. What stands in pages does not change the time: they are left as they come. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config/base/clock.h"
#include "kernels/cuda/cuda_device.h"
#include "kernels/cuda/cuda_ops.h"

enum {
    NO_DEVICE = 77,
    WIDTH = 4096,
    HIDDEN = 14336,
    ROWS_MAX = 2048,
    COPIES = 8, /* of a weight, in turn */
    CALLS = 40,
    RUNS = 5,
    PAGE_TOKENS = 64,
    LAYERS = 16,
    HEADS = 32,
    KV_HEADS = 8,
    HEAD_DIM = 128,
    STREAMS_MAX = 64,
    CONTEXT = 2048
};

static struct cuda_backend *device;
static double copy_gbps;

static void must(enum status status)
{
    if (status == STATUS_OK)
        return;
    fprintf(stderr, "gpu_bench: %s\n", status_note()->message);
    exit(1);
}

static void *alloc(size_t bytes)
{
    void *out;
    must(cuda_backend_alloc(device, &out, bytes, "a benchmark's data"));
    return out;
}

/* Seconds of one call. */
static double time_of(void (*call)(const void *context, uint32_t index), const void *context)
{
    double best = 1e9;
    for (int run = 0; run <= RUNS; run++) { /* the first warms up */
        const int64_t begin = clock_mono_us(clock_system());
        for (uint32_t i = 0; i < CALLS; i++)
            call(context, i);
        must(cuda_backend_end(device));
        const double seconds = (double)(clock_mono_us(clock_system()) - begin) / 1e6 / CALLS;
        if (run > 0 && seconds < best)
            best = seconds;
    }
    return best;
}

/* --- the device's own --- */

struct copy_case {
    char *memory; /* of 2 × bytes: pages of half of it */
    size_t bytes;
};

static void copy_once(const void *context, uint32_t index)
{
    static const uint32_t first = 0;
    static const uint32_t second = 1;
    const struct copy_case *copy = context;
    const uint32_t *from = index % 2 == 0 ? &first : &second;
    const uint32_t *to = index % 2 == 0 ? &second : &first;
    cuda_pages_copy(
        device, &(struct pages_copy_args){copy->memory, copy->memory, to, from, 1, copy->bytes});
    cuda_pages_wait(device);
}

static void bench_copy(void)
{
    struct copy_case copy = {.bytes = (size_t)1 << 30};
    copy.memory = alloc(2 * copy.bytes);
    copy_gbps = 2 * (double)copy.bytes / time_of(copy_once, &copy) / 1e9;
    printf("%-52s %9.0f GB/s (read + written)\n", "device copy of 1 GiB", copy_gbps);
    cuda_backend_free(device, copy.memory);
}

static void bench_swap(void)
{
    enum { PAGES = 64 };
    const size_t bytes = (size_t)8 << 20; /* a page of 64 tokens of 8B */
    uint32_t pages[PAGES];
    void *pinned;
    char *memory = alloc(PAGES * bytes);
    must(cuda_backend_alloc_host(device, &pinned, PAGES * bytes, "pages"));
    for (uint32_t i = 0; i < PAGES; i++)
        pages[i] = i ^ 1; /* neighbours change places: no two are one copy */
    for (int out = 1; out >= 0; out--) {
        double best = 1e9;
        for (int run = 0; run < RUNS; run++) {
            const int64_t begin = clock_mono_us(clock_system());
            cuda_pages_copy(device,
                            &(struct pages_copy_args){out ? pinned : memory, out ? memory : pinned,
                                                      pages, pages, PAGES, bytes});
            cuda_pages_wait(device);
            must(cuda_backend_end(device));
            const double seconds = (double)(clock_mono_us(clock_system()) - begin) / 1e6;
            best = seconds < best ? seconds : best;
        }
        printf("%-52s %9.1f GB/s\n", out ? "pages of 8 MiB to pinned memory" : "and back",
               (double)(PAGES * bytes) / best / 1e9);
    }
    cuda_backend_free_host(device, pinned);
    cuda_backend_free(device, memory);
}

/* --- linear layers --- */

struct linear_case {
    struct weight weights[COPIES];
    float *x;
    float *y;
    uint32_t rows;
};

static void linear_once(const void *context, uint32_t index)
{
    const struct linear_case *linear = context;
    cuda_linear(device, &(struct linear_args){.x = linear->x,
                                              .rows = linear->rows,
                                              .count = 1,
                                              .weights = {&linear->weights[index % COPIES]},
                                              .y = {linear->y}});
}

static void bench_linear(uint32_t id)
{
    static const uint32_t rows[] = {1, 8, 32, 64, 512, 2048};
    const struct tensor_type_info *type = tensor_type_info(id);
    const size_t bytes = (size_t)HIDDEN * (WIDTH / type->block_elements) * type->block_bytes;
    struct tensor tensor = {
        .type = type, .dim_count = 2, .dims = {WIDTH, HIDDEN, 1, 1}, .bytes = bytes};
    struct linear_case linear = {.x = alloc((size_t)ROWS_MAX * WIDTH * sizeof(float)),
                                 .y = alloc((size_t)ROWS_MAX * HIDDEN * sizeof(float))};
    char *data = calloc(1, bytes); /* zeros: what is multiplied does not change the time */
    float *zeros = calloc((size_t)ROWS_MAX * WIDTH, sizeof *zeros);
    if (data == NULL || zeros == NULL)
        exit(1);
    tensor.data = data;
    cuda_backend_upload(device, linear.x, zeros, (size_t)ROWS_MAX * WIDTH * sizeof *zeros);
    for (int i = 0; i < COPIES; i++)
        must(cuda_backend_weight_create(device, &linear.weights[i], &tensor));
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        linear.rows = rows[i];
        const double seconds = time_of(linear_once, &linear);
        const double gbps = (double)linear.weights[0].packed_bytes / seconds / 1e9;
        printf("linear %-5s %d × %d, %4u rows %17.1f µs %8.0f GB/s (%3.0f %%) %7.1f TFLOP/s\n",
               type->name, HIDDEN, WIDTH, rows[i], seconds * 1e6, gbps, 100 * gbps / copy_gbps,
               2.0 * rows[i] * WIDTH * HIDDEN / seconds / 1e12);
    }
    for (int i = 0; i < COPIES; i++)
        cuda_backend_weight_destroy(device, &linear.weights[i]);
    cuda_backend_free(device, linear.x);
    cuda_backend_free(device, linear.y);
    free(data);
    free(zeros);
}

/* --- attention --- */

static void attention_once(const void *context, uint32_t index)
{
    struct attention_args args = *(const struct attention_args *)context;
    args.layer = index % LAYERS;
    cuda_attention(device, &args);
}

/* `rows` of `streams` texts each, the last of `keys` keys. */
static void bench_attention(uint32_t streams, uint32_t rows, uint32_t keys)
{
    const uint32_t pages_each = keys / PAGE_TOKENS;
    const uint32_t count = streams * rows;
    const size_t bytes = (size_t)count * HEADS * HEAD_DIM * sizeof(float);
    struct kv_layout layout;
    must(cuda_kv_layout(KV_TYPE_F16, PAGE_TOKENS, LAYERS, KV_HEADS, HEAD_DIM, &layout));
    uint32_t *sequence = calloc(count, sizeof *sequence);
    uint32_t *position = calloc(count, sizeof *position);
    uint32_t *table = calloc((size_t)streams * pages_each, sizeof *table);
    const uint32_t **tables = calloc(streams, sizeof *tables);
    char *zeros = calloc(1, bytes);
    if (sequence == NULL || position == NULL || table == NULL || tables == NULL || zeros == NULL)
        exit(1);
    for (uint32_t i = 0; i < streams * pages_each; i++)
        table[i] = i;
    for (uint32_t s = 0; s < streams; s++)
        tables[s] = table + (size_t)s * pages_each;
    for (uint32_t r = 0; r < count; r++) {
        sequence[r] = r / rows;
        position[r] = keys - rows + r % rows;
    }
    struct attention_args args = {.q = alloc(bytes),
                                  .out = alloc(bytes),
                                  .rows = count,
                                  .heads = HEADS,
                                  .scale = 0.0883883f,
                                  .kv = {&layout, alloc(streams * pages_each * layout.page_bytes),
                                         sequence, position, tables, NULL, NULL}};
    cuda_backend_upload(device, (void *)(uintptr_t)args.q, zeros, bytes);
    must(cuda_backend_batch(device, &args.kv, count));
    const double seconds = time_of(attention_once, &args);
    const double gbps =
        (double)streams * keys * (double)(layout.layer_bytes / PAGE_TOKENS) / seconds / 1e9;
    const double seen = (double)keys - (rows - 1) / 2.0;
    printf("attention %2u × %4u rows, %5u keys %22.1f µs %8.0f GB/s (%3.0f %%) %7.1f TFLOP/s\n",
           streams, rows, keys, seconds * 1e6, gbps, 100 * gbps / copy_gbps,
           4.0 * count * seen * HEADS * HEAD_DIM / seconds / 1e12);
    cuda_backend_free(device, (void *)(uintptr_t)args.q);
    cuda_backend_free(device, args.out);
    cuda_backend_free(device, args.kv.pages);
    free(sequence), free(position), free(table), free(tables), free(zeros);
}

int main(void)
{
    static const uint32_t types[] = {TENSOR_TYPE_bf16, TENSOR_TYPE_f16,  TENSOR_TYPE_q8_0,
                                     TENSOR_TYPE_q4_0, TENSOR_TYPE_q4_k, TENSOR_TYPE_q6_k};
    if (cuda_device_count() == 0)
        return printf("no CUDA device\n"), NO_DEVICE;
    must(cuda_backend_open(&device, &(struct cuda_backend_options){.rows_max = ROWS_MAX,
                                                                   .cols_max = WIDTH,
                                                                   .tables_max = 1 << 16,
                                                                   .split_bytes = 64 << 20}));
    bench_copy();
    bench_swap();
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        bench_linear(types[i]);
    bench_attention(1, 1, CONTEXT), bench_attention(1, 1, 16 * CONTEXT);
    bench_attention(STREAMS_MAX, 1, CONTEXT);
    bench_attention(1, CONTEXT, CONTEXT), bench_attention(1, 512, 4 * CONTEXT);
    cuda_backend_close(device);
    return 0;
}
