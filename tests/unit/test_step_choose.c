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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_same_tokens),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
