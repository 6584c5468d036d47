/* gpu_bench: rates of the CUDA operations at the shapes of an 8B model, beside the device's own
 * rates, measured in the same run.
 *
 * usage: gpu_bench [--tiny] [--only PART] [--json FILE] [--TRIAL…]
 *     --tiny  small shapes, each once, to see that it runs (on tests/kit/simt)
 *     --only  one part of gpu_bench.def
 *     --json  appends a line to FILE for each figure when it is measured; in a trial the figures'
 *             names begin with its words
 *     --TRIAL a word of kernels_trial: --no-early, --no-graphs, --few-stages, --carveout
 * Each figure is the best of five runs of many calls in a row. The weights or pages together exceed
 * the device's caches, except for one stream's. Bytes are those that must be read, each once. Ends
 * with 0, 1, or 77 without a device. */
#include "tests/gpu/gpu_bench.h"

#include <stdarg.h>

#include "tests/gpu/gpu_data.h"
#include "tests/gpu/gpu_device.h"

enum { CALLS = 40, RUNS = 5, ROWS_MAX = 2048, TABLES_MAX = 1 << 16 };

struct gpu_bench gpu_bench = {.rng = {.seed = 8}};
static FILE *json;
static struct kernels_trial trial;
static char trial_words[64]; /* put before every figure's name */

struct gpu_bench_shape gpu_bench_shape(void)
{
    if (gpu_bench.is_tiny)
        return (struct gpu_bench_shape){64, 128, 4, 2, 16, 1, 64};
    return (struct gpu_bench_shape){4096, 14336, 32, 8, 128, 16, ROWS_MAX};
}

void bench_must(enum status status)
{
    if (status == STATUS_OK)
        return;
    fprintf(stderr, "gpu_bench: %s\n", status_note()->message);
    exit(1);
}

void bench_figure(double value, const char *unit, const char *name, ...)
{
    char text[160];
    va_list arguments;
    const int length = snprintf(text, sizeof text, "%s", trial_words);
    va_start(arguments, name);
    vsnprintf(text + length, sizeof text - (size_t)length, name, arguments);
    va_end(arguments);
    printf("%-48s %12.2f %s\n", text, value, unit);
    fflush(stdout);
    if (json == NULL)
        return;
    fprintf(json, "{\"name\": \"%s\", \"value\": %.6g, \"unit\": \"%s\"}\n", text, value, unit);
    fflush(json);
}

void *bench_alloc(size_t bytes)
{
    enum { CHUNK = 4 << 20 };
    static uint32_t numbers[CHUNK / sizeof(uint32_t)];
    char *out;
    void *memory;
    bench_must(cuda_backend_alloc(gpu_bench.device, &memory, bytes, "a benchmark's data"));
    if (numbers[0] == 0) /* halves with exponents of 1/8 to 1/64, both in a word */
        for (size_t i = 0; i < CHUNK / sizeof *numbers; i++)
            numbers[i] = ((uint32_t)rng_next(&gpu_bench.rng) & 0x8fff8fff) | 0x20002000;
    out = memory;
    const uint32_t chunks = (uint32_t)(bytes / CHUNK);
    if (chunks > 0)
        cuda_backend_upload(gpu_bench.device, out, numbers, CHUNK);
    for (uint32_t i = 1; i < chunks; i++)
        cuda_pages_copy(gpu_bench.device,
                        &(struct pages_copy_args){out, out, &i, &(uint32_t){0}, 1, CHUNK});
    cuda_pages_wait(gpu_bench.device);
    cuda_backend_upload(gpu_bench.device, out + (size_t)chunks * CHUNK, numbers, bytes % CHUNK);
    bench_must(cuda_backend_end(gpu_bench.device));
    return memory;
}

void bench_drop(const void *memory)
{
    cuda_backend_free(gpu_bench.device, (void *)(uintptr_t)memory);
}

struct weight bench_weight(uint32_t type_id, uint32_t rows, uint32_t cols)
{
    const uint32_t group = type_id == TENSOR_TYPE_q4_1 ? 128 : 0; /* as --weights int4 makes them */
    const struct tensor_type_info *type = tensor_type_info(type_id);
    const size_t bytes = (size_t)rows * (cols / type->block_elements) * type->block_bytes;
    const size_t filled = ((size_t)1 << 20) / type->block_bytes * type->block_bytes;
    unsigned char *data = malloc(bytes > filled ? bytes : filled);
    struct weight weight;
    if (data == NULL)
        exit(1);
    gpu_data_fill(&gpu_bench.rng, type, 0.02f, filled / type->block_bytes, data);
    for (size_t at = filled; at < bytes; at += filled)
        memcpy(data + at, data, bytes - at < filled ? bytes - at : filled);
    bench_must(cuda_backend_weight_create(gpu_bench.device, &weight,
                                          &(struct tensor){.type = type,
                                                           .dim_count = 2,
                                                           .dims = {cols, rows, 1, 1},
                                                           .data = data,
                                                           .bytes = bytes,
                                                           .group = group}));
    free(data);
    return weight;
}

double bench_seconds(void)
{
    return (double)clock_mono_us(clock_system()) / 1e6;
}

double bench_time(void (*call)(const void *context, uint32_t index), const void *context)
{
    const uint32_t calls = gpu_bench.is_tiny ? 1 : CALLS;
    double best = 1e9;
    for (int run = 0; run <= (gpu_bench.is_tiny ? 1 : RUNS); run++) { /* the first run warms up */
        const double begin = bench_seconds();
        for (uint32_t i = 0; i < calls; i++)
            call(context, i);
        bench_must(cuda_backend_end(gpu_bench.device));
        const double seconds = (bench_seconds() - begin) / calls;
        if (run > 0 && seconds < best)
            best = seconds;
    }
    return best;
}

static const struct part {
    const char *name;
    void (*run)(void);
} PARTS[] = {
#define BENCH(part) {#part, gpu_bench_##part},
#include "tests/gpu/gpu_bench.def"
#undef BENCH
};

static bool run(const char *only)
{
    bool has_run = false;
    const struct gpu_bench_shape shape = gpu_bench_shape();
    bench_must(cuda_backend_open(&gpu_bench.device,
                                 &(struct cuda_backend_options){.rows_max = shape.rows_max,
                                                                .cols_max = shape.hidden,
                                                                .tables_max = TABLES_MAX,
                                                                .split_bytes = 64 << 20,
                                                                .trial = trial}));
    for (size_t i = 0; i < sizeof PARTS / sizeof *PARTS; i++)
        if (only == NULL || strcmp(only, PARTS[i].name) == 0) {
            PARTS[i].run();
            has_run = true;
        }
    cuda_backend_close(gpu_bench.device);
    return has_run;
}

/* Handles "--no-early" and the like. */
static bool take_trial(const char *option)
{
    const size_t length = strlen(trial_words);
    if (strncmp(option, "--", 2) != 0 || !kernels_trial_set(&trial, option + 2))
        return false;
    snprintf(trial_words + length, sizeof trial_words - length, "%s ", option + 2);
    return true;
}

int main(int argc, char **argv)
{
    const char *only = NULL;
    for (int i = 1; i < argc; i++)
        if (strcmp(argv[i], "--tiny") == 0)
            gpu_bench.is_tiny = true;
        else if (strcmp(argv[i], "--only") == 0 && i + 1 < argc)
            only = argv[++i];
        else if (strcmp(argv[i], "--json") == 0 && i + 1 < argc)
            json = fopen(argv[++i], "a");
        else if (!take_trial(argv[i]))
            return fprintf(stderr, "usage: gpu_bench [--tiny] [--only PART] [--json FILE] "
                                   "[--no-early] [--no-graphs] [--few-stages] [--carveout]\n"),
                   2;
    if (cuda_device_count() == 0)
        return gpu_device_missing();
    const bool has_run = run(only);
    if (json != NULL && fclose(json) != 0)
        return fprintf(stderr, "gpu_bench: the figures were not written\n"), 1;
    return has_run ? 0 : 1;
}
