/* Draft tokens of constrained answers: those that the grammar refuses are dropped, and so are those
 * behind which no token is sampled; the others are verified under masks of their own. */
#include "engine/step/step_draft_mask.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "engine/grammar/grammar_run.h"
#include "tests/kit/step_world.h"

enum { PROMPT = 5 };

static uint32_t prompt[PROMPT] = {70, 71, 72, 73, 74};

static struct engine_request request(const char *regex, uint32_t tokens_max)
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

static struct step_world *open_world(enum engine_speculation speculation)
{
    const struct step_world_options options = {
        .rows_max = 64, .sequences_max = 4, .pages = 64, .speculation = speculation};
    return step_world_open(&options);
}

static bool is_allowed(const uint32_t *mask, uint32_t token)
{
    return (mask[token / 32] >> token % 32 & 1) != 0;
}

/* Drafts that are kept behind the first token of an answer. */
static uint32_t kept(const char *regex, const char *drafts)
{
    const struct engine_request asked = request(regex, 40);
    struct step_world *world = open_world(ENGINE_SPECULATION_LOOKUP);
    struct step *step = &world->step;
    step_world_submit(world, &asked);
    while (world->told[0].answers[0].count == 0)
        step_world_step(world);
    struct step_part part = {.sequence = step->sequences.order[0], .rows = 1};
    struct sequence *sequence = &step->sequences.slots[part.sequence];
    const struct guard *guard = step_guard(step, sequence);
    const uint64_t tokens = grammar_run_tokens(guard->run);
    for (; drafts[part.drafts] != '\0'; part.drafts++)
        sequence->tokens[sequence->token_count + part.drafts] = (uint8_t)drafts[part.drafts];
    step->draft.mask_count = 0;
    step_draft_mask_make(step, &part);
    assert_int_equal(step->draft.mask_count, part.drafts);
    assert_int_equal(grammar_run_tokens(guard->run), tokens);
    assert_false(grammar_run_is_too_complex(guard->run));
    for (uint32_t ahead = 1; ahead <= part.drafts; ahead++) {
        const uint32_t *mask = step_draft_mask_of(step, &part, ahead);
        assert_true(is_allowed(mask, 'a') && is_allowed(mask, 'b') && !is_allowed(mask, 'c'));
    }
    const uint32_t count = part.drafts;
    step_world_run(world);
    step_world_close(world);
    return count;
}

static void test_what_may_not_stand_there_is_dropped(void **state)
{
    (void)state;
    assert_int_equal(kept("[ab]{9}", "aba"), 3);
    assert_int_equal(kept("[ab]{9}", "acb"), 1);
    assert_int_equal(kept("[ab]{9}", "cab"), 0);
    assert_int_equal(kept("[ab]{3}", "ab"), 1);        /* the answer is over behind the second */
    assert_int_equal(kept("[ab]{3}cd[ab]", "abc"), 1); /* "cd" is forced behind the second */
}

static void test_drafts_are_accepted_with_the_same_bits(void **state)
{
    (void)state;
    struct engine_request asked = request("[a-d]{60}", 60);
    struct step_world_told told[2];
    uint64_t steps[2];
    asked.sampling.bias_count = 1;
    asked.sampling.bias[0] = (struct engine_bias){.token = 'b', .bias = 100};
    for (int i = 0; i < 2; i++) {
        struct step_world *world =
            open_world(i == 0 ? ENGINE_SPECULATION_OFF : ENGINE_SPECULATION_LOOKUP);
        step_world_submit(world, &asked);
        step_world_run(world);
        told[i] = world->told[0];
        steps[i] = atomic_load(&world->step.figures.steps);
        assert_int_equal(told[i].answers[0].count, 60);
        step_world_close(world);
    }
    assert_true(step_world_same(&told[0], &told[1]));
    assert_true(told[1].report.drafts_accepted > 30);
    assert_true(steps[1] < steps[0] - 20);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_may_not_stand_there_is_dropped),
        cmocka_unit_test(test_drafts_are_accepted_with_the_same_bits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
