/* step: one step of the engine thread: plan, one forward pass, sample, emit events.
 *
 * Owns:     pages, running and waiting sequences, the batch, the drawer; no other code changes
 *           them.
 * Thread:   step_run on the engine thread; the figures of step_state can be read from any.
 * Cost:     no allocation after step_init; waits for no lock except to sleep, and never for the
 *           consumer.
 * Not here: the front door (engine), preparing text (text/prepare), which sequence goes first
 *           (scheduler).
 *
 *     inbox ─► waiting ─► running ─► (scheduler_plan → batch → model → sampler) ─► outbox
 */
#pragma once

#include "engine/step/step_state.h"

/* Sequence slots that step_init makes for `sequences_max` sequences that may compute at once. */
uint32_t step_places(uint32_t sequences_max);

/* LIMIT when kv_bytes cannot hold one full sequence; NO_MEMORY. */
enum status step_init(struct step *step, const struct step_options *options);
/* Drops whatever runs; the consumer gets no event. */
void step_deinit(struct step *step);

/* Does at most one step; false when there was nothing to do or the device has failed. */
bool step_once(struct step *step);
/* Does steps, and sleeps when there is nothing to do, until is_closing is set and
 * the inbox rung. */
void step_run(struct step *step);
