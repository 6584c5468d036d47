/* step_logits: a step's logits where the processor can read them.
 *
 * Owns:     host memory for them, where the kernels' own is a device's.
 * Thread:   the engine thread.
 * Cost:     on the processor nothing; else a copy of the rows, which waits for the step.
 * Not here: drawing tokens (sampler), what is drawn on a device.
 */
#pragma once

#include "kernels/kernels.h"

struct step_logits {
    struct kernels *kernels;
    float *host; /* [rows_max][vocab]; NULL on the processor */
    uint32_t vocab;
};

/* NO_MEMORY. */
enum status step_logits_init(struct step_logits *logits, struct kernels *kernels, uint32_t vocab,
                             uint32_t rows_max);
void step_logits_deinit(struct step_logits *logits);

/* The first `rows` rows of what model_forward returned, on the host, and their `stats` [rows]; NULL
 * when the device has failed, or had before (`from` is NULL). The note says how. */
const float *step_logits_read(struct step_logits *logits, const float *from, uint32_t rows,
                              struct logits_stats *stats);
