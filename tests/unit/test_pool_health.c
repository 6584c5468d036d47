/* pool_health: under a clock of the test's own. */
#include "gateway/pool/pool_health.h"

#include "tests/unit/base_kit.h"

static const int64_t SECOND = 1000000;

static void fail_times(struct pool_health *health, int64_t now_us, uint32_t times)
{
    for (uint32_t i = 0; i < times; i++)
        pool_health_failed(health, now_us, true, 200); /* the middle of the chance: no change */
}

static void test_failures_in_a_row_eject(void **state)
{
    (void)state;
    struct pool_health health;
    pool_health_init(&health);
    fail_times(&health, SECOND, POOL_HEALTH_ROW - 1);
    assert_int_equal(pool_health_room(&health, 8, SECOND), 8);
    pool_health_good(&health, SECOND);
    fail_times(&health, SECOND, POOL_HEALTH_ROW - 1);
    assert_int_equal(health.state, POOL_HEALTH_UP);
    fail_times(&health, SECOND, 1);
    assert_int_equal(health.state, POOL_HEALTH_EJECTED);
    assert_int_equal(pool_health_room(&health, 8, SECOND), 0);
}

static void test_half_of_twenty_ejects(void **state)
{
    (void)state;
    struct pool_health health;
    pool_health_init(&health);
    for (int i = 0; i < 9; i++) {
        pool_health_failed(&health, SECOND, true, 200);
        pool_health_good(&health, SECOND);
    }
    pool_health_good(&health, 2 * SECOND);
    assert_int_equal(health.state, POOL_HEALTH_UP); /* nineteen so far */
    pool_health_failed(&health, 3 * SECOND, true, 200);
    assert_int_equal(health.state, POOL_HEALTH_EJECTED);
    /* What is older than ten seconds does not count. */
    pool_health_init(&health);
    for (int i = 0; i < 100; i++) {
        pool_health_failed(&health, i * 2 * SECOND, true, 200);
        pool_health_good(&health, i * 2 * SECOND);
    }
    assert_int_equal(health.state, POOL_HEALTH_UP);
}

static void test_the_time_of_ejection_doubles(void **state)
{
    (void)state;
    struct pool_health health;
    int64_t now_us = SECOND;
    int64_t wanted_ms = POOL_HEALTH_EJECT_MS;
    pool_health_init(&health);
    fail_times(&health, now_us, POOL_HEALTH_ROW);
    for (int i = 0; i < 10; i++) {
        assert_int_equal(health.state, POOL_HEALTH_EJECTED);
        assert_int_equal(health.until_us - now_us, wanted_ms * 1000);
        pool_health_look(&health, health.until_us - 1);
        assert_int_equal(health.state, POOL_HEALTH_EJECTED);
        now_us = health.until_us;
        pool_health_look(&health, now_us);
        assert_int_equal(health.state, POOL_HEALTH_TRIAL);
        assert_int_equal(pool_health_room(&health, 8, now_us), 8);
        pool_health_failed(&health, now_us, false, 200); /* whatever others do: it was out */
        wanted_ms =
            wanted_ms * 2 < POOL_HEALTH_EJECT_MS_MAX ? wanted_ms * 2 : POOL_HEALTH_EJECT_MS_MAX;
    }
    now_us = health.until_us;
    pool_health_look(&health, now_us);
    for (int i = 0; i < POOL_HEALTH_TRIALS; i++)
        pool_health_good(&health, now_us);
    assert_int_equal(health.state, POOL_HEALTH_UP);
    fail_times(&health, now_us, POOL_HEALTH_ROW);
    assert_int_equal(health.until_us - now_us, POOL_HEALTH_EJECT_MS * INT64_C(1000));
}

static void test_chance_moves_the_time_by_a_fifth(void **state)
{
    (void)state;
    int64_t least = INT64_MAX;
    int64_t most = 0;
    for (uint32_t chance = 0; chance < 1000; chance++) {
        struct pool_health health;
        pool_health_init(&health);
        for (int i = 0; i < POOL_HEALTH_ROW; i++)
            pool_health_failed(&health, 0, true, chance);
        least = health.until_us < least ? health.until_us : least;
        most = health.until_us > most ? health.until_us : most;
    }
    assert_int_equal(least, 800000);
    assert_int_equal(most, 1200000);
}

static void test_half_of_the_engines_stay(void **state)
{
    (void)state;
    struct pool_health health;
    pool_health_init(&health);
    for (int i = 0; i < 100; i++)
        pool_health_failed(&health, SECOND, false, 200);
    assert_int_equal(health.state, POOL_HEALTH_UP);
}

/* A refused connection and an answered question do not end an ejection, nor pass the trials. */
static void test_down_does_not_end_an_ejection(void **state)
{
    (void)state;
    struct pool_health health;
    pool_health_init(&health);
    fail_times(&health, SECOND, POOL_HEALTH_ROW);
    const int64_t until_us = health.until_us;
    pool_health_down(&health);
    pool_health_look(&health, until_us + SECOND);
    assert_int_equal(health.state, POOL_HEALTH_DOWN);
    pool_health_answered(&health, until_us - 1);
    assert_int_equal(health.state, POOL_HEALTH_EJECTED);
    pool_health_look(&health, until_us - 1);
    assert_int_equal(health.state, POOL_HEALTH_EJECTED);
    pool_health_look(&health, until_us);
    assert_int_equal(health.state, POOL_HEALTH_TRIAL);
    pool_health_down(&health);
    pool_health_answered(&health, until_us + SECOND);
    pool_health_look(&health, until_us + SECOND);
    assert_int_equal(health.state, POOL_HEALTH_TRIAL);
    for (int i = 0; i < POOL_HEALTH_TRIALS; i++)
        pool_health_good(&health, until_us + SECOND);
    assert_int_equal(health.state, POOL_HEALTH_UP);
    pool_health_down(&health);
    pool_health_answered(&health, until_us + 2 * SECOND);
    assert_int_equal(health.state, POOL_HEALTH_UP);
}

static void test_slow_start(void **state)
{
    (void)state;
    struct pool_health health;
    pool_health_init(&health);
    pool_health_down(&health);
    assert_int_equal(pool_health_room(&health, 100, SECOND), 0);
    pool_health_good(&health, SECOND); /* a late answer is no proof */
    assert_int_equal(health.state, POOL_HEALTH_DOWN);
    pool_health_answered(&health, SECOND);
    uint32_t before = 0;
    for (int64_t ms = 0; ms <= POOL_HEALTH_SLOW_MS; ms += 100) {
        uint32_t room = pool_health_room(&health, 100, SECOND + ms * 1000);
        assert_true(room >= before && room >= 1 && room <= 100);
        if (ms == 100)
            assert_int_equal(room, 1);
        before = room;
    }
    assert_int_equal(before, 100);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_failures_in_a_row_eject),
                                       cmocka_unit_test(test_half_of_twenty_ejects),
                                       cmocka_unit_test(test_the_time_of_ejection_doubles),
                                       cmocka_unit_test(test_chance_moves_the_time_by_a_fifth),
                                       cmocka_unit_test(test_half_of_the_engines_stay),
                                       cmocka_unit_test(test_down_does_not_end_an_ejection),
                                       cmocka_unit_test(test_slow_start)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
