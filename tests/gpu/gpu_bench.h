/* gpu_bench: what the parts of gpu_bench share.
 *
 * A part is a file gpu_bench_PART.c with `void gpu_bench_PART(void)`, and a line of
 * gpu_bench.def. */
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
    bool is_tiny;     /* small shapes, few calls: that it runs, no figure of anything */
    double copy_gbps; /* the device's own copying, read + written: the first part measures it */
};
extern struct gpu_bench gpu_bench;

#define BENCH(part) void gpu_bench_##part(void);
#include "tests/gpu/gpu_bench.def"
#undef BENCH

/* Of an 8B model's layers; tiny ones of a smoke test. */
struct gpu_bench_shape {
    uint32_t width, hidden, heads, kv_heads, head_dim, layers, rows_max;
};
struct gpu_bench_shape gpu_bench_shape(void);

/* Ends the program when it failed. */
void bench_must(enum status status);
/* One figure: a line, and one of the file of --json, where tests/gpu/check_report.py finds it. */
__attribute__((format(printf, 3, 4))) void bench_figure(double value, const char *unit,
                                                        const char *name, ...);
/* Device memory of random bytes that are numbers of float32 and float16, small ones; given back
 * with bench_drop. */
void *bench_alloc(size_t bytes);
void bench_drop(const void *memory);
/* A matrix of random weights (1 MiB of them, again and again); given back with
 * cuda_backend_weight_destroy. */
struct weight bench_weight(uint32_t type_id, uint32_t rows, uint32_t cols);
/* Seconds of one of many calls in a row: the best of five times. */
double bench_time(void (*call)(const void *context, uint32_t index), const void *context);
double bench_seconds(void); /* of a clock that never goes back */
