/* gpu_bench: what the parts of gpu_bench share.
 *
 * A part is a file gpu_bench_PART.c with `void gpu_bench_PART(void)`, and a line of gpu_bench.def.
 */
#pragma once

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config/base/clock.h"
#include "config/base/rng.h"
#include "kernels/cuda/cuda_ops.h"

struct gpu_bench {
    struct cuda_backend *device;
    struct rng rng;
    bool is_tiny;     /* small shapes, few calls, to see that it runs; figures mean nothing */
    double copy_gbps; /* the device's copy rate, read + written; measured by the first part */
};
extern struct gpu_bench gpu_bench;

#define BENCH(part) void gpu_bench_##part(void);
#include "tests/gpu/gpu_bench.def"
#undef BENCH

/* The shape of an 8B model's layers; small in a tiny run. */
struct gpu_bench_shape {
    uint32_t width, hidden, heads, kv_heads, head_dim, layers, rows_max;
};
struct gpu_bench_shape gpu_bench_shape(void);

/* Ends the program if `status` is a failure. */
void bench_must(enum status status);
/* Prints one figure, and appends it to the file of --json, where tests/gpu/check_report.py reads
 * it. */
__attribute__((format(printf, 3, 4))) void bench_figure(double value, const char *unit,
                                                        const char *name, ...);
/* Returns device memory of random bytes that are small numbers as float32 and as float16;
 * bench_drop frees it. */
void *bench_alloc(size_t bytes);
void bench_drop(const void *memory);
/* Returns a matrix of random weights (1 MiB of them, repeated); cuda_backend_weight_destroy frees
 * it. */
struct weight bench_weight(uint32_t type_id, uint32_t rows, uint32_t cols);
/* Returns the seconds of one of many calls in a row: the best of five runs. */
double bench_time(void (*call)(const void *context, uint32_t index), const void *context);
double bench_seconds(void); /* of a monotonic clock */
