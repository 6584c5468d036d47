#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "config/base/rng.h"
#include "engine/scheduler/scheduler_fair.h"

enum { CLIENTS = 6, QUANTUM = 100 };

static const enum service_class urgent = SERVICE_CLASS_REALTIME;
static const enum service_class batch = SERVICE_CLASS_BATCH;

static struct scheduler_fair fair;

static int setup(void **state)
{
    (void)state;
    const struct scheduler_fair_options options = {.clients = CLIENTS,
                                                   .quantum = QUANTUM,
                                                   .floor_percent = 5,
                                                   .rows_max = 64,
                                                   .sequences_max = 4,
                                                   .context = 1000};
    return scheduler_fair_init(&fair, &options) != STATUS_OK;
}

static int teardown(void **state)
{
    (void)state;
    scheduler_fair_deinit(&fair);
    return 0;
}

static struct engine_domain tenant(uint8_t number)
{
    return (struct engine_domain){.bytes = {number}};
}

static uint32_t enter(uint8_t number, enum service_class service_class, uint32_t weight)
{
    const struct engine_domain name = tenant(number);
    return scheduler_fair_enter(&fair, &name, service_class, weight);
}

static void test_accounts(void **state)
{
    (void)state;
    uint32_t one = enter(1, batch, 100);
    assert_int_equal(enter(1, batch, 200), one);
    uint32_t other = enter(1, urgent, 0);
    assert_int_not_equal(other, one);
    assert_true(fair.clients[one].served <= -QUANTUM && fair.clients[one].served >= -QUANTUM);

    /* By weight; in its class alone; kept while it is away. */
    scheduler_fair_charge(&fair, one, 300);
    assert_true(fair.clients[one].served >= 50 && fair.clients[one].served <= 50);
    assert_true(fair.clients[one].charged >= 300 && fair.clients[one].charged <= 300);
    assert_int_equal(scheduler_fair_sign(&fair, one), -1);
    assert_int_equal(scheduler_fair_sign(&fair, other), 1);
    scheduler_fair_leave(&fair, one);
    scheduler_fair_leave(&fair, one);
    assert_int_equal(fair.clients[one].requests, 0);
    assert_int_equal(enter(1, batch, 100), one);
    assert_true(fair.clients[one].served >= 50);

    /* Residency, by the tokens that pages have room for; but not of who is over. */
    scheduler_fair_charge_pages(&fair, one, 200 * SCHEDULER_RESIDENCY_TOKENS);
    assert_true(fair.clients[one].served >= 52 && fair.clients[one].served <= 52);
    fair.clients[one].is_over = true;
    scheduler_fair_charge_pages(&fair, one, 200 * SCHEDULER_RESIDENCY_TOKENS);
    assert_true(fair.clients[one].served <= 52);
}

/* More tenants than accounts: the idle one with the least debt is forgotten, nobody else. */
static void test_accounts_are_used_again(void **state)
{
    (void)state;
    struct rng rng = {.seed = 3};
    uint8_t held[CLIENTS] = {0};
    uint32_t count = 0;
    for (uint32_t n = 0; n < 20000; n++) {
        if (count < CLIENTS && rng_below(&rng, 2) == 0) {
            uint8_t name = (uint8_t)(1 + rng_below(&rng, 40));
            uint32_t client = enter(name, batch, 100);
            assert_int_equal(fair.clients[client].tenant.bytes[0], name);
            scheduler_fair_charge(&fair, client, (double)rng_below(&rng, 10));
            held[count++] = name;
        } else if (count > 0) {
            uint32_t place = (uint32_t)rng_below(&rng, count);
            uint32_t client = enter(held[place], batch, 100);
            assert_true(fair.clients[client].requests > 1);
            scheduler_fair_leave(&fair, client);
            scheduler_fair_leave(&fair, client);
            held[place] = held[--count];
        }
    }
    while (count > 0) {
        uint32_t client = enter(held[--count], batch, 100);
        scheduler_fair_leave(&fair, client);
        scheduler_fair_leave(&fair, client);
    }
    uint32_t debtor = enter(50, batch, 100);
    scheduler_fair_charge(&fair, debtor, 1e6);
    scheduler_fair_leave(&fair, debtor);
    for (uint8_t i = 0; i < CLIENTS - 1; i++)
        enter((uint8_t)(60 + i), batch, 100);
    assert_int_equal(fair.clients[debtor].tenant.bytes[0], 50);
}

static void test_level_rises_by_quanta(void **state)
{
    (void)state;
    scheduler_fair_raise(&fair, batch, -1);
    assert_true(fair.level[batch] <= 0 && fair.level[batch] >= 0);
    scheduler_fair_raise(&fair, batch, 0);
    assert_true(fair.level[batch] <= QUANTUM && fair.level[batch] >= QUANTUM);
    scheduler_fair_raise(&fair, batch, 1234);
    assert_true(fair.level[batch] <= 1300 && fair.level[batch] >= 1300);
    /* 64 + 0.1 × 1000 + 2 × 4 × 32 = 420 at weight 100, and a quantum. */
    assert_true(scheduler_fair_slack(&fair, 100) <= 520 && scheduler_fair_slack(&fair, 100) >= 520);
    assert_true(scheduler_fair_slack(&fair, 50) <= 940 && scheduler_fair_slack(&fair, 50) >= 940);
    assert_true(scheduler_fair_step_most(&fair, 100) <= 172);
    assert_true(scheduler_fair_token(0) <= 2 && scheduler_fair_token(1) <= 2);
    assert_true(scheduler_fair_token(3) > 2.09 && scheduler_fair_token(3) < 2.11);
    assert_true(scheduler_fair_token(1000) <= 2.5);
}

static void test_window(void **state)
{
    (void)state;
    struct scheduler_fair_step step = {.rows = {[SERVICE_CLASS_REALTIME] = 100},
                                       .units = {[SERVICE_CLASS_REALTIME] = 30},
                                       .has_work = {[SERVICE_CLASS_REALTIME] = true}};
    int64_t now_us = 77 * (int64_t)SCHEDULER_WINDOW_PART_US;
    scheduler_fair_tick(&fair, now_us, NULL);
    scheduler_fair_tick(&fair, now_us, &step);
    assert_int_equal(scheduler_fair_owed(&fair, batch), 0); /* it wanted nothing */
    assert_int_equal(scheduler_fair_peak(&fair, urgent), 30);
    step.has_work[batch] = true;
    step.units[SERVICE_CLASS_REALTIME] = 10;
    scheduler_fair_tick(&fair, now_us, &step);
    assert_int_equal(scheduler_fair_owed(&fair, batch), 5);
    step.rows[batch] = 4;
    scheduler_fair_tick(&fair, now_us + SCHEDULER_WINDOW_PART_US, &step);
    assert_int_equal(scheduler_fair_owed(&fair, batch), 7); /* 5 % of 204, less 4 */

    /* After a second the first part is over, later all. */
    now_us += SCHEDULER_WINDOW_PARTS * SCHEDULER_WINDOW_PART_US;
    scheduler_fair_tick(&fair, now_us, NULL);
    assert_int_equal(scheduler_fair_owed(&fair, batch), 2); /* 5 % of 104, less 4 */
    assert_int_equal(scheduler_fair_peak(&fair, urgent), 10);
    scheduler_fair_tick(&fair, now_us + SCHEDULER_WINDOW_PART_US, NULL);
    assert_int_equal(scheduler_fair_owed(&fair, batch), 0);
    assert_int_equal(scheduler_fair_peak(&fair, urgent), 0);
}

/* One beside others of its class, who had none, says that more may come: for a minute. */
static void test_mixed(void **state)
{
    (void)state;
    int64_t now_us = 9 * (int64_t)SCHEDULER_WINDOW_PART_US;
    scheduler_fair_tick(&fair, now_us, NULL);
    assert_false(scheduler_fair_is_mixed(&fair));
    uint32_t one = enter(1, batch, 100);
    enter(1, batch, 100);
    enter(2, urgent, 100);
    assert_false(scheduler_fair_is_mixed(&fair));
    scheduler_fair_leave(&fair, one);
    scheduler_fair_leave(&fair, one);
    enter(3, batch, 100);
    assert_false(scheduler_fair_is_mixed(&fair));
    enter(1, batch, 100);
    assert_true(scheduler_fair_is_mixed(&fair));
    now_us += SCHEDULER_MIXED_PARTS * (int64_t)SCHEDULER_WINDOW_PART_US;
    scheduler_fair_tick(&fair, now_us - 1, NULL);
    assert_true(scheduler_fair_is_mixed(&fair));
    enter(3, batch, 100);
    scheduler_fair_tick(&fair, now_us, NULL);
    assert_false(scheduler_fair_is_mixed(&fair));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_accounts, setup, teardown),
        cmocka_unit_test_setup_teardown(test_accounts_are_used_again, setup, teardown),
        cmocka_unit_test_setup_teardown(test_level_rises_by_quanta, setup, teardown),
        cmocka_unit_test_setup_teardown(test_window, setup, teardown),
        cmocka_unit_test_setup_teardown(test_mixed, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
