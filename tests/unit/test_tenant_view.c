#include "auth/tenants/tenant_view.h"

#include "auth/tenants/tenant_directory.h"
#include "auth/tenants/tenant_group.h"
#include "tests/unit/tenant_kit.h"

static struct tenant make(struct tenant_kit *kit, const char *name, const char *group,
                          enum tenant_share share)
{
    const struct tenant_fields fields = {.given = TENANT_NAME | TENANT_GROUP | TENANT_SHARE |
                                                  TENANT_CACHE_SHARE,
                                         .name = slice_of(name),
                                         .group = slice_of(group),
                                         .share = share,
                                         .cache_share = 7};
    struct tenant tenant;
    assert_int_equal(tenants_create(kit->tenants, &change, &fields, &tenant), STATUS_OK);
    return tenant;
}

/* What a request of that tenant is given. */
static struct principal look(struct tenant_kit *kit, const struct tenant *tenant)
{
    struct principal out;
    memset(&out, 0xee, sizeof out);
    const struct tenant_record *record = tenant_directory_find(kit->tenants, slice_of(tenant->id));
    assert_non_null(record);
    tenant_view_fill(record, &out);
    return out;
}

static void name(struct tenant_kit *kit, const char *kind, const char *text, uint8_t out[16])
{
    assert_int_equal(tenant_records_name(kit->tenants, kind, text, out), STATUS_OK);
}

static struct tenant_view_grant grant(uint8_t domain, const char *tenant_id, const char *group)
{
    struct tenant_view_grant out = {.domain = {domain}};
    snprintf(out.tenant_id, sizeof out.tenant_id, "%s", tenant_id);
    snprintf(out.group, sizeof out.group, "%s", group);
    return out;
}

static enum status publish(struct tenant_kit *kit, const struct tenant_view_grant *grants,
                           size_t count)
{
    struct tenant_view_plan *plan;
    pthread_mutex_lock(&kit->tenants->change);
    enum status status = tenant_view_plan(kit->tenants, grants, count, &plan);
    if (status == STATUS_OK)
        tenant_view_commit(kit->tenants, plan);
    else
        assert_null(plan);
    pthread_mutex_unlock(&kit->tenants->change);
    return status;
}

/* The first bytes of the published domains that are seen, as digits. */
static void check_published(struct tenant_kit *kit, const struct tenant *tenant,
                            const char *expected)
{
    struct principal seen = look(kit, tenant);
    char text[LIMIT_DOMAINS_VISIBLE + 1] = "";
    for (uint32_t i = 0; i < seen.visible_public; i++)
        text[i] = (char)('0' + seen.visible[i][0]);
    assert_string_equal(text, expected);
    assert_int_equal(seen.visible_count, seen.visible_public + seen.visible_group + 1);
}

static void test_own_and_group(void **state)
{
    struct tenant_kit *kit = *state;
    struct tenant alone = make(kit, "alone", "", TENANT_SHARE_GROUP);
    struct tenant private = make(kit, "private", "east", TENANT_SHARE_PRIVATE);
    struct tenant one = make(kit, "one", "east", TENANT_SHARE_GROUP);
    struct tenant two = make(kit, "two", "east", TENANT_SHARE_GROUP);
    struct tenant west = make(kit, "west", "west", TENANT_SHARE_GROUP);
    const struct tenant *all[] = {&alone, &private, &one, &two, &west};
    struct tenant_group east;
    uint8_t east_name[16];
    uint8_t own_name[16];
    assert_int_equal(tenant_group_get(kit->tenants, SLICE("east"), &east), STATUS_OK);
    name(kit, "members:", east.id, east_name);
    for (size_t i = 0; i < 5; i++) {
        struct principal seen = look(kit, all[i]);
        name(kit, "domain:", all[i]->id, own_name);
        assert_int_equal(seen.cache_share, 7);
        assert_int_equal(seen.visible_public, 0);
        assert_int_equal(seen.visible_group, i >= 2 ? 1 : 0);
        assert_int_equal(seen.visible_count, i >= 2 ? 2 : 1);
        assert_memory_equal(seen.visible[seen.visible_count - 1], own_name, 16);
        assert_memory_equal(seen.domain, seen.visible[0], 16); /* the group's, or the own */
    }
    assert_memory_equal(look(kit, &one).domain, east_name, 16);
    assert_memory_equal(look(kit, &two).domain, east_name, 16);
    assert_memory_not_equal(look(kit, &west).domain, east_name, 16);
    assert_memory_not_equal(look(kit, &private).domain, east_name, 16);
    /* Another group, and none. */
    struct tenant out;
    const struct tenant_fields moved = {.given = TENANT_GROUP, .group = SLICE("west")};
    const struct tenant_fields left = {.given = TENANT_GROUP, .group = SLICE("")};
    assert_int_equal(tenants_update(kit->tenants, &change, slice_of(one.id), &moved, &out),
                     STATUS_OK);
    assert_memory_equal(look(kit, &one).domain, look(kit, &west).domain, 16);
    assert_int_equal(tenants_update(kit->tenants, &change, slice_of(one.id), &left, &out),
                     STATUS_OK);
    name(kit, "domain:", one.id, own_name);
    assert_memory_equal(look(kit, &one).domain, own_name, 16);
    assert_int_equal(look(kit, &one).visible_count, 1);
}

/* A group that was removed and made again by its name is another one, with nothing in its cache:
 * made by hand, by a tenant that comes into it, and by a new one; and after each start the same. */
static void test_a_name_that_comes_again(void **state)
{
    struct tenant_kit *kit = *state;
    struct tenant_group group;
    struct tenant out;
    uint8_t domains[4][16];
    struct tenant one = make(kit, "one", "east", TENANT_SHARE_GROUP);
    const struct tenant_fields left = {.given = TENANT_GROUP, .group = SLICE("")};
    const struct tenant_fields back = {.given = TENANT_GROUP, .group = SLICE("east")};
    memcpy(domains[0], look(kit, &one).domain, 16);
    for (int i = 1; i < 4; i++) {
        assert_int_equal(tenants_update(kit->tenants, &change, slice_of(one.id), &left, &out),
                         STATUS_OK);
        assert_int_equal(tenant_group_delete(kit->tenants, &change, SLICE("east"), &group),
                         STATUS_OK);
        assert_false(tenants_has_group(kit->tenants, SLICE("east")));
        if (i == 1)
            assert_int_equal(tenant_group_create(kit->tenants, &change, SLICE("east"),
                                                 (struct slice){0}, &group),
                             STATUS_OK);
        if (i == 2)
            make(kit, "two", "east", TENANT_SHARE_GROUP);
        assert_int_equal(tenants_update(kit->tenants, &change, slice_of(one.id), &back, &out),
                         STATUS_OK);
        memcpy(domains[i], look(kit, &one).domain, 16);
        for (int before = 0; before < i; before++)
            assert_memory_not_equal(domains[before], domains[i], 16);
        assert_int_equal(look(kit, &one).visible_group, 1);
        tenant_kit_stop(kit);
        tenant_kit_start(kit);
        assert_memory_equal(look(kit, &one).domain, domains[i], 16);
        if (i == 2) {
            struct tenant_fields gone = {.given = TENANT_GROUP};
            struct tenant two[2];
            size_t count;
            bool has_more;
            assert_int_equal(
                tenants_list(kit->tenants, slice_of(one.id), two, 2, &count, &has_more), STATUS_OK);
            assert_int_equal(count, 1);
            assert_memory_equal(look(kit, &two[0]).domain, domains[i], 16);
            gone.group = SLICE("");
            assert_int_equal(
                tenants_update(kit->tenants, &change, slice_of(two[0].id), &gone, &out), STATUS_OK);
        }
    }
}

static void test_grants(void **state)
{
    struct tenant_kit *kit = *state;
    struct tenant one = make(kit, "one", "east", TENANT_SHARE_PRIVATE);
    struct tenant two = make(kit, "two", "east", TENANT_SHARE_GROUP);
    struct tenant three = make(kit, "three", "", TENANT_SHARE_PRIVATE);
    const struct tenant_view_grant grants[] = {
        grant(3, two.id, ""), grant(1, "", "east"),       grant(1, one.id, ""),
        grant(2, one.id, ""), grant(4, "tnt_nobody", ""), grant(5, "", "nowhere"),
    };
    assert_int_equal(publish(kit, grants, 6), STATUS_OK);
    check_published(kit, &one, "12"); /* what is granted twice stands there once */
    check_published(kit, &two, "31");
    check_published(kit, &three, "");
    struct principal seen = look(kit, &two);
    assert_int_equal(seen.visible_group, 1);
    assert_memory_equal(seen.visible[2], seen.domain, 16);
    /* Grants to a group follow its members, whoever comes and whatever they share. */
    struct tenant out;
    struct tenant late = make(kit, "late", "nowhere", TENANT_SHARE_PRIVATE);
    check_published(kit, &late, "5");
    const struct tenant_fields moved = {.given = TENANT_GROUP, .group = SLICE("east")};
    const struct tenant_change dry = {.actor = &actor, .is_dry_run = true};
    assert_int_equal(tenants_update(kit->tenants, &dry, slice_of(three.id), &moved, &out),
                     STATUS_OK);
    check_published(kit, &three, "");
    assert_int_equal(tenants_update(kit->tenants, &change, slice_of(three.id), &moved, &out),
                     STATUS_OK);
    check_published(kit, &three, "1");
    assert_int_equal(publish(kit, grants, 1), STATUS_OK);
    check_published(kit, &one, "");
    check_published(kit, &two, "3");
    assert_int_equal(publish(kit, NULL, 0), STATUS_OK);
    check_published(kit, &two, "");
    /* A plan that is forgotten changes nothing. */
    struct tenant_view_plan *plan;
    assert_int_equal(tenant_view_plan(kit->tenants, grants, 6, &plan), STATUS_OK);
    tenant_view_forget(plan);
    tenant_view_forget(NULL);
    check_published(kit, &one, "");
}

static void test_as_many_as_a_request_can_name(void **state)
{
    struct tenant_kit *kit = *state;
    struct tenant one = make(kit, "one", "east", TENANT_SHARE_GROUP);
    struct tenant_view_grant grants[LIMIT_PROMPTS_VISIBLE + 1];
    struct tenant out;
    for (size_t i = 0; i <= LIMIT_PROMPTS_VISIBLE; i++)
        grants[i] = grant((uint8_t)(i + 1), "", i == 0 ? "west" : "east");
    assert_int_equal(publish(kit, grants, LIMIT_PROMPTS_VISIBLE + 1), STATUS_OK);
    assert_int_equal(look(kit, &one).visible_count, LIMIT_DOMAINS_VISIBLE);
    grants[0] = grant(1, one.id, "");
    assert_int_equal(publish(kit, grants, LIMIT_PROMPTS_VISIBLE + 1), STATUS_LIMIT);
    assert_non_null(strstr(status_note()->message, one.id));
    assert_int_equal(look(kit, &one).visible_public, LIMIT_PROMPTS_VISIBLE);
    /* A tenant does not come into a group with which it would see too many. */
    struct tenant two = make(kit, "two", "", TENANT_SHARE_PRIVATE);
    grants[0] = grant(1, two.id, "");
    assert_int_equal(publish(kit, grants, LIMIT_PROMPTS_VISIBLE + 1), STATUS_OK);
    const struct tenant_fields moved = {.given = TENANT_GROUP, .group = SLICE("east")};
    assert_int_equal(tenants_update(kit->tenants, &change, slice_of(two.id), &moved, &out),
                     STATUS_LIMIT);
    assert_string_equal(status_note()->param, "group");
    assert_int_equal(tenants_get(kit->tenants, slice_of(two.id), &out), STATUS_OK);
    assert_string_equal(out.group, "");
    static struct tenant_view_grant many[LIMIT_GRANTS + 1];
    assert_int_equal(publish(kit, many, LIMIT_GRANTS + 1), STATUS_LIMIT);
}

static void test_groups_that_are_there(void **state)
{
    struct tenant_kit *kit = *state;
    struct tenant out;
    struct tenant one = make(kit, "one", "east", TENANT_SHARE_PRIVATE);
    make(kit, "two", "", TENANT_SHARE_PRIVATE);
    assert_true(tenants_has_group(kit->tenants, SLICE("east")));
    assert_false(tenants_has_group(kit->tenants, SLICE("eas")));
    assert_false(tenants_has_group(kit->tenants, SLICE("")));
    assert_int_equal(tenants_archive(kit->tenants, &change, slice_of(one.id), &out), STATUS_OK);
    assert_true(tenants_has_group(kit->tenants, SLICE("east"))); /* until it is deleted */
}

static void test_memory_fails_at_each_allocation(void **state)
{
    struct tenant_kit *kit = *state;
    struct tenant one = make(kit, "one", "east", TENANT_SHARE_PRIVATE);
    const struct tenant_view_grant grants[] = {grant(1, "", "east"), grant(2, one.id, "")};
    assert_int_equal(publish(kit, grants, 1), STATUS_OK);
    int failures = 0;
    for (int n = 1;; n++) {
        int left = n;
        mem_hook_set(kit_fail_at, &left);
        enum status status = publish(kit, grants, 2);
        mem_hook_set(NULL, NULL);
        if (left > 0) {
            assert_int_equal(status, STATUS_OK);
            break;
        }
        failures++;
        assert_int_equal(status, STATUS_NO_MEMORY);
        check_published(kit, &one, "1");
    }
    assert_true(failures >= 4);
    check_published(kit, &one, "12");
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, tenant_kit_setup, tenant_kit_teardown)
    const struct CMUnitTest tests[] = {
        T(test_own_and_group),
        T(test_a_name_that_comes_again),
        T(test_grants),
        T(test_as_many_as_a_request_can_name),
        T(test_groups_that_are_there),
        T(test_memory_fails_at_each_allocation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
