/* edge_probe: one check for all who ask, on a real loop against a scripted engine. */
#include "gateway/edge/engines/edge_probe.h"

#include "gateway/edge/state/edge_metrics.h"
#include "tests/unit/edge_kit.h"

enum { WAITERS = 5 };

static struct edge_probe_waiter waiters[WAITERS];
static struct edge_probe *probe;
static struct loop *loop;
static int told_up;
static int told_down;
static bool leaves;

static void told(void *context, bool is_up)
{
    (void)context;
    told_up += is_up;
    told_down += !is_up;
    if (told_up + told_down == (leaves ? 2 : WAITERS))
        loop_stop(loop);
}

/* The first that is told makes three others leave, while they are being told. */
static void told_and_leave(void *context, bool is_up)
{
    for (int i = 0; i < 3; i++)
        edge_probe_leave(probe, &waiters[i]);
    told(context, is_up);
}

static void ask_all(void)
{
    told_up = told_down = 0;
    for (int i = 0; i < WAITERS; i++) {
        bool is_first_told = i == WAITERS - 1;
        waiters[i].told = leaves && is_first_told ? told_and_leave : told;
        edge_probe_ask(probe, &waiters[i]);
    }
    loop_run(loop);
}

static void open_probe(struct http1_client **client, struct edge_metrics *metrics)
{
    char path[128];
    snprintf(path, sizeof path, "%s/engine/engine.sock", kit.dir);
    assert_int_equal(edge_metrics_init(metrics), STATUS_OK);
    assert_int_equal(loop_create(&loop), STATUS_OK);
    struct http1_client_options options = {.loop = loop,
                                           .unix_path = path,
                                           .connections_max = 4,
                                           .connect_timeout_ms = 1000,
                                           .head_timeout_ms = 10000,
                                           .idle_timeout_ms = 10000,
                                           .peer_uid = -1};
    assert_int_equal(http1_client_create(client, &options), STATUS_OK);
    assert_int_equal(edge_probe_create(&probe, loop, *client, metrics->upstream_up, NULL),
                     STATUS_OK);
}

static void close_probe(struct http1_client *client, struct edge_metrics *metrics)
{
    edge_probe_destroy(probe);
    http1_client_destroy(client);
    loop_destroy(loop);
    edge_metrics_deinit(metrics);
}

static void test_up_down_and_leaving(void **state)
{
    (void)state;
    const char *none[] = {NULL};
    edge_kit_begin(none, 0);
    edge_kit_start_engine();
    struct http1_client *client;
    struct edge_metrics metrics;
    open_probe(&client, &metrics);
    leaves = false;
    ask_all();
    assert_int_equal(told_up, WAITERS);
    assert_true(metric_value(metrics.upstream_up) > 0.5);
    const struct edge_probe_engine *engine = edge_probe_engine(probe);
    assert_int_equal(engine->state, EDGE_PROBE_UP);
    assert_string_equal(engine->instance, "i1");
    assert_string_equal(engine->model, "fake");
    atomic_store(&engine_is_draining, true);
    ask_all();
    assert_int_equal(told_down, WAITERS);
    assert_int_equal(engine->state, EDGE_PROBE_DRAINING);
    assert_string_equal(edge_probe_word(probe), "draining");
    atomic_store(&engine_is_draining, false);
    atomic_store(&engine_protocol, 2);
    ask_all();
    assert_int_equal(told_down, WAITERS);
    assert_int_equal(engine->state, EDGE_PROBE_FOREIGN);
    assert_int_equal(engine->protocol, 2);
    assert_string_equal(edge_probe_word(probe), "other protocol");
    atomic_store(&engine_protocol, 1);
    leaves = true;
    ask_all();
    assert_int_equal(told_up, 2);
    leaves = false;
    atomic_store(&engine_is_sick, true);
    ask_all();
    assert_int_equal(told_down, WAITERS);
    atomic_store(&engine_is_sick, false);
    edge_kit_stop_engine();
    ask_all();
    assert_int_equal(told_down, WAITERS);
    assert_string_equal(engine->instance, "i1"); /* whose records are not all read */
    assert_true(metric_value(metrics.upstream_up) < 0.5);
    close_probe(client, &metrics);
    config_release(kit.config);
    close(kit.log);
    edge_kit_remove(kit.dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_up_down_and_leaving),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
