/* Text that a grammar forces: all its tokens in one step where there is room, and one in each step
 * where there is none, with equal bits. It is counted, cut and held back as sampled text is. */
#include "engine/step/step_force.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "engine/step/step_charge.h"
#include "tests/kit/step_world.h"

enum { PROMPT = 5 };

static const char fixed[] = "nothing can be chosen here";
enum { FIXED = sizeof fixed - 1 }; /* each byte is a token of the world's model */

static uint32_t prompt[PROMPT] = {70, 71, 72, 73, 74};

static struct engine_request forced_request(const char *regex, uint32_t tokens_max)
{
    struct engine_request asked = step_world_request(prompt, PROMPT, tokens_max, 0);
    asked.ignore_end = false;
    asked.want_logprobs = true;
    asked.constraint = (struct engine_constraint){.is_set = true,
                                                  .kind = CONSTRAINT_REGEX,
                                                  .source = slice_of(regex),
                                                  .field = slice_of("constraint")};
    return asked;
}

static struct step_world_told run(const struct engine_request *asked, uint32_t rows_max,
                                  uint64_t *steps)
{
    const struct step_world_options options = {
        .rows_max = rows_max, .sequences_max = 4, .pages = 64};
    struct step_world *world = step_world_open(&options);
    step_world_submit(world, asked);
    step_world_run(world);
    const struct step_world_told told = world->told[0];
    assert_true(told.is_over);
    assert_int_equal(told.refusal.status, STATUS_OK);
    assert_int_equal(told.report.completion_tokens, told.answers[0].count);
    *steps = atomic_load(&world->step.figures.steps);
    step_world_close(world);
    return told;
}

static void test_one_step_or_one_token_a_step_give_the_same_bits(void **state)
{
    (void)state;
    struct engine_request asked = forced_request(fixed, 40);
    uint64_t steps, slow;
    struct step_world_told told = run(&asked, 64, &steps);
    assert_int_equal(steps, 1);
    assert_int_equal(told.answers[0].count, FIXED);
    assert_int_equal(told.answers[0].finish, ENGINE_FINISH_STOP);
    struct step_world_told one = run(&asked, 1, &slow);
    assert_int_equal(slow, PROMPT + FIXED - 1);
    assert_true(step_world_same(&told, &one));
    for (uint32_t i = 0; i < FIXED; i++)
        assert_true(told.answers[0].logprobs[i] < 0);
    asked.want_logprobs = false;
    one = run(&asked, 64, &steps);
    assert_int_equal(one.answers[0].count, FIXED);
    assert_memory_equal(one.answers[0].tokens, told.answers[0].tokens, FIXED * sizeof(uint32_t));
}

static void test_what_follows_forced_text_is_sampled_in_the_same_step(void **state)
{
    (void)state;
    struct engine_request asked = forced_request("always [ab]", 40);
    uint64_t steps, slow;
    struct step_world_told told = run(&asked, 64, &steps);
    assert_int_equal(steps, 1);
    assert_int_equal(told.answers[0].count, strlen("always a"));
    struct step_world_told one = run(&asked, 2, &slow);
    assert_true(slow > steps);
    assert_true(step_world_same(&told, &one));
    asked.want_logprobs = false;
    one = run(&asked, 64, &steps);
    assert_memory_equal(one.answers[0].tokens, told.answers[0].tokens,
                        strlen("always a") * sizeof(uint32_t));
}

static void test_the_length_and_stop_strings_cut_forced_text(void **state)
{
    (void)state;
    struct engine_request asked = forced_request(fixed, 10);
    uint64_t steps;
    struct step_world_told told = run(&asked, 64, &steps);
    assert_int_equal(told.answers[0].count, 10);
    assert_int_equal(told.answers[0].finish, ENGINE_FINISH_LENGTH);
    asked = forced_request(fixed, 40);
    asked.stop[0] = slice_of("can");
    asked.stop_count = 1;
    told = run(&asked, 64, &steps);
    assert_int_equal(told.answers[0].count, strlen("nothing can"));
    assert_int_equal(told.answers[0].finish, ENGINE_FINISH_STOP);
}

/* A reader that has stopped gets no more forced tokens than sampled ones. */
static void test_a_reader_that_stops_holds_forced_text_back(void **state)
{
    (void)state;
    const struct step_world_options options = {.rows_max = 256, .sequences_max = 4, .pages = 64};
    const struct engine_request asked = forced_request("(ab){50}", 128);
    struct step_world *world = step_world_open(&options);
    world->holds_acknowledgements = true;
    step_world_submit(world, &asked);
    for (uint32_t i = 0; i < 10; i++)
        step_world_step(world);
    assert_int_equal(world->told[0].answers[0].count, LIMIT_UNDELIVERED_TOKENS);
    assert_false(world->told[0].is_over);
    world->holds_acknowledgements = false;
    ticket_acknowledge(&world->tickets, world->told[0].id, 0, LIMIT_UNDELIVERED_TOKENS);
    step_world_run(world);
    assert_true(world->told[0].is_over);
    assert_int_equal(world->told[0].answers[0].count, 100);
    step_world_close(world);
}

/* A step with `parts` parts whose forced tokens are still to come. */
static struct step_world *pending(uint32_t choices, uint32_t requests, uint32_t *parts)
{
    const struct step_world_options options = {.rows_max = 12, .sequences_max = 4, .pages = 64};
    struct engine_request asked = forced_request("(ab){50}", 120);
    struct step_world *world = step_world_open(&options);
    struct step *step = &world->step;
    asked.choices = choices;
    asked.want_logprobs = false;
    for (uint32_t i = 0; i < requests; i++)
        step_world_submit(world, &asked);
    *parts = choices * requests;
    while (step->sequences.order_count < *parts ||
           step->sequences.slots[step->sequences.order[*parts - 1]].forced == 0)
        step_world_step(world);
    for (uint32_t i = 0; i < *parts; i++)
        step->parts[i] = (struct step_part){.sequence = step->sequences.order[i], .rows = 1};
    return world;
}

static void test_sequences_share_the_room(void **state)
{
    (void)state;
    uint32_t parts;
    struct step_world *world = pending(1, 3, &parts);
    step_force_plan(&world->step, parts, 0);
    for (uint32_t i = 0; i < parts; i++)
        assert_int_equal(world->step.parts[i].forced, 3); /* of 12 rows 3 are planned */
    step_world_close(world);
}

static void test_choices_share_the_allowance_of_their_client(void **state)
{
    (void)state;
    uint32_t parts;
    struct step_world *world = pending(3, 1, &parts);
    struct step *step = &world->step;
    struct scheduler_client *client = &step->fair.clients[step->sequences.slots[0].client];
    const uint32_t slot = step->sequences.slots[0].slot;
    const double price = scheduler_fair_token(step_charge_work(step, slot, 20));
    uint32_t forced = 0;
    client->weight = 200;
    client->planned = 0;
    client->limit = client->served + 4.5 * price / 2;
    step_force_plan(step, parts, 0);
    for (uint32_t i = 0; i < parts; i++)
        forced += step->parts[i].forced;
    assert_int_equal(forced, 4);
    step_world_close(world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_step_or_one_token_a_step_give_the_same_bits),
        cmocka_unit_test(test_what_follows_forced_text_is_sampled_in_the_same_step),
        cmocka_unit_test(test_the_length_and_stop_strings_cut_forced_text),
        cmocka_unit_test(test_a_reader_that_stops_holds_forced_text_back),
        cmocka_unit_test(test_sequences_share_the_room),
        cmocka_unit_test(test_choices_share_the_allowance_of_their_client),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
