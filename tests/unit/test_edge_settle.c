/* edge_settle: a row into a real ledger, from a real loop; what it counts. */
#include "gateway/edge/engines/edge_settle.h"

#include <string.h>

#include "tests/unit/tenant_kit.h"

static struct edge edge;
static struct tenant_kit *tenants;
static char folder[64];
static int told;

static int set_up(void **state)
{
    (void)state;
    char path[128];
    kit_folder_make(folder);
    snprintf(path, sizeof path, "%s/ledger.db", folder);
    edge = (struct edge){0};
    told = 0;
    assert_int_equal(loop_create(&edge.loop), STATUS_OK);
    assert_int_equal(edge_metrics_init(&edge.metrics), STATUS_OK);
    tenant_kit_setup((void **)&tenants);
    assert_int_equal(quota_open(&edge.quota, &(struct quota_options){.tenants = tenants->tenants}),
                     STATUS_OK);
    assert_int_equal(
        ledger_open(&edge.ledger, &(struct ledger_options){.path = path,
                                                           .batch_told = edge_settle_told,
                                                           .batch_context = &edge}),
        STATUS_OK);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    ledger_close(edge.ledger);
    quota_close(edge.quota);
    tenant_kit_teardown((void **)&tenants);
    edge_metrics_deinit(&edge.metrics);
    loop_destroy(edge.loop);
    kit_folder_remove(folder);
    return 0;
}

static void on_done(void *context, bool is_recorded)
{
    assert_true(is_recorded);
    told++;
    if (--*(int *)context == 0)
        loop_stop(edge.loop);
}

static const struct edge_final final = {.record_seq = 9,
                                        .prompt_tokens = 10,
                                        .cached_tokens = 4,
                                        .completion_tokens = 3,
                                        .finish = "stop",
                                        .queue_us = 1,
                                        .prefill_us = 2,
                                        .decode_us = 3};

static void settle_make(struct edge_settle *settle, const char *request_id, int *left)
{
    *settle = (struct edge_settle){.done = on_done, .context = left};
    snprintf(settle->row.request_id, sizeof settle->row.request_id, "%s", request_id);
    edge_settle_fill(&settle->row, &final);
}

static void test_fill(void **state)
{
    (void)state;
    struct ledger_row row = {.http_code = 200, .is_estimated = true};
    edge_settle_fill(&row, &final);
    assert_int_equal(row.prompt_tokens, 10);
    assert_int_equal(row.cached_tokens, 4);
    assert_int_equal(row.completion_tokens, 3);
    assert_int_equal(row.queue_us, 1);
    assert_int_equal(row.prefill_us, 2);
    assert_int_equal(row.decode_us, 3);
    assert_string_equal(row.finish, "stop");
    assert_false(row.is_estimated);
    assert_int_equal(row.http_code, 200);
}

/* What an engine still knew of a process that is gone: its minute is charged, too. */
static void test_a_replayed_row_is_charged(void **state)
{
    (void)state;
    struct edge_settle settle;
    struct tenant tenant = tenant_kit_tenant(tenants, "acme");
    struct quota_tenant wanted = {.set.cached_percent = -1};
    struct quota_tenant out;
    int left = 1;
    wanted.set.values[QUOTA_OUTPUT_TOKENS_PER_MINUTE].limit = 100;
    assert_int_equal(
        quota_limits_put(tenants->tenants, &change, slice_of(tenant.id), &wanted, &out), STATUS_OK);
    settle_make(&settle, "req_3", &left);
    memcpy(settle.row.tenant_id, tenant.id, sizeof tenant.id);
    settle.is_replayed = true;
    edge_settle_begin(&settle, &edge);
    loop_run(edge.loop);
    struct quota_standing standing =
        quota_standing(edge.quota, tenant.id, NULL, QUOTA_OUTPUT_TOKENS_PER_MINUTE);
    assert_in_range(standing.remaining, 97, 100); /* and what a slow machine gave back since */
    assert_true(standing.reset_us > 0 || standing.remaining == 100);
    edge_settle_deinit(&settle);
}

/* A record that comes twice, or is in the file already, is charged to no minute and counted to no
 * day again. */
static void test_what_is_in_the_ledger_is_charged_once(void **state)
{
    (void)state;
    struct edge_settle settle[3];
    struct tenant tenant = tenant_kit_tenant(tenants, "acme");
    struct quota_tenant wanted = {.set.cached_percent = -1};
    struct quota_tenant out;
    int left = 3;
    wanted.set.values[QUOTA_REQUESTS_PER_MINUTE].limit = 3;
    wanted.set.values[QUOTA_TOKENS_PER_DAY].limit = 100;
    assert_int_equal(
        quota_limits_put(tenants->tenants, &change, slice_of(tenant.id), &wanted, &out), STATUS_OK);
    (void)quota_standing(edge.quota, tenant.id, NULL, QUOTA_TOKENS_PER_DAY); /* it is known */
    for (int i = 0; i < 3; i++) {
        settle_make(&settle[i], "req_4", &left);
        memcpy(settle[i].row.tenant_id, tenant.id, sizeof tenant.id);
        settle[i].row.at_us = clock_wall_us(clock_system());
        settle[i].is_replayed = true;
        edge_settle_begin(&settle[i], &edge);
    }
    loop_run(edge.loop);
    assert_int_equal(told, 3);
    assert_in_range(
        quota_standing(edge.quota, tenant.id, NULL, QUOTA_REQUESTS_PER_MINUTE).remaining, 2, 3);
    assert_int_equal(quota_standing(edge.quota, tenant.id, NULL, QUOTA_TOKENS_PER_DAY).remaining,
                     100 - (10 - 4) - 3);
    for (int i = 0; i < 3; i++)
        edge_settle_deinit(&settle[i]);
}

static void on_late(void *context, bool is_recorded)
{
    assert_int_equal(is_recorded, *(int *)context);
    told++;
}

/* A row that the disk keeps waiting is counted to its day, once, however often the engine says it
 * again before and behind its commit. */
static void test_a_late_row_is_counted_once(void **state)
{
    (void)state;
    static const enum status said[] = {STATUS_STORAGE_FULL, STATUS_IO, STATUS_EXISTS};
    struct edge_settle settle;
    struct tenant tenant = tenant_kit_tenant(tenants, "acme");
    struct quota_tenant wanted = {.set.cached_percent = -1};
    struct quota_tenant out;
    wanted.set.values[QUOTA_TOKENS_PER_DAY].limit = 100;
    assert_int_equal(
        quota_limits_put(tenants->tenants, &change, slice_of(tenant.id), &wanted, &out), STATUS_OK);
    (void)quota_standing(edge.quota, tenant.id, NULL, QUOTA_TOKENS_PER_DAY); /* it is known */
    for (int i = 0; i < 3; i++) {
        int is_recorded = said[i] == STATUS_EXISTS;
        settle_make(&settle, "req_5", &is_recorded);
        settle.done = on_late;
        settle.edge = &edge;
        memcpy(settle.row.tenant_id, tenant.id, sizeof tenant.id);
        settle.is_replayed = i > 0;
        settle.status = said[i]; /* as the ledger's thread leaves it */
        atomic_store(&edge.told, &settle);
        edge_settle_wake(&edge);
        assert_int_equal(told, i + 1);
        assert_int_equal(
            quota_standing(edge.quota, tenant.id, NULL, QUOTA_TOKENS_PER_DAY).remaining,
            100 - (10 - 4) - 3);
    }
}

/* Told once each, from the loop, behind the commit; a row of an id that is there is told so too. */
static void test_rows_are_committed_before_done(void **state)
{
    (void)state;
    struct edge_settle settle[3];
    int left = 3;
    settle_make(&settle[0], "req_1", &left);
    settle_make(&settle[1], "req_2", &left);
    settle_make(&settle[2], "req_1", &left); /* counted already: read again from the engine */
    settle[1].row.is_estimated = true;
    settle[2].is_replayed = true;
    for (int i = 0; i < 3; i++)
        edge_settle_begin(&settle[i], &edge);
    assert_int_equal(told, 0);
    loop_run(edge.loop);
    assert_int_equal(told, 3);
    struct ledger_totals totals;
    ledger_totals(edge.ledger, &totals);
    assert_int_equal(totals.rows, 2);
    assert_int_equal(totals.completion_tokens, 6);
    assert_int_equal((int)metric_value(edge.metrics.tokens_generated), 6);
    assert_int_equal((int)metric_value(edge.metrics.tokens_prompt), 20);
    assert_int_equal((int)metric_value(edge.metrics.estimated_total), 1);
    for (int i = 0; i < 3; i++)
        edge_settle_deinit(&settle[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_a_replayed_row_is_charged, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_what_is_in_the_ledger_is_charged_once, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_a_late_row_is_counted_once, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_fill, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_rows_are_committed_before_done, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
