/* bench_machine: how much of the machine other processes used during a measurement.
 *
 * Owns:     nothing.
 * Thread:   any.
 * Cost:     a read of /proc/stat a call.
 * Not here: what the machine can do at most (the kernels' ceilings).
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* A moment, and processor time up to it, in µs. */
struct bench_machine {
    int64_t at;
    int64_t all; /* of all processes of the machine; -1 if the system does not say */
    int64_t own; /* of this process */
};

struct bench_machine bench_machine_now(void);
/* Processors that other processes, and the hypervisor, used between two moments, at least 0; -1 if
 * the system does not say. A tick is 10 ms, so less than a second says little. */
double bench_machine_others(const struct bench_machine *begin, const struct bench_machine *end);
