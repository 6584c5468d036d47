/* door_share: who gives way, how much an owner may come to hold, and a random run whose sums are
 * held against a plain list. */
#include "gateway/http/door_share.h"

#include <string.h>

#include "base_kit.h"
#include "config/base/rng.h"

enum { KIB = 1024 };

static const uint8_t *owner(uint8_t which)
{
    static uint8_t names[256][DOOR_SHARE_OWNER_BYTES];
    names[which][0] = which;
    return names[which];
}

static void set(struct door_share *share, struct door_hold *hold, uint8_t who, size_t bytes)
{
    assert_true(door_share_set(share, hold, owner(who), bytes));
}

/* Within its limits nobody gives way; one byte over, the largest of whoever holds the most does. */
static void test_who_gives_way(void **state)
{
    (void)state;
    struct door_share share;
    struct door_hold small = {0}, first = {0}, second = {0}, third = {0};
    door_share_init(&share, 100, SIZE_MAX);
    set(&share, &small, 1, 40);
    set(&share, &first, 2, 20);
    set(&share, &second, 2, 20);
    set(&share, &third, 2, 20);
    assert_null(door_share_yields(&share, &third));
    set(&share, &small, 1, 41);
    /* The owner of 41 bytes is not asked, although its hold is the largest and came last: the other
     * one holds 60. Of its equal holds the youngest goes. */
    assert_ptr_equal(door_share_yields(&share, &small), &third);
    set(&share, &first, 2, 21);
    assert_ptr_equal(door_share_yields(&share, &small), &first);
    door_share_leave(&share, &first);
    assert_null(door_share_yields(&share, &small));
    assert_int_equal(share.bytes, 81);
    door_share_leave(&share, &second);
    door_share_leave(&share, &third);
    door_share_leave(&share, &small);
    door_share_leave(&share, &small); /* nothing to let go of */
    assert_int_equal(share.bytes, 0);
    assert_int_equal(share.accounts, 0);
}

/* One owner's limit counts although there is room in all, and for that owner alone. */
static void test_limit_of_one_owner(void **state)
{
    (void)state;
    struct door_share share;
    struct door_hold other = {0}, first = {0}, second = {0};
    door_share_init(&share, 1000, 100);
    set(&share, &other, 1, 100);
    set(&share, &first, 2, 60);
    set(&share, &second, 2, 40);
    assert_null(door_share_yields(&share, &second));
    set(&share, &second, 2, 41);
    assert_ptr_equal(door_share_yields(&share, &second), &first);
    assert_null(door_share_yields(&share, &other));
    door_share_leave(&share, &first);
    assert_null(door_share_yields(&share, &second));
    door_share_leave(&share, &second);
    door_share_leave(&share, &other);
}

/* Behind many greedy addresses a small one is never the one that gives way. */
static void test_small_holder_stays(void **state)
{
    (void)state;
    enum { GREEDY = 64, EACH = 63 };
    static struct door_hold holds[GREEDY][EACH];
    struct door_share share;
    struct door_hold neighbour = {0};
    door_share_init(&share, 1024 * KIB, SIZE_MAX);
    memset(holds, 0, sizeof holds);
    set(&share, &neighbour, 200, 4 * KIB);
    int given = 0;
    for (int i = 0; i < GREEDY * EACH; i++) {
        struct door_hold *hold = &holds[i % GREEDY][i / GREEDY];
        set(&share, hold, (uint8_t)(i % GREEDY), 8 * KIB);
        struct door_hold *yields;
        while ((yields = door_share_yields(&share, hold)) != NULL) {
            assert_ptr_not_equal(yields, &neighbour);
            door_share_leave(&share, yields);
            given++;
        }
        assert_true(share.bytes <= share.limit_bytes);
    }
    assert_true(given > GREEDY * EACH / 2);
    assert_int_equal(neighbour.bytes, 4 * KIB);
    for (int i = 0; i < GREEDY * EACH; i++)
        door_share_leave(&share, &holds[i % GREEDY][i / GREEDY]);
    door_share_leave(&share, &neighbour);
}

/* A hold may change hands: a stranger's body becomes a tenant's. */
static void test_hold_changes_owner(void **state)
{
    (void)state;
    struct door_share share;
    struct door_hold hold = {0};
    door_share_init(&share, 100, SIZE_MAX);
    set(&share, &hold, 1, 60);
    set(&share, &hold, 2, 70);
    assert_int_equal(share.bytes, 70);
    assert_int_equal(share.accounts, 1);
    set(&share, &hold, 2, 0);
    assert_int_equal(share.accounts, 0);
    assert_null(hold.account);
}

/* An owner may hold a quarter of what stays free and the last thing it brought; whoever holds
 * nothing finds room beside three that take all they can. */
static void test_room(void **state)
{
    (void)state;
    enum { LARGE = 4096, LIMIT = 64 * 1024 };
    static struct door_hold holds[3][64];
    struct door_share share;
    memset(holds, 0, sizeof holds);
    door_share_init(&share, LIMIT, SIZE_MAX);
    assert_true(door_share_has_room(&share, owner(0), LIMIT));
    assert_false(door_share_has_room(&share, owner(0), LIMIT + 1));
    for (uint8_t who = 0; who < 3; who++) {
        for (size_t i = 0; i < 64 && door_share_has_room(&share, owner(who), LARGE); i++)
            set(&share, &holds[who][i], who, LARGE);
        assert_non_null(holds[who][1].account); /* two of them at least */
    }
    assert_true(share.bytes < LIMIT);
    assert_true(door_share_has_room(&share, owner(9), 2 * LARGE));
}

static struct door_share *given_in; /* the share in which holds give way */
static int given;

static void on_give_way(struct door_hold *hold)
{
    door_share_leave(given_in, hold);
    given++;
}

/* Whoever is refused would hold more than any other owner that then gave its largest thing away;
 * and whoever asks for it alone, or holds no more than a fair part, is let in. */
static void test_random_admissions(void **state)
{
    (void)state;
    enum { HOLDS = 400, OWNERS = 20, STEPS = 50000, LIMIT = 1000000, MOST = 40000 };
    static struct door_hold holds[HOLDS];
    struct door_share share;
    struct rng rng = {.seed = 11};
    int refused = 0;
    given = 0;
    given_in = &share;
    memset(holds, 0, sizeof holds);
    door_share_init(&share, LIMIT, SIZE_MAX);
    for (int step = 0; step < STEPS; step++) {
        size_t at = rng_below(&rng, HOLDS);
        uint8_t who = (uint8_t)(at % OWNERS);
        size_t more = 1 + rng_below(&rng, who % 2 == 0 ? MOST : MOST / 100);
        holds[at].give_way = on_give_way;
        door_share_leave(&share, &holds[at]);
        if (rng_below(&rng, 4) == 0)
            continue;
        enum byte_shares_verdict verdict = door_share_admit(&share, owner(who), more);
        size_t sums[OWNERS] = {0}, largest[OWNERS] = {0};
        for (size_t i = 0; i < HOLDS; i++) {
            sums[i % OWNERS] += holds[i].bytes;
            if (holds[i].bytes > largest[i % OWNERS])
                largest[i % OWNERS] = holds[i].bytes;
        }
        if (verdict == BYTE_SHARES_OK) {
            set(&share, &holds[at], who, more);
            assert_true(share.bytes <= LIMIT + LIMIT / 16);
            continue;
        }
        refused++;
        assert_int_equal(verdict, sums[who] == 0 ? BYTE_SHARES_ALL : BYTE_SHARES_OWN);
        size_t most = 0;
        for (size_t i = 0; i < OWNERS; i++)
            if (i != who && sums[i] > most)
                most = sums[i];
        assert_true(sums[who] + more > most - (most > MOST ? MOST : most));
        assert_true(sums[who] + more > LIMIT / OWNERS - MOST);
    }
    assert_true(refused > STEPS / 100);
    assert_true(given > STEPS / 1000);
    for (size_t i = 0; i < HOLDS; i++)
        door_share_leave(&share, &holds[i]);
    assert_int_equal(share.accounts, 0);
}

/* Owners of one thing each fill the share. One more that holds nothing takes the place of the
 * oldest of those that have had longer than they need; whoever holds something does not. */
static void test_late_ones_give_way(void **state)
{
    (void)state;
    enum { PLACES = 4, MIB = 1024 * 1024, PATIENCE_US = 2 * 1000 * 1000 };
    static struct door_hold holds[PLACES + 1];
    struct door_share share;
    memset(holds, 0, sizeof holds);
    given = 0;
    given_in = &share;
    door_share_init(&share, PLACES * MIB, SIZE_MAX);
    for (size_t i = 0; i <= PLACES; i++)
        holds[i].give_way = on_give_way;
    for (uint8_t i = 0; i < PLACES; i++) {
        share.now_us = i;
        set(&share, &holds[i], i, MIB);
    }
    share.now_us = PATIENCE_US;
    assert_int_equal(door_share_admit(&share, owner(PLACES), MIB), BYTE_SHARES_ALL);
    share.now_us = PATIENCE_US + 2; /* two of them are late now */
    assert_int_equal(door_share_admit(&share, owner(1), MIB), BYTE_SHARES_OWN);
    assert_int_equal(given, 0);
    assert_int_equal(door_share_admit(&share, owner(PLACES), MIB), BYTE_SHARES_OK);
    assert_int_equal(given, 1);
    assert_null(holds[0].account);
    set(&share, &holds[PLACES], PLACES, MIB);
    for (size_t i = 1; i <= PLACES; i++)
        door_share_leave(&share, &holds[i]);
}

static void test_random_run(void **state)
{
    (void)state;
    enum { HOLDS = 200, OWNERS = 20, STEPS = 20000, LIMIT = 5000 };
    static struct door_hold holds[HOLDS];
    struct door_share share;
    struct rng rng = {.seed = 7};
    memset(holds, 0, sizeof holds);
    door_share_init(&share, LIMIT, LIMIT / 4);
    for (int step = 0; step < STEPS; step++) {
        size_t at = rng_below(&rng, HOLDS);
        set(&share, &holds[at], (uint8_t)(at % OWNERS), rng_below(&rng, 200));
        struct door_hold *yields;
        while ((yields = door_share_yields(&share, &holds[at])) != NULL)
            door_share_leave(&share, yields);
        size_t sum = 0, most = 0, sums[OWNERS] = {0};
        for (size_t i = 0; i < HOLDS; i++) {
            sum += holds[i].bytes;
            sums[i % OWNERS] += holds[i].bytes;
        }
        for (size_t i = 0; i < OWNERS; i++)
            most = sums[i] > most ? sums[i] : most;
        assert_int_equal(share.bytes, sum);
        assert_true(sum <= LIMIT);
        assert_true(most <= LIMIT / 4);
    }
    for (size_t i = 0; i < HOLDS; i++)
        door_share_leave(&share, &holds[i]);
    assert_int_equal(share.accounts, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_who_gives_way),
        cmocka_unit_test(test_limit_of_one_owner),
        cmocka_unit_test(test_small_holder_stays),
        cmocka_unit_test(test_hold_changes_owner),
        cmocka_unit_test(test_room),
        cmocka_unit_test(test_random_admissions),
        cmocka_unit_test(test_late_ones_give_way),
        cmocka_unit_test(test_random_run),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
