/* Tokens do not depend on which thread drew them, nor on guesses beside them. */
#include "engine/step/step_choose.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#include "tests/kit/step_world.h"

enum { PROMPT = 20, ANSWER = 24, REQUESTS = 6 };

/* Greedy, by temperature, with each filter and with penalties; the last has two choices, in a
 * prompt that says the same again and again. */
static struct engine_request request(uint32_t number, uint32_t *prompt)
{
    for (uint32_t i = 0; i < PROMPT; i++)
        prompt[i] = 100 + (number + 1 == REQUESTS ? i % 3 : i * (number + 1)) % 60;
    struct engine_request asked = step_world_request(prompt, PROMPT, ANSWER, 0);
    asked.want_logprobs = true;
    asked.sampling.seed = number;
    asked.sampling.temperature = number == 0 ? 0 : 0.5f + (float)number / 4;
    asked.sampling.top_p = number == 2 ? 0.8f : 1;
    asked.sampling.top_k = number == 3 ? 5 : 0;
    asked.sampling.frequency_penalty = number >= 4 ? 0.5f : 0;
    asked.choices = number + 1 == REQUESTS ? 2 : 1;
    return asked;
}

static struct step_world *run(uint32_t threads, uint32_t sequences_max,
                              enum engine_speculation speculation)
{
    uint32_t prompt[PROMPT];
    const struct step_world_options options = {.threads = threads,
                                               .rows_max = 64,
                                               .sequences_max = sequences_max,
                                               .pages = 64,
                                               .speculation = speculation};
    struct step_world *world = step_world_open(&options);
    for (uint32_t i = 0; i < REQUESTS; i++) {
        const struct engine_request asked = request(i, prompt);
        step_world_submit(world, &asked);
    }
    step_world_run(world);
    return world;
}

static void test_same_tokens(void **state)
{
    (void)state;
    struct step_world *alone = run(1, 1, ENGINE_SPECULATION_OFF);
    for (uint32_t threads = 1; threads <= 3; threads++)
        for (int ahead = 0; ahead < 2; ahead++) {
            struct step_world *world =
                run(threads, 8, ahead ? ENGINE_SPECULATION_LOOKUP : ENGINE_SPECULATION_OFF);
            assert_int_equal(world->step.drawer.sampler_count, threads);
            for (uint32_t i = 0; i < REQUESTS; i++) {
                assert_int_equal(world->told[i].answers[0].count, ANSWER);
                assert_true(step_world_same(&world->told[i], &alone->told[i]));
            }
            step_world_close(world);
        }
    step_world_close(alone);
}

static const struct step_world_answer *answer_to(struct step_world *world,
                                                 const struct engine_request *asked)
{
    const uint32_t told = step_world_submit(world, asked);
    step_world_run(world);
    return &world->told[told].answers[0];
}

/* A token that is far likelier than all others. */
static void prefer(struct engine_request *asked, uint32_t token, float bias)
{
    asked->sampling.bias[asked->sampling.bias_count++] = (struct engine_bias){token, bias};
}

static void constrain(struct engine_request *asked, const char *regex)
{
    asked->constraint = (struct engine_constraint){.is_set = true,
                                                   .kind = CONSTRAINT_REGEX,
                                                   .source = slice_of(regex),
                                                   .field = slice_of("regex")};
}

/* Neither end tokens, nor stop tokens, nor stop strings end an answer before tokens_min. */
static void test_tokens_min(void **state)
{
    (void)state;
    const struct step_world_options options = {.rows_max = 64, .sequences_max = 2, .pages = 64};
    const uint32_t prompt[] = {'x', 'y'};
    struct step_world *world = step_world_open(&options);
    const uint32_t end = world->step.ends[0];
    struct engine_request asked = step_world_request(prompt, 2, ANSWER, 0);
    asked.ignore_end = false;
    prefer(&asked, end, 2000);
    const struct step_world_answer *got = answer_to(world, &asked);
    assert_int_equal(got->count, 1);
    asked.tokens_min = 7;
    got = answer_to(world, &asked);
    assert_int_equal(got->count, 8);
    assert_int_equal(got->tokens[7], end);
    assert_int_equal(got->finish, ENGINE_FINISH_STOP);
    asked.sampling.bias_count = 0;
    prefer(&asked, 'q', 2000);
    asked.stop_tokens[asked.stop_token_count++] = 'q';
    got = answer_to(world, &asked);
    assert_int_equal(got->count, 8);
    for (int i = 0; i < 8; i++)
        assert_int_equal(got->tokens[i] == 'q', i == 7);
    asked.stop_token_count = 0;
    asked.stop[asked.stop_count++] = SLICE("qq");
    got = answer_to(world, &asked);
    assert_int_equal(got->count, 8); /* the string began before */
    assert_int_equal(got->finish, ENGINE_FINISH_STOP);
    asked.stop_count = 0;
    constrain(&asked, "q{1,99}");
    asked.sampling.bias_count = 0;
    prefer(&asked, end, 2000);
    got = answer_to(world, &asked);
    assert_int_equal(got->count, 8);
    assert_int_equal(got->tokens[7], end);
    constrain(&asked, "q{3}"); /* nothing more is allowed */
    got = answer_to(world, &asked);
    assert_int_equal(got->count, 3);
    assert_int_equal(got->finish, ENGINE_FINISH_STOP);
    step_world_close(world);
}

static uint32_t different(const struct step_world_answer *answer)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < answer->count; i++) {
        uint32_t k = 0;
        while (k < i && answer->tokens[k] != answer->tokens[i])
            k++;
        count += k == i;
    }
    return count;
}

/* The penalty reaches the sampler: the answer repeats itself less, and the same each time. That the
 * tokens are right: test_sampler. */
static void test_repetition(void **state)
{
    (void)state;
    const struct step_world_options options = {.rows_max = 64, .sequences_max = 2, .pages = 64};
    const uint32_t prompt[] = {'x', 'y'};
    struct step_world *world = step_world_open(&options);
    struct engine_request asked = step_world_request(prompt, 2, ANSWER, 0);
    const struct step_world_answer *plain = answer_to(world, &asked);
    asked.sampling.repetition_penalty = 1;
    assert_memory_equal(answer_to(world, &asked)->tokens, plain->tokens, sizeof plain->tokens);
    asked.sampling.repetition_penalty = 2;
    const struct step_world_answer *other = answer_to(world, &asked);
    assert_memory_equal(answer_to(world, &asked)->tokens, other->tokens, sizeof other->tokens);
    print_message("%u and %u different tokens\n", different(plain), different(other));
    assert_true(different(other) > different(plain));
    step_world_close(world);
}

/* The closing mark stands where the budget is spent, and the answer goes on. */
static void test_reasoning_ends(void **state)
{
    (void)state;
    static const uint32_t mark[] = {'<', '/', 't', '>'};
    const struct step_world_options options = {.rows_max = 64, .sequences_max = 2, .pages = 64};
    const uint32_t prompt[] = {'x', 'y'};
    struct step_world *world = step_world_open(&options);
    struct engine_request asked = step_world_request(prompt, 2, ANSWER, 0);
    prefer(&asked, 'r', 2000);
    asked.limits_reasoning = true;
    for (asked.reasoning_max = 0; asked.reasoning_max < 5; asked.reasoning_max++) {
        const struct step_world_answer *got = answer_to(world, &asked);
        assert_int_equal(got->count, ANSWER);
        for (uint32_t i = 0; i < got->count; i++) {
            const bool is_mark = i - asked.reasoning_max < 4;
            assert_int_equal(got->tokens[i], is_mark ? mark[i - asked.reasoning_max] : 'r');
        }
    }
    step_world_close(world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_same_tokens),
        cmocka_unit_test(test_tokens_min),
        cmocka_unit_test(test_repetition),
        cmocka_unit_test(test_reasoning_ends),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
