/* byte_shares: the rule at its limit and one over, owners that come and go, and the property that
 * an owner below its guaranteed share is never refused. */
#include "config/base/byte_shares.h"

#include "config/base/rng.h"
#include "tests/unit/base_kit.h"

static const struct byte_shares_rule rule = {
    .limit_bytes = 5000, .floor_bytes = 100, .reserve_bytes = 300};

static struct byte_shares *shares;

static int setup(void **state)
{
    (void)state;
    assert_int_equal(byte_shares_create(&shares, &rule), STATUS_OK);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    byte_shares_destroy(shares);
    byte_shares_destroy(NULL);
    return 0;
}

static const uint8_t *name_of(uint32_t number)
{
    static uint8_t name[BYTE_SHARES_OWNER_BYTES];
    memset(name, 0, sizeof name);
    memcpy(name, &number, sizeof number);
    return name;
}

static void test_the_rule_at_its_limits(void **state)
{
    (void)state;
    /* One thing may have all that is free. */
    assert_true(byte_shares_allow(&rule, 0, 0, 5000));
    assert_false(byte_shares_allow(&rule, 0, 0, 5001));
    /* A quarter of what stays free: 4000 bytes with 1000 of one's own. */
    assert_true(byte_shares_allow(&rule, 900, 900, 100));
    assert_true(byte_shares_allow(&rule, 1000, 1000, 0));
    assert_false(byte_shares_allow(&rule, 1000, 1000, 1));
    assert_false(byte_shares_allow(&rule, 1001, 1000, 0));
    /* The floor, as far as the reserve goes. */
    assert_true(byte_shares_allow(&rule, 5000, 0, 100));
    assert_true(byte_shares_allow(&rule, 5200, 40, 60));
    assert_false(byte_shares_allow(&rule, 5200, 41, 60));
    assert_false(byte_shares_allow(&rule, 5201, 0, 100));
    assert_true(byte_shares_allow(&rule, 5299, 0, 1));
    assert_false(byte_shares_allow(&rule, 5300, 0, 1));
    assert_false(byte_shares_allow(&rule, SIZE_MAX, 0, 1));
    assert_false(byte_shares_allow(&rule, 0, 0, SIZE_MAX));
    assert_false(byte_shares_allow(&rule, 0, SIZE_MAX, 1));
}

static void test_an_owner_has_one_sum_for_all_its_holds(void **state)
{
    (void)state;
    struct byte_shares_hold holds[4] = {0};
    assert_int_equal(byte_shares_take(shares, &holds[0], name_of(1), 600), BYTE_SHARES_OK);
    assert_int_equal(byte_shares_take(shares, &holds[1], name_of(1), 600), BYTE_SHARES_OK);
    assert_int_equal(byte_shares_own(&holds[0]), 1200);
    assert_int_equal(byte_shares_take(shares, &holds[2], name_of(1), 1), BYTE_SHARES_OWN);
    assert_null(holds[2].owner);
    assert_int_equal(byte_shares_take(shares, &holds[2], name_of(2), 700), BYTE_SHARES_OK);
    assert_int_equal(byte_shares_total(shares), 1900);
    assert_int_equal(byte_shares_owners(shares), 2);
    assert_int_equal(byte_shares_take(shares, &holds[3], name_of(3), 3101), BYTE_SHARES_ALL);
    assert_int_equal(byte_shares_take(shares, &holds[3], name_of(3), 3100), BYTE_SHARES_OK);
    for (int i = 0; i < 4; i++)
        byte_shares_leave(shares, &holds[i]);
    byte_shares_leave(shares, &holds[0]);
    assert_int_equal(byte_shares_total(shares), 0);
    assert_int_equal(byte_shares_owners(shares), 0);
    assert_int_equal(byte_shares_own(&holds[0]), 0);
}

/* What is there is booked, also when it is too much: its owner is told, and gives it back. */
static void test_a_hold_that_grows(void **state)
{
    (void)state;
    struct byte_shares_hold hold = {0};
    struct byte_shares_hold other = {0};
    assert_int_equal(byte_shares_take(shares, &hold, name_of(1), 0), BYTE_SHARES_OK);
    assert_int_equal(byte_shares_set(shares, &hold, 1000), BYTE_SHARES_OK);
    assert_int_equal(byte_shares_set(shares, &hold, 1001), BYTE_SHARES_OWN);
    assert_int_equal(byte_shares_total(shares), 1001);
    assert_int_equal(byte_shares_set(shares, &hold, 900), BYTE_SHARES_OK);
    assert_int_equal(byte_shares_take(shares, &other, name_of(2), 4100), BYTE_SHARES_OK);
    assert_int_equal(byte_shares_set(shares, &hold, 901), BYTE_SHARES_OWN);
    assert_int_equal(byte_shares_set(shares, &hold, 50), BYTE_SHARES_OK);
    assert_int_equal(byte_shares_set(shares, &hold, 100), BYTE_SHARES_OK); /* its floor */
    byte_shares_leave(shares, &hold);
    byte_shares_leave(shares, &other);
}

/* Names that fall into one bucket are told apart, and leave in any order. */
static void test_many_owners(void **state)
{
    (void)state;
    enum { OWNERS = 3000 };
    static struct byte_shares_hold holds[OWNERS];
    for (uint32_t i = 0; i < OWNERS; i++)
        assert_int_equal(byte_shares_take(shares, &holds[i], name_of(i), 1), BYTE_SHARES_OK);
    assert_int_equal(byte_shares_owners(shares), OWNERS);
    for (uint32_t i = 0; i < OWNERS; i++)
        byte_shares_leave(shares, &holds[i * 7 % OWNERS]);
    assert_int_equal(byte_shares_total(shares), 0);
    assert_int_equal(byte_shares_owners(shares), 0);
}

enum { HOGS = 10, THINGS = 400, MOST = 64 };

/* Others bring, grow and give back whatever they like; only the rule stands in their way. */
static void hogs_move(struct byte_shares *all, struct rng *rng, struct byte_shares_hold *things)
{
    uint32_t at = (uint32_t)rng_below(rng, THINGS);
    struct byte_shares_hold *thing = &things[at];
    uint64_t choice = rng_below(rng, 8);
    if (thing->owner == NULL) {
        (void)byte_shares_take(all, thing, name_of(1 + at % HOGS), rng_below(rng, MOST + 1));
    } else if (choice == 0) {
        byte_shares_leave(all, thing);
    } else if (choice < 3) {
        size_t before = thing->bytes;
        if (byte_shares_set(all, thing, before + rng_below(rng, MOST + 1)) != BYTE_SHARES_OK)
            (void)byte_shares_set(all, thing, before);
    }
}

/* left(N) of byte_shares.h. */
static size_t left_beside(size_t limit_bytes, uint32_t owners, size_t most)
{
    size_t left = limit_bytes;
    for (uint32_t i = 0; i < owners; i++)
        left = left > most ? (left - most) / (BYTE_SHARES_PARTS + 1) * BYTE_SHARES_PARTS : 0;
    return left;
}

static void test_property_who_is_below_its_share_is_never_refused(void **state)
{
    (void)state;
    const struct byte_shares_rule small = {.limit_bytes = 4096, .floor_bytes = 8};
    const size_t left = left_beside(small.limit_bytes, HOGS, MOST);
    assert_in_range(left, 2 * MOST, small.limit_bytes / 4);
    uint64_t closest = SIZE_MAX;
    for (uint64_t seed = 0; seed < 20; seed++) {
        struct rng rng = {.seed = seed};
        struct byte_shares *all;
        struct byte_shares_hold things[THINGS] = {0};
        struct byte_shares_hold own = {0};
        assert_int_equal(byte_shares_create(&all, &small), STATUS_OK);
        for (int turn = 0; turn < 20000; turn++) {
            hogs_move(all, &rng, things);
            size_t free_bytes = small.limit_bytes - (byte_shares_total(all) - own.bytes);
            closest = free_bytes - left < closest ? free_bytes - left : closest;
            assert_true(free_bytes >= left);
            size_t more = rng_below(&rng, MOST + 1);
            size_t before = own.bytes;
            bool is_below = before <= (left - more) / (BYTE_SHARES_PARTS + 1);
            if (rng_below(&rng, 2) != 0) {
                byte_shares_leave(all, &own);
            } else if (own.owner == NULL) {
                assert_int_equal(byte_shares_take(all, &own, name_of(0), more), BYTE_SHARES_OK);
            } else if (is_below) {
                assert_int_equal(byte_shares_set(all, &own, before + more), BYTE_SHARES_OK);
            }
        }
        for (int i = 0; i < THINGS; i++)
            byte_shares_leave(all, &things[i]);
        byte_shares_leave(all, &own);
        byte_shares_destroy(all);
    }
    assert_in_range(closest, 0, small.limit_bytes / 2); /* the hogs have tried */
}

/* The guarantee is tight: hogs that come one after the other leave no more than it says. */
static void test_greedy_ones_in_a_row(void **state)
{
    (void)state;
    const struct byte_shares_rule large = {.limit_bytes = 1 << 20};
    struct byte_shares *all;
    struct byte_shares_hold things[HOGS] = {0};
    assert_int_equal(byte_shares_create(&all, &large), STATUS_OK);
    for (uint32_t i = 0; i < HOGS; i++) {
        assert_int_equal(byte_shares_take(all, &things[i], name_of(i), 1), BYTE_SHARES_OK);
        while (byte_shares_set(all, &things[i], things[i].bytes + 1) == BYTE_SHARES_OK)
            ;
        (void)byte_shares_set(all, &things[i], things[i].bytes - 1); /* it is told, and obeys */
        size_t left = large.limit_bytes - byte_shares_total(all);
        assert_in_range(left, left_beside(large.limit_bytes, i + 1, 1),
                        left_beside(large.limit_bytes, i + 1, 1) + 8 * (i + 1));
    }
    for (uint32_t i = 0; i < HOGS; i++)
        byte_shares_leave(all, &things[i]);
    byte_shares_destroy(all);
}

static void test_without_memory(void **state)
{
    (void)state;
    struct byte_shares *other = NULL;
    struct byte_shares_hold hold = {0};
    int left = 1;
    mem_hook_set(kit_fail_at, &left);
    assert_int_equal(byte_shares_create(&other, &rule), STATUS_NO_MEMORY);
    left = 1;
    assert_int_equal(byte_shares_take(shares, &hold, name_of(1), 1), BYTE_SHARES_NO_MEMORY);
    mem_hook_set(NULL, NULL);
    assert_null(other);
    assert_null(hold.owner);
    assert_int_equal(byte_shares_total(shares), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_rule_at_its_limits),
        cmocka_unit_test_setup_teardown(test_an_owner_has_one_sum_for_all_its_holds, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_a_hold_that_grows, setup, teardown),
        cmocka_unit_test_setup_teardown(test_many_owners, setup, teardown),
        cmocka_unit_test(test_property_who_is_below_its_share_is_never_refused),
        cmocka_unit_test(test_greedy_ones_in_a_row),
        cmocka_unit_test_setup_teardown(test_without_memory, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
