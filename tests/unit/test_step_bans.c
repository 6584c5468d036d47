/* Which tokens may not end an answer yet, and until when. */
#include "engine/step/step_bans.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "engine/step/step_state.h"

enum { END = 2, OTHER_END = 7, STOP = 30, SLOT = 1 };

static struct {
    struct step step;
    struct sequence sequences[2];
    struct ticket tickets[2];
    struct ticket_table table;
    uint32_t ends[2];
    uint32_t bans[2 * (2 + LIMIT_STOP_TOKENS)];
} world;

static struct engine_request *begin(void)
{
    memset(&world, 0, sizeof world);
    world.ends[0] = END;
    world.ends[1] = OTHER_END;
    world.table.slots = world.tickets;
    world.step.options.tickets = &world.table;
    world.step.sequences.slots = world.sequences;
    world.step.ends = world.ends;
    world.step.end_count = 2;
    world.step.bans = world.bans;
    world.sequences[SLOT].slot = 1;
    struct engine_request *asked = &world.tickets[1].asked;
    asked->stop_tokens[0] = STOP;
    asked->stop_token_count = 1;
    return asked;
}

static void test_nothing_is_banned_by_default(void **state)
{
    (void)state;
    begin();
    assert_int_equal(step_bans_of(&world.step, SLOT).count, 0);
}

static void test_ends_and_stops_are_banned_at_first(void **state)
{
    (void)state;
    begin()->tokens_min = 5;
    const struct step_bans bans = step_bans_of(&world.step, SLOT);
    assert_int_equal(bans.count, 3);
    assert_int_equal(bans.tokens[0], END);
    assert_int_equal(bans.tokens[1], OTHER_END);
    assert_int_equal(bans.tokens[2], STOP);
    assert_int_equal(bans.before, 5);
}

/* The list is the same while a grammar holds and in the reasoning before it. */
static void test_a_grammar_has_its_own_rule(void **state)
{
    (void)state;
    static struct guard guard;
    begin()->constraint.is_set = true;
    world.tickets[1].guards = &guard;
    const struct step_bans held = step_bans_of(&world.step, SLOT);
    assert_int_equal(held.count, 3);
    assert_int_equal(held.before, 0);
    world.sequences[SLOT].is_reasoning = true;
    const struct step_bans reasoning = step_bans_of(&world.step, SLOT);
    assert_int_equal(reasoning.count, 3);
    assert_int_equal(reasoning.before, UINT32_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nothing_is_banned_by_default),
        cmocka_unit_test(test_ends_and_stops_are_banned_at_first),
        cmocka_unit_test(test_a_grammar_has_its_own_rule),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
