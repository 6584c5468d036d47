/* step_metrics: the engine's metric series.
 *
 * Owns:     pointers into a registry; all NULL when no metrics are kept.
 * Thread:   engine thread only.
 * Cost:     O(classes) a step; ten times a second O(accounts), for the fairness of tenants.
 * Not here: events of requests, figures of the moment (step_tell).
 */
#pragma once

#include "engine/step/step_state.h"

/* Sequences and waiting requests of a class. */
struct step_class_count {
    uint32_t computing, throttled, paused, waiting;
};

/* Finds the series, which all carry `label` (NULL = none). NULL `metrics`: none are kept. */
void step_metrics_init(struct step_metrics *out, struct metrics *metrics, const char *label);

/* Sets the gauges, and moves the counters on to the sums that other files keep. */
void step_metrics_figures(struct step *step, const struct prefix_figures *now,
                          const struct step_class_count *classes);
/* Counts the planned rows of a step, by class. */
void step_metrics_rows(struct step *step, uint32_t parts);
/* Counts the masks that were made in a step, and those that did not become ready. */
void step_metrics_masks(struct step *step, uint32_t ready, uint32_t late);
/* Counts tokens that a grammar forced. */
void step_metrics_forced(struct step *step, uint32_t tokens);
/* Counts that reasoning was ended because its budget was spent. */
void step_metrics_closed(struct step *step, bool is_closed);
/* Observes the time of one part of a step. */
void step_metrics_time(struct step *step, enum step_time part, int64_t ns);
