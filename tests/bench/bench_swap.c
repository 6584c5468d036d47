/* bench_swap: kv_swap's copies, out and in, compared with the machine's rate of copies.
 *
 * usage: bench_swap [isa [threads]]     defaults: auto, one thread for each processor
 *
 * Pages have SmolLM2-135M's shape (360 KiB). Sequences of several lengths take turns with the
 * machine's own rate: one area of 256 MiB copied to another on the same threads, by memcpy or the
 * table's streaming copy, whichever is faster. Figures are the best of several, since other
 * processes can only make them worse. A rate counts each byte once: 1 GB/s copies 1 GB in a second.
 * One JSON line for each length. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config/base/clock.h"
#include "engine/kv/kv_swap.h"
#include "kernels/threads.h"

enum { AREA = 256 << 20, CONTEXT = 8192, REPEAT = 15 };

enum { PAGE_TOKENS = 16 };

struct scene {
    struct kernels *kernels;
    struct kv_layout layout;
    struct kv_pool pool;
    struct prefix_cache cache;
    struct kv_swap swap;
    struct threads *threads;
    char *from, *to;
    page_id pages[CONTEXT / PAGE_TOKENS];
};

static const struct engine_domain domain = {{1}};

static void must(bool condition, const char *what)
{
    if (condition)
        return;
    fprintf(stderr, "bench_swap: %s: %s\n", what, status_note()->message);
    exit(1);
}

static void scene_open(struct scene *scene, const char *isa, uint32_t threads)
{
    const struct kernels_options options = {
        .isa = isa, .threads = threads, .rows_max = 16, .cols_max = 64};
    must(kernels_create(&scene->kernels, &options) == STATUS_OK, "kernels");
    must(kernels_kv_layout(scene->kernels, KV_TYPE_F16, PAGE_TOKENS, 30, 3, 64, &scene->layout) ==
             STATUS_OK,
         "layout");
    must(kv_pool_init(&scene->pool, scene->kernels, &scene->layout, (uint64_t)AREA, CONTEXT) ==
             STATUS_OK,
         "pool");
    const struct prefix_cache_options cache = {.kernels = scene->kernels,
                                               .pool = &scene->pool,
                                               .host_bytes = (uint64_t)AREA,
                                               .context = CONTEXT,
                                               .is_off = true};
    must(prefix_cache_init(&scene->cache, &cache) == STATUS_OK, "cache");
    const struct kv_swap_options swap = {.cache = &scene->cache,
                                         .kernels = scene->kernels,
                                         .clock = clock_system(),
                                         .places = 1,
                                         .context = CONTEXT};
    must(kv_swap_init(&scene->swap, &swap) == STATUS_OK, "swap");
    must(threads_create(&scene->threads, kernels_threads(scene->kernels)) == STATUS_OK, "threads");
    scene->from = kernels_buffer_create(scene->kernels, AREA);
    scene->to = kernels_buffer_create(scene->kernels, AREA);
    must(scene->from != NULL && scene->to != NULL, "memory");
    memset(scene->from, 1, AREA); /* the first access to memory is slow */
    memset(scene->to, 2, AREA);
    memset(scene->pool.memory, 3, scene->pool.unit_count * scene->layout.page_bytes);
    memset(scene->cache.host.memory, 4,
           scene->cache.host.unit_count * scene->cache.host.page_bytes);
}

static void scene_close(struct scene *scene)
{
    kernels_buffer_destroy(scene->kernels, scene->from);
    kernels_buffer_destroy(scene->kernels, scene->to);
    threads_destroy(scene->threads);
    kv_swap_deinit(&scene->swap);
    prefix_cache_deinit(&scene->cache);
    kv_pool_deinit(&scene->pool);
    kernels_destroy(scene->kernels);
}

static void memcpy_job(void *context, uint32_t thread, uint32_t count)
{
    const struct scene *scene = context;
    uint32_t begin;
    uint32_t end;
    threads_share(AREA, thread, count, &begin, &end);
    memcpy(scene->to + begin, scene->from + begin, end - begin);
}

/* Returns the seconds of copying the whole area. */
static double machine(struct scene *scene)
{
    const uint32_t page = 0;
    const struct pages_copy_args args = {scene->to, scene->from, &page, &page, 1, AREA};
    int64_t start_us = clock_mono_us(clock_system());
    threads_run(scene->threads, memcpy_job, scene);
    int64_t plain_us = clock_mono_us(clock_system()) - start_us;
    start_us = clock_mono_us(clock_system());
    kernels_pages_copy(scene->kernels, &args);
    int64_t streamed_us = clock_mono_us(clock_system()) - start_us;
    return (double)(plain_us < streamed_us ? plain_us : streamed_us) * 1e-6;
}

/* Measures the seconds for one page, out and in. As many sequences as the pool holds are swapped
 * one after another, so that no copy finds its pages in the processor's cache. */
static void there_and_back(struct scene *scene, uint32_t count, double *out, double *in)
{
    const struct kv_swap_owner owner = {.weight = 1};
    uint32_t held = 0;
    *out = *in = 0;
    for (uint32_t first = 0; first + count <= scene->pool.unit_count; first += count) {
        for (held = 0; held < count; held++)
            scene->pages[held] = first + held;
        for (uint32_t i = 0; i < count; i++)
            must(scene->pool.references[scene->pages[i]] == 1, "page");
        int64_t start_us = clock_mono_us(clock_system());
        must(kv_swap_out(&scene->swap, 0, scene->pages, &held, &owner), "out");
        int64_t middle_us = clock_mono_us(clock_system());
        must(kv_swap_in(&scene->swap, 0, scene->pages, &held), "in");
        *out += (double)(middle_us - start_us);
        *in += (double)(clock_mono_us(clock_system()) - middle_us);
    }
    uint32_t copied = scene->pool.unit_count / count * count;
    *out *= 1e-6 / copied;
    *in *= 1e-6 / copied;
}

static void measure(struct scene *scene, uint32_t pages)
{
    double area_s = 1e9;
    double out_s = 1e9;
    double in_s = 1e9;
    for (int i = 0; i < REPEAT; i++) {
        double out;
        double in;
        double area = machine(scene);
        there_and_back(scene, pages, &out, &in);
        area_s = area < area_s ? area : area_s;
        out_s = out < out_s ? out : out_s;
        in_s = in < in_s ? in : in_s;
    }
    double machine_gbps = AREA / area_s * 1e-9;
    double out_gbps = (double)scene->layout.page_bytes / out_s * 1e-9;
    double in_gbps = (double)scene->layout.page_bytes / in_s * 1e-9;
    printf("{\"bench\":\"swap\",\"isa\":\"%s\",\"threads\":%u,\"pages\":%u,\"page_bytes\":%zu,"
           "\"machine_gbps\":%.1f,\"out_gbps\":%.1f,\"in_gbps\":%.1f,\"out_ratio\":%.2f,"
           "\"in_ratio\":%.2f}\n",
           kernels_isa(scene->kernels), kernels_threads(scene->kernels), pages,
           scene->layout.page_bytes, machine_gbps, out_gbps, in_gbps, out_gbps / machine_gbps,
           in_gbps / machine_gbps);
}

int main(int argc, char **argv)
{
    static struct scene scene;
    scene_open(&scene, argc > 1 ? argv[1] : "auto",
               argc > 2 ? (uint32_t)strtoul(argv[2], NULL, 10) : 0);
    for (uint32_t i = 0; i < scene.pool.unit_count; i++)
        must(kv_pool_acquire(&scene.pool, &domain) == i, "acquire");
    for (uint32_t pages = 8; pages <= 512; pages *= 4)
        measure(&scene, pages);
    for (uint32_t i = 0; i < scene.pool.unit_count; i++)
        kv_pool_release(&scene.pool, i);
    scene_close(&scene);
    return 0;
}
