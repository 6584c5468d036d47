#include "gateway/edge/edge_memory.h"

#include "config/base/limits.h"
#include "tests/unit/edge_text_kit.h"

enum { LIMIT_BYTES = 16 << 20, LOOK_MS = 250 };

static struct loop *loop;
static struct edge_metrics metrics;
static struct edge_memory *memory;

static void stop(void *context)
{
    loop_stop(context);
}

/* Long enough for a look at the heap. */
static void look(void)
{
    struct loop_timer *timer = loop_timer_create(loop, stop, loop);
    loop_timer_arm(timer, LOOK_MS);
    loop_run(loop);
    loop_timer_destroy(timer);
}

static int setup(void **state)
{
    (void)state;
    assert_int_equal(edge_metrics_init(&metrics), STATUS_OK);
    assert_int_equal(loop_create(&loop), STATUS_OK);
    assert_int_equal(edge_memory_create(&memory, loop, LIMIT_BYTES, &metrics), STATUS_OK);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    edge_memory_destroy(memory);
    edge_memory_destroy(NULL);
    loop_destroy(loop);
    edge_metrics_deinit(&metrics);
    return 0;
}

static void test_large_ones_are_refused_first(void **state)
{
    (void)state;
    for (int i = 0; i < 3; i++)
        assert_int_equal(edge_memory_take(memory, 5 << 20), STATUS_OK);
    assert_true(metric_value(metrics.memory_refused) == 0);
    assert_int_equal(edge_memory_take(memory, 5 << 20), STATUS_BUSY);
    assert_int_equal(edge_memory_take(memory, LIMIT_SMALL_BODY_BYTES + (1 << 20)), STATUS_BUSY);
    assert_true(metric_value(metrics.memory_refused) == 2);
    int small = 0;
    while (small < 1000 && edge_memory_take(memory, LIMIT_SMALL_BODY_BYTES) == STATUS_OK)
        small++;
    /* From 15 MiB to twice the limit. */
    assert_in_range(small, 200, 17 * 16);
    assert_int_equal(edge_memory_take(memory, LIMIT_SMALL_BODY_BYTES), STATUS_BUSY);
    look(); /* nothing of all that is there in truth */
    assert_int_equal(edge_memory_take(memory, 5 << 20), STATUS_OK);
}

static void test_the_heap_counts(void **state)
{
    (void)state;
    look();
    void *block = malloc(LIMIT_BYTES);
    assert_non_null(block);
    memset(block, 1, LIMIT_BYTES);
    size_t heap_bytes = edge_memory_heap_bytes();
    look();
    bool is_measured = heap_bytes >= LIMIT_BYTES; /* not under a sanitizer's allocator */
    assert_int_equal(edge_memory_take(memory, LIMIT_SMALL_BODY_BYTES + 1),
                     is_measured ? STATUS_BUSY : STATUS_OK);
    assert_int_equal(edge_memory_take(memory, 1000), STATUS_OK);
    free(block);
    look();
    assert_int_equal(edge_memory_take(memory, LIMIT_SMALL_BODY_BYTES + 1), STATUS_OK);
}

static void test_without_memory(void **state)
{
    (void)state;
    struct edge_memory *other = NULL;
    struct edge_text_failing failing = {.fails_at = 0};
    mem_hook_set(edge_text_hook, &failing);
    assert_int_equal(edge_memory_create(&other, loop, LIMIT_BYTES, &metrics), STATUS_NO_MEMORY);
    mem_hook_set(NULL, NULL);
    assert_null(other);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_large_ones_are_refused_first, setup, teardown),
        cmocka_unit_test_setup_teardown(test_the_heap_counts, setup, teardown),
        cmocka_unit_test_setup_teardown(test_without_memory, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
