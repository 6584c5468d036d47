/* kernels_trial: what a device does without, so that a test or a measurement finds out what a fault
 * or a time depends on.
 *
 * Owns:     nothing.
 * Thread:   any.
 * Cost:     none.
 * Not here: what each of them does (kernels/cuda). `serve` has no option for any of them.
 */
#pragma once

#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Zeros: the device does everything. Every combination gives the same bits. */
struct kernels_trial {
    bool no_early;     /* no kernel comes to its processors before the one before it has ended */
    bool no_graphs;    /* every step launches its kernels one by one */
    bool few_stages;   /* kernels stage as little as they can: attention one block of keys, linear
                        * layers of few rows two pairs of parts */
    bool all_carveout; /* processors give the whole of their first cache to shared memory */
};

/* Sets what a word names: "no-early", "no-graphs", "few-stages" or "carveout". Returns whether it
 * is such a word. */
bool kernels_trial_set(struct kernels_trial *trial, const char *word);
/* Whether anything is set. */
bool kernels_trial_is_set(const struct kernels_trial *trial);

#ifdef __cplusplus
}
#endif
