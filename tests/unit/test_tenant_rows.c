#include "auth/tenant_rows.h"

#include "tests/unit/base_kit.h"

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
    struct tenant_rows_key keys[4];
};

static enum status take_tenant(void *context, const struct tenant *tenant)
{
    struct seen *seen = context;
    seen->tenants[seen->count++] = *tenant;
    return seen->count == seen->fail_at ? STATUS_LIMIT : STATUS_OK;
}

static enum status take_key(void *context, const struct tenant_rows_key *row)
{
    struct seen *seen = context;
    seen->keys[seen->count++] = *row;
    return seen->count == seen->fail_at ? STATUS_LIMIT : STATUS_OK;
}

static void test_rows_come_back(void **state)
{
    struct fixture *fixture = *state;
    const struct tenant one = {"tnt_1", "it's one; drop table tenants", TENANT_SUSPENDED, 7, 11};
    const struct tenant two = {"tnt_2", "two", TENANT_ACTIVE, 1000, 12};
    struct tenant_rows_key key = {{"key_1", "tnt_1", "k", "sk-by-\xe2\x80\xa6", 0, 21, 22, 23},
                                  {0, 1, 2, 0, 255}};
    struct tenant_rows_key admin = {{"key_2", "", "a", "r", 31, 31, 0, 0}, {9}};
    assert_int_equal(tenant_rows_insert(fixture->connection, &one), STATUS_OK);
    assert_int_equal(tenant_rows_insert(fixture->connection, &two), STATUS_OK);
    assert_int_equal(tenant_rows_insert(fixture->connection, &two), STATUS_EXISTS);
    assert_int_equal(tenant_rows_insert_key(fixture->connection, &key), STATUS_OK);
    assert_int_equal(tenant_rows_insert_key(fixture->connection, &admin), STATUS_OK);
    assert_int_equal(tenant_rows_insert_key(fixture->connection, &admin), STATUS_EXISTS);
    struct tenant_rows_key orphan = {.key = {.id = "key_3", .tenant_id = "tnt_3"}, .hash = {7}};
    assert_int_equal(tenant_rows_insert_key(fixture->connection, &orphan), STATUS_CONFLICT);

    struct seen seen = {0};
    assert_int_equal(tenant_rows_load(fixture->connection, &seen, take_tenant), STATUS_OK);
    assert_int_equal(seen.count, 2);
    assert_string_equal(seen.tenants[0].name, one.name);
    assert_int_equal(seen.tenants[0].state, TENANT_SUSPENDED);
    assert_int_equal(seen.tenants[0].weight, 7);
    assert_int_equal(seen.tenants[0].created_at_s, 11);
    assert_string_equal(seen.tenants[1].id, "tnt_2");
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

    assert_int_equal(tenant_rows_revoke_key(fixture->connection, "key_2", 99), STATUS_OK);
    seen = (struct seen){0};
    assert_int_equal(tenant_rows_load_keys(fixture->connection, &seen, take_key), STATUS_OK);
    assert_int_equal(seen.keys[0].key.revoked_at_s, 23);
    assert_int_equal(seen.keys[1].key.revoked_at_s, 99);
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
    assert_int_equal(tenant_rows_load_audit(fixture->connection, 0, out, 4, &count), STATUS_OK);
    assert_int_equal(count, 3);
    assert_string_equal(out[2].subject, "s2");
    assert_int_equal(tenant_rows_load_audit(fixture->connection, out[0].id, out, 1, &count),
                     STATUS_OK);
    assert_int_equal(count, 1);
    assert_string_equal(out[0].subject, "s1");
    assert_int_equal(tenant_rows_load_audit(fixture->connection, 0, out, 0, &count), STATUS_OK);
    assert_int_equal(count, 0);
    assert_int_equal(
        store_execute(fixture->connection, "update audit set detail = hex(zeroblob(256))"),
        STATUS_OK);
    assert_int_equal(tenant_rows_load_audit(fixture->connection, 0, out, 4, &count),
                     STATUS_CORRUPT);
}

static void test_missing_table(void **state)
{
    struct fixture *fixture = *state;
    struct seen seen = {0};
    assert_int_equal(store_execute(fixture->connection, "drop table keys"), STATUS_OK);
    assert_int_equal(tenant_rows_load_keys(fixture->connection, &seen, take_key), STATUS_IO);
    assert_int_equal(tenant_rows_revoke_key(fixture->connection, "k", 1), STATUS_IO);
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
