/* edge_memory: what a tenant may hold at its limit and one over, whom that harms, what is shown. */
#include "gateway/edge/state/edge_memory.h"

#include "tests/unit/base_kit.h"

enum {
    LIMIT_BYTES = 16 << 20,
    SHARED_BYTES = LIMIT_BYTES / 8 * 5, /* the rest is the door's */
    BODY_BYTES = 4 << 20,
};

static struct edge_metrics metrics;
static struct edge_memory *memory;

static int setup(void **state)
{
    (void)state;
    assert_int_equal(edge_metrics_init(&metrics), STATUS_OK);
    assert_int_equal(edge_memory_create(&memory, LIMIT_BYTES, &metrics), STATUS_OK);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    edge_memory_destroy(memory);
    edge_memory_destroy(NULL);
    edge_metrics_deinit(&metrics);
    return 0;
}

static const uint8_t *tenant(uint8_t number)
{
    static uint8_t hash[16];
    hash[15] = number;
    return hash;
}

/* The door's part is never a tenant's. */
static void test_the_limit(void **state)
{
    (void)state;
    struct byte_shares_hold hold = {0};
    assert_int_equal(edge_memory_take(memory, &hold, tenant(1), SHARED_BYTES + 1), STATUS_BUSY);
    assert_true(metric_value(metrics.memory_refused) == 1);
    assert_int_equal(edge_memory_take(memory, &hold, tenant(1), SHARED_BYTES), STATUS_OK);
    assert_true(metric_value(metrics.memory_tenants) == SHARED_BYTES);
    edge_memory_leave(memory, &hold);
    edge_memory_leave(memory, &hold);
    assert_true(metric_value(metrics.memory_tenants) == 0);
}

/* One tenant's unread answers and bodies refuse that tenant, in words of its own, and nobody else:
 * neither a small request nor the largest one. */
static void test_a_tenant_uses_up_its_share(void **state)
{
    (void)state;
    enum { MOST = 4096 };
    static struct byte_shares_hold holds[MOST];
    struct byte_shares_hold other = {0};
    int count = 0;
    while (count < MOST && edge_memory_take(memory, &holds[count], tenant(1), 8192) == STATUS_OK)
        count++;
    assert_in_range(count, SHARED_BYTES / 5 / 8192, SHARED_BYTES / 5 / 8192 + 1);
    assert_int_equal(status_note()->status, STATUS_MEMORY_SHARE);
    assert_true(metric_value(metrics.memory_share_refused) == 1);
    assert_int_equal(edge_memory_take(memory, &other, tenant(2), BODY_BYTES), STATUS_OK);
    edge_memory_leave(memory, &other);
    assert_int_equal(edge_memory_take(memory, &other, tenant(2), 1), STATUS_OK);
    edge_memory_leave(memory, &other);
    assert_true(metric_value(metrics.memory_refused) == 0);
    /* What grows is booked and told, and counted by whoever refuses it. */
    assert_int_equal(edge_memory_set(memory, &holds[0], 8193), STATUS_MEMORY_SHARE);
    assert_int_equal(edge_memory_set(memory, &holds[0], 8193), STATUS_OK);
    assert_int_equal(edge_memory_set(memory, &holds[0], 8191), STATUS_OK);
    assert_true(metric_value(metrics.memory_share_refused) == 1);
    for (int i = 0; i < count; i++)
        edge_memory_leave(memory, &holds[i]);
    assert_true(metric_value(metrics.memory_tenants) == 0);
}

/* Requests whose token is not checked yet are one owner, however many they are; and of what they
 * have, no address has more than a quarter. */
static void test_the_unproven_are_one_owner(void **state)
{
    (void)state;
    enum { BYTES = 128 * 1024, ADDRESSES = 8, MOST = 64 };
    struct edge_memory_unproven holds[MOST] = {0};
    struct byte_shares_hold tenants[3] = {0};
    int count = 0;
    int addresses = 0;
    for (uint8_t at = 1; at <= ADDRESSES; at++) {
        int before = count;
        while (edge_memory_take_unproven(memory, &holds[count], tenant(at), BYTES) == STATUS_OK)
            count++;
        addresses += count > before;
        assert_in_range(count - before, 0, SHARED_BYTES / 5 / 4 / BYTES + 1);
        assert_int_equal(status_note()->status, STATUS_BUSY);
    }
    assert_true(addresses >= 3);
    assert_in_range(count, 2, SHARED_BYTES / 5 / BYTES + 1);
    assert_true(metric_value(metrics.memory_unproven) == (double)(count * BYTES));
    assert_true(metric_value(metrics.memory_tenants) == 0);
    assert_int_equal(edge_memory_take(memory, &tenants[0], tenant(1), BODY_BYTES), STATUS_OK);
    assert_true(metric_value(metrics.memory_tenants) == BODY_BYTES);
    edge_memory_leave(memory, &tenants[0]);
    for (int i = 0; i < count; i++)
        edge_memory_leave_unproven(memory, &holds[i]);
    assert_true(metric_value(metrics.memory_unproven) == 0);
}

static void test_without_memory(void **state)
{
    (void)state;
    for (int at = 1; at <= 4; at++) {
        struct edge_memory *other = NULL;
        int left = at;
        mem_hook_set(kit_fail_at, &left);
        assert_int_equal(edge_memory_create(&other, LIMIT_BYTES, &metrics), STATUS_NO_MEMORY);
        mem_hook_set(NULL, NULL);
        assert_null(other);
    }
    struct byte_shares_hold hold = {0};
    int left = 1;
    mem_hook_set(kit_fail_at, &left);
    assert_int_equal(edge_memory_take(memory, &hold, tenant(1), 1), STATUS_NO_MEMORY);
    mem_hook_set(NULL, NULL);
    assert_null(hold.owner);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_the_limit, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_tenant_uses_up_its_share, setup, teardown),
        cmocka_unit_test_setup_teardown(test_the_unproven_are_one_owner, setup, teardown),
        cmocka_unit_test_setup_teardown(test_without_memory, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
