/* store, with what stands in it: a file of each earlier version, with rows of the first one in it,
 * opens as it is and takes changes. (The ledger's: test_ledger_rows.) */
#include "config/store.h"

#include <sqlite3.h>

#include "auth/tenants/tenant_group.h"
#include "tests/unit/tenant_kit.h"

static const char first_rows[] =
    "insert into tenants values (1, 'tnt_old', 'old', 1, 7, 5);" /* suspended */
    "insert into keys values (1, 'key_old', 'tnt_old', 'k', 'sk-by-…', 0, zeroblob(32), 5, 6, 7);"
    "insert into keys values (2, 'key_admin', null, 'a', 'sk-ba-…', 31,"
    " cast(printf('%032d', 1) as blob), 5, 0, 0);"
    "insert into audit values (1, 5000000, 'tenant.created', '', '', '', 'tnt_old', '{}');";

/* The file as the version with so many steps has left it; its tenant is in a group where there were
 * any. */
static bool file_make(struct tenant_kit *kit, int steps)
{
    struct sqlite3 *connection;
    int all = 0;
    const char *const *schema = store_schema(&all);
    unlink(kit->path);
    assert_int_equal(store_connect(&connection, kit->path, true), STATUS_OK);
    assert_int_equal(store_migrate(connection, schema, 1), STATUS_OK);
    assert_int_equal(store_execute(connection, first_rows), STATUS_OK);
    bool has_group = false;
    for (int step = 2; step <= steps; step++) { /* each by the version that brought it */
        assert_int_equal(store_migrate(connection, schema, step), STATUS_OK);
        has_group = has_group || sqlite3_exec(connection, "update tenants set group_name = 'east'",
                                              NULL, NULL, NULL) == SQLITE_OK;
    }
    bool has_table =
        sqlite3_exec(connection, "select 1 from tenant_groups", NULL, NULL, NULL) == SQLITE_OK;
    sqlite3_close(connection);
    return has_group && !has_table;
}

static void check_file(struct tenant_kit *kit, bool has_group)
{
    struct tenant tenant;
    struct tenant_group group;
    tenant_kit_start(kit);
    assert_int_equal(tenants_get(kit->tenants, SLICE("tnt_old"), &tenant), STATUS_OK);
    assert_int_equal(tenant.state, TENANT_SUSPENDED);
    assert_int_equal(tenant.weight, 7);
    if (has_group) {
        assert_int_equal(tenant_group_get(kit->tenants, SLICE("east"), &group), STATUS_OK);
        assert_int_equal(group.tenants, 1);
    }
    const struct tenant_fields fields = {.given = TENANT_STATE | TENANT_WEIGHT | TENANT_GROUP,
                                         .state = TENANT_ACTIVE,
                                         .weight = 9,
                                         .group = SLICE("west")};
    assert_int_equal(tenants_update(kit->tenants, &change, SLICE("tnt_old"), &fields, &tenant),
                     STATUS_OK);
    tenant_kit_stop(kit);
    tenant_kit_start(kit);
    assert_int_equal(tenants_get(kit->tenants, SLICE("tnt_old"), &tenant), STATUS_OK);
    assert_int_equal(tenant.weight, 9);
    assert_int_equal(tenant_group_get(kit->tenants, SLICE("west"), &group), STATUS_OK);
    assert_int_equal(group.tenants, 1);
    assert_int_equal(tenant_kit_number(kit, "select count(*) from keys"), 2);
    assert_int_equal(tenant_kit_number(kit, "select scopes from keys where id = 'key_old'"), 40);
    assert_int_equal(tenant_kit_number(kit, "select count(*) from audit"), 2);
    assert_int_equal(tenant_kit_number(kit, "select count(*) from pragma_foreign_key_check"), 0);
    assert_int_equal(tenant_kit_number(kit, "select count(*) from pragma_integrity_check where "
                                            "integrity_check <> 'ok'"),
                     0);
}

static void test_a_file_of_each_earlier_version(void **state)
{
    struct tenant_kit *kit = *state;
    int all = 0;
    int with_group = 0;
    (void)store_schema(&all);
    assert_true(all > 10);
    for (int steps = 1; steps <= all; steps++) {
        tenant_kit_stop(kit);
        bool has_group = file_make(kit, steps);
        with_group += has_group;
        check_file(kit, has_group);
        assert_int_equal(tenant_kit_number(kit, "select max(number) from schema_steps"), all);
    }
    assert_true(with_group > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_a_file_of_each_earlier_version, tenant_kit_setup,
                                        tenant_kit_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
