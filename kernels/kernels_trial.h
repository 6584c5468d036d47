/* kernels_trial: features that a device leaves out, so that a test or a measurement can tell what a
 * fault or a time depends on.
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

/* All false: the device uses every feature. Every combination gives the same bits. */
struct kernels_trial {
    bool no_early;  /* no kernel starts before the one before it has ended */
    bool no_graphs; /* every step launches its kernels one by one */
    /* kernels stage as little as possible: attention one block of keys, linear layers two pairs of
     * parts */
    bool few_stages;
    bool all_carveout; /* multiprocessors give their whole first-level cache to shared memory */
};

/* Sets the feature named by a word: "no-early", "no-graphs", "few-stages" or "carveout". Returns
 * false for any other word. */
bool kernels_trial_set(struct kernels_trial *trial, const char *word);
/* Returns whether anything is set. */
bool kernels_trial_is_set(const struct kernels_trial *trial);

#ifdef __cplusplus
}
#endif
