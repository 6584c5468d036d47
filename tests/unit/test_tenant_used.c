/* tenant_used: the last use of keys: noted in memory, written in batches, lost by no failure. */
#include "tests/unit/tenant_kit.h"

#include <pthread.h>

static int64_t used_at(struct tenant_kit *kit, const struct tenant_key *key)
{
    struct tenant_key out;
    assert_int_equal(
        tenants_key_get(kit->tenants, slice_of(key->tenant_id), slice_of(key->id), &out),
        STATUS_OK);
    return out.last_used_at_s;
}

static const char written_sql[] = "select sum(last_used_at_s) from keys";

static void test_used_is_seen_at_once_and_written_later(void **state)
{
    struct tenant_kit *kit = *state;
    struct tenant one = tenant_kit_tenant(kit, "one");
    char value[LIMIT_KEY_BYTES];
    char unused[LIMIT_KEY_BYTES];
    struct tenant_key key = tenant_kit_key(kit, one.id, value);
    struct tenant_key other = tenant_kit_key(kit, one.id, unused);
    assert_int_equal(used_at(kit, &key), 0);
    int64_t audit = tenant_kit_number(kit, "select count(*) from audit");
    for (int i = 0; i < 5; i++) {
        tenant_kit_pass(kit, 1);
        assert_int_equal(tenant_kit_match(kit, value), TENANT_MATCH_OPEN);
    }
    assert_int_equal(used_at(kit, &key), KIT_START_S + 5);
    assert_int_equal(used_at(kit, &other), 0);
    assert_int_equal(tenant_kit_number(kit, written_sql), 0); /* no write on the way of a request */
    for (int i = 0; i < 2; i++) {
        assert_int_equal(tenants_used_flush(kit->tenants), STATUS_OK);
        assert_int_equal(tenant_kit_number(kit, written_sql), KIT_START_S + 5);
    }
    tenant_kit_pass(kit, 1);
    assert_int_equal(tenant_kit_match(kit, value), TENANT_MATCH_OPEN);
    assert_int_equal(tenants_used_flush(kit->tenants), STATUS_OK);
    assert_int_equal(tenant_kit_number(kit, written_sql), KIT_START_S + 6);
    assert_int_equal(tenant_kit_number(kit, "select count(*) from audit"), audit);
    assert_int_equal(tenant_kit_number(kit, "select max(revision) from keys"), 1);
    tenant_kit_stop(kit);
    tenant_kit_start(kit);
    assert_int_equal(used_at(kit, &key), KIT_START_S + 6);
}

/* A clock that ran ahead is not believed for ever: the next use behind its step back counts. */
static void test_use_behind_a_step_back(void **state)
{
    struct tenant_kit *kit = *state;
    struct tenant one = tenant_kit_tenant(kit, "one");
    char value[LIMIT_KEY_BYTES];
    struct tenant_key key = tenant_kit_key(kit, one.id, value);
    tenant_kit_pass(kit, 100000);
    assert_int_equal(tenant_kit_match(kit, value), TENANT_MATCH_OPEN);
    assert_int_equal(tenants_used_flush(kit->tenants), STATUS_OK);
    tenant_kit_pass(kit, -90000);
    assert_int_equal(tenant_kit_match(kit, value), TENANT_MATCH_OPEN);
    assert_int_equal(used_at(kit, &key), KIT_START_S + 10000);
    assert_int_equal(tenants_used_flush(kit->tenants), STATUS_OK);
    assert_int_equal(tenant_kit_number(kit, written_sql), KIT_START_S + 10000);
}

/* A key that opens nothing is not used. */
static void test_refused_keys_are_not_used(void **state)
{
    struct tenant_kit *kit = *state;
    struct tenant one = tenant_kit_tenant(kit, "one");
    char value[LIMIT_KEY_BYTES];
    struct tenant_key key = tenant_kit_key(kit, one.id, value);
    struct tenant_key out;
    assert_int_equal(
        tenants_key_revoke(kit->tenants, &change, slice_of(one.id), slice_of(key.id), &out),
        STATUS_OK);
    assert_int_equal(tenant_kit_match(kit, value), TENANT_MATCH_REVOKED);
    assert_int_equal(used_at(kit, &key), 0);
}

/* More than a batch; a failure in the middle loses nothing. */
static void test_batches(void **state)
{
    struct tenant_kit *kit = *state;
    enum { MANY = LIMIT_USED_BATCH + 40 };
    static char values[MANY][LIMIT_KEY_BYTES];
    struct tenant one = tenant_kit_tenant(kit, "one");
    for (int i = 0; i < MANY; i++)
        tenant_kit_key(kit, one.id, values[i]);
    for (int i = 0; i < MANY; i++)
        assert_int_equal(tenant_kit_match(kit, values[i]), TENANT_MATCH_OPEN);
    tenant_kit_execute(kit, "create trigger t before update of last_used_at_s on keys when "
                            "new.number = 20 begin select raise(abort, 'no'); end");
    assert_int_equal(tenants_used_flush(kit->tenants), STATUS_CONFLICT);
    tenant_kit_execute(kit, "drop trigger t");
    assert_int_equal(tenants_used_flush(kit->tenants), STATUS_OK);
    assert_int_equal(tenant_kit_number(kit, "select count(*) from keys where last_used_at_s > 0"),
                     MANY);
    tenant_kit_execute(kit, "update keys set last_used_at_s = 0");
    assert_int_equal(tenants_used_flush(kit->tenants), STATUS_OK); /* nothing is left to write */
    assert_int_equal(tenant_kit_number(kit, written_sql), 0);
}

struct race {
    struct tenant_kit *kit;
    const char *value;
    atomic_bool is_over;
};

static void *use(void *context)
{
    struct race *race = context;
    for (int i = 0; i < 3000; i++) {
        clock_manual_advance(&race->kit->clock, 1000000);
        if (tenant_kit_match(race->kit, race->value) != TENANT_MATCH_OPEN)
            return "refused";
    }
    return NULL;
}

/* Uses and flushes at the same time: the last use is in the file in the end. */
static void test_use_beside_flush(void **state)
{
    struct tenant_kit *kit = *state;
    struct tenant one = tenant_kit_tenant(kit, "one");
    char values[2][LIMIT_KEY_BYTES];
    struct race races[2];
    pthread_t threads[2];
    for (int i = 0; i < 2; i++) {
        tenant_kit_key(kit, one.id, values[i]);
        races[i] = (struct race){.kit = kit, .value = values[i]};
    }
    for (int i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, use, &races[i]), 0);
    for (int i = 0; i < 20; i++)
        assert_int_equal(tenants_used_flush(kit->tenants), STATUS_OK);
    for (int i = 0; i < 2; i++) {
        void *failed;
        pthread_join(threads[i], &failed);
        assert_null(failed);
    }
    for (int i = 0; i < 2; i++)
        assert_int_equal(tenant_kit_match(kit, values[i]), TENANT_MATCH_OPEN);
    assert_int_equal(tenants_used_flush(kit->tenants), STATUS_OK);
    assert_int_equal(tenant_kit_number(kit, "select min(last_used_at_s) from keys"),
                     KIT_START_S + 6000);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, tenant_kit_setup, tenant_kit_teardown)
    const struct CMUnitTest tests[] = {
        T(test_used_is_seen_at_once_and_written_later),
        T(test_use_behind_a_step_back),
        T(test_refused_keys_are_not_used),
        T(test_batches),
        T(test_use_beside_flush),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
