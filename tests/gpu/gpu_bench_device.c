/* gpu_bench_device: copies inside the device, over the bus in both directions, and of pages; what a
 * step loses beside such copies. */
#include "kernels/cuda/cuda_ceilings.h"
#include "tests/gpu/gpu_bench.h"

enum { RUNS = 5, PAGES = 64 };

static void copy_pages(void *to, void *from, const uint32_t *pages, uint32_t count, size_t bytes)
{
    cuda_pages_copy(gpu_bench.device,
                    &(struct pages_copy_args){to, from, pages, pages, count, bytes});
}

static void ceilings(void)
{
    struct kernels_ceilings most = {0};
    bench_must(
        cuda_ceilings(gpu_bench.device, gpu_bench.is_tiny ? 1 << 16 : (size_t)1 << 30, &most));
    gpu_bench.copy_gbps = most.read_gbps_dram;
    bench_figure(most.read_gbps_dram, "GB/s", "device_copy");
    bench_figure(most.f32_gflops / 1e3, "TFLOP/s", "product_mma");
}

/* Returns the rate of copies between `memory` and `pinned` in GB/s. */
static double bus_rate(char *memory, void *pinned, bool is_out, const uint32_t *pages,
                       uint32_t count, size_t bytes)
{
    double best = 1e9;
    for (int run = 0; run < RUNS; run++) {
        const double begin = bench_seconds();
        copy_pages(is_out ? pinned : memory, is_out ? memory : pinned, pages, count, bytes);
        cuda_pages_wait(gpu_bench.device);
        bench_must(cuda_backend_end(gpu_bench.device));
        const double seconds = bench_seconds() - begin;
        best = seconds < best ? seconds : best;
    }
    return (double)count * (double)bytes / best / 1e9;
}

struct step_case {
    struct weight *weight;
    float *x;
    float *y;
};

/* Reads about as much as a decode step does in some ms. */
static void step_run(const struct step_case *step)
{
    for (uint32_t i = 0; i < (gpu_bench.is_tiny ? 2u : 64u); i++)
        cuda_linear(
            gpu_bench.device,
            &(struct linear_args){
                .x = step->x, .rows = 16, .count = 1, .weights = {step->weight}, .y = {step->y}});
    bench_must(cuda_backend_end(gpu_bench.device));
}

/* Runs the same work with and without a victim's pages leaving meanwhile, in turns. The time to
 * request the copies is part of the step. */
static void step_beside(char *memory, void *pinned, const uint32_t *pages, size_t bytes)
{
    const struct gpu_bench_shape shape = gpu_bench_shape();
    struct weight weight = bench_weight(TENSOR_TYPE_f16, 4 * shape.hidden, shape.width);
    double best[2] = {1e9, 1e9};
    const struct step_case step = {&weight, bench_alloc(16 * shape.width * sizeof(float)),
                                   bench_alloc((size_t)64 * shape.hidden * sizeof(float))};
    for (int run = 0; run < 2 * RUNS + 2; run++) { /* the first pair warms up */
        const double begin = bench_seconds();
        if (run % 2 == 1)
            copy_pages(pinned, memory, pages, PAGES, bytes);
        step_run(&step);
        const double seconds = bench_seconds() - begin;
        cuda_pages_wait(gpu_bench.device);
        bench_must(cuda_backend_end(gpu_bench.device));
        if (run > 1 && seconds < best[run % 2])
            best[run % 2] = seconds;
    }
    bench_figure(100 * (best[1] / best[0] - 1), "%", "step_beside_swap");
    cuda_backend_weight_destroy(gpu_bench.device, &weight);
    bench_drop(step.x), bench_drop(step.y);
}

void gpu_bench_device(void)
{
    const size_t bytes = gpu_bench.is_tiny ? 4096 : (size_t)8 << 20; /* 64 tokens of 8B */
    static const uint32_t whole = 0;
    uint32_t scattered[PAGES];
    void *pinned;
    ceilings();
    char *memory = bench_alloc(PAGES * bytes);
    bench_must(cuda_backend_alloc_host(gpu_bench.device, &pinned, PAGES * bytes, "pages"));
    for (uint32_t i = 0; i < PAGES; i++)
        scattered[i] = i ^ 1; /* neighbours change places, so that no two pages are one copy */
    for (int is_out = 1; is_out >= 0; is_out--) {
        const char *way = is_out ? "out" : "in";
        bench_figure(bus_rate(memory, pinned, is_out, &whole, 1, PAGES * bytes), "GB/s", "bus_%s",
                     way);
        bench_figure(bus_rate(memory, pinned, is_out, scattered, PAGES, bytes), "GB/s", "swap_%s",
                     way);
    }
    step_beside(memory, pinned, scattered, bytes);
    cuda_backend_free_host(gpu_bench.device, pinned);
    bench_drop(memory);
}
