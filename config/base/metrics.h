/* metrics: counters, gauges and histograms, rendered as Prometheus text (exposition format 0.0.4).
 *
 * Owns:     the registry: every series with its name, help and labels, made at start.
 * Thread:   any; registering and rendering take a lock, updates do not.
 * Cost:     an update is one relaxed atomic add (gauge, and sum of a histogram: a
 * compare-and-swap); metrics_get is O(names + series of the name): keep its answer where updates
 * are hot. Not here: who may read them (gateway/admin); names are in metrics.def of the room that
 * counts.
 */
#pragma once

#include <stdint.h>

#include "config/base/slice.h"

struct metrics;
struct metric; /* one series: a name with one set of label values */

enum metric_kind { METRIC_COUNTER, METRIC_GAUGE, METRIC_HISTOGRAM };

enum status metrics_create(struct metrics **out);
void metrics_destroy(struct metrics *metrics);

/* The series `name{labels}`; the same name and labels give the same series again. `labels` is the
 * inside of the braces, already escaped ("route=\"/v1/models\",code=\"200\""), or "". `buckets` are
 * upper bounds for a histogram, ascending, ended by their count. Series are bounded
 * (LIMIT_METRIC_SERIES); beyond that, or without memory, the series {overflow="true"} of the name
 * is returned, or the one of banyan_metrics_lost; never NULL. */
struct metric *metrics_get(struct metrics *metrics, enum metric_kind kind, const char *name,
                           const char *help, const char *labels, const double *buckets,
                           uint32_t bucket_count);
/* Counters (by ≥ 0) and gauges. */
void metric_add(struct metric *metric, int64_t by);
/* Gauges. */
void metric_set(struct metric *metric, double value);
/* Histograms; a value on a bound counts in that bound's bucket. Never NaN. */
void metric_observe(struct metric *metric, double value);
/* The counter, the gauge, or the sum of a histogram. */
double metric_value(const struct metric *metric);

/* Seconds from 100 µs to 100 s, for every duration. */
extern const double METRIC_SECONDS_BUCKETS[];
extern const uint32_t METRIC_SECONDS_BUCKET_COUNT;

void metrics_render(struct metrics *metrics, struct buffer *out);
