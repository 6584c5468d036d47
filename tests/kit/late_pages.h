/* late_pages: page copies that finish late, on the processor, like a slow device's.
 *
 * Owns:     the batches that have begun and not ended, in order.
 * Thread:   one.
 * Cost:     a batch is read twice: a checksum of its sources is taken when it begins.
 * Not here: what the engine does meanwhile (kv_pool, kv_host, step_plan).
 *
 * It imitates a device's copy stream at its slowest: a batch copies nothing until late_pages_step
 * has been called a given number of times, or a caller waits. Until then its targets are poisoned
 * and its sources must not change, so that code that reads too early, or writes, is detected.
 */
#pragma once

#include "kernels/kernels.h"

/* From now on batches of `kernels` end after `steps` calls of late_pages_step. One at a time. */
void late_pages_begin(struct kernels *kernels, uint32_t steps);
/* Ends all batches and restores the machine's own copies. Call it before kernels_destroy. */
void late_pages_end(void);

/* Called when a step of the engine begins. No effect when no copies are late. */
void late_pages_step(void);
/* Counts since late_pages_begin: batches, and batches that ended because a caller waited. */
uint64_t late_pages_begun(void);
uint64_t late_pages_waited(void);
