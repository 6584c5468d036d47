/* kernels_prepare: what a process does before it gives up the right to open files and devices.
 *
 * Owns:     what a device's driver has opened, until the process ends.
 * Thread:   any, while no other thread opens or closes descriptors.
 * Cost:     the first call starts a device's driver (some 100 ms); nothing on processors.
 * Not here: the rules that take those rights (gateway/serve/sandbox), operations (kernels.h).
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct ranks;

/* Opens the libraries and devices that kernels_create(isa, device, ranks) will need by path. A
 * failure is not reported here: kernels_create meets and reports it. A forked child may not use
 * what was opened, so each rank prepares its own process. */
void kernels_prepare(const char *isa, uint32_t device, const struct ranks *ranks);

/* Called with a path that the driver opens again after kernels_prepare. `is_node`: a device node,
 * which the driver reads, writes and controls by ioctl; otherwise a file or folder that it reads.
 * `path` is borrowed. */
typedef void kernels_prepare_place(void *context, const char *path, bool is_node);

/* Calls `each` for every such path of that device; a path may occur more than once. A process that
 * confines itself keeps these reachable. */
void kernels_prepare_places(const char *isa, uint32_t device, const struct ranks *ranks,
                            kernels_prepare_place *each, void *context);
