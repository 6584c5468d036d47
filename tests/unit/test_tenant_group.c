/* tenant_group: groups made by hand and by tenants, their counts, refusals, restarts, old files. */
#include "auth/tenants/tenant_group.h"

#include "auth/tenants/tenant_group_load.h"
#include "auth/tenants/tenant_prompt.h"
#include "tests/unit/tenant_kit.h"

static struct tenant_group group_make(struct tenant_kit *kit, const char *name)
{
    struct tenant_group out;
    assert_int_equal(
        tenant_group_create(kit->tenants, &change, slice_of(name), SLICE("{\"a\":\"b\"}"), &out),
        STATUS_OK);
    return out;
}

static struct tenant tenant_in(struct tenant_kit *kit, const char *name, const char *group)
{
    struct tenant out;
    const struct tenant_fields fields = {
        .given = TENANT_NAME | TENANT_GROUP, .name = slice_of(name), .group = slice_of(group)};
    assert_int_equal(tenants_create(kit->tenants, &change, &fields, &out), STATUS_OK);
    return out;
}

static void test_made_by_hand(void **state)
{
    struct tenant_kit *kit = *state;
    struct tenant_group made = group_make(kit, "east");
    struct tenant_group out;
    struct buffer text;
    assert_int_equal(strncmp(made.id, "grp_", 4), 0);
    assert_int_equal(
        tenant_group_create(kit->tenants, &change, SLICE("east"), (struct slice){0}, &out),
        STATUS_EXISTS);
    assert_int_equal(tenant_group_create(kit->tenants, &change, SLICE(""), (struct slice){0}, &out),
                     STATUS_INVALID);
    assert_string_equal(status_note()->param, "name");
    struct tenant_change dry = change;
    dry.is_dry_run = true;
    assert_int_equal(
        tenant_group_create(kit->tenants, &dry, SLICE("west"), (struct slice){0}, &out), STATUS_OK);
    assert_int_equal(tenant_group_get(kit->tenants, SLICE("west"), &out), STATUS_NOT_FOUND);
    assert_int_equal(
        tenant_group_update(kit->tenants, &change, SLICE("east"), SLICE("{\"a\":\"b\"}"), &out),
        STATUS_OK);
    assert_int_equal(out.revision, 1); /* as it was: no change */
    assert_int_equal(
        tenant_group_update(kit->tenants, &change, slice_of(made.id), SLICE("{}"), &out),
        STATUS_OK);
    assert_int_equal(out.revision, 2);
    struct tenant_change late = change;
    late.revision_count = 1;
    late.revisions[0] = 1;
    assert_int_equal(tenant_group_delete(kit->tenants, &late, SLICE("east"), &out), STATUS_CHANGED);
    for (int turn = 0; turn < 2; turn++) {
        assert_int_equal(tenant_group_get(kit->tenants, SLICE("east"), &out), STATUS_OK);
        assert_string_equal(out.id, made.id);
        assert_int_equal(out.revision, 2);
        buffer_init(&text, 4096);
        tenant_group_metadata(kit->tenants, SLICE("east"), &text);
        assert_string_equal(text.bytes, "{}");
        buffer_deinit(&text);
        tenant_kit_stop(kit); /* and as the file has it */
        tenant_kit_start(kit);
    }
    assert_int_equal(tenant_group_delete(kit->tenants, &change, SLICE("east"), &out), STATUS_OK);
    assert_int_equal(tenant_group_delete(kit->tenants, &change, SLICE("east"), &out),
                     STATUS_NOT_FOUND);
    assert_int_equal(tenant_kit_number(kit, "select count(*) from audit where type like 'group.%'"),
                     3);
}

static void test_made_by_a_tenant(void **state)
{
    struct tenant_kit *kit = *state;
    struct tenant_group out;
    struct tenant moved;
    struct buffer text;
    struct tenant one = tenant_in(kit, "one", "east");
    tenant_in(kit, "two", "east");
    assert_int_equal(tenant_kit_number(kit, "select count(*) from tenant_groups"), 1);
    assert_int_equal(tenant_group_get(kit->tenants, SLICE("east"), &out), STATUS_OK);
    assert_int_equal(out.tenants, 2);
    assert_int_equal(tenant_group_delete(kit->tenants, &change, SLICE("east"), &out),
                     STATUS_CONFLICT);
    const struct tenant_fields to_west = {.given = TENANT_GROUP, .group = SLICE("west")};
    assert_int_equal(tenants_update(kit->tenants, &change, slice_of(one.id), &to_west, &moved),
                     STATUS_OK);
    buffer_init(&text, 4096);
    tenant_group_members(kit->tenants, SLICE("west"), 10, &text);
    assert_int_equal(text.length, strlen(one.id) + 4);
    buffer_deinit(&text);
    assert_int_equal(tenants_archive(kit->tenants, &change, slice_of(one.id), &moved), STATUS_OK);
    assert_int_equal(tenant_group_get(kit->tenants, SLICE("west"), &out), STATUS_OK);
    assert_int_equal(out.tenants, 0); /* it stays, without members */
    /* A tenant that is refused makes no group. */
    const struct tenant_fields again = {
        .given = TENANT_NAME | TENANT_GROUP, .name = SLICE("two"), .group = SLICE("north")};
    assert_int_equal(tenants_create(kit->tenants, &change, &again, &moved), STATUS_EXISTS);
    assert_false(tenants_has_group(kit->tenants, SLICE("north")));
    assert_int_equal(tenant_kit_number(kit, "select count(*) from tenant_groups"), 2);
}

static void test_a_group_with_a_prompt_stays(void **state)
{
    struct tenant_kit *kit = *state;
    struct tenant_group out;
    struct tenant_prompt prompt;
    struct tenant_group made = group_make(kit, "east");
    struct tenant_prompt_grant grant = {.group = "east"};
    const struct tenant_prompt_fields fields = {.given = TENANT_PROMPT_NAME | TENANT_PROMPT_GROUPS,
                                                .name = SLICE("p"),
                                                .grants = &grant,
                                                .grant_count = 1,
                                                .content = SLICE("{\"text\":\"a\"}")};
    assert_int_equal(tenant_prompt_prepare(kit->tenants, &fields, &prompt), STATUS_OK);
    assert_int_equal(tenant_prompt_create(kit->tenants, &change, &fields, &prompt), STATUS_OK);
    assert_int_equal(tenant_group_get(kit->tenants, slice_of(made.id), &out), STATUS_OK);
    assert_int_equal(out.prompts, 1);
    assert_int_equal(tenant_group_delete(kit->tenants, &change, SLICE("east"), &out),
                     STATUS_CONFLICT);
    assert_int_equal(tenant_prompt_delete(kit->tenants, &change, slice_of(prompt.id), &prompt),
                     STATUS_OK);
    assert_int_equal(tenant_group_delete(kit->tenants, &change, SLICE("east"), &out), STATUS_OK);
}

static void test_lists(void **state)
{
    struct tenant_kit *kit = *state;
    struct tenant_group out[3];
    size_t count;
    bool has_more;
    group_make(kit, "a");
    struct tenant_group second = group_make(kit, "b");
    group_make(kit, "c");
    assert_int_equal(tenant_group_list(kit->tenants, SLICE(""), out, 2, &count, &has_more),
                     STATUS_OK);
    assert_int_equal(count, 2);
    assert_true(has_more);
    assert_string_equal(out[1].name, "b");
    assert_int_equal(
        tenant_group_list(kit->tenants, slice_of(second.id), out, 3, &count, &has_more), STATUS_OK);
    assert_int_equal(count, 1);
    assert_false(has_more);
    assert_int_equal(tenant_group_list(kit->tenants, SLICE("grp_x"), out, 3, &count, &has_more),
                     STATUS_INVALID);
}

static void check_counts(struct tenant_kit *kit, const char *names, const uint32_t *wanted)
{
    struct tenant_group out;
    for (int i = 0; names[i] != '\0'; i++) {
        const char name[2] = {names[i], '\0'};
        assert_int_equal(tenant_group_get(kit->tenants, slice_of(name), &out), STATUS_OK);
        assert_int_equal(out.tenants, wanted[i]);
    }
}

/* Members are counted as they come and go, and by a start as they are; whichever group goes, the
 * others are found and stand in their order. */
static void test_members_come_and_groups_go(void **state)
{
    struct tenant_kit *kit = *state;
    struct tenant_group out[5];
    struct tenant tenants[6];
    struct tenant moved;
    size_t count;
    bool has_more;
    for (int i = 0; i < 6; i++) {
        const char name[2] = {(char)('0' + i), '\0'};
        const char group[2] = {"aabcde"[i], '\0'};
        tenants[i] = tenant_in(kit, name, group);
    }
    check_counts(kit, "abcde", (uint32_t[]){2, 1, 1, 1, 1});
    const struct tenant_fields to_b = {.given = TENANT_GROUP, .group = SLICE("b")};
    const struct tenant_fields suspended = {.given = TENANT_STATE, .state = TENANT_SUSPENDED};
    const struct tenant_change dry = {.actor = change.actor, .is_dry_run = true};
    assert_int_equal(tenants_update(kit->tenants, &dry, slice_of(tenants[0].id), &to_b, &moved),
                     STATUS_OK);
    assert_int_equal(tenants_archive(kit->tenants, &dry, slice_of(tenants[1].id), &moved),
                     STATUS_OK);
    assert_int_equal(
        tenants_update(kit->tenants, &change, slice_of(tenants[0].id), &suspended, &moved),
        STATUS_OK);
    check_counts(kit, "abcde", (uint32_t[]){2, 1, 1, 1, 1});
    for (int i = 3; i < 6; i++) /* c, d, e stand empty */
        assert_int_equal(
            i == 4 ? tenants_archive(kit->tenants, &change, slice_of(tenants[i].id), &moved)
                   : tenants_update(kit->tenants, &change, slice_of(tenants[i].id), &to_b, &moved),
            STATUS_OK);
    for (int turn = 0; turn < 2; turn++) {
        check_counts(kit, "abcde", (uint32_t[]){2, 3, 0, 0, 0});
        tenant_kit_stop(kit);
        tenant_kit_start(kit);
    }
    static const char *const gone[] = {"e", "c", "d"}; /* the last, one in the middle, the last */
    for (int i = 0; i < 3; i++)
        assert_int_equal(tenant_group_delete(kit->tenants, &change, slice_of(gone[i]), &out[0]),
                         STATUS_OK);
    group_make(kit, "d");
    assert_int_equal(tenant_group_list(kit->tenants, SLICE(""), out, 5, &count, &has_more),
                     STATUS_OK);
    assert_int_equal(count, 3);
    assert_string_equal(out[0].name, "a");
    assert_string_equal(out[1].name, "b");
    assert_string_equal(out[2].name, "d");
    assert_int_equal(out[1].tenants, 3);
    check_counts(kit, "abd", (uint32_t[]){2, 3, 0});
    assert_int_equal(tenant_group_get(kit->tenants, SLICE("c"), out), STATUS_NOT_FOUND);
}

/* By hand and by a tenant that is the first to name it; those that are there may be named still. */
static void test_as_many_as_there_may_be(void **state)
{
    struct tenant_kit *kit = *state;
    struct tenant_group out;
    struct tenant moved;
    char sql[320];
    snprintf(sql, sizeof sql,
             "with recursive n(i) as (select 1 union all select i + 1 from n where i < %d) "
             "insert into tenant_groups (id, name, metadata, created_at_s, revision) "
             "select printf('grp_%%020d', i), printf('g%%d', i), '{}', 5, 1 from n",
             LIMIT_GROUPS - 1);
    tenant_kit_execute(kit, sql);
    tenant_kit_stop(kit);
    tenant_kit_start(kit);
    struct tenant one = tenant_in(kit, "one", "last");
    assert_int_equal(
        tenant_group_create(kit->tenants, &change, SLICE("more"), (struct slice){0}, &out),
        STATUS_CONFLICT);
    const struct tenant_fields more = {.given = TENANT_GROUP, .group = SLICE("more")};
    assert_int_equal(tenants_update(kit->tenants, &change, slice_of(one.id), &more, &moved),
                     STATUS_CONFLICT);
    const struct tenant_fields first = {.given = TENANT_GROUP, .group = SLICE("g1")};
    assert_int_equal(tenants_update(kit->tenants, &change, slice_of(one.id), &first, &moved),
                     STATUS_OK);
    assert_int_equal(tenant_group_delete(kit->tenants, &change, SLICE("last"), &out), STATUS_OK);
    assert_int_equal(tenants_update(kit->tenants, &change, slice_of(one.id), &more, &moved),
                     STATUS_OK);
    assert_int_equal(tenant_kit_number(kit, "select count(*) from tenant_groups"), LIMIT_GROUPS);
}

/* Nothing is left over and nothing is half there. */
static void test_memory_fails_at_each_allocation(void **state)
{
    struct tenant_kit *kit = *state;
    struct tenant_group out;
    struct tenant moved;
    struct tenant one = tenant_in(kit, "one", "");
    int failures = 0;
    for (int what = 0; what < 3; what++) {
        enum status status = STATUS_NO_MEMORY;
        for (int at = 1; status != STATUS_OK; at++) {
            const struct tenant_fields fields = {.given = TENANT_GROUP,
                                                 .group = what == 1 ? SLICE("") : SLICE("east")};
            int left = at;
            mem_hook_set(kit_fail_at, &left);
            if (what < 2)
                status = tenants_update(kit->tenants, &change, slice_of(one.id), &fields, &moved);
            else
                status = tenant_group_delete(kit->tenants, &change, SLICE("east"), &out);
            mem_hook_set(NULL, NULL);
            failures += status != STATUS_OK;
            bool is_there = tenants_has_group(kit->tenants, SLICE("east"));
            assert_int_equal(is_there,
                             what == 2 ? status != STATUS_OK : what == 1 || status == STATUS_OK);
        }
    }
    assert_true(failures > 6);
    assert_int_equal(tenant_group_get(kit->tenants, SLICE("east"), &out), STATUS_NOT_FOUND);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_made_by_hand, tenant_kit_setup, tenant_kit_teardown),
        cmocka_unit_test_setup_teardown(test_made_by_a_tenant, tenant_kit_setup,
                                        tenant_kit_teardown),
        cmocka_unit_test_setup_teardown(test_a_group_with_a_prompt_stays, tenant_kit_setup,
                                        tenant_kit_teardown),
        cmocka_unit_test_setup_teardown(test_lists, tenant_kit_setup, tenant_kit_teardown),
        cmocka_unit_test_setup_teardown(test_members_come_and_groups_go, tenant_kit_setup,
                                        tenant_kit_teardown),
        cmocka_unit_test_setup_teardown(test_as_many_as_there_may_be, tenant_kit_setup,
                                        tenant_kit_teardown),
        cmocka_unit_test_setup_teardown(test_memory_fails_at_each_allocation, tenant_kit_setup,
                                        tenant_kit_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
