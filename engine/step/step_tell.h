/* step_tell: what the step says: events to the consumer, figures to whoever looks.
 *
 * Owns:     nothing; it writes the step's outbox and figures.
 * Thread:   engine thread only.
 * Cost:     a record is one copy; figures are O(running) a step.
 * Not here: series over time (step_metrics), the queue itself (outbox), when to say it (step,
 *           step_end, step_token).
 */
#pragma once

#include "engine/step/step_state.h"

void step_tell(struct step *step, const struct outbox_record *record,
               const struct engine_logprob *top, struct slice text);
/* START, END or ERROR of a request. */
void step_tell_request(struct step *step, enum engine_event_kind kind, uint32_t slot);
/* A record of sequence `index`, to be filled. */
struct outbox_record step_tell_record(struct step *step, enum engine_event_kind kind,
                                      uint32_t index);

/* What engine_requests shows of those that run, and what engine_published shows. */
void step_tell_requests(struct step *step);
/* Figures, and the series; before an end is told, so that its reader sees them right. */
void step_tell_figures(struct step *step);
