#include "config/base/metrics.h"

#include "tests/unit/base_kit.h"

#include <math.h>
#include <pthread.h>

#include "config/base/limits.h"

static void expect_text(struct metrics *metrics, const char *wanted)
{
    struct buffer text;
    buffer_init(&text, 10000000);
    metrics_render(metrics, &text);
    assert_int_equal(text.status, STATUS_OK);
    assert_string_equal(text.bytes != NULL ? text.bytes : "", wanted);
    buffer_deinit(&text);
}

static void test_text(void **state)
{
    (void)state;
    static const double bounds[] = {0.5, 1, 2.5};
    struct metrics *metrics;
    assert_int_equal(metrics_create(&metrics), STATUS_OK);
    expect_text(metrics, "");
    struct metric *ok = metrics_get(metrics, METRIC_COUNTER, "requests_total",
                                    "Requests\\\nof all.", "code=\"200\"", NULL, 0);
    struct metric *rows = metrics_get(metrics, METRIC_GAUGE, "rows", "Rows.", "", NULL, 0);
    struct metric *bad =
        metrics_get(metrics, METRIC_COUNTER, "requests_total", "x", "code=\"400\"", NULL, 0);
    struct metric *seconds =
        metrics_get(metrics, METRIC_HISTOGRAM, "seconds", "Time.", "class=\"a\"", bounds, 3);
    assert_ptr_not_equal(ok, bad);
    assert_ptr_equal(
        ok, metrics_get(metrics, METRIC_COUNTER, "requests_total", "", "code=\"200\"", NULL, 0));
    metric_add(ok, 3);
    metric_add(bad, 1);
    metric_set(rows, 2.25);
    metric_add(rows, -1);
    metric_observe(seconds, 0.5); /* a bound belongs to its bucket */
    metric_observe(seconds, 0.75);
    metric_observe(seconds, 100);
    assert_true(metric_value(ok) == 3);
    assert_true(metric_value(rows) == 1.25);
    assert_true(metric_value(seconds) == 101.25);
    expect_text(metrics, "# HELP requests_total Requests\\\\\\nof all.\n"
                         "# TYPE requests_total counter\n"
                         "requests_total{code=\"200\"} 3\n"
                         "requests_total{code=\"400\"} 1\n"
                         "# HELP rows Rows.\n"
                         "# TYPE rows gauge\n"
                         "rows 1.25\n"
                         "# HELP seconds Time.\n"
                         "# TYPE seconds histogram\n"
                         "seconds_bucket{class=\"a\",le=\"0.5\"} 1\n"
                         "seconds_bucket{class=\"a\",le=\"1\"} 2\n"
                         "seconds_bucket{class=\"a\",le=\"2.5\"} 2\n"
                         "seconds_bucket{class=\"a\",le=\"+Inf\"} 3\n"
                         "seconds_sum{class=\"a\"} 101.25\n"
                         "seconds_count{class=\"a\"} 3\n");
    metrics_destroy(metrics);
}

static void test_numbers(void **state)
{
    (void)state;
    static const struct {
        double value;
        const char *text;
    } cases[] = {{0, "g 0\n"},
                 {0.1, "g 0.1\n"},
                 {1.0 / 3, "g 0.33333333333333331\n"},
                 {1e300, "g 1e+300\n"},
                 {INFINITY, "g +Inf\n"},
                 {-INFINITY, "g -Inf\n"},
                 {9007199254740993.0, "g 9007199254740992\n"}};
    struct metrics *metrics;
    assert_int_equal(metrics_create(&metrics), STATUS_OK);
    struct metric *gauge = metrics_get(metrics, METRIC_GAUGE, "g", "h", "", NULL, 0);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char wanted[128];
        snprintf(wanted, sizeof wanted, "# HELP g h\n# TYPE g gauge\n%s", cases[i].text);
        metric_set(gauge, cases[i].value);
        expect_text(metrics, wanted);
    }
    metrics_destroy(metrics);
}

static void test_series_are_bounded(void **state)
{
    (void)state;
    struct metrics *metrics;
    char labels[32];
    assert_int_equal(metrics_create(&metrics), STATUS_OK);
    struct metric *last = NULL;
    for (int i = 0; i < LIMIT_METRIC_SERIES; i++) {
        snprintf(labels, sizeof labels, "i=\"%d\"", i);
        struct metric *metric = metrics_get(metrics, METRIC_COUNTER, "c", "h", labels, NULL, 0);
        assert_ptr_not_equal(metric, last);
        last = metric;
    }
    struct metric *over = metrics_get(metrics, METRIC_COUNTER, "c", "h", "i=\"more\"", NULL, 0);
    assert_ptr_not_equal(over, last);
    assert_ptr_equal(over, metrics_get(metrics, METRIC_COUNTER, "c", "h", "i=\"x\"", NULL, 0));
    assert_ptr_equal(last, metrics_get(metrics, METRIC_COUNTER, "c", "h", labels, NULL, 0));
    metric_add(over, 7);
    /* A new name has no room at all; its updates are taken, of whatever kind. */
    struct metric *lost = metrics_get(metrics, METRIC_GAUGE, "late", "h", "", NULL, 0);
    metric_set(lost, 1);
    metric_add(lost, 1);
    struct buffer text;
    buffer_init(&text, 10000000);
    metrics_render(metrics, &text);
    assert_non_null(strstr(text.bytes, "\nc{overflow=\"true\"} 7\n"));
    assert_non_null(strstr(text.bytes, "\nbanyan_metrics_lost_count{overflow=\"true\"} 2\n"));
    assert_null(strstr(text.bytes, "late"));
    buffer_deinit(&text);
    metrics_destroy(metrics);
}

static void test_no_memory(void **state)
{
    (void)state;
    static const double bounds[] = {1};
    for (int n = 1;; n++) {
        struct metrics *metrics;
        int left = n;
        mem_hook_set(kit_fail_at, &left);
        enum status status = metrics_create(&metrics);
        if (status == STATUS_OK) {
            struct metric *metric =
                metrics_get(metrics, METRIC_HISTOGRAM, "h", "h", "a=\"b\"", bounds, 1);
            assert_non_null(metric);
            metric_observe(metric, 0.5);
            assert_true(metric_value(metric) == 0.5);
        }
        mem_hook_set(NULL, NULL);
        if (status == STATUS_OK)
            metrics_destroy(metrics);
        else
            assert_int_equal(status, STATUS_NO_MEMORY);
        if (left > 0) {
            assert_true(n > 8);
            break;
        }
    }
}

static void *count_up(void *context)
{
    struct metrics *metrics = context;
    for (int i = 0; i < 10000; i++) {
        metric_add(metrics_get(metrics, METRIC_COUNTER, "c", "h", "", NULL, 0), 1);
        metric_add(metrics_get(metrics, METRIC_GAUGE, "g", "h", "", NULL, 0), 2);
        metric_observe(metrics_get(metrics, METRIC_HISTOGRAM, "s", "h", "", METRIC_SECONDS_BUCKETS,
                                   METRIC_SECONDS_BUCKET_COUNT),
                       1);
    }
    return NULL;
}

static void test_threads(void **state)
{
    (void)state;
    struct metrics *metrics;
    pthread_t threads[4];
    assert_int_equal(metrics_create(&metrics), STATUS_OK);
    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, count_up, metrics), 0);
    struct buffer text;
    buffer_init(&text, 100000);
    for (int i = 0; i < 20; i++) {
        buffer_clear(&text);
        metrics_render(metrics, &text);
        assert_int_equal(text.status, STATUS_OK);
    }
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    buffer_clear(&text);
    metrics_render(metrics, &text);
    assert_non_null(strstr(text.bytes, "\nc 40000\n"));
    assert_non_null(strstr(text.bytes, "\ng 80000\n"));
    assert_non_null(strstr(text.bytes, "\ns_sum 40000\n"));
    assert_non_null(strstr(text.bytes, "\ns_count 40000\n"));
    assert_non_null(strstr(text.bytes, "\ns_bucket{le=\"0.5\"} 0\ns_bucket{le=\"1\"} 40000\n"));
    buffer_deinit(&text);
    metrics_destroy(metrics);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_text),
        cmocka_unit_test(test_numbers),
        cmocka_unit_test(test_series_are_bounded),
        cmocka_unit_test(test_no_memory),
        cmocka_unit_test(test_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
