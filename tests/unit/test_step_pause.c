#include "engine/step/step_pause.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "config/base/rng.h"
#include "tests/kit/late_pages.h"
#include "tests/kit/step_world.h"

enum { PAGE = STEP_WORLD_PAGE, PROMPT = 5 * PAGE + 7, ANSWER = 24 };

static uint32_t late_steps; /* that copies of pages take; 0 = they are over at once */

static struct step_world *open_world(uint32_t pages, uint32_t host_pages,
                                     enum engine_preemption preemption)
{
    const struct step_world_options options = {.rows_max = 2 * PAGE,
                                               .sequences_max = 4,
                                               .pages = pages,
                                               .host_pages = host_pages,
                                               .exchange_pages = late_steps > 0 ? 4 : 0,
                                               .late_steps = late_steps,
                                               .pin_percent = 50};
    struct step_world *world = step_world_open(&options);
    world->step.options.preemption = preemption;
    return world;
}

/* Texts of the same number share their first `shared` tokens with number 0. */
static struct engine_request request(uint32_t tokens[PROMPT], uint32_t text, uint32_t shared,
                                     uint8_t domain)
{
    for (uint32_t i = 0; i < PROMPT; i++)
        tokens[i] = (uint32_t)(rng_at(77, i < shared ? 0 : text, i) % 256);
    struct engine_request asked = step_world_request(tokens, PROMPT, ANSWER, domain);
    asked.want_logprobs = true;
    return asked;
}

static uint32_t submit(struct step_world *world, uint32_t text, uint32_t shared, uint8_t domain)
{
    uint32_t tokens[PROMPT];
    const struct engine_request asked = request(tokens, text, shared, domain);
    return step_world_submit(world, &asked);
}

/* What a text says when nobody disturbs it. */
static struct step_world_told alone(uint32_t text, uint32_t shared)
{
    const uint32_t own_late_steps = late_steps;
    late_steps = 0; /* of one world at a time */
    struct step_world *world = open_world(64, 0, ENGINE_PREEMPTION_OFF);
    late_steps = own_late_steps;
    submit(world, text, shared, 0);
    step_world_run(world);
    struct step_world_told told = world->told[0];
    assert_true(told.is_over);
    assert_int_equal(told.answers[0].count, ANSWER);
    step_world_close(world);
    return told;
}

/* Steps until the first sequence of a request has computed `tokens`; its place. */
static uint32_t run_until(struct step_world *world, uint32_t told, uint32_t tokens)
{
    const struct sequence_table *table = &world->step.sequences;
    for (int i = 0; i < 1000; i++) {
        for (uint32_t s = 0; s < table->order_count; s++) {
            const struct sequence *sequence = &table->slots[table->order[s]];
            if (sequence->slot == world->told[told].slot && sequence->computed >= tokens)
                return table->order[s];
        }
        step_world_step(world);
    }
    fail_msg("request %u has not computed %u tokens", told, tokens);
    return SEQUENCE_NONE;
}

/* Of so many computed tokens those of a group that is not full are given up, where keys are packed
 * by groups. */
static uint32_t open_of(uint32_t computed)
{
    return kernels_kv_has_groups(step_world_kv_type) ? computed % KV_GROUP_TOKENS : 0;
}

static uint32_t pages_of(uint32_t computed)
{
    return (computed - open_of(computed) + PAGE - 1) / PAGE;
}

static void pause(struct step_world *world, uint32_t index)
{
    const struct scheduler_grant grant = {.act = SCHEDULER_PAUSE};
    step_pause(&world->step, index, &grant);
    assert_int_equal(world->step.sequences.slots[index].page_count, 0);
}

static const struct kv_swap_list *list(const struct step_world *world, uint32_t index)
{
    return kv_swap_list(&world->step.swap, index);
}

static void assert_undisturbed(const struct step_world_told *told, uint32_t text, uint32_t shared)
{
    const struct step_world_told expected = alone(text, shared);
    assert_true(told->is_over);
    assert_true(step_world_same(told, &expected));
}

static void test_in_the_middle_of_a_prompt(void **state)
{
    (void)state;
    struct step_world *world = open_world(48, 48, ENGINE_PREEMPTION_SWAP);
    uint32_t told = submit(world, 1, 0, 0);
    uint32_t index = run_until(world, told, 2 * PAGE);
    pause(world, index);
    assert_int_equal(list(world, index)->page_count, 2);
    index = run_until(world, told, PROMPT + 3);
    pause(world, index);
    step_world_run(world);
    const struct engine_report *report = &world->told[told].report;
    assert_int_equal(report->preemptions, 2);
    assert_int_equal(report->swapped_pages, 2 + pages_of(PROMPT + 3));
    assert_int_equal(report->recomputed_tokens, open_of(PROMPT + 3));
    assert_undisturbed(&world->told[told], 1, 0);
    step_world_close(world);
}

/* A large page goes out with its full groups: what is done again is less than one of those. */
static void test_part_of_a_large_page(void **state)
{
    (void)state;
    step_world_page_tokens = 4 * PAGE;
    struct step_world *world = open_world(12, 12, ENGINE_PREEMPTION_SWAP);
    uint32_t told = submit(world, 1, 0, 0);
    uint32_t index = run_until(world, told, PROMPT + 3);
    pause(world, index);
    assert_int_equal(list(world, index)->page_count, 2);
    assert_int_equal(list(world, index)->owner.computed, PROMPT + 3 - open_of(PROMPT + 3));
    step_world_run(world);
    const struct engine_report *report = &world->told[told].report;
    assert_int_equal(report->swapped_pages, 2);
    assert_int_equal(report->recomputed_tokens, open_of(PROMPT + 3));
    assert_undisturbed(&world->told[told], 1, 0);
    step_world_close(world);
    step_world_page_tokens = PAGE;
}

/* By the other way, and where host memory is none or too small. */
static void test_computed_again(void **state)
{
    (void)state;
    static const struct {
        uint32_t host_pages;
        enum engine_preemption preemption;
    } cases[] = {{48, ENGINE_PREEMPTION_RECOMPUTE},
                 {0, ENGINE_PREEMPTION_SWAP},
                 {3, ENGINE_PREEMPTION_SWAP}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct step_world *world = open_world(48, cases[i].host_pages, cases[i].preemption);
        uint32_t told = submit(world, 1, 0, 0);
        uint32_t index = run_until(world, told, PROMPT + 3);
        pause(world, index);
        assert_int_equal(list(world, index)->page_count, 0);
        step_world_run(world);
        assert_int_equal(world->told[told].report.swapped_pages, 0);
        assert_int_equal(world->told[told].report.recomputed_tokens, PROMPT + 3);
        assert_undisturbed(&world->told[told], 1, 0);
        step_world_close(world);
    }
}

/* Others wait for the prompt that a paused one computes: all come to their ends. */
static void test_a_fill_that_others_wait_for(void **state)
{
    (void)state;
    struct step_world *world = open_world(64, 64, ENGINE_PREEMPTION_SWAP);
    uint32_t leader = submit(world, 1, 4 * PAGE, 1);
    uint32_t index = run_until(world, leader, 2 * PAGE);
    uint32_t follower = submit(world, 2, 4 * PAGE, 1);
    step_world_step(world);
    pause(world, index);
    step_world_run(world);
    assert_undisturbed(&world->told[leader], 1, 4 * PAGE);
    assert_undisturbed(&world->told[follower], 2, 4 * PAGE);
    assert_true(world->told[follower].report.cached_tokens >= 2 * PAGE);
    step_world_close(world);
}

static void test_victim_that_shares(void **state)
{
    (void)state;
    struct step_world *world = open_world(64, 64, ENGINE_PREEMPTION_SWAP);
    uint32_t first = submit(world, 1, 4 * PAGE, 1);
    run_until(world, first, PROMPT + 1);
    uint32_t second = submit(world, 2, 4 * PAGE, 1);
    uint32_t index = run_until(world, second, PROMPT + 1);
    pause(world, index);
    assert_int_equal(list(world, index)->page_count, pages_of(PROMPT + 3));
    assert_int_equal(list(world, index)->host_count,
                     pages_of(PROMPT + 3) - 4); /* four are the other's too */
    step_world_run(world);
    assert_undisturbed(&world->told[first], 1, 4 * PAGE);
    assert_undisturbed(&world->told[second], 2, 4 * PAGE);
    step_world_close(world);
}

static void test_cancel_while_swapped(void **state)
{
    (void)state;
    struct step_world *world = open_world(48, 48, ENGINE_PREEMPTION_SWAP);
    uint32_t told = submit(world, 1, 0, 0);
    uint32_t index = run_until(world, told, PROMPT + 3);
    pause(world, index);
    assert_int_equal(world->step.cache.host.free_count, 48 - pages_of(PROMPT + 3));
    step_world_cancel(world, told);
    step_world_run(world);
    assert_true(world->told[told].is_over);
    assert_int_equal(world->told[told].answers[0].finish, ENGINE_FINISH_CANCELLED);
    assert_int_equal(list(world, index)->page_count, 0);
    assert_int_equal(world->step.cache.host.free_count, 48);
    assert_int_equal(world->step.pool.free_count, 48);
    step_world_close(world);
}

/* The process ends while somebody is paused. */
static void test_end_while_swapped(void **state)
{
    (void)state;
    struct step_world *world = open_world(48, 48, ENGINE_PREEMPTION_SWAP);
    uint32_t told = submit(world, 1, 0, 1);
    pause(world, run_until(world, told, PROMPT + 3));
    step_world_close(world);
}

/* Copies go on beside the work: nobody waits for those of a victim, and who comes back has rows
 * when its pages are there, as long as others compute. */
static void test_beside_the_work(void **state)
{
    (void)state;
    for (late_steps = 1; late_steps <= 4; late_steps++) {
        struct step_world *world = open_world(64, 64, ENGINE_PREEMPTION_SWAP);
        uint32_t other = submit(world, 2, 0, 0);
        uint32_t told = submit(world, 1, 0, 0);
        uint32_t index = run_until(world, told, PROMPT + 3);
        const struct sequence *sequence = &world->step.sequences.slots[index];
        const struct kv_pool *pool = &world->step.pool;
        pause(world, index);
        assert_int_equal(pool->flying_count, pages_of(PROMPT + 3));
        const uint32_t said = world->told[told].answers[0].count;
        const uint32_t others = world->told[other].answers[0].count;
        step_world_step(world); /* it comes back at once: there is room for both */
        assert_int_equal(sequence->page_count, pages_of(PROMPT + 3));
        assert_true(world->told[other].answers[0].count > others);
        for (uint32_t i = 0; kv_pool_are_flying(pool, sequence->pages, sequence->page_count); i++) {
            assert_true(i <= late_steps);
            assert_int_equal(world->told[told].answers[0].count, said);
            step_world_step(world);
        }
        assert_true(world->step.arrivals >= late_steps);
        assert_int_equal(late_pages_waited(), 0);
        assert_int_equal(late_pages_begun(), 2);
        step_world_run(world);
        assert_undisturbed(&world->told[told], 1, 0);
        step_world_close(world);
    }
    late_steps = 0;
}

/* When nobody else computes there is nothing to be beside of. */
static void test_alone_it_waits(void **state)
{
    (void)state;
    late_steps = 1000;
    struct step_world *world = open_world(64, 64, ENGINE_PREEMPTION_SWAP);
    uint32_t told = submit(world, 1, 0, 0);
    pause(world, run_until(world, told, PROMPT + 3));
    uint32_t before = world->told[told].answers[0].count;
    step_world_step(world);
    assert_int_equal(world->told[told].answers[0].count, before + 1);
    assert_int_equal(late_pages_waited(), 2); /* out, then in */
    assert_int_equal(world->step.arrivals, 0);
    step_world_run(world);
    assert_undisturbed(&world->told[told], 1, 0);
    step_world_close(world);
    late_steps = 0;
}

/* Pages are kept free for copies where there is memory to copy them to. */
static void test_kept_free(void **state)
{
    (void)state;
    late_steps = 1;
    for (uint32_t host_pages = 0; host_pages <= 64; host_pages += 64) {
        struct step_world *world = open_world(64, host_pages, ENGINE_PREEMPTION_SWAP);
        assert_int_equal(world->step.cache.options.exchange, host_pages > 0 ? 4 : 0);
        assert_int_equal(prefix_cache_available(&world->step.cache), host_pages > 0 ? 60 : 64);
        step_world_close(world);
    }
    late_steps = 0;
}

/* What a paused one reads is unpublished: it goes on with what it holds. */
static void test_unpublished_while_paused(void **state)
{
    (void)state;
    struct step_world *world = open_world(64, 64, ENGINE_PREEMPTION_SWAP);
    const struct engine_domain prompt = step_world_domain(9);
    uint32_t tokens[PROMPT];
    struct engine_request asked = request(tokens, 1, 4 * PAGE, 9);
    asked.token_count = 4 * PAGE;
    asked.tokens_max = 0;
    asked.is_published = true;
    step_world_submit(world, &asked);
    step_world_run(world);
    assert_int_equal(world->step.pool.pinned_count, 4);
    asked = request(tokens, 1, 4 * PAGE, 1);
    asked.visible[0] = prompt;
    asked.visible_count = asked.visible_public = 1;
    uint32_t told = step_world_submit(world, &asked);
    uint32_t index = run_until(world, told, PROMPT + 3);
    pause(world, index);
    assert_int_equal(list(world, index)->host_count, pages_of(PROMPT + 3) - 4);
    assert_true(ring_push(&world->step.unpublished, &prompt));
    step_world_run(world);
    assert_int_equal(world->step.pool.pinned_count, 0);
    assert_int_equal(world->told[told].report.recomputed_tokens, open_of(PROMPT + 3));
    assert_undisturbed(&world->told[told], 1, 4 * PAGE);
    step_world_close(world);
}

/* Whichever way is predicted to take less. */
static void test_choice_by_cost(void **state)
{
    (void)state;
    for (int is_slow = 0; is_slow < 2; is_slow++) {
        struct step_world *world = open_world(48, 48, ENGINE_PREEMPTION_AUTO);
        uint32_t told = submit(world, 1, 0, 0);
        uint32_t index = run_until(world, told, PROMPT + 3);
        world->step.cost.count = STEP_COST_EVERY;
        world->step.cost.fit = (struct scheduler_cost){.fixed_us = 5, .row_us = 10, .key_us = 0};
        /* 6 pages there and back against 90 rows: 900 us; or 5 against 80. */
        world->step.swap.out_us = is_slow ? 100 : 80;
        world->step.swap.in_us = is_slow ? 80 : 60;
        pause(world, index);
        assert_int_equal(list(world, index)->page_count, is_slow ? 0 : pages_of(PROMPT + 3));
        world->step.cost.count = 0;
        step_world_run(world);
        assert_undisturbed(&world->told[told], 1, 0);
        step_world_close(world);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_in_the_middle_of_a_prompt),
        cmocka_unit_test(test_part_of_a_large_page),
        cmocka_unit_test(test_computed_again),
        cmocka_unit_test(test_a_fill_that_others_wait_for),
        cmocka_unit_test(test_victim_that_shares),
        cmocka_unit_test(test_cancel_while_swapped),
        cmocka_unit_test(test_end_while_swapped),
        cmocka_unit_test(test_beside_the_work),
        cmocka_unit_test(test_alone_it_waits),
        cmocka_unit_test(test_kept_free),
        cmocka_unit_test(test_unpublished_while_paused),
        cmocka_unit_test(test_choice_by_cost),
    };
    int failed = cmocka_run_group_tests_name("f16", tests, NULL, NULL);
    step_world_kv_type = KV_TYPE_I8;
    failed += cmocka_run_group_tests_name("i8", tests, NULL, NULL);
    step_world_kv_type = KV_TYPE_K4V8;
    failed += cmocka_run_group_tests_name("k4v8", tests, NULL, NULL);
    step_world_kv_type = KV_TYPE_K4V4;
    return failed + cmocka_run_group_tests_name("k4v4", tests, NULL, NULL);
}
