/* kernels_measure: what operations took, and what the machine could do.
 *
 * Owns:     nothing; the counts stand in struct kernels.
 * Thread:   the caller of operations.
 * Cost:     nothing until asked for.
 * Not here: operations (kernels.h), what a figure is worth (engine/bench/bench_report).
 */
#pragma once

#include "kernels/kernels.h"

/* --- time by operation, for `banyan bench`: off until asked for --- */
enum kernels_op {
#define OP(name) KERNELS_OP_##name,
#include "kernels/ops.def"
};

struct kernels_time {
    const char *name; /* as in ops.def */
    uint32_t outputs; /* of a linear layer, all its matrices together: shapes stand apart; else 0 */
    uint32_t inputs;
    uint64_t calls;
    uint64_t ns;      /* from the start of the work to the end of the last thread */
    uint64_t wait_ns; /* of these: the caller's own part was done, another thread's was not */
    /* Linear layers and attention only: two for a multiply-add; weights and keys that must be read
     * at least, each once a call. */
    uint64_t int8_operations;
    uint64_t f32_operations;
    uint64_t bytes;
};

enum { KERNELS_TIMES_MAX = 24 };

/* From here on, three looks at the clock an operation. Clears what was counted before. */
void kernels_times_begin(struct kernels *kernels);
/* Ends it, and writes what was counted to `out` [KERNELS_TIMES_MAX], in the order of first calls.
 * Returns how many; more shapes than there are places count with the last. */
uint32_t kernels_times_end(struct kernels *kernels, struct kernels_time *out);

/* --- the machine's ceilings, of moments: `out` keeps what is higher; begin with zeros --- */
struct kernels_ceilings {
    double int8_gops;       /* int8 multiply-adds × 2, all threads, no memory traffic */
    double f32_gflops;      /* float32 fused multiply-adds × 2 */
    double read_gbps_model; /* reading `model_bytes`, again and again */
    double read_gbps_dram;  /* reading 256 MiB */
};
enum status kernels_measure_ceilings(struct kernels *kernels, size_t model_bytes,
                                     struct kernels_ceilings *out);

/* --- graphs of steps that a device captured since the start; of a processor none --- */
struct kernels_captures {
    uint64_t count;
    uint64_t us;    /* of the host's time, all together */
    uint64_t bytes; /* of the device's memory, all together */
};
struct kernels_captures kernels_measure_captures(const struct kernels *kernels);
