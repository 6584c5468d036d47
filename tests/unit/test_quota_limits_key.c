/* quota_limits_key: limits and classes of keys: set, refused, found again after a restart, taken
 * over by the key that follows. */
#include "auth/limits/quota_limits.h"
#include "auth/limits/quota_limits_key.h"

#include "tests/unit/tenant_kit.h"

static struct quota_limits_set set_of(int64_t requests)
{
    struct quota_limits_set set = {.cached_percent = -1};
    set.values[QUOTA_REQUESTS_PER_MINUTE].limit = requests;
    return set;
}

static int64_t requests_of(struct tenant_kit *kit, const struct tenant *tenant, const char *key_id)
{
    struct quota_limits_set set;
    if (!quota_limits_key_resolve(kit->tenants, tenant->id, key_id, &set))
        return -1;
    return set.values[QUOTA_REQUESTS_PER_MINUTE].limit;
}

static void test_set_and_found_again(void **state)
{
    struct tenant_kit *kit = *state;
    struct tenant tenant = tenant_kit_tenant(kit, "acme");
    struct tenant other = tenant_kit_tenant(kit, "other");
    struct quota_key_limits out;
    struct quota_limits_set set = set_of(5);
    set.cached_percent = 20;
    assert_int_equal(requests_of(kit, &tenant, "key_1"), -1);
    assert_int_equal(quota_limits_key_get(kit->tenants, slice_of(tenant.id), SLICE("key_1"), &out),
                     STATUS_OK);
    assert_int_equal(out.revision, 0);
    uint64_t generation = quota_limits_generation(kit->tenants);
    assert_int_equal(quota_limits_key_put(kit->tenants, &change, slice_of(tenant.id),
                                          SLICE("key_1"), &set, &out),
                     STATUS_OK);
    assert_true(quota_limits_generation(kit->tenants) > generation);
    assert_int_equal(quota_limits_key_put(kit->tenants, &change, slice_of(tenant.id),
                                          SLICE("iss_1"), &set, &out),
                     STATUS_OK);
    for (int turn = 0; turn < 2; turn++) {
        assert_int_equal(requests_of(kit, &tenant, "key_1"), 5);
        assert_int_equal(requests_of(kit, &tenant, "iss_1"), 5);
        assert_int_equal(requests_of(kit, &tenant, "key_2"), -1);
        assert_int_equal(requests_of(kit, &other, "iss_1"), -1); /* an issuer's, of one tenant */
        tenant_kit_stop(kit);
        tenant_kit_start(kit);
    }
    assert_int_equal(quota_limits_key_get(kit->tenants, slice_of(tenant.id), SLICE("key_1"), &out),
                     STATUS_OK);
    assert_int_equal(out.revision, 1);
    assert_int_equal(out.set.cached_percent, 20);
    set = set_of(0);
    assert_int_equal(quota_limits_key_put(kit->tenants, &change, slice_of(tenant.id),
                                          SLICE("key_1"), &set, &out),
                     STATUS_OK);
    assert_int_equal(out.revision, 2);
    assert_int_equal(requests_of(kit, &tenant, "key_1"), 0);
}

/* Only downwards from the tenant's best, whatever the key's limits say. */
static void test_classes_of_a_key(void **state)
{
    struct tenant_kit *kit = *state;
    struct tenant tenant = tenant_kit_tenant(kit, "acme");
    enum { NONE, TOP, MIDDLE, LOW }; /* of the key: its class plus 1 */
    static const struct {
        uint8_t default_class, best_class;        /* the key's */
        enum service_class own_default, own_best; /* the tenant's */
        enum service_class used_default, used_best;
    } rows[] = {
        {NONE, NONE, SERVICE_CLASS_STANDARD, SERVICE_CLASS_REALTIME, SERVICE_CLASS_STANDARD,
         SERVICE_CLASS_REALTIME},
        {TOP, NONE, SERVICE_CLASS_STANDARD, SERVICE_CLASS_REALTIME, SERVICE_CLASS_REALTIME,
         SERVICE_CLASS_REALTIME},
        {TOP, TOP, SERVICE_CLASS_STANDARD, SERVICE_CLASS_STANDARD, SERVICE_CLASS_STANDARD,
         SERVICE_CLASS_STANDARD},
        {NONE, LOW, SERVICE_CLASS_STANDARD, SERVICE_CLASS_REALTIME, SERVICE_CLASS_BATCH,
         SERVICE_CLASS_BATCH},
        {LOW, MIDDLE, SERVICE_CLASS_REALTIME, SERVICE_CLASS_REALTIME, SERVICE_CLASS_BATCH,
         SERVICE_CLASS_STANDARD},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct quota_key_limits out;
        struct quota_limits_set set = {.cached_percent = -1,
                                       .default_class = rows[i].default_class,
                                       .best_class = rows[i].best_class};
        struct principal principal = {.key_id = "key_1",
                                      .default_class = rows[i].own_default,
                                      .best_class = rows[i].own_best};
        memcpy(principal.tenant_id, tenant.id, sizeof principal.tenant_id);
        assert_int_equal(quota_limits_key_put(kit->tenants, &change, slice_of(tenant.id),
                                              SLICE("key_1"), &set, &out),
                         STATUS_OK);
        tenant_kit_stop(kit);
        tenant_kit_start(kit);
        quota_limits_key_class(kit->tenants, &principal);
        assert_int_equal(principal.default_class, rows[i].used_default);
        assert_int_equal(principal.best_class, rows[i].used_best);
    }
}

static void test_refusals_change_nothing(void **state)
{
    struct tenant_kit *kit = *state;
    struct tenant tenant = tenant_kit_tenant(kit, "acme");
    struct slice id = slice_of(tenant.id);
    struct quota_key_limits out;
    struct quota_limits_set set = set_of(5), wrong = set_of(-1);
    struct tenant_change dry = change, stale = change;
    dry.is_dry_run = true;
    stale.revision_count = 1;
    stale.revisions[0] = 7;
    uint64_t generation = quota_limits_generation(kit->tenants);
    assert_int_equal(quota_limits_key_put(kit->tenants, &change, id, SLICE("key_1"), &wrong, &out),
                     STATUS_OUT_OF_RANGE);
    assert_string_equal(status_note()->param, "requests_per_minute");
    assert_int_equal(
        quota_limits_key_put(kit->tenants, &change, SLICE("tnt_x"), SLICE("key_1"), &set, &out),
        STATUS_NOT_FOUND);
    assert_int_equal(quota_limits_key_put(kit->tenants, &change, id, SLICE(""), &set, &out),
                     STATUS_NOT_FOUND);
    assert_int_equal(quota_limits_key_put(kit->tenants, &stale, id, SLICE("key_1"), &set, &out),
                     STATUS_CHANGED);
    assert_int_equal(quota_limits_key_put(kit->tenants, &dry, id, SLICE("key_1"), &set, &out),
                     STATUS_OK);
    assert_int_equal(out.revision, 1);
    assert_int_equal(quota_limits_key_get(kit->tenants, SLICE("tnt_x"), SLICE("key_1"), &out),
                     STATUS_NOT_FOUND);
    assert_int_equal(requests_of(kit, &tenant, "key_1"), -1);
    assert_int_equal(quota_limits_generation(kit->tenants), generation);
    struct tenant gone;
    assert_int_equal(tenants_archive(kit->tenants, &change, id, &gone), STATUS_OK);
    assert_int_equal(quota_limits_key_put(kit->tenants, &change, id, SLICE("key_1"), &set, &out),
                     STATUS_CONFLICT);
}

static void test_the_next_key_takes_them_over(void **state)
{
    struct tenant_kit *kit = *state;
    struct tenant tenant = tenant_kit_tenant(kit, "acme");
    struct slice id = slice_of(tenant.id);
    struct tenant_key key, next;
    struct tenant_change dry = change;
    struct quota_key_limits out;
    struct quota_limits_set set = set_of(5);
    char value[LIMIT_KEY_BYTES];
    dry.is_dry_run = true;
    assert_int_equal(kit_key(kit->tenants, id, SLICE("k"), 0, &key, value), STATUS_OK);
    assert_int_equal(quota_limits_key_put(kit->tenants, &change, id, slice_of(key.id), &set, &out),
                     STATUS_OK);
    assert_int_equal(tenants_key_rotate(kit->tenants, &dry, id, slice_of(key.id), -1, &next, value),
                     STATUS_OK);
    assert_int_equal(
        tenants_key_rotate(kit->tenants, &change, id, slice_of(key.id), -1, &next, value),
        STATUS_OK);
    for (int turn = 0; turn < 2; turn++) {
        assert_int_equal(requests_of(kit, &tenant, key.id), 5);
        assert_int_equal(requests_of(kit, &tenant, next.id), 5);
        tenant_kit_stop(kit);
        tenant_kit_start(kit);
    }
}

static void test_without_memory(void **state)
{
    struct tenant_kit *kit = *state;
    struct tenant tenant = tenant_kit_tenant(kit, "acme");
    struct quota_key_limits out;
    struct quota_limits_set set = set_of(5);
    enum status status = STATUS_NO_MEMORY;
    for (int at = 1; status != STATUS_OK && at < 100; at++) {
        int left = at;
        mem_hook_set(kit_fail_at, &left);
        status = quota_limits_key_put(kit->tenants, &change, slice_of(tenant.id), SLICE("key_1"),
                                      &set, &out);
        mem_hook_set(NULL, NULL);
        assert_int_equal(requests_of(kit, &tenant, "key_1"), status == STATUS_OK ? 5 : -1);
    }
    assert_int_equal(status, STATUS_OK);
}

int main(void)
{
#define WITH(test) cmocka_unit_test_setup_teardown(test, tenant_kit_setup, tenant_kit_teardown)
    const struct CMUnitTest tests[] = {
        WITH(test_set_and_found_again),     WITH(test_classes_of_a_key),
        WITH(test_refusals_change_nothing), WITH(test_the_next_key_takes_them_over),
        WITH(test_without_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
