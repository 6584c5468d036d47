/* step: the engine thread's work: plan, one forward pass, sample, tell.
 *
 * Owns:     pages, running and waiting sequences, the batch, the drawer; nobody else touches them.
 * Thread:   step_run on the engine thread; step_figures from any.
 * Cost:     no allocation and no lock after step_init; never waits for the consumer.
 * Not here: the door (engine), preparing text (text/prepare), who goes first (scheduler).
 *
 *     inbox ─► waiting ─► running ─► (scheduler_plan → batch → model → sampler) ─► outbox
 */
#pragma once

#include "engine/step/step_state.h"

/* Places that step_init makes for so many that compute at once. */
uint32_t step_places(uint32_t sequences_max);

/* LIMIT when kv_bytes cannot hold one full sequence; NO_MEMORY. */
enum status step_init(struct step *step, const struct step_options *options);
/* Drops whatever runs; nothing is told to the consumer. */
void step_deinit(struct step *step);

/* Does at most one step; false when there was nothing to do. */
bool step_once(struct step *step);
/* Steps and sleeps until is_closing is set and the inbox rung. */
void step_run(struct step *step);
