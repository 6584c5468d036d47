/* quota_limits_rows: plans and limits come out as they went in; rows out of their bounds. */
#include "auth/limits/quota_limits_rows.h"

#include "tests/unit/tenant_kit.h"

struct seen {
    int plans, tenants, keys, values;
    struct quota_plan plan;
    struct quota_tenant tenant;
    struct quota_limits_set set; /* whoever the values are of */
};

static enum status take_plan(void *context, const struct quota_plan *plan)
{
    struct seen *seen = context;
    seen->plans++;
    seen->plan = *plan;
    return STATUS_OK;
}

static enum status take_tenant(void *context, const struct quota_tenant *limits)
{
    struct seen *seen = context;
    seen->tenants++;
    seen->tenant = *limits;
    return STATUS_OK;
}

static enum status take_key(void *context, const struct quota_key_limits *limits)
{
    struct seen *seen = context;
    seen->keys += (int)limits->revision;
    assert_string_equal(limits->key_id, "key_1");
    return STATUS_OK;
}

static struct quota_limits_set *find(void *context, const char *owner)
{
    struct seen *seen = context;
    seen->values++;
    return owner[0] == 'x' ? NULL : &seen->set;
}

static struct seen read_all(struct sqlite3 *connection)
{
    struct seen seen = {.set.cached_percent = -1};
    assert_int_equal(quota_limits_rows_load(connection, &seen, take_plan), STATUS_OK);
    assert_int_equal(quota_limits_rows_load_tenants(connection, &seen, take_tenant), STATUS_OK);
    assert_int_equal(quota_limits_rows_load_keys(connection, &seen, take_key), STATUS_OK);
    assert_int_equal(quota_limits_rows_load_values(connection, &seen, find), STATUS_OK);
    return seen;
}

static void test_round_trip(void **state)
{
    struct tenant_kit *kit = *state;
    struct sqlite3 *connection;
    struct tenant tenant = tenant_kit_tenant(kit, "acme");
    struct quota_plan plan = {
        .id = "pln_1", .name = "small", .set.cached_percent = 7, .created_at_s = 5, .revision = 3};
    struct quota_tenant limits = {.plan_id = "pln_1", .set.cached_percent = -1, .revision = 2};
    plan.set.values[0] = (struct quota_limits_value){10, false};
    plan.set.on_limit = QUOTA_ON_LIMIT_LOWER_CLASS;
    plan.set.weight = 9;
    plan.set.default_class = SERVICE_CLASS_COUNT;
    plan.set.best_class = 1;
    limits.set.values[7] = (struct quota_limits_value){100, true};
    memcpy(limits.tenant_id, tenant.id, sizeof tenant.id);
    assert_int_equal(store_begin(kit->store, &connection), STATUS_OK);
    assert_int_equal(quota_limits_rows_insert(connection, &plan), STATUS_OK);
    assert_int_equal(quota_limits_rows_insert(connection, &plan), STATUS_EXISTS);
    assert_int_equal(quota_limits_rows_put(connection, &limits), STATUS_OK);
    assert_int_equal(quota_limits_rows_put(connection, &limits), STATUS_OK);
    struct seen seen = read_all(connection);
    assert_int_equal(seen.plans, 1);
    assert_string_equal(seen.plan.name, "small");
    assert_int_equal(seen.plan.revision, 3);
    assert_int_equal(seen.tenants, 1);
    assert_string_equal(seen.tenant.plan_id, "pln_1");
    assert_int_equal(seen.values, 7);
    assert_int_equal(seen.set.weight, 9);
    assert_int_equal(seen.set.default_class, SERVICE_CLASS_COUNT);
    assert_int_equal(seen.set.best_class, 1);
    assert_int_equal(seen.set.values[0].limit, 10);
    assert_false(seen.set.values[0].is_shadow);
    assert_int_equal(seen.set.values[7].limit, 100);
    assert_true(seen.set.values[7].is_shadow);
    assert_int_equal(seen.set.cached_percent, 7);
    assert_int_equal(seen.set.on_limit, QUOTA_ON_LIMIT_LOWER_CLASS);
    plan.set = (struct quota_limits_set){.cached_percent = -1};
    assert_int_equal(quota_limits_rows_update(connection, &plan), STATUS_OK);
    assert_int_equal(read_all(connection).values, 1);
    assert_int_equal(read_all(connection).set.cached_percent, -1);
    assert_int_equal(quota_limits_rows_delete(connection, "pln_1"), STATUS_OK);
    seen = read_all(connection);
    assert_int_equal(seen.plans, 0);
    assert_string_equal(seen.tenant.plan_id, "");
    assert_int_equal(store_end(kit->store, true), STATUS_OK);
}

static void test_keys(void **state)
{
    struct tenant_kit *kit = *state;
    struct sqlite3 *connection;
    struct tenant tenant = tenant_kit_tenant(kit, "acme");
    struct quota_key_limits limits = {.key_id = "key_1", .set.cached_percent = 3, .revision = 4};
    char owner[QUOTA_LIMITS_OWNER_BYTES];
    char longest[LIMIT_ID_BYTES * 2];
    memset(longest, 'x', sizeof longest);
    assert_int_equal(quota_limits_rows_owner((struct slice){longest, 60}, SLICE("key_1"), owner),
                     66);
    assert_int_equal(quota_limits_rows_owner((struct slice){longest, 75}, SLICE("key_1"), owner),
                     0);
    limits.set.values[1] = (struct quota_limits_value){10, false};
    memcpy(limits.tenant_id, tenant.id, sizeof tenant.id);
    assert_int_equal(store_begin(kit->store, &connection), STATUS_OK);
    assert_int_equal(quota_limits_rows_put_key(connection, &limits), STATUS_OK);
    limits.revision++;
    assert_int_equal(quota_limits_rows_put_key(connection, &limits), STATUS_OK);
    struct seen seen = read_all(connection);
    assert_int_equal(seen.keys, 5);
    assert_int_equal(seen.set.values[1].limit, 10);
    assert_int_equal(seen.set.cached_percent, 3);
    assert_int_equal(store_end(kit->store, true), STATUS_OK);
}

static void test_rows_out_of_bounds(void **state)
{
    static const char *const rows[] = {"('a', 'unknown', 1, 0)",
                                       "('a', 'tokens_per_day', 0, 0)",
                                       "('a', 'cached_input_percent', 101, 0)",
                                       "('a', 'kv_tokens', 1000000001, 0)",
                                       "('a', 'on_limit', 0, 0)",
                                       "('a', 'on_limit', 3, 0)",
                                       "('x', 'kv_tokens', 1, 0)",
                                       "('a', 'weight', 1001, 0)",
                                       "('a', 'best_class', 4, 0)"};
    struct tenant_kit *kit = *state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct sqlite3 *connection;
        struct seen seen = {0};
        char sql[128];
        snprintf(sql, sizeof sql, "insert into limit_values values %s", rows[i]);
        assert_int_equal(store_begin(kit->store, &connection), STATUS_OK);
        assert_int_equal(store_execute(connection, sql), STATUS_OK);
        assert_int_equal(quota_limits_rows_load_values(connection, &seen, find), STATUS_CORRUPT);
        assert_int_equal(store_end(kit->store, false), STATUS_OK);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_round_trip, tenant_kit_setup, tenant_kit_teardown),
        cmocka_unit_test_setup_teardown(test_keys, tenant_kit_setup, tenant_kit_teardown),
        cmocka_unit_test_setup_teardown(test_rows_out_of_bounds, tenant_kit_setup,
                                        tenant_kit_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
