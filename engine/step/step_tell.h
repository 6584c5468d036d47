/* step_tell: writes events for the consumer, and figures for other threads.
 *
 * Owns:     nothing; it writes the step's outbox and figures.
 * Thread:   engine thread only.
 * Cost:     a record is one copy; figures are O(running) each time.
 * Not here: metrics over time (step_metrics), the queue itself (outbox), when to emit an event
 *           (step, step_end, step_token).
 */
#pragma once

#include "engine/step/step_state.h"

/* Emits a record with record->top_count log-probabilities; `top` may be NULL when
 * there are none. */
void step_tell(struct step *step, const struct outbox_record *record,
               const struct engine_logprob *top, struct slice text);
/* Emits START, END or ERROR of a request. */
void step_tell_request(struct step *step, enum engine_event_kind kind, uint32_t slot);
/* Makes a record of sequence `index`, whose other fields the caller fills in. */
struct outbox_record step_tell_record(struct step *step, enum engine_event_kind kind,
                                      uint32_t index);

/* Writes what engine_requests shows of running requests, and what engine_published shows. */
void step_tell_requests(struct step *step);
/* Writes figures and metrics. Called before an END too, so that its receiver
 * reads current figures. */
void step_tell_figures(struct step *step);
