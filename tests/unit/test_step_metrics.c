#include "engine/step/step_metrics.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "config/base/mem.h"
#include "engine/step/step.h"
#include "tests/kit/step_world.h"

static const struct step_world_options roomy = {.rows_max = 64, .sequences_max = 8, .pages = 64};

static struct step_world *world;
static struct metrics *metrics;

static int setup(void **state)
{
    (void)state;
    world = step_world_open(&roomy);
    assert_int_equal(metrics_create(&metrics), STATUS_OK);
    step_metrics_init(&world->step.metrics, metrics, NULL);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    step_world_close(world);
    metrics_destroy(metrics);
    return 0;
}

/* The line of a series, to its end. */
static void assert_told(const char *series, const char *value)
{
    struct buffer text;
    buffer_init(&text, 1 << 20);
    metrics_render(metrics, &text);
    char line[160];
    snprintf(line, sizeof line, "\n%s %s\n", series, value);
    buffer_append_char(&text, '\0');
    if (strstr(text.bytes, line) == NULL)
        fail_msg("no %s %s in\n%s", series, value, text.bytes);
    buffer_deinit(&text);
}

static uint32_t submit(uint32_t prompt, uint32_t tokens, enum service_class class)
{
    static uint32_t ids[STEP_WORLD_CONTEXT];
    static uint32_t texts;
    texts++;
    for (uint32_t i = 0; i < prompt; i++)
        ids[i] = (texts * 31 + i * 7) % 256;
    struct engine_request request = step_world_request(ids, prompt, tokens, 0);
    request.service_class = class;
    return step_world_submit(world, &request);
}

static void test_rows_and_times_are_told_by_class(void **state)
{
    (void)state;
    submit(20, 3, SERVICE_CLASS_BATCH);
    submit(10, 2, SERVICE_CLASS_REALTIME);
    step_world_run(world);
    /* The last token of a request is never a row. */
    assert_told("banyan_class_tokens_total{class=\"batch\"}", "22");
    assert_told("banyan_class_tokens_total{class=\"realtime\"}", "11");
    assert_told("banyan_class_tokens_total{class=\"standard\"}", "0");
    assert_told("banyan_queue_seconds_count{class=\"batch\"}", "1");
    assert_told("banyan_engine_first_token_seconds_count{class=\"realtime\"}", "1");
    assert_told("banyan_inter_token_seconds_count{class=\"batch\"}", "2");
    assert_told("banyan_engine_tokens_total{kind=\"generated\"}", "5");
}

/* Each part once a step with rows, whatever a turn without rows does. */
static void test_times_are_told_by_part(void **state)
{
    (void)state;
    static const char *const parts[] = {"plan", "guess", "forward", "choose", "deliver"};
    submit(20, 3, SERVICE_CLASS_BATCH);
    step_world_run(world);
    step_world_step(world);
    char value[24];
    char series[64];
    snprintf(value, sizeof value, "%llu",
             (unsigned long long)atomic_load(&world->step.figures.steps));
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        snprintf(series, sizeof series, "banyan_step_seconds_count{part=\"%s\"}", parts[i]);
        assert_told(series, value);
    }
}

static void test_states_are_told_by_class(void **state)
{
    (void)state;
    submit(20, 100, SERVICE_CLASS_BATCH);
    submit(20, 100, SERVICE_CLASS_BATCH);
    submit(20, 100, SERVICE_CLASS_STANDARD);
    for (int i = 0; i < 3; i++)
        assert_true(step_world_step(world));
    assert_told("banyan_sequences{class=\"batch\",state=\"computing\"}", "2");
    assert_told("banyan_sequences{class=\"standard\",state=\"computing\"}", "1");
    assert_told("banyan_sequences{class=\"realtime\",state=\"computing\"}", "0");
    assert_told("banyan_sequences{class=\"batch\",state=\"waiting\"}", "0");
    assert_told("banyan_batch_utilization", "0.375");
    step_world_run(world);
    assert_told("banyan_sequences{class=\"batch\",state=\"computing\"}", "0");
    assert_told("banyan_batch_utilization", "0");
}

/* More batch work than the pool holds, then an urgent prompt of half of it. */
static void test_pauses_are_told(void **state)
{
    (void)state;
    for (int i = 0; i < 6; i++)
        submit(200, 60, SERVICE_CLASS_BATCH);
    for (int i = 0; i < 40; i++)
        assert_true(step_world_step(world));
    submit(400, 20, SERVICE_CLASS_REALTIME);
    step_world_run(world);
    uint64_t swapped = atomic_load(&world->step.figures.preemptions_swap);
    uint64_t again = atomic_load(&world->step.figures.preemptions_recompute);
    char value[24];
    assert_true(swapped + again > 0);
    snprintf(value, sizeof value, "%llu", (unsigned long long)swapped);
    assert_told("banyan_preemptions_total{way=\"swap\"}", value);
    snprintf(value, sizeof value, "%llu", (unsigned long long)again);
    assert_told("banyan_preemptions_total{way=\"recompute\"}", value);
    uint64_t overhead = atomic_load(&world->step.figures.tokens_overhead);
    snprintf(value, sizeof value, "%llu", (unsigned long long)overhead);
    assert_told("banyan_overhead_tokens_total", value);
}

/* Tenants of small weight may be further apart: the bound of a class says so. */
static void test_the_bound_goes_by_weight(void **state)
{
    (void)state;
    static const uint32_t ids[200] = {1};
    struct engine_request request = step_world_request(ids, 200, 20, 0);
    request.service_class = SERVICE_CLASS_BATCH;
    request.weight = 10;
    for (int i = 0; i < 8; i++) /* of 14 pages each: some have to wait */
        step_world_submit(world, &request);
    clock_manual_advance(&world->clock, 1000000);
    assert_true(step_world_step(world));
    /* U is 64 rows, 51.2 for what is found, 2 × 8 × 32 generated; Q is 1024. */
    const struct step_class_metrics *classes = world->step.metrics.classes;
    assert_in_range(metric_value(classes[SERVICE_CLASS_BATCH].fair_bound), 14591, 14593);
    assert_in_range(metric_value(classes[SERVICE_CLASS_STANDARD].fair_bound), 3302, 3303);
    step_world_run(world);
}

static void test_nothing_is_kept_without_a_registry(void **state)
{
    (void)state;
    step_metrics_init(&world->step.metrics, NULL, NULL);
    submit(20, 3, SERVICE_CLASS_BATCH);
    step_world_run(world);
    assert_null(world->step.metrics.classes[SERVICE_CLASS_BATCH].rows);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_rows_and_times_are_told_by_class, setup, teardown),
        cmocka_unit_test_setup_teardown(test_times_are_told_by_part, setup, teardown),
        cmocka_unit_test_setup_teardown(test_states_are_told_by_class, setup, teardown),
        cmocka_unit_test_setup_teardown(test_pauses_are_told, setup, teardown),
        cmocka_unit_test_setup_teardown(test_the_bound_goes_by_weight, setup, teardown),
        cmocka_unit_test_setup_teardown(test_nothing_is_kept_without_a_registry, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
