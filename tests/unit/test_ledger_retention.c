/* ledger_retention: how far the cutoff goes, minute by minute, under clocks that step. */
#include "auth/ledger/ledger_retention.h"

#include "tests/unit/base_kit.h"

static const int64_t MINUTE = INT64_C(60) * 1000000;
static const int64_t HOUR = INT64_C(3600) * 1000000;
static const int64_t DAY = INT64_C(86400) * 1000000;
static const int64_t START = INT64_C(1800000000) * 1000000; /* wall; the monotonic clock has 5 h */
enum { KEEP_DAYS = 90 };

struct world {
    struct ledger_retention retention;
    int64_t mono_us;
    int64_t offset_us;
    int64_t front_us; /* as if everything below the cutoff were deleted at once */
    int64_t cutoff_us;
    int steps; /* times that the clock began to be doubted */
};

static struct world world_of(int64_t oldest_us)
{
    struct world world = {
        .mono_us = 5 * HOUR, .offset_us = START - 5 * HOUR, .front_us = oldest_us};
    ledger_retention_init(&world.retention, KEEP_DAYS);
    return world;
}

/* Minutes of running. */
static void run(struct world *world, int64_t minutes)
{
    for (int64_t i = 0; i < minutes; i++) {
        world->mono_us += MINUTE;
        bool has_stepped;
        world->cutoff_us =
            ledger_retention_step(&world->retention, world->mono_us + world->offset_us,
                                  world->mono_us, world->front_us, &has_stepped);
        world->steps += has_stepped;
        if (world->front_us != INT64_MAX && world->cutoff_us > world->front_us)
            world->front_us = world->cutoff_us;
    }
}

static int64_t wanted(const struct world *world)
{
    return world->mono_us + world->offset_us - KEEP_DAYS * DAY;
}

static void test_it_follows_the_clock(void **state)
{
    (void)state;
    struct world world = world_of(START - 10 * DAY); /* nothing is old yet */
    run(&world, 1);
    assert_int_equal(world.cutoff_us, wanted(&world));
    run(&world, 100 * 24 * 60);
    assert_int_equal(world.cutoff_us, wanted(&world));
    assert_int_equal(world.steps, 0);
    assert_int_equal(world.front_us, START + 10 * DAY + MINUTE); /* that is day 100 less 90 */

    world = world_of(INT64_MAX); /* without rows */
    run(&world, 10);
    assert_int_equal(world.cutoff_us, wanted(&world));
}

/* Off for 40 days, or keep lowered: it catches up a day an hour, and then follows. */
static void test_it_catches_up_slowly(void **state)
{
    (void)state;
    struct world world = world_of(START - (KEEP_DAYS + 40) * DAY);
    run(&world, 1);
    assert_int_equal(world.cutoff_us, world.front_us);
    run(&world, 60);
    assert_int_equal(world.cutoff_us, START - (KEEP_DAYS + 39) * DAY);
    run(&world, 38 * 60);
    assert_true(world.cutoff_us < wanted(&world));
    run(&world, 4 * 60); /* the days meanwhile, too */
    assert_int_equal(world.cutoff_us, wanted(&world));
}

/* Set to 14 years ahead while it runs: a day nothing goes; then a day of rows an hour. */
static void test_a_clock_that_jumps_ahead(void **state)
{
    (void)state;
    struct world world = world_of(START - KEEP_DAYS * DAY);
    run(&world, 60);
    int64_t before = world.cutoff_us;
    world.offset_us += 14 * 365 * DAY;
    run(&world, 24 * 60);
    assert_int_equal(world.steps, 1);
    assert_int_equal(world.cutoff_us, before);
    run(&world, 1 + 2 * 60);
    assert_true(world.cutoff_us <= before + 2 * DAY + HOUR);
    /* Set right again: nothing that is not old goes, and after the doubt all is as before. */
    world.offset_us -= 14 * 365 * DAY;
    run(&world, 1);
    assert_int_equal(world.steps, 2);
    assert_true(world.cutoff_us <= wanted(&world));
    run(&world, 26 * 60);
    assert_int_equal(world.cutoff_us, wanted(&world));
    assert_int_equal(world.steps, 2);
}

/* A jump that is set right within the day was none. */
static void test_a_jump_that_is_mended(void **state)
{
    (void)state;
    struct world world = world_of(START - KEEP_DAYS * DAY);
    run(&world, 60);
    world.offset_us += 14 * 365 * DAY;
    run(&world, 60);
    world.offset_us -= 14 * 365 * DAY;
    run(&world, 61);
    assert_int_equal(world.steps, 1);
    assert_int_equal(world.cutoff_us, wanted(&world));
}

static void test_a_clock_that_jumps_back(void **state)
{
    (void)state;
    struct world world = world_of(START - (KEEP_DAYS + 1) * DAY);
    run(&world, 3 * 60);
    world.offset_us -= 30 * 365 * DAY;
    run(&world, 3 * 24 * 60);
    assert_int_equal(world.cutoff_us, wanted(&world)); /* far below every row */
    world.offset_us += 30 * 365 * DAY;
    run(&world, 30 * 60);
    assert_int_equal(world.cutoff_us, wanted(&world)); /* from the oldest row, not from 1997 */
    assert_int_equal(world.steps, 2);
}

/* A server that starts under a clock of 2040 has no old offset to compare with: the pace holds. */
static void test_a_start_under_a_wrong_clock(void **state)
{
    (void)state;
    struct world world = world_of(START - 80 * DAY); /* nothing of it is old */
    world.offset_us += 14 * 365 * DAY;
    run(&world, 1 + 24 * 60);
    assert_int_equal(world.front_us, START - 56 * DAY);
}

/* Slow corrections, as NTP makes them, are no steps: an hour exactly is not one either. */
static void test_small_steps(void **state)
{
    (void)state;
    struct world world = world_of(START - KEEP_DAYS * DAY);
    run(&world, 1);
    for (int i = 0; i < 100; i++) {
        world.offset_us += HOUR;
        run(&world, 1);
    }
    assert_int_equal(world.steps, 0);
    world.offset_us += HOUR + 1;
    run(&world, 1);
    assert_int_equal(world.steps, 1);
    world.offset_us -= HOUR + 1;
    run(&world, 1);
    world.offset_us -= HOUR + 1;
    run(&world, 1);
    assert_int_equal(world.steps, 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_it_follows_the_clock),
        cmocka_unit_test(test_it_catches_up_slowly),
        cmocka_unit_test(test_a_clock_that_jumps_ahead),
        cmocka_unit_test(test_a_jump_that_is_mended),
        cmocka_unit_test(test_a_clock_that_jumps_back),
        cmocka_unit_test(test_a_start_under_a_wrong_clock),
        cmocka_unit_test(test_small_steps),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
