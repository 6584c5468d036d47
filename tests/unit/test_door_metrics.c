/* door_metrics: every reason is a series of its own, and without a registry nothing is counted. */
#include "gateway/http/door_metrics.h"

#include <string.h>

#include "base_kit.h"

static void test_series(void **state)
{
    (void)state;
    struct metrics *registry;
    assert_int_equal(metrics_create(&registry), STATUS_OK);
    struct door_metrics door, other;
    door_metrics_init(&door, registry, "public", true);
    door_metrics_init(&other, registry, "admin", false);
    for (int why = 0; why < DOOR_REFUSAL_COUNT; why++)
        for (int i = 0; i <= why; i++)
            door_metrics_refused(&door, (enum door_refusal)why);
    for (int why = 0; why < DOOR_KILL_COUNT; why++)
        for (int i = 0; i <= why; i++)
            door_metrics_killed(&door, (enum door_kill)why);
    for (int why = 0; why < DOOR_PAUSE_COUNT; why++)
        for (int i = 0; i <= why; i++)
            door_metrics_paused(&door, (enum door_pause)why);
    door_metrics_handshake_failed(&door);
    door_metrics_held(&door);
    door_metrics_set(&door, 7, 4096);
    struct buffer out;
    buffer_init(&out, 1 << 20);
    metrics_render(registry, &out);
    buffer_append_char(&out, '\0');
    const char *const lines[] = {
        "banyan_connections_refused_total{listener=\"public\",why=\"address_connections\"} 1\n",
        "banyan_connections_refused_total{listener=\"public\",why=\"address_rate\"} 2\n",
        "banyan_connections_refused_total{listener=\"public\",why=\"full\"} 3\n",
        "banyan_connections_killed_total{listener=\"public\",why=\"resets\"} 1\n",
        "banyan_connections_killed_total{listener=\"public\",why=\"handshakes_many\"} 6\n",
        "banyan_accept_pauses_total{listener=\"public\",why=\"handshakes\"} 1\n",
        "banyan_accept_pauses_total{listener=\"public\",why=\"descriptors\"} 2\n",
        "banyan_handshakes_failed_total{listener=\"public\"} 1\n",
        "banyan_handshakes_failed_total{listener=\"admin\"} 0\n",
        "banyan_connections_held_total{listener=\"public\"} 1\n",
        "banyan_connections_held_total{listener=\"admin\"} 0\n",
        "banyan_connections{listener=\"public\"} 7\n",
        "banyan_unfinished_request_bytes{listener=\"public\"} 4096\n",
    };
    for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
        if (strstr(out.bytes, lines[i]) == NULL)
            fail_msg("no line %s in %s", lines[i], out.bytes);
    }
    buffer_deinit(&out);
    metrics_destroy(registry);
}

static void test_no_registry(void **state)
{
    (void)state;
    struct door_metrics door;
    door_metrics_init(&door, NULL, "public", true);
    door_metrics_refused(&door, DOOR_REFUSED_FULL);
    door_metrics_killed(&door, DOOR_KILLED_RESETS);
    door_metrics_paused(&door, DOOR_PAUSED_HANDSHAKES);
    door_metrics_handshake_failed(&door);
    door_metrics_held(&door);
    door_metrics_set(&door, 1, 1);
    assert_null(door.connections);
    assert_string_equal(door_metrics_kill_name(DOOR_KILLED_SLOW_BODY), "slow_body");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_series),
        cmocka_unit_test(test_no_registry),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
