/* kernels_measure: what operations cost, and the ceilings of the machine.
 *
 * Owns:     nothing; the counts are in struct kernels.
 * Thread:   the caller of operations.
 * Cost:     nothing until kernels_times_begin.
 * Not here: operations (kernels.h), the assessment of figures (engine/bench/bench_report).
 */
#pragma once

#include "kernels/kernels.h"

/* --- time by operation, for `banyan bench`: off until it is begun --- */
enum kernels_op {
#define OP(name) KERNELS_OP_##name,
#include "kernels/ops.def"
};

struct kernels_time {
    const char *name; /* as in ops.def */
    /* of a linear layer: outputs of all its matrices; each shape has its own entry; else 0 */
    uint32_t outputs;
    uint32_t inputs;
    uint64_t calls;
    uint64_t ns; /* from the start of the work to the end of the last thread */
    /* part of `ns` in which the caller had finished and waited for other threads */
    uint64_t wait_ns;
    /* Linear layers and attention only. A multiply-add counts as two. `bytes` are the weights and
     * keys that must be read, each once a call. */
    uint64_t int8_operations;
    uint64_t f32_operations;
    uint64_t bytes;
};

enum { KERNELS_TIMES_MAX = 24 };

/* Begins to count, with three reads of the clock an operation. Clears earlier counts. */
void kernels_times_begin(struct kernels *kernels);
/* Ends it and writes the counts to `out` [KERNELS_TIMES_MAX], in the order of first calls. Returns
 * their number. Shapes beyond KERNELS_TIMES_MAX are counted with the last entry. */
uint32_t kernels_times_end(struct kernels *kernels, struct kernels_time *out);

/* --- the machine's ceilings: `out` keeps the higher value of each; begin with zeros --- */
struct kernels_ceilings {
    double int8_gops;       /* int8 multiply-adds × 2, all threads, no memory traffic */
    double f32_gflops;      /* float32 fused multiply-adds × 2 */
    double read_gbps_model; /* reading `model_bytes` repeatedly */
    double read_gbps_dram;  /* reading 256 MiB */
};
enum status kernels_measure_ceilings(struct kernels *kernels, size_t model_bytes,
                                     struct kernels_ceilings *out);

/* --- graphs of steps that a device has captured since the start; none on a processor --- */
struct kernels_captures {
    uint64_t count;
    uint64_t us;    /* of the host's time, in all */
    uint64_t bytes; /* of the device's memory, in all */
};
struct kernels_captures kernels_measure_captures(const struct kernels *kernels);
