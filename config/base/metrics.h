/* metrics: counters, gauges and histograms, rendered as Prometheus text (exposition format 0.0.4).
 *
 * Owns:     the registry: every series with its name, help and labels.
 * Thread:   any; registering and rendering take a lock, updates do not.
 * Cost:     an update is one relaxed atomic add; for a gauge and a histogram's sum a
 *           compare-and-swap. metrics_get is O(names + series of the name): keep its result where
 *           updates are frequent.
 * Not here: who may read them (gateway/admin); the names (metrics.def of the room that counts).
 */
#pragma once

#include <stdint.h>

#include "config/base/slice.h"

struct metrics;
struct metric; /* one series: a name with one set of label values */

enum metric_kind { METRIC_COUNTER, METRIC_GAUGE, METRIC_HISTOGRAM };

enum status metrics_create(struct metrics **out);
void metrics_destroy(struct metrics *metrics);

/* Returns the series `name{labels}`; the same name and labels always give the same series. `labels`
 * is the text inside the braces, already escaped ("route=\"/v1/models\",code=\"200\""), or "".
 * `buckets` are the `bucket_count` upper bounds of a histogram, ascending. The number of series is
 * bounded (LIMIT_METRIC_SERIES). Beyond that, or without memory, the result is the name's series
 * {overflow="true"}, or the one of banyan_metrics_lost. Never NULL; lives as long as the registry.
 */
struct metric *metrics_get(struct metrics *metrics, enum metric_kind kind, const char *name,
                           const char *help, const char *labels, const double *buckets,
                           uint32_t bucket_count);
/* For counters (by ≥ 0) and gauges. */
void metric_add(struct metric *metric, int64_t by);
/* For gauges. */
void metric_set(struct metric *metric, double value);
/* For histograms. A value equal to a bound counts in that bound's bucket. Never NaN. */
void metric_observe(struct metric *metric, double value);
/* Returns a counter's or a gauge's value, or the sum of a histogram. */
double metric_value(const struct metric *metric);

/* Bounds for every duration: 100 µs to 100 s, in seconds. */
extern const double METRIC_SECONDS_BUCKETS[];
extern const uint32_t METRIC_SECONDS_BUCKET_COUNT;

void metrics_render(struct metrics *metrics, struct buffer *out);
