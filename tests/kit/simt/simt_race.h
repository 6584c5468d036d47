/* simt_race: the interface between simt.cc, which reports accesses, and simt_race.cc.
 *
 * Owns:     nothing.
 * Thread:   as cuda_runtime.h.
 * Not here: what counts as a race (simt_race.cc). In programs without it nothing is reported.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct simt_who {
    uint32_t launch;
    uint32_t block;
    uint32_t barriers; /* of the block, so far */
    uint32_t syncs;    /* of the warp */
    uint32_t thread;
    bool is_early; /* the launch before may still run: cuda_machine_begin has not been called */
};
/* Returns the running thread of a kernel. */
struct simt_who simt_who_runs();
bool simt_is_running();
/* Returns whether an address is in device memory; or in device memory or a block's shared memory.
 */
bool simt_is_device(const void *at);
bool simt_is_of_device(const void *at);

__attribute__((weak)) void simt_race_read(const void *at, size_t bytes);
__attribute__((weak)) void simt_race_write(const void *at, size_t bytes);
__attribute__((weak)) void simt_race_add(const void *at, size_t bytes);
/* Called after the last access of a launch. */
__attribute__((weak)) void simt_race_over();
