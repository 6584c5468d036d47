/* step_metrics: the engine's series, for whoever watches it over time.
 *
 * Owns:     pointers into a registry; all NULL when no metrics are kept.
 * Thread:   engine thread only.
 * Cost:     O(classes) a step; every tenth of a second O(accounts), for the fairness of tenants.
 * Not here: events of requests, figures of the moment (step_tell).
 */
#pragma once

#include "engine/step/step_state.h"

/* Sequences and requests of a class, now. */
struct step_class_count {
    uint32_t computing, throttled, paused, waiting;
};

/* Finds the series, which all carry `label` (NULL = none); without `metrics` none are kept. */
void step_metrics_init(struct step_metrics *out, struct metrics *metrics, const char *label);

/* Gauges, and counters that others keep the sums of. */
void step_metrics_figures(struct step *step, const struct prefix_figures *now,
                          const struct step_class_count *classes);
/* The rows of a step, by class. */
void step_metrics_rows(struct step *step, uint32_t parts);
void step_metrics_time(struct step *step, enum step_time part, int64_t ns);
