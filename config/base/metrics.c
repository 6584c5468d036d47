#include "config/base/metrics.h"

#include <inttypes.h>
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "config/base/limits.h"
#include "config/base/mem.h"

/* registry ─► family (name, help, kind, buckets) ─► series (labels, numbers) ─► series …
 *               │                                └── overflow, shown once it was used
 *               └► family …                           registry.lost: no memory even for a family
 *
 * A histogram's buckets[i] counts observations in (bounds[i-1], bounds[i]]; the last one is +Inf.
 * Sums of buckets are made when rendering, so that _count always equals the +Inf bucket. */
struct metric {
    struct metric *next;
    enum metric_kind kind;
    uint32_t bucket_count;
    const double *bounds;
    char *labels;
    _Atomic int64_t count; /* of a counter */
    _Atomic uint64_t real; /* of a gauge, or the sum of a histogram: the bits of a double */
    atomic_bool is_used;   /* of the overflow series only */
    _Atomic uint64_t *buckets;
};

struct family {
    struct family *next;
    enum metric_kind kind;
    uint32_t bucket_count;
    char *name;
    char *help;
    double *bounds;
    struct metric overflow;
    struct metric *first;
    struct metric **end;
};

struct metrics {
    pthread_mutex_t lock;
    struct family *first;
    struct family **end;
    uint32_t series_count;
    struct family lost;
};

const double METRIC_SECONDS_BUCKETS[] = {0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01,
                                         0.025,  0.05,    0.1,    0.25,  0.5,    1,     2.5,
                                         5,      10,      25,     50,    100};
const uint32_t METRIC_SECONDS_BUCKET_COUNT =
    sizeof METRIC_SECONDS_BUCKETS / sizeof METRIC_SECONDS_BUCKETS[0];

static uint64_t real_bits(double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static double real_value(uint64_t bits)
{
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static void real_add(_Atomic uint64_t *real, double by)
{
    uint64_t old = atomic_load_explicit(real, memory_order_relaxed);
    while (!atomic_compare_exchange_weak_explicit(real, &old, real_bits(real_value(old) + by),
                                                  memory_order_relaxed, memory_order_relaxed))
        continue;
}

/* Returns false when there is no memory. */
static bool series_init(struct metric *metric, const struct family *family, const char *labels)
{
    *metric = (struct metric){
        .kind = family->kind, .bucket_count = family->bucket_count, .bounds = family->bounds};
    metric->labels = mem_strdup(labels);
    if (family->kind == METRIC_HISTOGRAM)
        metric->buckets = mem_zalloc((size_t)family->bucket_count + 1, sizeof *metric->buckets);
    return metric->labels != NULL && (family->kind != METRIC_HISTOGRAM || metric->buckets != NULL);
}

static void series_deinit(struct metric *metric)
{
    mem_free(metric->labels);
    mem_free(metric->buckets);
}

static void family_deinit(struct family *family)
{
    struct metric *next;
    for (struct metric *metric = family->first; metric != NULL; metric = next) {
        next = metric->next;
        series_deinit(metric);
        mem_free(metric);
    }
    series_deinit(&family->overflow);
    mem_free(family->name);
    mem_free(family->help);
    mem_free(family->bounds);
}

static bool family_init(struct family *family, enum metric_kind kind, const char *name,
                        const char *help, const double *buckets, uint32_t bucket_count)
{
    *family = (struct family){.kind = kind, .bucket_count = bucket_count};
    family->end = &family->first;
    family->name = mem_strdup(name);
    family->help = mem_strdup(help);
    family->bounds = mem_zalloc(bucket_count, sizeof *buckets);
    if (family->name == NULL || family->help == NULL || family->bounds == NULL)
        return false;
    for (uint32_t i = 0; i < bucket_count; i++) {
        ASSERT(i == 0 || buckets[i] > buckets[i - 1]);
        family->bounds[i] = buckets[i];
    }
    return series_init(&family->overflow, family, "overflow=\"true\"");
}

enum status metrics_create(struct metrics **out)
{
    *out = NULL;
    struct metrics *metrics = mem_zalloc(1, sizeof *metrics);
    if (metrics == NULL)
        FAIL(STATUS_NO_MEMORY, "no memory for the metrics");
    /* A histogram without bounds accepts metric_add, metric_set and metric_observe. */
    if (!family_init(&metrics->lost, METRIC_HISTOGRAM, "banyan_metrics_lost",
                     "Updates of series for which there was no room.", NULL, 0)) {
        family_deinit(&metrics->lost);
        mem_free(metrics);
        FAIL(STATUS_NO_MEMORY, "no memory for the metrics");
    }
    pthread_mutex_init(&metrics->lock, NULL);
    metrics->end = &metrics->first;
    *out = metrics;
    return STATUS_OK;
}

void metrics_destroy(struct metrics *metrics)
{
    if (metrics == NULL)
        return;
    struct family *next;
    for (struct family *family = metrics->first; family != NULL; family = next) {
        next = family->next;
        family_deinit(family);
        mem_free(family);
    }
    family_deinit(&metrics->lost);
    pthread_mutex_destroy(&metrics->lock);
    mem_free(metrics);
}

static struct family *get_family(struct metrics *metrics, enum metric_kind kind, const char *name,
                                 const char *help, const double *buckets, uint32_t bucket_count)
{
    for (struct family *family = metrics->first; family != NULL; family = family->next) {
        if (strcmp(family->name, name) != 0)
            continue;
        ASSERT(family->kind == kind);
        ASSERT(family->bucket_count == bucket_count);
        return family;
    }
    if (metrics->series_count >= LIMIT_METRIC_SERIES)
        return &metrics->lost;
    struct family *family = mem_alloc(sizeof *family);
    if (family == NULL)
        return &metrics->lost;
    if (!family_init(family, kind, name, help, buckets, bucket_count)) {
        family_deinit(family);
        mem_free(family);
        return &metrics->lost;
    }
    *metrics->end = family;
    metrics->end = &family->next;
    return family;
}

static struct metric *get_overflow(struct family *family)
{
    atomic_store(&family->overflow.is_used, true);
    return &family->overflow;
}

static struct metric *get_series(struct metrics *metrics, struct family *family, const char *labels)
{
    for (struct metric *metric = family->first; metric != NULL; metric = metric->next) {
        if (strcmp(metric->labels, labels) == 0)
            return metric;
    }
    if (family == &metrics->lost || metrics->series_count >= LIMIT_METRIC_SERIES)
        return get_overflow(family);
    struct metric *metric = mem_alloc(sizeof *metric);
    if (metric == NULL)
        return get_overflow(family);
    if (!series_init(metric, family, labels)) {
        series_deinit(metric);
        mem_free(metric);
        return get_overflow(family);
    }
    *family->end = metric;
    family->end = &metric->next;
    metrics->series_count++;
    return metric;
}

struct metric *metrics_get(struct metrics *metrics, enum metric_kind kind, const char *name,
                           const char *help, const char *labels, const double *buckets,
                           uint32_t bucket_count)
{
    ASSERT(kind == METRIC_HISTOGRAM || bucket_count == 0);
    pthread_mutex_lock(&metrics->lock);
    struct family *family = get_family(metrics, kind, name, help, buckets, bucket_count);
    struct metric *metric = get_series(metrics, family, labels);
    pthread_mutex_unlock(&metrics->lock);
    return metric;
}

void metric_add(struct metric *metric, int64_t by)
{
    if (metric->kind == METRIC_HISTOGRAM) {
        metric_observe(metric, (double)by);
    } else if (metric->kind == METRIC_GAUGE) {
        real_add(&metric->real, (double)by);
    } else {
        ASSERT(by >= 0);
        atomic_fetch_add_explicit(&metric->count, by, memory_order_relaxed);
    }
}

void metric_set(struct metric *metric, double value)
{
    ASSERT(metric->kind != METRIC_COUNTER);
    if (metric->kind == METRIC_HISTOGRAM)
        metric_observe(metric, value);
    else
        atomic_store_explicit(&metric->real, real_bits(value), memory_order_relaxed);
}

void metric_observe(struct metric *metric, double value)
{
    ASSERT(metric->kind == METRIC_HISTOGRAM);
    ASSERT(!isnan(value));
    uint32_t bucket = 0;
    while (bucket < metric->bucket_count && value > metric->bounds[bucket])
        bucket++;
    atomic_fetch_add_explicit(&metric->buckets[bucket], 1, memory_order_relaxed);
    real_add(&metric->real, value);
}

double metric_value(const struct metric *metric)
{
    /* atomic loads need a non-const object */
    struct metric *mutable = (struct metric *)(uintptr_t)metric;
    if (metric->kind == METRIC_COUNTER)
        return (double)atomic_load_explicit(&mutable->count, memory_order_relaxed);
    return real_value(atomic_load_explicit(&mutable->real, memory_order_relaxed));
}

static void render_real(struct buffer *out, double value)
{
    char text[40];
    snprintf(text, sizeof text, "%.15g", value);
    if (strtod(text, NULL) != value)
        snprintf(text, sizeof text, "%.17g", value);
    if (isinf(value))
        snprintf(text, sizeof text, "%cInf", value > 0 ? '+' : '-');
    buffer_append_text(out, text);
}

static void render_name(struct buffer *out, const char *name, const char *suffix,
                        const char *labels)
{
    buffer_append_text(out, name);
    buffer_append_text(out, suffix);
    if (labels[0] != '\0')
        buffer_printf(out, "{%s}", labels);
    buffer_append_char(out, ' ');
}

static void render_histogram(struct buffer *out, const char *name, struct metric *metric)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i <= metric->bucket_count; i++) {
        sum += atomic_load_explicit(&metric->buckets[i], memory_order_relaxed);
        buffer_printf(out, "%s_bucket{%s%sle=\"", name, metric->labels,
                      metric->labels[0] != '\0' ? "," : "");
        render_real(out, i < metric->bucket_count ? metric->bounds[i] : (double)INFINITY);
        buffer_printf(out, "\"} %" PRIu64 "\n", sum);
    }
    render_name(out, name, "_sum", metric->labels);
    render_real(out, metric_value(metric));
    buffer_append_char(out, '\n');
    render_name(out, name, "_count", metric->labels);
    buffer_printf(out, "%" PRIu64 "\n", sum);
}

static void render_series(struct buffer *out, const struct family *family, struct metric *metric)
{
    if (metric->kind == METRIC_HISTOGRAM) {
        render_histogram(out, family->name, metric);
        return;
    }
    render_name(out, family->name, "", metric->labels);
    if (metric->kind == METRIC_COUNTER)
        buffer_printf(out, "%" PRId64, atomic_load_explicit(&metric->count, memory_order_relaxed));
    else
        render_real(out, metric_value(metric));
    buffer_append_char(out, '\n');
}

static void render_family(struct buffer *out, struct family *family)
{
    static const char *const kind_names[] = {"counter", "gauge", "histogram"};
    buffer_printf(out, "# HELP %s ", family->name);
    for (const char *c = family->help; *c != '\0'; c++) {
        if (*c == '\\' || *c == '\n')
            buffer_append_text(out, *c == '\\' ? "\\\\" : "\\n");
        else
            buffer_append_char(out, *c);
    }
    buffer_printf(out, "\n# TYPE %s %s\n", family->name, kind_names[family->kind]);
    for (struct metric *metric = family->first; metric != NULL; metric = metric->next)
        render_series(out, family, metric);
    if (atomic_load(&family->overflow.is_used))
        render_series(out, family, &family->overflow);
}

void metrics_render(struct metrics *metrics, struct buffer *out)
{
    pthread_mutex_lock(&metrics->lock);
    for (struct family *family = metrics->first; family != NULL; family = family->next)
        render_family(out, family);
    if (atomic_load(&metrics->lost.overflow.is_used))
        render_family(out, &metrics->lost);
    pthread_mutex_unlock(&metrics->lock);
}
