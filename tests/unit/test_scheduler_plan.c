/* Single plans: a few sequences and waiting ones in, what each is granted out. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "engine/scheduler/scheduler.h"

enum { PAGE_TOKENS = 4 };

static uint32_t pages_for(uint32_t tokens)
{
    return (tokens + PAGE_TOKENS - 1) / PAGE_TOKENS;
}

enum { CLIENT_RED, CLIENT_BLUE, CLIENT_URGENT, CLIENT_GREEN, CLIENTS };

struct table {
    struct scheduler_fair fair;
    struct scheduler_sequence running[16];
    struct scheduler_sequence waiting[4];
    struct scheduler_grant grants[20];
    struct scheduler_plan plan;
    struct scheduler_input input;
};

static void table_make(struct table *table)
{
    const struct scheduler_fair_options options = {.clients = CLIENTS,
                                                   .quantum = 10,
                                                   .floor_percent = 5,
                                                   .rows_max = 64,
                                                   .sequences_max = 4,
                                                   .context = 64};
    static const enum service_class classes[CLIENTS] = {
        SERVICE_CLASS_BATCH, SERVICE_CLASS_BATCH, SERVICE_CLASS_REALTIME, SERVICE_CLASS_BATCH};
    *table = (struct table){0};
    assert_int_equal(scheduler_fair_init(&table->fair, &options), STATUS_OK);
    for (uint32_t c = 0; c < CLIENTS; c++) {
        const struct engine_domain tenant = {.bytes = {(uint8_t)(c + 1)}};
        assert_int_equal(scheduler_fair_enter(&table->fair, &tenant, classes[c], 100), c);
    }
    table->input = (struct scheduler_input){.fair = &table->fair,
                                            .running = table->running,
                                            .waiting = table->waiting,
                                            .sequences_max = 4,
                                            .places = 16,
                                            .units_available = 40,
                                            .units_total = 40,
                                            .page_tokens = PAGE_TOKENS,
                                            .rows_max = 64,
                                            .logit_rows_max = 64};
}

static void table_run(struct table *table, uint32_t client, uint32_t tokens)
{
    table->running[table->input.running_count++] = (struct scheduler_sequence){
        .tokens = tokens,
        .computed = tokens - 1,
        .pages = pages_for(tokens),
        .units_back = pages_for(tokens),
        .logits_from = tokens - 1,
        .charge_from = tokens,
        .client = client,
        .service_class = table->fair.clients[client].service_class,
    };
    table->input.units_available -= pages_for(tokens);
}

static struct scheduler_sequence *table_wait(struct table *table, uint32_t client, uint32_t tokens)
{
    struct scheduler_sequence *waiting = &table->waiting[table->input.waiting_count++];
    *waiting = (struct scheduler_sequence){
        .tokens = tokens,
        .logits_from = tokens - 1,
        .client = client,
        .service_class = table->fair.clients[client].service_class,
    };
    return waiting;
}

static void table_plan(struct table *table)
{
    scheduler_plan(&table->input, &table->plan, table->grants);
}

/* The least computed batch sequence gives way, and only when that is enough. */
static void test_urgent_takes_pages(void **state)
{
    (void)state;
    struct table table;
    table_make(&table);
    table_run(&table, CLIENT_RED, 40);
    table_run(&table, CLIENT_BLUE, 40);
    table_run(&table, CLIENT_RED, 20);
    table.input.units_available = 4;
    struct scheduler_sequence *urgent = table_wait(&table, CLIENT_URGENT, 30);
    table_plan(&table);
    assert_int_equal(table.grants[3].act, SCHEDULER_ADMIT);
    assert_int_equal(table.grants[3].rows, 30);
    assert_int_equal(table.plan.paused, 1);
    assert_int_equal(table.grants[2].act, SCHEDULER_PAUSE);
    assert_int_equal(table.grants[2].why, SCHEDULER_FOR_CLASS);
    assert_int_equal(table.grants[0].rows, 0); /* put off beside its prompt, with their pages */
    assert_int_equal(table.grants[0].act, SCHEDULER_STAY);

    urgent->tokens = 4 * 40;
    urgent->logits_from = 4 * 40 - 1;
    table_plan(&table);
    assert_int_equal(table.plan.paused, 0);
    assert_int_equal(table.plan.admitted, 0);
    assert_int_equal(table.plan.rows, 3);

    urgent->tokens = 30;
    urgent->logits_from = 29;
    table.input.is_preemption_off = true;
    table_plan(&table);
    assert_int_equal(table.plan.paused, 0);
    assert_int_equal(table.plan.admitted, 0);
    scheduler_fair_deinit(&table.fair);
}

/* A class keeps its oldest sequence within its floor's part of the pages, whoever asks for them. */
static void test_floor_keeps_pages(void **state)
{
    (void)state;
    struct table table;
    table_make(&table);
    table_run(&table, CLIENT_RED, 2 * PAGE_TOKENS);
    table_run(&table, CLIENT_RED, 5 * PAGE_TOKENS);
    table.input.units_available = 0;
    struct scheduler_sequence *urgent = table_wait(&table, CLIENT_URGENT, 2 * PAGE_TOKENS + 2);
    table_plan(&table);
    assert_int_equal(table.grants[0].act, SCHEDULER_STAY);
    assert_int_equal(table.grants[1].act, SCHEDULER_PAUSE);
    assert_int_equal(table.grants[2].act, SCHEDULER_ADMIT);
    urgent->tokens = 6 * PAGE_TOKENS;
    urgent->logits_from = urgent->tokens - 1;
    table_plan(&table);
    assert_int_equal(table.plan.paused, 0);
    assert_int_equal(table.plan.admitted, 0);
    table.input.units_total = 15; /* of which an eighth is one page */
    table_plan(&table);
    assert_int_equal(table.plan.paused, 2);
    assert_int_equal(table.grants[2].act, SCHEDULER_ADMIT);
    scheduler_fair_deinit(&table.fair);
}

/* Pages that a pause gives back are not found at no cost too, in the same plan. */
static void test_found_may_be_paused(void **state)
{
    (void)state;
    for (uint32_t is_shared = 0; is_shared < 2; is_shared++) {
        struct table table;
        table_make(&table);
        table_run(&table, CLIENT_RED, 6 * PAGE_TOKENS);
        table.input.units_available = 2;
        struct scheduler_sequence *urgent = table_wait(&table, CLIENT_URGENT, 5 * PAGE_TOKENS - 1);
        urgent->computed = urgent->charge_from = 2 * PAGE_TOKENS;
        urgent->found_pages = 2;
        urgent->is_found_shared = is_shared == 1;
        table_plan(&table);
        assert_int_equal(table.grants[0].act, SCHEDULER_PAUSE);
        assert_int_equal(table.plan.admitted, is_shared == 0);
        scheduler_fair_deinit(&table.fair);
    }
}

/* The last free page goes to the urgent one that runs, not to a floor that has its part. */
static void test_floor_takes_no_page(void **state)
{
    (void)state;
    struct scheduler_fair_step done = {.rows = {100}, .has_work = {true, false, true}};
    struct table table;
    table_make(&table);
    scheduler_fair_tick(&table.fair, 0, &done);
    assert_int_equal(scheduler_fair_owed(&table.fair, SERVICE_CLASS_BATCH), 5);
    table_run(&table, CLIENT_RED, 3 * PAGE_TOKENS + 1);
    table_run(&table, CLIENT_URGENT, 2 * PAGE_TOKENS + 1);
    table.running[0].pages = table.running[0].units_back = 3;
    table.running[1].pages = table.running[1].units_back = 2;
    table.input.units_available = 1;
    table_plan(&table);
    assert_int_equal(table.grants[0].rows, 0);
    assert_int_equal(table.grants[1].rows, 1);
    assert_int_equal(table.plan.paused, 0);
    table.input.units_available = 2;
    table_plan(&table);
    assert_int_equal(table.grants[0].rows, 1);
    assert_int_equal(table.grants[1].rows, 1);
    scheduler_fair_deinit(&table.fair);
}

/* Who waits takes the pages of a client of its class that has had more by U + Q, not before. */
static void test_client_over_gives_way(void **state)
{
    (void)state;
    struct table table;
    table_make(&table);
    table_run(&table, CLIENT_RED, 40);
    table_run(&table, CLIENT_RED, 24);
    table.input.units_available = 2;
    table_wait(&table, CLIENT_BLUE, 20);
    table_plan(&table);
    assert_int_equal(table.plan.paused, 0);
    assert_int_equal(table.plan.admitted, 0);
    scheduler_fair_charge(&table.fair, CLIENT_RED, scheduler_fair_slack(&table.fair, 100));
    table_plan(&table);
    assert_int_equal(table.grants[1].act, SCHEDULER_PAUSE);
    assert_int_equal(table.grants[1].why, SCHEDULER_FOR_CLIENT);
    assert_int_equal(table.grants[2].act, SCHEDULER_ADMIT);
    assert_int_equal(table.grants[0].act, SCHEDULER_STAY);
    scheduler_fair_deinit(&table.fair);
}

/* A client without pages comes in at once beside one that holds more than its part of them, within
 * its own part, and before what that one has had to put off. */
static void test_client_within_its_part_comes_in(void **state)
{
    (void)state;
    struct table table;
    table_make(&table);
    for (int i = 0; i < 3; i++)
        table_run(&table, CLIENT_RED, 40);
    table_run(&table, CLIENT_RED, 32);
    struct scheduler_sequence *waiting = table_wait(&table, CLIENT_BLUE, 20);
    table_plan(&table);
    assert_int_equal(table.plan.paused, 1);
    assert_int_equal(table.grants[3].act, SCHEDULER_PAUSE);
    assert_int_equal(table.grants[3].why, SCHEDULER_FOR_CLIENT);
    assert_int_equal(table.grants[4].act, SCHEDULER_ADMIT);
    assert_int_equal(table.grants[4].rows, 20);

    waiting->tokens = 21 * PAGE_TOKENS; /* its part is 20 pages */
    waiting->logits_from = waiting->tokens - 1;
    table_plan(&table);
    assert_int_equal(table.plan.paused, 0);
    assert_int_equal(table.plan.admitted, 0);

    waiting->tokens = 20;
    waiting->logits_from = 19;
    table.running[3].computed = table.running[3].pages = table.running[3].units_back = 0;
    table.input.units_available = 10; /* for one of both */
    table_plan(&table);
    assert_int_equal(table.plan.paused, 0);
    assert_int_equal(table.grants[3].act, SCHEDULER_STAY);
    assert_int_equal(table.grants[4].act, SCHEDULER_ADMIT);
    scheduler_fair_deinit(&table.fair);
}

/* A quantum protects whoever came lately from its equals, until its client has had all it may. */
static void test_quantum_ends_at_the_limit(void **state)
{
    (void)state;
    struct table table;
    table_make(&table);
    table_run(&table, CLIENT_RED, 40);
    table.running[0].is_resumed_lately = true;
    table.input.units_available = 2;
    table_wait(&table, CLIENT_BLUE, 20);
    double slack = scheduler_fair_slack(&table.fair, 100);
    scheduler_fair_charge(&table.fair, CLIENT_RED, slack - 20);
    table_plan(&table);
    assert_true(table.fair.clients[CLIENT_RED].is_over);
    assert_int_equal(table.plan.paused, 0);
    scheduler_fair_charge(&table.fair, CLIENT_RED, 20);
    table_plan(&table);
    assert_int_equal(table.grants[0].act, SCHEDULER_PAUSE);
    assert_int_equal(table.grants[1].act, SCHEDULER_ADMIT);
    scheduler_fair_deinit(&table.fair);
}

/* Half of a step's rows stay for more urgent work, whatever a floor is owed; of a class those who
 * are not over have what it is owed first. */
static void test_floor_in_half_a_step(void **state)
{
    (void)state;
    struct scheduler_fair_step done = {.rows = {4000}, .has_work = {true, false, true}};
    struct table table;
    table_make(&table);
    scheduler_fair_tick(&table.fair, 0, &done);
    assert_int_equal(scheduler_fair_owed(&table.fair, SERVICE_CLASS_BATCH), 200);
    for (uint32_t i = 0; i < 2; i++) {
        table_run(&table, i == 0 ? CLIENT_RED : CLIENT_BLUE, 50);
        table.running[i].computed = table.running[i].charge_from = 2;
    }
    table_wait(&table, CLIENT_URGENT, 60);
    table_wait(&table, CLIENT_BLUE, 10);
    scheduler_fair_charge(&table.fair, CLIENT_RED, scheduler_fair_slack(&table.fair, 100));
    table.input.units_available = 40;
    table_plan(&table);
    assert_true(table.fair.clients[CLIENT_RED].is_over);
    assert_int_equal(table.grants[0].rows, 0);
    assert_int_equal(table.grants[1].rows, 32);
    assert_int_equal(table.grants[2].rows, 32);
    scheduler_fair_deinit(&table.fair);
}

/* The longest match comes in first, the client that has had less when they are equal, and one that
 * was passed by often enough before its client's others. */
static void test_who_comes_in(void **state)
{
    (void)state;
    struct table table;
    table_make(&table);
    table_wait(&table, CLIENT_RED, 60);
    struct scheduler_sequence *second = table_wait(&table, CLIENT_RED, 60);
    second->computed = second->charge_from = 8;
    second->found_pages = second->found_cost = 2;
    table.input.units_available = 20;
    table_plan(&table);
    assert_int_equal(table.grants[0].act, SCHEDULER_STAY);
    assert_int_equal(table.grants[1].act, SCHEDULER_ADMIT);
    table.waiting[0].passed = SCHEDULER_PASSED_MAX;
    table_plan(&table);
    assert_int_equal(table.grants[0].act, SCHEDULER_ADMIT);
    assert_int_equal(table.grants[1].act, SCHEDULER_STAY);

    table_wait(&table, CLIENT_BLUE, 60);
    second->computed = second->found_pages = second->found_cost = 0;
    scheduler_fair_charge(&table.fair, CLIENT_RED, 5);
    table_plan(&table);
    assert_int_equal(table.grants[2].act, SCHEDULER_ADMIT);
    scheduler_fair_deinit(&table.fair);
}

/* With one place in the step left to share, each client has one, whoever came first. */
static void test_places_are_shared(void **state)
{
    (void)state;
    struct table table;
    table_make(&table);
    table.input.sequences_max = 2;
    table_run(&table, CLIENT_RED, 9);
    table_run(&table, CLIENT_RED, 9);
    table_wait(&table, CLIENT_BLUE, 10);
    table_plan(&table);
    assert_int_equal(table.grants[2].act, SCHEDULER_ADMIT);
    assert_int_equal(table.grants[0].rows, 1);
    assert_int_equal(table.grants[1].rows, 0);
    assert_int_equal(table.grants[1].act, SCHEDULER_STAY);
    scheduler_fair_deinit(&table.fair);
}

/* The prompt of a client's only sequence has the step nearly for itself; when it cannot come in, or
 * its client has had more by a quantum, the decodes that would make way go on. */
static void test_first_prompt(void **state)
{
    (void)state;
    struct table table;
    table_make(&table);
    for (uint32_t i = 0; i < 3; i++)
        table_run(&table, CLIENT_RED, 10);
    table_wait(&table, CLIENT_BLUE, 30);
    table_plan(&table);
    assert_int_equal(table.grants[3].act, SCHEDULER_ADMIT);
    assert_int_equal(table.grants[3].rows, 30);
    assert_int_equal(table.plan.rows, 31);
    assert_int_equal(table.grants[0].rows, 1);
    table.input.is_preemption_off = true;
    table_plan(&table);
    assert_int_equal(table.plan.rows, 33);
    table.input.is_preemption_off = false;
    table.input.units_available = 4;
    table_plan(&table);
    assert_int_equal(table.plan.admitted, 0);
    assert_int_equal(table.plan.rows, 3);
    table.input.units_available = 20;
    scheduler_fair_charge(&table.fair, CLIENT_BLUE, 15);
    table_plan(&table);
    assert_int_equal(table.plan.rows, 33);

    /* The second sequence of a client is not its first. */
    scheduler_fair_charge(&table.fair, CLIENT_RED, 15);
    table_run(&table, CLIENT_BLUE, 10);
    table_plan(&table);
    assert_int_equal(table.grants[1].rows, 1);
    scheduler_fair_deinit(&table.fair);
}

/* Where several clients ask a step is a third as long, but for a first prompt; later whole. */
static void test_third_of_a_step(void **state)
{
    (void)state;
    struct table table;
    table_make(&table);
    table.input.cost.row_us = 1;
    table.input.budget_us = 180;
    table_run(&table, CLIENT_RED, 1);
    table_wait(&table, CLIENT_RED, 60);
    table_plan(&table);
    assert_int_equal(table.grants[1].rows, 56);
    table_wait(&table, CLIENT_BLUE, 60);
    table_plan(&table);
    assert_int_equal(table.grants[2].rows, 60);
    table.input.waiting_count = 1;
    scheduler_fair_tick(&table.fair, 61 * (int64_t)1000000, NULL);
    table_plan(&table);
    assert_int_equal(table.grants[1].rows, 60);
    scheduler_fair_deinit(&table.fair);
}

/* Decodes that have a row. */
static uint32_t decodes_of(const struct table *table, uint32_t client)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < table->input.running_count; i++)
        count += table->running[i].client == client && table->grants[i].rows > 0;
    return count;
}

/* Beside another client one with many decodes has a part of them in each step, and each of them in
 * turn; who has one has it in every step. Alone all are in every step. */
static void test_shared_step(void **state)
{
    (void)state;
    enum { RED = 12 };
    struct table table;
    uint32_t had[RED] = {0};
    table_make(&table);
    table.input.sequences_max = 16;
    table.input.cost.row_us = 1;
    table.input.shared_us = 5;
    for (uint32_t i = 0; i < RED; i++) {
        table_run(&table, CLIENT_RED, 1);
        table.running[i].rested = 1;
    }
    table_plan(&table); /* another came lately, and may again */
    assert_int_equal(decodes_of(&table, CLIENT_RED), 5);
    scheduler_fair_tick(&table.fair, 61 * (int64_t)1000000, NULL);
    table_plan(&table);
    assert_int_equal(decodes_of(&table, CLIENT_RED), RED);
    table_run(&table, CLIENT_BLUE, 1);
    for (uint32_t step = 0; step < 3 * 3; step++) {
        table_plan(&table);
        assert_true(table.plan.is_shared);
        assert_int_equal(decodes_of(&table, CLIENT_BLUE), 1);
        assert_int_equal(decodes_of(&table, CLIENT_RED), 4);
        for (uint32_t i = 0; i < RED; i++) {
            had[i] += table.grants[i].rows;
            table.running[i].rested = table.grants[i].rows > 0 ? 1 : table.running[i].rested + 1;
        }
    }
    for (uint32_t i = 0; i < RED; i++)
        assert_int_equal(had[i], 3);
    table.input.shared_us = 1; /* the first of each, and an eighth of the places at least */
    table_plan(&table);
    assert_int_equal(decodes_of(&table, CLIENT_RED), 1);
    assert_int_equal(decodes_of(&table, CLIENT_BLUE), 1);
    table.input.sequences_max = 48;
    table_plan(&table);
    assert_int_equal(decodes_of(&table, CLIENT_RED), 5);
    table.input.shared_us = 0;
    table_plan(&table);
    assert_int_equal(decodes_of(&table, CLIENT_RED), RED);
    scheduler_fair_deinit(&table.fair);
}

/* What drawing takes is part of a row's time: of a client whose tokens are dear to draw there are
 * fewer in a step. */
static void test_shared_draws(void **state)
{
    (void)state;
    struct table table;
    table_make(&table);
    table.input.sequences_max = 16;
    table.input.cost.row_us = 1;
    table.input.cost.draw_us = 1;
    table.input.shared_us = 10;
    for (uint32_t i = 0; i < 6; i++) {
        table_run(&table, CLIENT_RED, 1);
        table.running[table.input.running_count - 1].draw_work = 4;
        table_run(&table, CLIENT_BLUE, 1);
    }
    table_plan(&table);
    assert_int_equal(decodes_of(&table, CLIENT_RED), 1);
    assert_int_equal(decodes_of(&table, CLIENT_BLUE), 5);
    scheduler_fair_deinit(&table.fair);
}

/* By weight, and by the time that rows take: long contexts are not paid for by others. */
static void test_shared_time(void **state)
{
    (void)state;
    struct table table;
    table_make(&table);
    table.input.sequences_max = 16;
    table.input.cost.row_us = 1;
    table.input.shared_us = 8;
    for (uint32_t i = 0; i < 6; i++) {
        table_run(&table, CLIENT_RED, 1);
        table_run(&table, CLIENT_BLUE, 1);
    }
    table_plan(&table);
    assert_int_equal(decodes_of(&table, CLIENT_RED), 4);
    assert_int_equal(decodes_of(&table, CLIENT_BLUE), 4);
    table.fair.clients[CLIENT_RED].weight = 300;
    table_plan(&table);
    assert_int_equal(decodes_of(&table, CLIENT_RED), 6);
    assert_int_equal(decodes_of(&table, CLIENT_BLUE), 2);
    scheduler_fair_deinit(&table.fair);
}

/* Without a realtime row a step is shorter still, for first prompts too. */
static void test_urgent_limit(void **state)
{
    (void)state;
    struct table table;
    table_make(&table);
    table.input.cost.row_us = 1;
    table.input.budget_us = 180;
    table.input.urgent_us = 40;
    table_wait(&table, CLIENT_RED, 60);
    table_plan(&table);
    assert_int_equal(table.grants[0].rows, 40);
    scheduler_fair_deinit(&table.fair);
}

/* Who comes in leaves a lower class that has work its floor's part of the pages. */
static void test_room_for_a_floor(void **state)
{
    (void)state;
    struct table table;
    table_make(&table);
    table_run(&table, CLIENT_RED, 10);
    table.running[0].computed = table.running[0].pages = table.running[0].units_back = 0;
    table_run(&table, CLIENT_URGENT, 5); /* grows by a page */
    table_wait(&table, CLIENT_URGENT, 10 * PAGE_TOKENS - 1);
    table.input.units_available = 12;
    table_plan(&table);
    assert_int_equal(table.plan.admitted, 0);
    table.input.units_available = 13;
    table_plan(&table);
    assert_int_equal(table.grants[2].act, SCHEDULER_ADMIT);
    scheduler_fair_deinit(&table.fair);
}

/* Of 16 places a class has 8 at most; whose readers have stopped gets half of those left. */
static void test_stopped_readers(void **state)
{
    (void)state;
    struct table table;
    table_make(&table);
    for (uint32_t i = 0; i < 4; i++)
        table_run(&table, CLIENT_RED, 5);
    for (uint32_t i = 0; i < 4; i++)
        table.running[i].is_throttled = true;
    table_wait(&table, CLIENT_RED, 10);
    table_wait(&table, CLIENT_BLUE, 10);
    table_plan(&table);
    assert_int_equal(table.grants[4].act, SCHEDULER_STAY);
    assert_int_equal(table.grants[5].act, SCHEDULER_ADMIT);
    scheduler_fair_deinit(&table.fair);
}

/* Of a class the oldest gives its pages last, though it has computed least. */
static void test_oldest_gives_last(void **state)
{
    (void)state;
    struct table table;
    table_make(&table);
    table_run(&table, CLIENT_RED, 20);
    table_run(&table, CLIENT_RED, 40);
    table.input.units_available = 1;
    table_wait(&table, CLIENT_URGENT, 12);
    table_plan(&table);
    assert_int_equal(table.grants[2].act, SCHEDULER_ADMIT);
    assert_int_equal(table.grants[0].act, SCHEDULER_STAY);
    assert_int_equal(table.grants[1].act, SCHEDULER_PAUSE);
    scheduler_fair_deinit(&table.fair);
}

/* A younger decode takes no page of an older prompt, which goes on with those of the younger. */
static void test_younger_takes_nothing(void **state)
{
    (void)state;
    struct table table;
    table_make(&table);
    table_run(&table, CLIENT_RED, 20);
    table.running[0].computed = table.running[0].charge_from = 8;
    table_run(&table, CLIENT_RED, 9);
    table.running[0].pages = table.running[0].units_back = 2;
    table.running[1].pages = table.running[1].units_back = 2;
    table.input.units_available = 0;
    table_plan(&table);
    assert_int_equal(table.grants[0].rows, 8);
    assert_int_equal(table.grants[1].act, SCHEDULER_PAUSE);
    assert_int_equal(table.grants[1].why, SCHEDULER_FOR_GROWTH);
    scheduler_fair_deinit(&table.fair);
}

/* Who comes back, and is not the first of its class, takes nothing from the younger. */
static void test_who_comes_back_takes_nothing(void **state)
{
    (void)state;
    struct table table;
    table_make(&table);
    table_run(&table, CLIENT_RED, 9);
    table_run(&table, CLIENT_RED, 8);
    table.running[1].computed = table.running[1].pages = table.running[1].units_back = 0;
    table_run(&table, CLIENT_RED, 17);
    table.running[2].pages = table.running[2].units_back = 4; /* wants a page, has no row */
    table.input.units_available = 0;
    table_plan(&table);
    assert_int_equal(table.plan.paused, 0);
    assert_int_equal(table.plan.rows, 1);
    assert_int_equal(table.grants[1].act, SCHEDULER_STAY);
    scheduler_fair_deinit(&table.fair);
}

/* Who has had all it may has no row beside others of its class; alone in the step it goes on. */
static void test_no_more_than_the_limit(void **state)
{
    (void)state;
    struct table table;
    table_make(&table);
    table_run(&table, CLIENT_RED, 10);
    struct scheduler_sequence *poor = table_wait(&table, CLIENT_BLUE, 20);
    scheduler_fair_charge(&table.fair, CLIENT_RED, scheduler_fair_slack(&table.fair, 100));
    table_plan(&table);
    assert_int_equal(table.grants[1].act, SCHEDULER_ADMIT);
    assert_int_equal(table.grants[0].rows, 0);
    assert_int_equal(table.grants[0].act, SCHEDULER_STAY);
    poor->tokens = 4 * 41; /* more than all pages */
    poor->logits_from = poor->tokens - 1;
    table_plan(&table);
    assert_int_equal(table.plan.admitted, 0);
    assert_int_equal(table.grants[0].rows, 1);
    scheduler_fair_deinit(&table.fair);
}

/* What more urgent classes have held at once is left to them for a second. */
static void test_room_for_a_peak(void **state)
{
    (void)state;
    const struct scheduler_fair_step done = {.units = {36}};
    struct table table;
    table_make(&table);
    scheduler_fair_tick(&table.fair, 0, &done);
    table_run(&table, CLIENT_RED, 10);
    table_wait(&table, CLIENT_BLUE, 20);
    table_plan(&table);
    assert_int_equal(table.plan.admitted, 0);
    assert_int_equal(table.plan.rows, 1);
    scheduler_fair_tick(&table.fair, 1000000, NULL);
    table_plan(&table);
    assert_int_equal(table.grants[1].act, SCHEDULER_ADMIT);
    scheduler_fair_deinit(&table.fair);
}

/* A prompt leaves a row to each decode that comes after it. */
static void test_rows_for_later_decodes(void **state)
{
    (void)state;
    struct table table;
    table_make(&table);
    table.input.rows_max = 16;
    table_run(&table, CLIENT_RED, 10);
    table_wait(&table, CLIENT_BLUE, 30);
    scheduler_fair_charge(&table.fair, CLIENT_RED, 300); /* over, below its limit */
    table_plan(&table);
    assert_true(table.fair.clients[CLIENT_RED].is_over);
    assert_int_equal(table.grants[1].rows, 15);
    assert_int_equal(table.grants[0].rows, 1);
    scheduler_fair_deinit(&table.fair);
}

/* None comes in of a client that has one put off. */
static void test_own_put_off_goes_first(void **state)
{
    (void)state;
    struct table table;
    table_make(&table);
    for (uint32_t i = 0; i < 3; i++)
        table_run(&table, CLIENT_RED, 10);
    table_wait(&table, CLIENT_BLUE, 30);
    table_wait(&table, CLIENT_RED, 10);
    scheduler_fair_charge(&table.fair, CLIENT_RED, 5);
    table_plan(&table);
    assert_int_equal(table.grants[3].act, SCHEDULER_ADMIT);
    assert_int_equal(table.grants[4].act, SCHEDULER_STAY);
    assert_int_equal(table.plan.rows, 31);
    scheduler_fair_deinit(&table.fair);
}

/* New ones of a floor take half of a step's places at most. */
static void test_floor_in_half_the_places(void **state)
{
    (void)state;
    const struct scheduler_fair_step done = {.rows = {4000}, .has_work = {true, false, true}};
    struct table table;
    table_make(&table);
    scheduler_fair_tick(&table.fair, 0, &done);
    table.input.sequences_max = 2;
    table_wait(&table, CLIENT_RED, 5);
    table_wait(&table, CLIENT_BLUE, 5);
    table_wait(&table, CLIENT_URGENT, 10);
    table_plan(&table);
    assert_int_equal(table.plan.admitted, 2);
    assert_int_equal(table.grants[2].act, SCHEDULER_ADMIT);
    assert_int_equal(table.grants[2].rows, 10);
    scheduler_fair_deinit(&table.fair);
}

/* However short the time, a step's first chunk is worth reading the weights; only the first. */
static void test_first_chunk_is_whole(void **state)
{
    (void)state;
    struct table table;
    table_make(&table);
    table.input.cost.row_us = 1;
    table.input.budget_us = 10;
    table_wait(&table, CLIENT_RED, 60);
    table_wait(&table, CLIENT_BLUE, 60);
    table_plan(&table);
    assert_int_equal(table.plan.admitted, 1);
    assert_int_equal(table.plan.rows, SCHEDULER_CHUNK_MIN);
    scheduler_fair_deinit(&table.fair);
}

/* What fits is cut where a page ends, and not to nothing where none does. */
static void test_chunk_within_a_large_page(void **state)
{
    (void)state;
    static const uint32_t page_tokens[] = {16, 32, 64, 1024};
    static const uint32_t rows[] = {48, 32, 48, 48};
    for (uint32_t i = 0; i < 4; i++) {
        struct table table;
        table_make(&table);
        table.input.page_tokens = page_tokens[i];
        table.input.cost.row_us = 1;
        table.input.budget_us = 56;
        table_wait(&table, CLIENT_RED, 60);
        table_plan(&table);
        assert_int_equal(table.plan.rows, rows[i]);
        scheduler_fair_deinit(&table.fair);
    }
}

/* A place stays for a class that has none, however many the others want. */
static void test_places_for_other_classes(void **state)
{
    (void)state;
    struct table table;
    table_make(&table);
    table.input.places = 4;
    table_run(&table, CLIENT_URGENT, 5);
    table_run(&table, CLIENT_URGENT, 5);
    table_run(&table, CLIENT_RED, 5);
    table_wait(&table, CLIENT_BLUE, 5);
    table_plan(&table);
    assert_int_equal(table.plan.admitted, 0);
    table.input.places = 5; /* half are three: realtime's two, one of batch's, one kept, one */
    table_plan(&table);
    assert_int_equal(table.grants[3].act, SCHEDULER_ADMIT);
    scheduler_fair_deinit(&table.fair);
}

/* What a pause for growth left is for growth: nobody comes in with it. */
static void test_nobody_comes_in_by_a_pause(void **state)
{
    (void)state;
    struct table table;
    table_make(&table);
    table_run(&table, CLIENT_RED, 9);
    table.running[0].pages = table.running[0].units_back = 2;
    table_run(&table, CLIENT_RED, 20);
    table.input.units_available = 0;
    table_wait(&table, CLIENT_BLUE, 5);
    table_plan(&table);
    assert_int_equal(table.grants[0].rows, 1);
    assert_int_equal(table.grants[1].act, SCHEDULER_PAUSE);
    assert_int_equal(table.plan.admitted, 0);
    scheduler_fair_deinit(&table.fair);
}

/* Who is over stays so until within a quantum of the poorest. */
static void test_over_until_within_a_quantum(void **state)
{
    (void)state;
    struct table table;
    table_make(&table);
    table_run(&table, CLIENT_RED, 10);
    table_wait(&table, CLIENT_BLUE, 20);
    const struct scheduler_client *red = &table.fair.clients[CLIENT_RED];
    scheduler_fair_charge(&table.fair, CLIENT_RED, scheduler_fair_slack(&table.fair, 100));
    table_plan(&table);
    assert_true(red->is_over);
    scheduler_fair_charge(&table.fair, CLIENT_BLUE, 300); /* 36 behind */
    table_plan(&table);
    assert_true(red->is_over);
    scheduler_fair_charge(&table.fair, CLIENT_BLUE, 30); /* 6 */
    table_plan(&table);
    assert_false(red->is_over);
    scheduler_fair_deinit(&table.fair);
}

/* What all places together cannot hold of a pool is charged to nobody: who has had a little more is
 * not over for it. */
static void test_over_in_a_large_pool(void **state)
{
    (void)state;
    struct table table;
    table_make(&table);
    table.input.units_total = 1 << 20;
    table_run(&table, CLIENT_RED, 10);
    table_wait(&table, CLIENT_BLUE, 20);
    scheduler_fair_charge(&table.fair, CLIENT_RED, 50);
    table_plan(&table);
    assert_false(table.fair.clients[CLIENT_RED].is_over);
    scheduler_fair_charge(&table.fair, CLIENT_RED, scheduler_fair_slack(&table.fair, 100));
    table_plan(&table);
    assert_true(table.fair.clients[CLIENT_RED].is_over);
    scheduler_fair_deinit(&table.fair);
}

/* Who is paused comes back before a first prompt of its class comes in. */
static void test_paused_before_first_prompt(void **state)
{
    (void)state;
    struct table table;
    table_make(&table);
    table_run(&table, CLIENT_RED, 10);
    table_run(&table, CLIENT_RED, 8);
    table.running[1].computed = table.running[1].pages = table.running[1].units_back = 0;
    table_wait(&table, CLIENT_BLUE, 20);
    table.input.units_available = 8; /* for one of both */
    table_plan(&table);
    assert_int_equal(table.grants[1].act, SCHEDULER_RESUME);
    assert_int_equal(table.grants[1].rows, 8);
    assert_int_equal(table.grants[2].act, SCHEDULER_STAY);
    scheduler_fair_deinit(&table.fair);
}

/* The oldest of a class keeps what it needs to end, up to an eighth of the pages. */
static void test_floor_of_one(void **state)
{
    (void)state;
    for (uint32_t pages = 5; pages < 7; pages++) {
        struct table table;
        table_make(&table);
        table_run(&table, CLIENT_RED, pages * PAGE_TOKENS);
        table_run(&table, CLIENT_RED, 4 * PAGE_TOKENS);
        table.input.units_available = 0;
        table_wait(&table, CLIENT_URGENT, PAGE_TOKENS - 1);
        table_plan(&table);
        assert_int_equal(table.grants[0].act, SCHEDULER_STAY);
        assert_int_equal(table.grants[1].act, SCHEDULER_PAUSE);
        table.waiting[0].tokens = 5 * PAGE_TOKENS - 1;
        table_plan(&table);
        assert_int_equal(table.plan.paused, pages == 5 ? 0 : 2);
        scheduler_fair_deinit(&table.fair);
    }
}

/* Who has no room beside what lower classes' oldest keep has it when their quantum is over: there
 * would always be a next oldest. */
static void test_floor_of_one_for_a_quantum(void **state)
{
    (void)state;
    struct table table;
    table_make(&table);
    table_run(&table, CLIENT_RED, 5 * PAGE_TOKENS);
    table.running[0].is_resumed_lately = true;
    table_wait(&table, CLIENT_URGENT, 36 * PAGE_TOKENS - 1); /* 5 of 40 pages are RED's */
    table_plan(&table);
    assert_int_equal(table.grants[0].act, SCHEDULER_STAY);
    assert_int_equal(table.plan.admitted, 0);
    table.running[0].is_resumed_lately = false;
    table_plan(&table);
    assert_int_equal(table.grants[1].act, SCHEDULER_ADMIT);
    assert_int_equal(table.plan.paused, 0); /* its first rows have room */
    table.input.rows_max = table.input.logit_rows_max = 144;
    table_plan(&table);
    assert_int_equal(table.grants[0].act, SCHEDULER_PAUSE);
    assert_int_equal(table.grants[1].act, SCHEDULER_ADMIT);
    assert_int_equal(table.grants[1].rows, 143);
    scheduler_fair_deinit(&table.fair);
}

/* Floors keep nobody out for ever who needs nearly all pages. */
static void test_whole_pool(void **state)
{
    (void)state;
    struct table table;
    table_make(&table);
    table_wait(&table, CLIENT_URGENT, 39 * PAGE_TOKENS);
    table_wait(&table, CLIENT_RED, 10);
    table_plan(&table);
    assert_int_equal(table.grants[0].act, SCHEDULER_ADMIT);
    assert_int_equal(table.grants[1].act, SCHEDULER_STAY);
    scheduler_fair_deinit(&table.fair);
}

/* Nobody is owed more than U + Q, however much others had while it could not come in. */
static void test_owed_at_most(void **state)
{
    (void)state;
    struct table table;
    table_make(&table);
    table_run(&table, CLIENT_RED, 10);
    table_wait(&table, CLIENT_BLUE, 10);
    double slack = scheduler_fair_slack(&table.fair, 100);
    const struct scheduler_client *red = &table.fair.clients[CLIENT_RED];
    const struct scheduler_client *blue = &table.fair.clients[CLIENT_BLUE];
    scheduler_fair_charge(&table.fair, CLIENT_RED, slack - 1);
    table_plan(&table);
    assert_true(red->served - blue->served > slack - 2);
    assert_true(table.fair.forgotten[SERVICE_CLASS_BATCH] <= 0);
    scheduler_fair_charge(&table.fair, CLIENT_RED, 1000);
    table_plan(&table);
    assert_true(table.fair.forgotten[SERVICE_CLASS_BATCH] > 998 &&
                table.fair.forgotten[SERVICE_CLASS_BATCH] < 1000);
    assert_true(red->served - blue->served <= slack && red->served - blue->served > slack - 1);
    scheduler_fair_deinit(&table.fair);
}

/* While one that is owed cannot come in, who has had all it may goes behind who is only over. */
static void test_spent_goes_last(void **state)
{
    (void)state;
    struct table table;
    table_make(&table);
    table_run(&table, CLIENT_RED, 10);
    table_run(&table, CLIENT_BLUE, 10);
    table.running[0].is_resumed_lately = table.running[1].is_resumed_lately = true;
    table_wait(&table, CLIENT_GREEN, 60);
    table.input.sequences_max = 1;
    table.input.units_available = 0;
    scheduler_fair_charge(&table.fair, CLIENT_RED, 270);
    scheduler_fair_charge(&table.fair, CLIENT_BLUE, 268);
    table_plan(&table);
    assert_true(table.fair.clients[CLIENT_RED].is_over && table.fair.clients[CLIENT_BLUE].is_over);
    assert_int_equal(table.grants[0].rows, 1);
    scheduler_fair_charge(&table.fair, CLIENT_RED, 66);
    table_plan(&table);
    assert_int_equal(table.grants[0].rows, 0);
    assert_int_equal(table.grants[1].rows, 1);
    scheduler_fair_deinit(&table.fair);
}

/* In steps of one sequence a floor has every other one at most. */
static void test_floor_every_other_step(void **state)
{
    (void)state;
    struct table table;
    table_make(&table);
    table_run(&table, CLIENT_URGENT, 10);
    table_run(&table, CLIENT_RED, 10);
    table.input.sequences_max = 1;
    const struct scheduler_fair_step step = {.rows = {[SERVICE_CLASS_REALTIME] = 2000},
                                             .has_work = {true, false, true}};
    uint32_t floors = 0;
    for (uint32_t i = 0; i < 4; i++) {
        scheduler_fair_tick(&table.fair, 0, &step);
        assert_true(scheduler_fair_owed(&table.fair, SERVICE_CLASS_BATCH) > 0);
        table_plan(&table);
        assert_int_equal(table.plan.rows, 1);
        floors += table.grants[1].rows;
    }
    assert_int_equal(floors, 2);
    scheduler_fair_deinit(&table.fair);
}

/* A prompt comes in when its pages and the windows of some of them fit, though a window unit of
 * every page would not: 16 + 1 pages, of which 4 have two window units. Its rows are those that
 * available units hold while each page they are written to has its windows. */
static void test_windows_of_some_pages(void **state)
{
    (void)state;
    struct table table;
    table_make(&table);
    table_wait(&table, CLIENT_URGENT, 16 * PAGE_TOKENS);
    table.input.window_units = 2;
    table.input.window_most = 4;
    table.input.units_available = 17 + 4 * 2;
    table_plan(&table);
    assert_int_equal(table.grants[0].act, SCHEDULER_ADMIT);
    assert_int_equal(table.grants[0].rows, 25 / 3 * PAGE_TOKENS);

    table.input.units_available--;
    table_plan(&table);
    assert_int_equal(table.grants[0].act, SCHEDULER_STAY);

    table.input.window_most = 64; /* a window over the whole text */
    table.input.units_total = 17 * 3;
    table.input.units_available = 17 * 3 - 1;
    table_plan(&table);
    assert_int_equal(table.grants[0].act, SCHEDULER_STAY);
    table.input.units_available++;
    table_plan(&table);
    assert_int_equal(table.grants[0].act, SCHEDULER_ADMIT);
    assert_int_equal(table.grants[0].rows, 16 * PAGE_TOKENS);
    scheduler_fair_deinit(&table.fair);
}

/* Pages that a running sequence lacks cost their windows too. */
static void test_windows_of_new_pages(void **state)
{
    (void)state;
    struct table table;
    table_make(&table);
    table_run(&table, CLIENT_RED, 2 * PAGE_TOKENS + 1); /* its third page is not held yet */
    table.running[0].pages = 2;
    table.running[0].window_pages = 2;
    table.running[0].units_back = 2 * 3;
    table.input.window_units = 2;
    table.input.window_most = 3;
    table.input.units_available = 2;
    table_plan(&table);
    assert_int_equal(table.grants[0].rows, 0);
    table.input.units_available = 3;
    table_plan(&table);
    assert_int_equal(table.grants[0].rows, 1);
    scheduler_fair_deinit(&table.fair);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_urgent_takes_pages),
        cmocka_unit_test(test_floor_keeps_pages),
        cmocka_unit_test(test_found_may_be_paused),
        cmocka_unit_test(test_floor_takes_no_page),
        cmocka_unit_test(test_client_over_gives_way),
        cmocka_unit_test(test_client_within_its_part_comes_in),
        cmocka_unit_test(test_quantum_ends_at_the_limit),
        cmocka_unit_test(test_floor_in_half_a_step),
        cmocka_unit_test(test_who_comes_in),
        cmocka_unit_test(test_places_are_shared),
        cmocka_unit_test(test_first_prompt),
        cmocka_unit_test(test_third_of_a_step),
        cmocka_unit_test(test_shared_step),
        cmocka_unit_test(test_shared_time),
        cmocka_unit_test(test_shared_draws),
        cmocka_unit_test(test_urgent_limit),
        cmocka_unit_test(test_room_for_a_floor),
        cmocka_unit_test(test_stopped_readers),
        cmocka_unit_test(test_oldest_gives_last),
        cmocka_unit_test(test_younger_takes_nothing),
        cmocka_unit_test(test_who_comes_back_takes_nothing),
        cmocka_unit_test(test_no_more_than_the_limit),
        cmocka_unit_test(test_room_for_a_peak),
        cmocka_unit_test(test_rows_for_later_decodes),
        cmocka_unit_test(test_own_put_off_goes_first),
        cmocka_unit_test(test_floor_in_half_the_places),
        cmocka_unit_test(test_first_chunk_is_whole),
        cmocka_unit_test(test_chunk_within_a_large_page),
        cmocka_unit_test(test_places_for_other_classes),
        cmocka_unit_test(test_nobody_comes_in_by_a_pause),
        cmocka_unit_test(test_over_until_within_a_quantum),
        cmocka_unit_test(test_over_in_a_large_pool),
        cmocka_unit_test(test_paused_before_first_prompt),
        cmocka_unit_test(test_floor_of_one),
        cmocka_unit_test(test_floor_of_one_for_a_quantum),
        cmocka_unit_test(test_whole_pool),
        cmocka_unit_test(test_owed_at_most),
        cmocka_unit_test(test_spent_goes_last),
        cmocka_unit_test(test_floor_every_other_step),
        cmocka_unit_test(test_windows_of_some_pages),
        cmocka_unit_test(test_windows_of_new_pages),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
