/* bench_machine: how much of the machine others used while something was measured.
 *
 * Owns:     nothing.
 * Thread:   any.
 * Cost:     a read of /proc/stat a call.
 * Not here: what the machine can do at most (kernels' ceilings).
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* Of a moment, in µs; processor time of all that run on the machine, and of this process. */
struct bench_machine {
    int64_t at;
    int64_t all; /* -1 where the system does not tell */
    int64_t own;
};

struct bench_machine bench_machine_now(void);
/* Processors that others used between two moments (the hypervisor's share with them), at least 0;
 * -1 where the system does not tell. Ticks are of 10 ms: less than a second says little. */
double bench_machine_others(const struct bench_machine *begin, const struct bench_machine *end);
