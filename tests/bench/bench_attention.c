/* bench_attention: attention of a decode step, in all layers of SmolLM2-135M's shape, for streams
 * that begin with the same keys and for one stream; and attention of the last 512 tokens of a
 * prompt.
 *
 *     private  every stream has its own pages
 *     plain    shared keys are in the same pages, which each stream reads for itself
 *     grouped  the same pages are read once for all streams (attention_groups)
 *
 * usage: bench_attention [isa [threads]]     defaults: auto, one thread for each processor
 *
 * The three variants take turns. Each figure is the best of several, since other processes can only
 * make it worse. "of f32" is the share of the machine's float32 multiply-adds, counting only keys
 * that a row sees; "of reading" is the share of the machine's memory rate that the keys and values
 * take (more than 100 where they stay in a cache). Ceilings are measured again and again, and the
 * highest so far counts. Plain and grouped must give equal bits. The first line also says how much
 * of the memory is in huge pages. */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "config/base/rng.h"
#include "kernels/kernels_measure.h"
#include "kernels/types/half.h"

enum {
    LAYERS = 30,
    HEADS = 9,
    KV_HEADS = 3,
    DIM = 64,
    PAGE_TOKENS = 16,
    STREAMS_MAX = 16,
    KEYS_MAX = 1024 + 64,
    PAGES_EACH = KEYS_MAX / PAGE_TOKENS,
    LONG_KEYS = 8192, /* of one stream, which uses the pages of all */
    ROWS_MAX = 512,
    REPEAT = 12,
    LONG_REPEAT = 4,
    WAYS = 3,
    MOMENTS = 3, /* measurements of the ceilings, each time */
};

struct scene {
    struct kernels *kernels;
    struct kv_layout layout;
    void *pages;
    uint32_t table[STREAMS_MAX][PAGES_EACH];
    uint32_t long_table[LONG_KEYS / PAGE_TOKENS];
    const uint32_t *tables[STREAMS_MAX];
    struct kernels_ceilings peak;
    uint32_t sequence[ROWS_MAX];
    uint32_t position[ROWS_MAX];
    uint32_t order[ROWS_MAX];
    uint32_t shared[ROWS_MAX];
    float *q;
    float *out[WAYS];
};

static_assert(STREAMS_MAX * PAGES_EACH >= LONG_KEYS / PAGE_TOKENS, "too few pages");

static void scene_open(struct scene *scene, const char *isa, uint32_t threads)
{
    struct rng rng = {.seed = 1};
    const struct kernels_options options = {
        .isa = isa, .threads = threads, .rows_max = ROWS_MAX, .cols_max = DIM};
    const size_t size = (size_t)ROWS_MAX * HEADS * DIM;
    if (kernels_create(&scene->kernels, &options) != STATUS_OK ||
        kernels_kv_layout(scene->kernels, KV_TYPE_F16, PAGE_TOKENS, LAYERS, KV_HEADS, DIM,
                          &scene->layout) != STATUS_OK) {
        fprintf(stderr, "bench_attention: %s\n", status_note()->message);
        exit(1);
    }
    size_t bytes = scene->layout.page_bytes * STREAMS_MAX * PAGES_EACH;
    scene->pages = kernels_buffer_create(scene->kernels, bytes);
    scene->q = malloc(size * sizeof *scene->q);
    for (int way = 0; way < WAYS; way++)
        scene->out[way] = malloc(size * sizeof *scene->q);
    if (scene->pages == NULL || scene->q == NULL || scene->out[0] == NULL ||
        scene->out[1] == NULL || scene->out[2] == NULL) {
        fprintf(stderr, "bench_attention: no memory for %zu MiB of pages\n", bytes >> 20);
        exit(1);
    }
    uint16_t some[4096];
    for (size_t i = 0; i < sizeof some / sizeof *some; i++)
        some[i] = half_from_float((float)rng_unit(rng_next(&rng)) * 2 - 1);
    for (size_t at = 0; at + sizeof some <= bytes; at += sizeof some)
        memcpy((char *)scene->pages + at, some, sizeof some);
    for (size_t i = 0; i < size; i++)
        scene->q[i] = (float)rng_unit(rng_next(&rng)) * 2 - 1;
    for (uint32_t s = 0; s < STREAMS_MAX; s++)
        scene->tables[s] = scene->table[s];
    for (uint32_t p = 0; p < LONG_KEYS / PAGE_TOKENS; p++)
        scene->long_table[p] = p;
    for (uint32_t r = 0; r < ROWS_MAX; r++)
        scene->order[r] = r;
}

/* Lets stream s use its own pages, except for the first `shared` keys, which are in stream 0's. */
static void scene_share(struct scene *scene, uint32_t shared)
{
    for (uint32_t s = 0; s < STREAMS_MAX; s++)
        for (uint32_t p = 0; p < PAGES_EACH; p++)
            scene->table[s][p] = (p < shared / PAGE_TOKENS ? 0 : s * PAGES_EACH) + p;
}

/* With one thread the thread's processor time counts, so that other processes matter less. */
static double now_us(const struct scene *scene)
{
    struct timespec time;
    clock_gettime(kernels_threads(scene->kernels) == 1 ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC,
                  &time);
    return (double)time.tv_sec * 1e6 + (double)time.tv_nsec / 1e3;
}

/* Returns the microseconds of one step. */
static double run(struct scene *scene, uint32_t rows, const struct attention_groups *groups,
                  float *out)
{
    double start = now_us(scene);
    for (uint32_t layer = 0; layer < LAYERS; layer++)
        kernels_attention(scene->kernels,
                          &(struct attention_args){.q = scene->q,
                                                   .out = out,
                                                   .rows = rows,
                                                   .heads = HEADS,
                                                   .layer = layer,
                                                   .scale = 0.125f,
                                                   .kv = {.layout = &scene->layout,
                                                          .pages = scene->pages,
                                                          .sequence = scene->sequence,
                                                          .position = scene->position,
                                                          .page_tables = scene->tables},
                                                   .groups = groups});
    return now_us(scene) - start;
}

/* Returns, in % of the machine's multiply-adds, those of queries × keys in all layers and heads. */
static double of_f32(const struct scene *scene, double keys, double us)
{
    return 4.0 * LAYERS * HEADS * DIM * keys / us / scene->peak.f32_gflops / 10;
}

/* Returns, in % of the machine's memory rate, the reading of the pages of so many keys. */
static double of_reading(const struct scene *scene, double keys, double us)
{
    return 2.0 * sizeof(uint16_t) * LAYERS * KV_HEADS * DIM * keys / us /
           scene->peak.read_gbps_dram / 10;
}

/* Measures and prints the ceilings: the highest so far. Later lines are relative to these. */
static void ceilings(struct scene *scene)
{
    for (int moment = 0; moment < MOMENTS; moment++)
        if (kernels_measure_ceilings(scene->kernels, (size_t)64 << 20, &scene->peak) != STATUS_OK)
            exit(1);
    printf("ceilings: f32 %.0f GFLOP/s, reading %.0f GB/s\n", scene->peak.f32_gflops,
           scene->peak.read_gbps_dram);
}

/* Measures decode where each stream has `shared` + 33 keys and one row. */
static void decode(struct scene *scene, uint32_t streams, uint32_t shared)
{
    double us[WAYS];
    const struct attention_groups groups = {scene->order, scene->shared};
    double keys = (double)streams * (shared + 33);
    for (uint32_t s = 0; s < streams; s++) {
        scene->sequence[s] = s;
        scene->position[s] = shared + 32;
        scene->shared[s] = s > 0 ? shared : 0;
    }
    for (int i = 0; i < REPEAT; i++)
        for (int way = 0; way < WAYS; way++) {
            scene_share(scene, way > 0 ? shared : 0);
            double took = run(scene, streams, way == 2 ? &groups : NULL, scene->out[way]);
            us[way] = i == 0 || took < us[way] ? took : us[way];
        }
    if (memcmp(scene->out[1], scene->out[2], (size_t)streams * HEADS * DIM * sizeof(float)) != 0) {
        fprintf(stderr, "bench_attention: grouped pages gave other bits\n");
        exit(1);
    }
    printf(
        "decode  %2u streams, %4u keys shared  private %6.0f (%3.0f %% of reading)  plain %6.0f  "
        "grouped %6.0f us  x%.2f  %3.0f %% of f32\n",
        streams, shared, us[0], of_reading(scene, keys, us[0]), us[1], us[2], us[1] / us[2],
        of_f32(scene, keys, us[2]));
}

/* Measures the last `rows` rows of one stream's prompt. */
static void prompt(struct scene *scene, uint32_t tokens, uint32_t rows)
{
    const int repeat = tokens > ROWS_MAX ? LONG_REPEAT : REPEAT;
    double us = 0;
    double keys = 0;
    scene->tables[0] = scene->long_table;
    for (uint32_t r = 0; r < rows; r++) {
        scene->sequence[r] = 0;
        scene->position[r] = tokens - rows + r;
        keys += tokens - rows + r + 1;
    }
    for (int i = 0; i < repeat; i++) {
        double took = run(scene, rows, NULL, scene->out[0]);
        us = i == 0 || took < us ? took : us;
    }
    scene->tables[0] = scene->table[0];
    if (rows == 1)
        printf("decode  one stream, %4u keys  %6.0f us  %3.0f %% of f32  %3.0f %% of reading\n",
               tokens, us, of_f32(scene, keys, us), of_reading(scene, keys, us));
    else
        printf("prefill last %3u of %4u tokens  %6.0f us  %5.1f us a token  %3.0f %% of f32\n",
               rows, tokens, us, us / rows, of_f32(scene, keys, us));
}

/* Returns the MiB of this process in huge pages, or -1 where the system does not say. */
static long huge_mib(void)
{
    char line[256];
    long kib = -1;
    FILE *file = fopen("/proc/self/smaps_rollup", "r");
    if (file == NULL)
        return -1;
    while (fgets(line, sizeof line, file) != NULL)
        if (strncmp(line, "AnonHugePages:", 14) == 0)
            kib = strtol(line + 14, NULL, 10);
    fclose(file);
    return kib < 0 ? -1 : kib / 1024;
}

int main(int argc, char **argv)
{
    static struct scene scene;
    scene_open(&scene, argc > 1 ? argv[1] : "auto",
               argc > 2 ? (uint32_t)strtoul(argv[2], NULL, 10) : 0);
    printf("%s, %u threads, %ld of %zu MiB in huge pages\n", kernels_isa(scene.kernels),
           kernels_threads(scene.kernels), huge_mib(),
           scene.layout.page_bytes * STREAMS_MAX * PAGES_EACH >> 20);
    for (uint32_t streams = 2; streams <= STREAMS_MAX; streams *= 2) {
        ceilings(&scene);
        for (uint32_t shared = 64; shared <= 1024; shared *= 4)
            decode(&scene, streams, shared);
    }
    decode(&scene, 3, 1024);
    decode(&scene, 5, 1024);
    ceilings(&scene);
    prompt(&scene, 512, 1);
    prompt(&scene, LONG_KEYS, 1);
    prompt(&scene, 512, 512);
    prompt(&scene, LONG_KEYS, 512);
    for (int way = 0; way < WAYS; way++)
        free(scene.out[way]);
    free(scene.q);
    kernels_buffer_destroy(scene.kernels, scene.pages);
    kernels_destroy(scene.kernels);
    return 0;
}
