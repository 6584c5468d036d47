/* bench_linear: linear layers alone, by matrix shape and number of rows.
 *
 * usage: bench_linear [TYPE [threads [isa [ROWS]]]]
 *        defaults: q4_1, one thread for each processor, auto, all numbers of rows
 *
 * Each shape gets enough matrices to fill 64 MiB, which are used one after another, so that weights
 * come from memory as those of a model do. A shape whose rows are not whole blocks of the type is
 * left out. The time includes rounding of the inputs. Figures are the best of several passes, since
 * other processes can only make them worse: microseconds for a matrix, and its share of the
 * machine's integer multiply-adds (for float weights: float32 ones) and of its rate of reading 64
 * MiB, each the highest so far. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>

#include "config/base/rng.h"
#include "kernels/kernels_measure.h"

enum { ROWS_MAX = 512, COLS_MAX = 5632, MATRICES_MAX = 512, REPEAT = 7, TYPES = 31 };
enum { MOMENTS = 3 }; /* measurements of the ceilings, before each shape */

#define MATRICES_BYTES  ((size_t)64 << 20)
#define PASS_OPERATIONS 4e10 /* of one pass: some tens of milliseconds */

struct shape {
    uint32_t cols;
    uint32_t outputs;
};

/* The shapes of SmolLM2-135M, then of a 1.1B Llama. */
static const struct shape shapes[] = {{576, 576},   {576, 192},   {576, 1536},  {1536, 576},
                                      {576, 49152}, {2048, 2048}, {2048, 5632}, {5632, 2048}};
static const uint32_t row_counts[] = {512, 64, 24, 17, 16, 8, 4, 2, 1};

struct scene {
    struct kernels *kernels;
    const struct tensor_type_info *type;
    struct kernels_ceilings ceilings;
    struct weight weights[MATRICES_MAX];
    uint32_t count;
    float *x;
    float *y;
};

static double now_us(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec * 1e6 + (double)time.tv_nsec / 1e3;
}

static void *memory(size_t bytes)
{
    void *out = malloc(bytes);
    if (out == NULL) {
        fprintf(stderr, "bench_linear: no memory for %zu bytes\n", bytes);
        exit(1);
    }
    return out;
}

static void fail(void)
{
    fprintf(stderr, "bench_linear: %s\n", status_note()->message);
    exit(1);
}

static void scene_open(struct scene *scene, int count, char **arguments)
{
    const char *type = count > 1 ? arguments[1] : "q4_1";
    const struct kernels_options options = {
        .isa = count > 3 ? arguments[3] : "auto",
        .threads = count > 2 ? (uint32_t)strtoul(arguments[2], NULL, 10) : 0,
        .rows_max = ROWS_MAX,
        .cols_max = COLS_MAX};
    for (uint32_t id = 0; id < TYPES && scene->type == NULL; id++)
        if (tensor_type_info(id) != NULL && strcasecmp(tensor_type_info(id)->name, type) == 0)
            scene->type = tensor_type_info(id);
    if (scene->type == NULL) {
        fprintf(stderr, "bench_linear: no weight type %s\n", type);
        exit(2);
    }
    if (kernels_create(&scene->kernels, &options) != STATUS_OK)
        fail();
    struct rng rng = {.seed = 1};
    scene->x = memory((size_t)ROWS_MAX * COLS_MAX * sizeof *scene->x);
    for (size_t i = 0; i < (size_t)ROWS_MAX * COLS_MAX; i++)
        scene->x[i] = (float)rng_unit(rng_next(&rng)) * 2 - 1;
}

/* Fills matrices with bytes of at most 63, so that no half or bfloat16 among them exceeds 2. */
static void scene_matrices(struct scene *scene, const struct shape *shape)
{
    struct rng rng = {.seed = 2};
    const struct tensor_type_info *type = scene->type;
    const size_t bytes =
        (size_t)shape->outputs * shape->cols / type->block_elements * type->block_bytes;
    unsigned char *data = memory(bytes);
    for (size_t i = 0; i < bytes; i++)
        data[i] = (unsigned char)rng_next(&rng) & 63;
    const struct tensor tensor = {.type = type,
                                  .dim_count = 2,
                                  .dims = {shape->cols, shape->outputs, 1, 1},
                                  .data = data,
                                  .bytes = bytes};
    scene->count = (uint32_t)((MATRICES_BYTES + bytes - 1) / bytes);
    if (scene->count > MATRICES_MAX)
        scene->count = MATRICES_MAX;
    for (uint32_t i = 0; i < scene->count; i++)
        if (kernels_weight_create(scene->kernels, &scene->weights[i], &tensor) != STATUS_OK)
            fail();
    free(data);
    scene->y = memory((size_t)ROWS_MAX * shape->outputs * sizeof *scene->y);
    memset(scene->y, 0, (size_t)ROWS_MAX * shape->outputs * sizeof *scene->y);
}

static void scene_free(struct scene *scene)
{
    for (uint32_t i = 0; i < scene->count; i++)
        kernels_weight_destroy(scene->kernels, &scene->weights[i]);
    free(scene->y);
}

/* Measures and prints the ceilings: the highest so far. Later lines are relative to these. */
static void ceilings(struct scene *scene)
{
    for (int moment = 0; moment < MOMENTS; moment++)
        if (kernels_measure_ceilings(scene->kernels, MATRICES_BYTES, &scene->ceilings) != STATUS_OK)
            fail();
    printf("ceilings: int8 %.0f GOP/s, f32 %.0f GFLOP/s, reading %.1f GB/s\n",
           scene->ceilings.int8_gops, scene->ceilings.f32_gflops, scene->ceilings.read_gbps_model);
}

static void measure(struct scene *scene, const struct shape *shape, uint32_t rows)
{
    const double operations = 2.0 * shape->cols * shape->outputs * rows;
    const double ceiling =
        scene->type->take != NULL ? scene->ceilings.int8_gops : scene->ceilings.f32_gflops;
    uint32_t count = scene->count;
    double us = 0;
    if (count * operations > PASS_OPERATIONS)
        count = (uint32_t)(PASS_OPERATIONS / operations) + 1;
    for (int pass = 0; pass < REPEAT; pass++) {
        double start = now_us();
        for (uint32_t i = 0; i < count; i++)
            kernels_linear(scene->kernels, &(struct linear_args){.x = scene->x,
                                                                 .rows = rows,
                                                                 .count = 1,
                                                                 .weights = {&scene->weights[i]},
                                                                 .y = {scene->y}});
        double took = (now_us() - start) / count;
        us = pass == 0 || took < us ? took : us;
    }
    printf("%5u x %5u, %3u rows %10.1f us %5.1f %% of arithmetic %5.1f %% of reading\n",
           shape->cols, shape->outputs, rows, us, operations / us / ceiling / 10,
           (double)scene->weights[0].packed_bytes / us / scene->ceilings.read_gbps_model / 10);
}

int main(int argc, char **argv)
{
    static struct scene scene;
    const uint32_t only = argc > 4 ? (uint32_t)strtoul(argv[4], NULL, 10) : 0;
    if (only > ROWS_MAX) {
        fprintf(stderr, "bench_linear: at most %d rows\n", ROWS_MAX);
        return 2;
    }
    scene_open(&scene, argc, argv);
    printf("%s, %s, %u threads, bf16 by %s\n", scene.type->name, kernels_isa(scene.kernels),
           kernels_threads(scene.kernels),
           kernels_has_dots(scene.kernels) ? "dot products" : "multiply-adds");
    for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++) {
        if (shapes[s].cols % scene.type->block_elements != 0)
            continue;
        scene_matrices(&scene, &shapes[s]);
        ceilings(&scene);
        for (size_t r = 0; r < sizeof row_counts / sizeof *row_counts; r++)
            if (only == 0 || only == row_counts[r])
                measure(&scene, &shapes[s], row_counts[r]);
        scene_free(&scene);
    }
    free(scene.x);
    kernels_destroy(scene.kernels);
    return 0;
}
