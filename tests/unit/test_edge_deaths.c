#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "config/base/slice.h"
#include "gateway/edge/state/edge_deaths.h"

static void test_counts_are_told_as_they_are(void **state)
{
    (void)state;
    struct edge_deaths *deaths;
    struct metrics *metrics;
    struct buffer page;
    assert_int_equal(edge_deaths_create(&deaths), STATUS_OK);
    assert_int_equal(metrics_create(&metrics), STATUS_OK);
    edge_deaths_look(NULL, metrics); /* no parent: no series */
    buffer_init(&page, 65536);
    metrics_render(metrics, &page);
    assert_int_equal(page.length, 0);
    edge_deaths_count(deaths, EDGE_DEATHS_OF_ENGINE, EDGE_DEATHS_HUNG);
    edge_deaths_count(deaths, EDGE_DEATHS_OF_ENGINE, EDGE_DEATHS_HUNG);
    edge_deaths_count(deaths, EDGE_DEATHS_OF_EDGE, EDGE_DEATHS_UNSTARTED);
    for (int i = 0; i < 3; i++)
        edge_deaths_look(deaths, metrics);
    buffer_clear(&page);
    metrics_render(metrics, &page);
    static const char *const lines[] = {
        "banyan_process_deaths_total{process=\"engine\",why=\"hung\"} 2\n",
        "banyan_process_deaths_total{process=\"edge\",why=\"unstarted\"} 1\n",
        "banyan_process_deaths_total{process=\"edge\",why=\"ended\"} 0\n",
    };
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++)
        assert_non_null(memmem(page.bytes, page.length, lines[i], strlen(lines[i])));
    buffer_deinit(&page);
    metrics_destroy(metrics);
    edge_deaths_destroy(deaths);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_counts_are_told_as_they_are),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
