#include "auth/tenants/tenant_directory.h"

#include "tests/unit/tenant_kit.h"

static struct tenants *fresh(void)
{
    struct tenants *tenants = calloc(1, sizeof *tenants);
    tenants->clock = clock_system();
    memcpy(tenants->domain, kit_domain, sizeof kit_domain);
    pthread_rwlock_init(&tenants->memory, NULL);
    return tenants;
}

static void done(struct tenants *tenants)
{
    tenant_directory_deinit(tenants);
    pthread_rwlock_destroy(&tenants->memory);
    free(tenants);
}

static struct tenant_record *add(struct tenants *tenants, const char *id, struct slice metadata)
{
    struct tenant tenant = {.weight = 1, .revision = 1};
    snprintf(tenant.id, sizeof tenant.id, "%s", id);
    assert_int_equal(tenant_directory_reserve(tenants), STATUS_OK);
    struct tenant_record *record = tenant_directory_make(tenants, &tenant, NULL, metadata);
    assert_non_null(record);
    tenant_directory_add(tenants, record);
    return record;
}

static struct tenant_key_record *add_key(struct tenants *tenants, const char *id,
                                         struct tenant_record *owner)
{
    struct tenant_rows_key row = {.key = {.last_used_at_s = 7, .revision = 1}};
    snprintf(row.key.id, sizeof row.key.id, "%s", id);
    if (owner != NULL)
        memcpy(row.key.tenant_id, owner->tenant.id, sizeof row.key.tenant_id);
    assert_int_equal(tenant_directory_reserve_key(tenants), STATUS_OK);
    struct tenant_key_record *record = tenant_directory_make_key(tenants, &row, owner);
    assert_non_null(record);
    tenant_directory_add_key(tenants, record);
    return record;
}

static void test_records_are_found(void **state)
{
    (void)state;
    struct tenants *tenants = fresh();
    struct tenant_record *one = add(tenants, "tnt_1", SLICE("{\"a\":\"b\"}xx"));
    struct tenant_record *two = add(tenants, "tnt_2", (struct slice){0});
    struct tenant_key_record *key = add_key(tenants, "key_1", one);
    struct tenant_key_record *admin = add_key(tenants, "key_2", NULL);
    assert_string_equal(one->metadata, "{\"a\":\"b\"}xx");
    assert_null(two->metadata);
    assert_ptr_equal(tenant_directory_find(tenants, SLICE("tnt_1")), one);
    assert_null(tenant_directory_find(tenants, SLICE("key_1")));
    assert_ptr_equal(tenant_directory_find_key(tenants, SLICE("tnt_1"), SLICE("key_1")), key);
    /* Not another tenant's, not the admins', and theirs not a tenant's. */
    assert_null(tenant_directory_find_key(tenants, SLICE("tnt_2"), SLICE("key_1")));
    assert_null(tenant_directory_find_key(tenants, SLICE(""), SLICE("key_1")));
    assert_null(tenant_directory_find_key(tenants, SLICE("tnt_1"), SLICE("key_2")));
    assert_ptr_equal(tenant_directory_find_key(tenants, SLICE(""), SLICE("key_2")), admin);
    assert_ptr_equal(tenant_directory_find_name(tenants, key->name), key);
    assert_null(tenant_directory_find_name(tenants, admin->name)); /* zeros: it has none */
    assert_memory_not_equal(one->name, two->name, 16);
    assert_memory_not_equal(one->name, one->domain, 16);
    assert_ptr_equal(tenants->first, one);
    assert_ptr_equal(one->next, two);
    assert_ptr_equal(one->keys.first, key);
    assert_null(two->keys.first);
    assert_ptr_equal(tenants->admin.first, admin);
    done(tenants);
}

/* Order of lists and all ids survive every growth of the tables. */
static void test_many(void **state)
{
    (void)state;
    enum { MANY = 300 };
    struct tenants *tenants = fresh();
    char id[32];
    for (int i = 0; i < MANY; i++) {
        snprintf(id, sizeof id, "tnt_%d", i);
        struct tenant_record *owner = add(tenants, id, (struct slice){0});
        snprintf(id, sizeof id, "key_%d", i);
        add_key(tenants, id, owner);
    }
    int seen = 0;
    for (struct tenant_record *record = tenants->first; record != NULL; record = record->next) {
        snprintf(id, sizeof id, "tnt_%d", seen++);
        assert_string_equal(record->tenant.id, id);
        assert_ptr_equal(tenant_directory_find(tenants, slice_of(id)), record);
        assert_ptr_equal(tenant_directory_find_name(tenants, record->keys.first->name),
                         record->keys.first);
    }
    assert_int_equal(seen, MANY);
    done(tenants);
}

static void test_last_use_and_standing(void **state)
{
    (void)state;
    struct tenants *tenants = fresh();
    struct tenant_key_record *record = add_key(tenants, "key_1", NULL);
    struct tenant_key key;
    tenant_directory_read_key(record, &key);
    assert_int_equal(key.last_used_at_s, 7);
    atomic_store(&record->used_at_s, 9);
    tenant_directory_read_key(record, &key);
    assert_int_equal(key.last_used_at_s, 9);
    assert_true(tenant_directory_key_is_open(&key, INT64_MAX));
    key.expires_at_s = 100;
    assert_true(tenant_directory_key_is_open(&key, 99));
    assert_false(tenant_directory_key_is_open(&key, 100));
    key.revoked_at_s = 1;
    assert_false(tenant_directory_key_is_open(&key, 1));
    assert_true(tenant_directory_now_s(tenants) > 1700000000);
    done(tenants);
}

static void test_no_memory(void **state)
{
    (void)state;
    struct tenants *tenants = fresh();
    struct tenant tenant = {.id = "tnt_1"};
    struct tenant_rows_key row = {.key = {.id = "key_1"}};
    struct tenant_record *owner = add(tenants, "tnt_0", (struct slice){0}); /* the MAC is warm */
    for (int n = 1; n <= 2; n++) {
        int left = n;
        mem_hook_set(kit_fail_at, &left);
        assert_null(tenant_directory_make(tenants, &tenant, NULL, SLICE("{}")));
        mem_hook_set(NULL, NULL);
        assert_int_equal(status_note()->status, STATUS_NO_MEMORY);
    }
    int left = 1;
    mem_hook_set(kit_fail_at, &left);
    assert_null(tenant_directory_make_key(tenants, &row, owner));
    mem_hook_set(NULL, NULL);
    left = 1;
    mem_hook_set(kit_fail_at, &left);
    assert_int_equal(tenant_directory_reserve_key(tenants), STATUS_NO_MEMORY);
    mem_hook_set(NULL, NULL);
    tenant_directory_free(NULL);
    done(tenants);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_records_are_found),
        cmocka_unit_test(test_many),
        cmocka_unit_test(test_last_use_and_standing),
        cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
