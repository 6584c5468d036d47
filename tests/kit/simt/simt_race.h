/* simt_race: who touches what, between simt.cc and simt_race.cc.
 *
 * Owns:     nothing.
 * Thread:   as cuda_runtime.h.
 * Not here: what is a race (simt_race.cc). In programs without it the calls are none.
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
    bool is_early; /* the launch before it may still run: cuda_machine_begin is yet to come */
};
/* The thread that runs, in a kernel. */
struct simt_who simt_who_runs();
bool simt_is_running();
/* Whether a place is in the device's memory; or there, or in a block's shared memory. */
bool simt_is_device(const void *at);
bool simt_is_of_device(const void *at);

__attribute__((weak)) void simt_race_read(const void *at, size_t bytes);
__attribute__((weak)) void simt_race_write(const void *at, size_t bytes);
__attribute__((weak)) void simt_race_add(const void *at, size_t bytes);
/* Behind the last access of a launch. */
__attribute__((weak)) void simt_race_over();
