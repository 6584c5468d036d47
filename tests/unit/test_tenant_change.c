#include "auth/tenants/tenant_change.h"

#include "tests/unit/tenant_kit.h"

static void test_revisions(void **state)
{
    (void)state;
    struct tenant_change some = {.actor = &actor};
    assert_int_equal(tenant_change_check_revision(&some, 7), STATUS_OK);
    some.revision_count = 2;
    some.revisions[0] = 3;
    some.revisions[1] = 5;
    assert_int_equal(tenant_change_check_revision(&some, 3), STATUS_OK);
    assert_int_equal(tenant_change_check_revision(&some, 5), STATUS_OK);
    assert_int_equal(tenant_change_check_revision(&some, 4), STATUS_CHANGED);
    assert_string_equal(status_note()->param, "if-match");
}

static void test_names(void **state)
{
    (void)state;
    char name[LIMIT_NAME_BYTES];
    memset(name, 'x', sizeof name);
    assert_int_equal(tenant_change_check_name("name", (struct slice){name, LIMIT_NAME_BYTES - 1}),
                     STATUS_OK);
    assert_int_equal(tenant_change_check_name("name", (struct slice){name, LIMIT_NAME_BYTES}),
                     STATUS_INVALID);
    assert_int_equal(tenant_change_check_name("name", SLICE(" ")), STATUS_OK);
    static const struct slice wrong[] = {{"", 0},     {"a\nb", 3}, {"\x7f", 1},
                                         {"\xff", 1}, {"a\0b", 3}, {"\xc3", 1}};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        assert_int_equal(tenant_change_check_name("name", wrong[i]), STATUS_INVALID);
        assert_string_equal(status_note()->param, "name");
    }
    char copy[4];
    tenant_change_copy(copy, sizeof copy, SLICE("abc"));
    assert_string_equal(copy, "abc");
    tenant_change_copy(copy, sizeof copy, (struct slice){0});
    assert_string_equal(copy, "");
}

static enum status insert(struct sqlite3 *connection, const void *context)
{
    return tenant_rows_insert(connection, context, SLICE("{}"));
}

static int answers;

static enum status answer_fails(void *context, struct slice *out)
{
    (void)context;
    (void)out;
    answers++;
    FAIL(STATUS_NO_MEMORY, "no answer");
}

static enum status answer_works(void *context, struct slice *out)
{
    *out = slice_of(context);
    answers++;
    return STATUS_OK;
}

static enum status commit(struct tenant_kit *kit, const struct tenant_change *wanted)
{
    static const struct tenant tenant = {.id = "tnt_1",
                                         .name = "n",
                                         .weight = 1,
                                         .created_at_s = 1,
                                         .revision = 1,
                                         .cache_share = 1};
    struct tenant_change_plan plan;
    tenant_change_plan_init(&plan, wanted, "test.made", "tnt_1");
    buffer_append_text(&plan.detail, "{\"a\":1}");
    plan.rows = insert;
    plan.context = &tenant;
    return tenant_change_commit(kit->tenants, &plan);
}

static const char rows_sql[] = "select (select count(*) from tenants) * 10000 + (select count(*) "
                               "from audit) * 100 + (select count(*) from answers)";

/* Rows, audit row and kept answer come together or not at all. */
static void test_all_or_nothing(void **state)
{
    struct tenant_kit *kit = *state;
    static char text[] = "the answer";
    struct tenant_request request = {.actor_key_id = "key_a", .name = "n"};
    struct tenant_change wanted = {.actor = &actor, .answer = answer_fails, .request = &request};
    answers = 0;
    assert_int_equal(commit(kit, &wanted), STATUS_NO_MEMORY);
    assert_int_equal(tenant_kit_number(kit, rows_sql), 0);
    wanted.answer = answer_works;
    wanted.context = text;
    wanted.is_dry_run = true;
    assert_int_equal(commit(kit, &wanted), STATUS_OK);
    assert_int_equal(tenant_kit_number(kit, rows_sql), 0);
    wanted.is_dry_run = false;
    tenant_kit_execute(kit, "create trigger t before insert on answers begin select raise(abort, "
                            "'no'); end");
    assert_int_equal(commit(kit, &wanted), STATUS_CONFLICT);
    tenant_kit_execute(kit, "drop trigger t");
    assert_int_equal(tenant_kit_number(kit, rows_sql), 0);
    assert_int_equal(commit(kit, &wanted), STATUS_OK);
    assert_int_equal(tenant_kit_number(kit, rows_sql), 10101);
    assert_int_equal(commit(kit, &wanted), STATUS_EXISTS);
    assert_int_equal(tenant_kit_number(kit, rows_sql), 10101);
    assert_int_equal(answers, 4); /* the last one failed before its answer */
    struct audit_row row;
    size_t count;
    bool has_more;
    assert_int_equal(tenants_audit_list(kit->tenants, &anything, 0, &row, 1, &count, &has_more),
                     STATUS_OK);
    assert_string_equal(row.type, "test.made");
    assert_string_equal(row.subject, "tnt_1");
    assert_string_equal(row.detail, "{\"a\":1}");
    assert_int_equal(row.at_us, KIT_START_S * INT64_C(1000000));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_revisions),
        cmocka_unit_test(test_names),
        cmocka_unit_test_setup_teardown(test_all_or_nothing, tenant_kit_setup, tenant_kit_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
