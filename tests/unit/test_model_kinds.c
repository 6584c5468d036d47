/* Every kind of model under the real step: prompts that share pages, chunks, any company,
 * preemption by swap and by recompute, and the host tier. Each request tells the same tokens and
 * log-probabilities as alone, bit by bit. */
#include "tests/kit/engine_run.h"
#include "tests/kit/rounds.h"
#include "tests/kit/step_schedule.h"
#include "tests/kit/tiny_model.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

enum { REQUESTS = 12, TEXTS = 2, FEW_SCHEDULES = 3, ALL_SCHEDULES = 60 };

/* One for each way in which architectures differ. */
static const char *const KINDS[] = {"llama",     "qwen2",   "gemma2",   "gemma3",
                                    "phi3_long", "mixtral", "qwen3moe", "olmoe",
                                    "gpt_oss",   "olmo3",   "smollm3",  "starcoder2"};

static uint32_t tokens[REQUESTS][STEP_WORLD_CONTEXT];
static struct step_schedules schedules = {
    .requests = REQUESTS, .at_once = STEP_SCHEDULE_AT_ONCE, .steps_a_pause = 4};

static uint32_t below(uint32_t count)
{
    return step_schedule_below(&schedules, count);
}

/* Prompts of a few texts, cut anywhere and continued differently, greedy and sampled. */
static void request_make(uint32_t index)
{
    schedules.rng = (struct rng){.seed = 900 + index};
    const uint32_t shared = below(70);
    const uint32_t count = shared + 1 + below(30);
    const uint32_t text = below(TEXTS);
    for (uint32_t i = 0; i < count; i++)
        tokens[index][i] = (uint32_t)(rng_at(5, i < shared ? text : TEXTS + index, i) % 256);
    struct engine_request *asked = &schedules.asked[index];
    *asked = step_world_request(tokens[index], count, 1 + below(20), (uint8_t)below(2));
    asked->service_class = (enum service_class)below(SERVICE_CLASS_COUNT);
    asked->weight = 1 + below(300);
    asked->want_logprobs = true;
    asked->sampling.seed = index;
    asked->sampling.temperature = below(2) == 0 ? 0.0f : 0.9f;
}

/* Few enough for preemptions. Where layers have two kinds a page may need several units, and one
 * context more than 40. */
static uint32_t kind_pages(const char *kind)
{
    return strcmp(kind, "gemma3") == 0 || strcmp(kind, "olmo3") == 0 ? 72 : 40;
}

static void same_bits(const char *kind)
{
    const struct step_world_options options = {.isa = "auto",
                                               .rows_max = 33,
                                               .sequences_max = 6,
                                               .pages = kind_pages(kind),
                                               .host_pages = 12};
    engine_run_tiny = kind;
    for (uint32_t i = 0; i < REQUESTS; i++)
        request_make(i);
    step_schedule_expect(&schedules);
    schedules.pauses = schedules.in_prompt = 0;
    struct step_world *world = step_world_open(&options);
    for (uint32_t i = 0; i < rounds(FEW_SCHEDULES, ALL_SCHEDULES); i++) {
        schedules.rng = (struct rng){.seed = 7000 + i};
        step_schedule_run(&schedules, world);
    }
    const uint64_t swaps = atomic_load(&world->step.figures.preemptions_swap);
    const uint64_t recomputes = atomic_load(&world->step.figures.preemptions_recompute);
    print_message("%s: %llu preemptions by the test, in all %llu by swap and %llu by recompute\n",
                  kind, (unsigned long long)schedules.pauses, (unsigned long long)swaps,
                  (unsigned long long)recomputes);
    assert_true(swaps > 0 && recomputes > 0);
    step_world_close(world);
    engine_run_tiny = NULL;
}

static void test_same_bits_of_every_kind(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof KINDS / sizeof KINDS[0]; i++)
        same_bits(KINDS[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_same_bits_of_every_kind),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
