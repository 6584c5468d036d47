/* late_pages: copies of pages that go on beside the work, on the processor.
 *
 * Owns:     batches that have begun and not ended, in order.
 * Thread:   one.
 * Cost:     a batch is copied twice over: what it will read is looked at when it begins.
 * Not here: what the engine does meanwhile (kv_pool, kv_host, step_plan).
 *
 * As a device's stream of copies, at its slowest: a batch that has begun copies nothing until
 * late_pages_step has been called so often, or somebody waits. Until then what it will write is
 * poisoned, and what it will read must stay as it is: who reads too early, or writes, is found.
 */
#pragma once

#include "kernels/kernels.h"

/* From now on batches of `kernels` end after `steps` calls of late_pages_step. One at a time. */
void late_pages_begin(struct kernels *kernels, uint32_t steps);
/* Ends what goes on; copies are the machine's own again. Before kernels_destroy. */
void late_pages_end(void);

/* A step of the engine begins. Nothing happens when none is late. */
void late_pages_step(void);
/* Since late_pages_begin: batches, and those of them that ended because somebody waited. */
uint64_t late_pages_begun(void);
uint64_t late_pages_waited(void);
