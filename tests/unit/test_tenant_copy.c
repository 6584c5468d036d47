/* tenant_copy: many changes as one: all there at once, or nothing, in memory and in the file. */
#include "auth/tenants/tenant_copy.h"

#include "auth/limits/quota_limits.h"
#include "auth/tenants/tenant_group.h"
#include "tests/unit/tenant_kit.h"

static size_t names(struct tenants *tenants, char out[4][LIMIT_NAME_BYTES])
{
    struct tenant rows[4];
    size_t count;
    bool has_more;
    assert_int_equal(tenants_list(tenants, SLICE(""), rows, 4, &count, &has_more), STATUS_OK);
    assert_false(has_more);
    for (size_t i = 0; i < count; i++)
        memcpy(out[i], rows[i].name, LIMIT_NAME_BYTES);
    return count;
}

static void change_much(struct tenants *copy, const char *tenant_id)
{
    struct tenant out;
    struct quota_plan plan;
    const struct tenant_fields renamed = {
        .given = TENANT_NAME | TENANT_GROUP, .name = SLICE("one-b"), .group = SLICE("east")};
    const struct quota_plan_fields fields = {.name = SLICE("gold")};
    assert_int_equal(tenants_update(copy, &change, slice_of(tenant_id), &renamed, &out), STATUS_OK);
    assert_int_equal(kit_tenant(copy, SLICE("two"), 5, &out), STATUS_OK);
    assert_int_equal(kit_tenant(copy, SLICE("two"), 5, &out), STATUS_EXISTS); /* within: alone */
    assert_int_equal(quota_limits_plan_create(copy, &change, &fields, &plan), STATUS_OK);
}

static void expect_first(struct tenant_kit *kit, int64_t audit_rows)
{
    char found[4][LIMIT_NAME_BYTES];
    assert_int_equal(names(kit->tenants, found), 1);
    assert_string_equal(found[0], "one");
    assert_false(tenants_has_group(kit->tenants, SLICE("east")));
    assert_int_equal(tenant_kit_number(kit, "select count(*) from audit"), audit_rows);
    assert_int_equal(tenant_kit_number(kit, "select count(*) from tenants"), 1);
}

static void expect_second(struct tenant_kit *kit)
{
    char found[4][LIMIT_NAME_BYTES];
    struct quota_plan plans[2];
    size_t count;
    bool has_more;
    assert_int_equal(names(kit->tenants, found), 2);
    assert_string_equal(found[0], "one-b");
    assert_string_equal(found[1], "two");
    assert_true(tenants_has_group(kit->tenants, SLICE("east")));
    assert_int_equal(quota_limits_plan_list(kit->tenants, SLICE(""), plans, 2, &count, &has_more),
                     STATUS_OK);
    assert_int_equal(count, 1);
}

static void test_all_or_nothing(void **state)
{
    struct tenant_kit *kit = *state;
    struct tenants *copy;
    struct tenant one = tenant_kit_tenant(kit, "one");
    int64_t audit_rows = tenant_kit_number(kit, "select count(*) from audit");
    uint64_t generation = quota_limits_generation(kit->tenants);
    assert_int_equal(tenant_copy_begin(kit->tenants, &copy), STATUS_OK);
    change_much(copy, one.id);
    tenant_copy_end(kit->tenants, copy);
    expect_first(kit, audit_rows);
    assert_int_equal(tenant_copy_begin(kit->tenants, &copy), STATUS_OK);
    change_much(copy, one.id);
    char found[4][LIMIT_NAME_BYTES];
    assert_int_equal(names(kit->tenants, found), 1); /* readers see nothing of it yet */
    assert_int_equal(tenant_copy_swap(kit->tenants, copy), STATUS_OK);
    tenant_copy_end(kit->tenants, copy);
    assert_true(quota_limits_generation(kit->tenants) > generation);
    expect_second(kit);
    tenant_kit_stop(kit); /* and as the file has it */
    tenant_kit_start(kit);
    expect_second(kit);
}

static void test_keys_that_are_used_meanwhile(void **state)
{
    struct tenant_kit *kit = *state;
    struct tenants *copy;
    struct tenant_key key;
    char value[LIMIT_KEY_BYTES];
    struct principal principal;
    struct tenant one = tenant_kit_tenant(kit, "one");
    uint8_t hash[AUTH_CRYPTO_BYTES];
    assert_int_equal(kit_key(kit->tenants, slice_of(one.id), SLICE("k"), 0, &key, value),
                     STATUS_OK);
    assert_int_equal(auth_crypto_hmac(kit_pepper, slice_of(value), hash), STATUS_OK);
    assert_int_equal(tenants_key_match(kit->tenants, key.id, hash, &principal), TENANT_MATCH_OPEN);
    assert_int_equal(tenant_copy_begin(kit->tenants, &copy), STATUS_OK);
    clock_manual_advance(&kit->clock, INT64_C(5000000));
    assert_int_equal(tenants_key_match(kit->tenants, key.id, hash, &principal), TENANT_MATCH_OPEN);
    assert_int_equal(tenant_copy_swap(kit->tenants, copy), STATUS_OK);
    tenant_copy_end(kit->tenants, copy);
    assert_int_equal(tenants_key_get(kit->tenants, slice_of(one.id), slice_of(key.id), &key),
                     STATUS_OK);
    assert_int_equal(key.last_used_at_s, KIT_START_S + 5);
    assert_int_equal(tenants_used_flush(kit->tenants), STATUS_OK);
    assert_int_equal(tenant_kit_number(kit, "select max(last_used_at_s) from keys"),
                     KIT_START_S + 5);
    assert_int_equal(tenants_key_match(kit->tenants, key.id, hash, &principal), TENANT_MATCH_OPEN);
}

static void test_memory_fails_at_each_allocation(void **state)
{
    struct tenant_kit *kit = *state;
    struct tenants *copy;
    tenant_kit_tenant(kit, "one");
    int64_t audit_rows = tenant_kit_number(kit, "select count(*) from audit");
    int failures = 0;
    for (int n = 1;; n++) {
        int left = n;
        mem_hook_set(kit_fail_at, &left);
        enum status status = tenant_copy_begin(kit->tenants, &copy);
        mem_hook_set(NULL, NULL);
        if (status == STATUS_OK)
            tenant_copy_end(kit->tenants, copy);
        expect_first(kit, audit_rows);
        if (left > 0)
            break;
        assert_int_equal(status, STATUS_NO_MEMORY);
        failures++;
    }
    assert_true(failures > 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_all_or_nothing, tenant_kit_setup, tenant_kit_teardown),
        cmocka_unit_test_setup_teardown(test_keys_that_are_used_meanwhile, tenant_kit_setup,
                                        tenant_kit_teardown),
        cmocka_unit_test_setup_teardown(test_memory_fails_at_each_allocation, tenant_kit_setup,
                                        tenant_kit_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
