#include "auth/tenants/tenant_rows.h"
#include "config/store.h"

#include "tests/unit/base_kit.h"

static const struct audit_filter anything = {.since_s = 0};

struct fixture {
    char folder[64];
    struct store *store;
    struct sqlite3 *connection;
};

static int setup(void **state)
{
    struct fixture *fixture = calloc(1, sizeof *fixture);
    char path[96];
    kit_folder_make(fixture->folder);
    snprintf(path, sizeof path, "%s/banyan.db", fixture->folder);
    assert_int_equal(store_open(&fixture->store, path), STATUS_OK);
    assert_int_equal(store_begin(fixture->store, &fixture->connection), STATUS_OK);
    *state = fixture;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *fixture = *state;
    assert_int_equal(store_end(fixture->store, false), STATUS_OK);
    store_close(fixture->store); /* aborts if a statement was forgotten */
    kit_folder_remove(fixture->folder);
    free(fixture);
    return 0;
}

struct seen {
    int count;
    int fail_at;
    struct tenant tenants[4];
    char metadata[4][32];
    struct tenant_rows_key keys[4];
};

static enum status take_tenant(void *context, const struct tenant *tenant, struct slice metadata)
{
    struct seen *seen = context;
    snprintf(seen->metadata[seen->count], sizeof seen->metadata[0], "%.*s", (int)metadata.length,
             metadata.bytes != NULL ? metadata.bytes : "");
    seen->tenants[seen->count++] = *tenant;
    return seen->count == seen->fail_at ? STATUS_LIMIT : STATUS_OK;
}

static enum status take_key(void *context, const struct tenant_rows_key *row)
{
    struct seen *seen = context;
    seen->keys[seen->count++] = *row;
    return seen->count == seen->fail_at ? STATUS_LIMIT : STATUS_OK;
}

/* Changes: of one row; metadata only when they are given; the last use by itself. */
static void check_changes(struct fixture *fixture, struct tenant *one,
                          struct tenant_rows_key *admin)
{
    struct seen seen;
    admin->key.revoked_at_s = 99;
    admin->key.revision = 2;
    admin->key.last_used_at_s = 5;
    assert_int_equal(tenant_rows_update_key(fixture->connection, &admin->key), STATUS_OK);
    assert_int_equal(tenant_rows_update_used(fixture->connection, "key_1", 77), STATUS_OK);
    seen = (struct seen){0};
    assert_int_equal(tenant_rows_load_keys(fixture->connection, &seen, take_key), STATUS_OK);
    assert_int_equal(seen.keys[0].key.revoked_at_s, 23);
    assert_int_equal(seen.keys[0].key.last_used_at_s, 77);
    assert_int_equal(seen.keys[1].key.revoked_at_s, 99);
    assert_int_equal(seen.keys[1].key.revision, 2);
    assert_int_equal(seen.keys[1].key.last_used_at_s, 0);
    one->weight = 8;
    one->share = TENANT_SHARE_PRIVATE;
    one->cache_share = 3;
    one->default_class = SERVICE_CLASS_REALTIME;
    one->best_class = SERVICE_CLASS_REALTIME;
    one->group[0] = '\0';
    one->models[0] = '\0';
    one->revision = 2;
    assert_int_equal(tenant_rows_update(fixture->connection, one, (struct slice){0}), STATUS_OK);
    seen = (struct seen){0};
    assert_int_equal(tenant_rows_load(fixture->connection, &seen, take_tenant), STATUS_OK);
    assert_int_equal(seen.tenants[0].weight, 8);
    assert_string_equal(seen.tenants[0].group, "");
    assert_int_equal(seen.tenants[0].share, TENANT_SHARE_PRIVATE);
    assert_int_equal(seen.tenants[0].cache_share, 3);
    assert_int_equal(seen.tenants[0].default_class, SERVICE_CLASS_REALTIME);
    assert_int_equal(seen.tenants[0].best_class, SERVICE_CLASS_REALTIME);
    assert_string_equal(seen.tenants[0].models, "");
    assert_int_equal(seen.tenants[0].revision, 2);
    assert_int_equal(seen.tenants[1].revision, 1);
    assert_string_equal(seen.metadata[0], "{\"a\":\"'\"}");
    assert_int_equal(tenant_rows_update(fixture->connection, one, SLICE("{}")), STATUS_OK);
    seen = (struct seen){0};
    assert_int_equal(tenant_rows_load(fixture->connection, &seen, take_tenant), STATUS_OK);
    assert_string_equal(seen.metadata[0], "");
}

static void check_tenants(const struct seen *seen)
{
    assert_int_equal(seen->tenants[0].state, TENANT_SUSPENDED);
    assert_int_equal(seen->tenants[0].weight, 7);
    assert_int_equal(seen->tenants[0].created_at_s, 11);
    assert_int_equal(seen->tenants[0].revision, 1);
    assert_string_equal(seen->tenants[0].group, "it's east");
    assert_int_equal(seen->tenants[0].share, TENANT_SHARE_GROUP);
    assert_int_equal(seen->tenants[0].cache_share, LIMIT_CACHE_SHARE);
    assert_int_equal(seen->tenants[0].default_class, SERVICE_CLASS_BATCH);
    assert_int_equal(seen->tenants[0].best_class, SERVICE_CLASS_STANDARD);
    assert_string_equal(seen->tenants[0].models, "it's\nsmall\n");
    assert_string_equal(seen->tenants[1].group, "");
    assert_string_equal(seen->tenants[1].id, "tnt_2");
}

static void test_rows_come_back(void **state)
{
    struct fixture *fixture = *state;
    struct tenant one = {.id = "tnt_1",
                         .name = "it's one; drop table tenants",
                         .state = TENANT_SUSPENDED,
                         .weight = 7,
                         .created_at_s = 11,
                         .revision = 1,
                         .group = "it's east",
                         .share = TENANT_SHARE_GROUP,
                         .cache_share = LIMIT_CACHE_SHARE,
                         .default_class = SERVICE_CLASS_BATCH,
                         .best_class = SERVICE_CLASS_STANDARD,
                         .models = "it's\nsmall\n"};
    const struct tenant two = {.id = "tnt_2",
                               .name = "two",
                               .weight = 1000,
                               .created_at_s = 12,
                               .revision = 1,
                               .cache_share = 1};
    struct tenant_rows_key key = {.key = {.id = "key_1",
                                          .tenant_id = "tnt_1",
                                          .name = "k",
                                          .redacted = "sk-by-\xe2\x80\xa6",
                                          .rotated_to = "key_9",
                                          .created_at_s = 21,
                                          .expires_at_s = 22,
                                          .revoked_at_s = 23,
                                          .revision = 3},
                                  .hash = {0, 1, 2, 0, 255}};
    struct tenant_rows_key admin = {
        .key = {.id = "key_2", .name = "a", .redacted = "r", .scopes = 31, .revision = 1},
        .hash = {9}};
    assert_int_equal(tenant_rows_insert(fixture->connection, &one, SLICE("{\"a\":\"'\"}")),
                     STATUS_OK);
    assert_int_equal(tenant_rows_insert(fixture->connection, &two, SLICE("{}")), STATUS_OK);
    assert_int_equal(tenant_rows_insert(fixture->connection, &two, SLICE("{}")), STATUS_EXISTS);
    assert_int_equal(tenant_rows_insert_key(fixture->connection, &key), STATUS_OK);
    assert_int_equal(tenant_rows_insert_key(fixture->connection, &admin), STATUS_OK);
    assert_int_equal(tenant_rows_insert_key(fixture->connection, &admin), STATUS_EXISTS);
    struct tenant_rows_key orphan = {.key = {.id = "key_3", .tenant_id = "tnt_3"}, .hash = {7}};
    assert_int_equal(tenant_rows_insert_key(fixture->connection, &orphan), STATUS_CONFLICT);

    struct seen seen = {0};
    assert_int_equal(tenant_rows_load(fixture->connection, &seen, take_tenant), STATUS_OK);
    assert_int_equal(seen.count, 2);
    assert_string_equal(seen.tenants[0].name, one.name);
    assert_string_equal(seen.metadata[0], "{\"a\":\"'\"}");
    assert_string_equal(seen.metadata[1], "");
    check_tenants(&seen);
    seen = (struct seen){0};
    assert_int_equal(tenant_rows_load_keys(fixture->connection, &seen, take_key), STATUS_OK);
    assert_int_equal(seen.count, 2);
    assert_string_equal(seen.keys[0].key.tenant_id, "tnt_1");
    assert_string_equal(seen.keys[0].key.redacted, key.key.redacted);
    assert_int_equal(seen.keys[0].key.created_at_s, 21);
    assert_int_equal(seen.keys[0].key.expires_at_s, 22);
    assert_int_equal(seen.keys[0].key.revoked_at_s, 23);
    assert_memory_equal(seen.keys[0].hash, key.hash, 32);
    assert_string_equal(seen.keys[1].key.tenant_id, "");
    assert_int_equal(seen.keys[1].key.scopes, 31);
    assert_string_equal(seen.keys[0].key.rotated_to, "key_9");
    assert_int_equal(seen.keys[0].key.revision, 3);

    check_changes(fixture, &one, &admin);
    /* A taker's failure ends the walk and is what the caller gets. */
    seen = (struct seen){.fail_at = 1};
    assert_int_equal(tenant_rows_load_keys(fixture->connection, &seen, take_key), STATUS_LIMIT);
    assert_int_equal(seen.count, 1);
    seen = (struct seen){.fail_at = 1};
    assert_int_equal(tenant_rows_load(fixture->connection, &seen, take_tenant), STATUS_LIMIT);
}

static void test_audit(void **state)
{
    struct fixture *fixture = *state;
    struct audit_row row = {.at_us = 5, .type = "tenant.created", .detail = "{}"};
    struct audit_row out[4];
    size_t count;
    for (int i = 0; i < 3; i++) {
        snprintf(row.subject, sizeof row.subject, "s%d", i);
        assert_int_equal(tenant_rows_audit(fixture->connection, &row), STATUS_OK);
    }
    assert_int_equal(tenant_rows_load_audit(fixture->connection, &anything, 0, out, 4, &count),
                     STATUS_OK);
    assert_int_equal(count, 3);
    assert_string_equal(out[2].subject, "s2");
    assert_int_equal(
        tenant_rows_load_audit(fixture->connection, &anything, out[0].id, out, 1, &count),
        STATUS_OK);
    assert_int_equal(count, 1);
    assert_string_equal(out[0].subject, "s1");
    assert_int_equal(tenant_rows_load_audit(fixture->connection, &anything, 0, out, 0, &count),
                     STATUS_OK);
    assert_int_equal(count, 0);
    static const struct {
        struct audit_filter filter;
        size_t count;
    } filters[] = {
        {{.subject = "s1"}, 1},    {{.subject = "s"}, 0},
        {{.type = "tenant"}, 3},   {{.type = "tenant.created"}, 3},
        {{.type = "tenant.c"}, 0}, {{.actor_key_id = "key_1"}, 0},
        {{.since_s = 1}, 0},       {{.until_s = 1}, 3},
    };
    for (size_t i = 0; i < sizeof filters / sizeof filters[0]; i++) {
        assert_int_equal(
            tenant_rows_load_audit(fixture->connection, &filters[i].filter, 0, out, 4, &count),
            STATUS_OK);
        assert_int_equal(count, filters[i].count);
    }
    assert_int_equal(
        store_execute(fixture->connection, "update audit set detail = hex(zeroblob(512))"),
        STATUS_OK);
    assert_int_equal(tenant_rows_load_audit(fixture->connection, &anything, 0, out, 4, &count),
                     STATUS_CORRUPT);
}

static void test_missing_table(void **state)
{
    struct fixture *fixture = *state;
    struct seen seen = {0};
    assert_int_equal(store_execute(fixture->connection, "drop table keys"), STATUS_OK);
    assert_int_equal(tenant_rows_load_keys(fixture->connection, &seen, take_key), STATUS_IO);
    assert_int_equal(tenant_rows_update_used(fixture->connection, "k", 1), STATUS_IO);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_rows_come_back, setup, teardown),
        cmocka_unit_test_setup_teardown(test_audit, setup, teardown),
        cmocka_unit_test_setup_teardown(test_missing_table, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
