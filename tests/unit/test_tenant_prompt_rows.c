/* tenant_prompt_rows: prompts and grants come out as they went in; rows out of their bounds. */
#include "auth/tenants/tenant_prompt_rows.h"

#include "tests/unit/tenant_kit.h"

struct seen {
    int count;
    struct tenant_prompt last;
    char content[64];
};

static enum status take(void *context, const struct tenant_prompt *prompt, struct slice content)
{
    struct seen *seen = context;
    seen->count++;
    seen->last = *prompt;
    snprintf(seen->content, sizeof seen->content, "%.*s", (int)content.length, content.bytes);
    return seen->count == 3 ? STATUS_LIMIT : STATUS_OK;
}

static const struct tenant_prompt prompt = {.id = "spr_1",
                                            .name = "brief",
                                            .version = 2,
                                            .pin_until_s = 7,
                                            .created_at_s = 5,
                                            .revision = 3};

static void test_round_trip(void **state)
{
    struct tenant_kit *kit = *state;
    struct sqlite3 *connection;
    struct seen seen = {0};
    const struct tenant_prompt_grant grants[] = {{.group = "labs"}, {.tenant_id = "tnt_1"}};
    static struct tenant_prompt_grant read[LIMIT_PROMPT_GRANTS];
    size_t count = 0;
    assert_int_equal(store_begin(kit->store, &connection), STATUS_OK);
    assert_int_equal(tenant_prompt_rows_insert(connection, &prompt, SLICE("{\"text\":\"a\"}")),
                     STATUS_OK);
    assert_int_equal(tenant_prompt_rows_insert(connection, &prompt, SLICE("{}")), STATUS_EXISTS);
    assert_int_equal(tenant_prompt_rows_grant(connection, "spr_1", grants, 2), STATUS_OK);
    assert_int_equal(tenant_prompt_rows_load(connection, &seen, take), STATUS_OK);
    assert_int_equal(seen.count, 1);
    assert_string_equal(seen.content, "{\"text\":\"a\"}");
    assert_memory_equal(&seen.last, &prompt, sizeof prompt);
    assert_int_equal(tenant_prompt_rows_load_grants(connection, "spr_1", read, &count), STATUS_OK);
    assert_int_equal(count, 2);
    assert_string_equal(read[0].tenant_id, "tnt_1");
    assert_string_equal(read[1].group, "labs");
    assert_int_equal(tenant_prompt_rows_grant(connection, "spr_1", grants, 1), STATUS_OK);
    assert_int_equal(tenant_prompt_rows_load_grants(connection, "spr_1", read, &count), STATUS_OK);
    assert_int_equal(count, 1);
    struct tenant_prompt other = prompt;
    snprintf(other.name, sizeof other.name, "other");
    other.pin_until_s = 0;
    assert_int_equal(tenant_prompt_rows_update(connection, &other), STATUS_OK);
    assert_int_equal(tenant_prompt_rows_load(connection, &seen, take), STATUS_OK);
    assert_string_equal(seen.last.name, "other");
    assert_int_equal(seen.last.pin_until_s, 0);
    assert_int_equal(tenant_prompt_rows_load(connection, &seen, take), STATUS_LIMIT);
    assert_int_equal(tenant_prompt_rows_delete(connection, "spr_1"), STATUS_OK);
    seen.count = 0;
    assert_int_equal(tenant_prompt_rows_load(connection, &seen, take), STATUS_OK);
    assert_int_equal(seen.count, 0);
    assert_int_equal(store_end(kit->store, true), STATUS_OK);
}

static void test_broken_rows(void **state)
{
    struct tenant_kit *kit = *state;
    struct sqlite3 *connection;
    struct seen seen = {0};
    tenant_kit_execute(kit, "insert into prompts (id, name, content, version, pin_until_s, "
                            "created_at_s, revision) values ('spr_1', 'a', '{}', 0, 0, 0, 1)");
    assert_int_equal(store_begin(kit->store, &connection), STATUS_OK);
    assert_int_equal(tenant_prompt_rows_load(connection, &seen, take), STATUS_CORRUPT);
    assert_int_equal(store_end(kit->store, false), STATUS_OK);
    tenant_kit_execute(kit, "update prompts set version = 1, name = printf('%0200d', 1)");
    assert_int_equal(store_begin(kit->store, &connection), STATUS_OK);
    assert_int_equal(tenant_prompt_rows_load(connection, &seen, take), STATUS_CORRUPT);
    assert_int_equal(store_end(kit->store, false), STATUS_OK);
    assert_int_equal(seen.count, 0);
    tenant_kit_execute(kit, "delete from prompts");
}

static void test_too_many_grants(void **state)
{
    struct tenant_kit *kit = *state;
    struct sqlite3 *connection;
    static struct tenant_prompt_grant read[LIMIT_PROMPT_GRANTS];
    size_t count = 0;
    tenant_kit_execute(
        kit, "insert into prompts (id, name, content, version, pin_until_s, created_at_s, revision)"
             " values ('spr_1', 'a', '{}', 1, 0, 0, 1);"
             "with recursive n(i) as (select 0 union all select i + 1 from n where i < 256) "
             "insert into prompt_grants select 'spr_1', 'tnt_' || i, '' from n");
    assert_int_equal(store_begin(kit->store, &connection), STATUS_OK);
    assert_int_equal(tenant_prompt_rows_load_grants(connection, "spr_1", read, &count),
                     STATUS_LIMIT);
    assert_int_equal(store_end(kit->store, false), STATUS_OK);
    tenant_kit_execute(kit, "delete from prompt_grants; delete from prompts");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_round_trip, tenant_kit_setup, tenant_kit_teardown),
        cmocka_unit_test_setup_teardown(test_broken_rows, tenant_kit_setup, tenant_kit_teardown),
        cmocka_unit_test_setup_teardown(test_too_many_grants, tenant_kit_setup,
                                        tenant_kit_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
