/* A constrained answer, with its forced tokens, has the same bits alone and in any company, with
 * preemptions by swap and to be computed again, on any number of threads, beside any speculation,
 * and whatever fuel its masks get: masks that are late, and forced tokens that find no room, change
 * when a row is computed and nothing else. */
#include "tests/kit/rounds.h"
#include "tests/kit/step_schedule.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

enum { REQUESTS = 24, WORLD_SCHEDULES = 10, FEW_WORLDS = 3, ALL_WORLDS = 100, GENERATED = 40 };

static uint32_t tokens[REQUESTS][STEP_WORLD_CONTEXT];
static uint64_t late;
static uint64_t forced; /* forced tokens that shared a step with another row */

static void count(const struct step *step)
{
    for (uint32_t i = 0; i < step->sequences.order_count; i++) {
        const struct sequence *sequence = &step->sequences.slots[step->sequences.order[i]];
        const struct guard *guards = step->options.tickets->slots[sequence->slot].guards;
        late += guards != NULL && guards[sequence->choice].waits > 0;
    }
    for (uint32_t i = 0; i < step->batch.sequences; i++)
        forced += step->parts[i].forced;
}

static struct step_schedules schedules = {
    .requests = REQUESTS, .at_once = STEP_SCHEDULE_AT_ONCE, .steps_a_pause = 6, .check = count};

static uint32_t below(uint32_t count)
{
    return step_schedule_below(&schedules, count);
}

static const struct {
    enum constraint_kind kind;
    const char *source;
} sources[] = {
    {CONSTRAINT_JSON_OBJECT, ""},
    {CONSTRAINT_REGEX, "([a-z]{1,3} )*[A-Z]{30,}"},
    {CONSTRAINT_JSON_SCHEMA,
     "{\"type\":\"array\",\"items\":{\"type\":\"integer\"},\"minItems\":30}"},
    {CONSTRAINT_JSON_SCHEMA,
     "{\"type\":\"object\",\"properties\":{\"identifier\":{\"type\":\"integer\"},\"is_known\":"
     "{\"type\":\"boolean\"}},\"required\":[\"identifier\",\"is_known\"]}"},
    {CONSTRAINT_REGEX, "(the same text each time, [0-9]){9}"},
    {CONSTRAINT_REGEX, "nothing can be chosen here"},
    {CONSTRAINT_CHOICE, "[\"yes\",\"no\",\"none of these\",\"none of those\"]"},
};

/* Two of three are constrained. */
static void request_make(uint32_t index)
{
    schedules.rng = (struct rng){.seed = 700 + index};
    const uint32_t count = 1 + below(60);
    for (uint32_t i = 0; i < count; i++)
        tokens[index][i] = (uint32_t)(rng_at(5, below(2), i) % 256);
    struct engine_request *asked = &schedules.asked[index];
    *asked = step_world_request(tokens[index], count, 1 + below(GENERATED), (uint8_t)below(3));
    asked->service_class = (enum service_class)below(SERVICE_CLASS_COUNT);
    asked->choices = below(5) == 0 ? 2 : 1;
    asked->want_logprobs = below(4) > 0;
    asked->sampling.seed = index;
    asked->sampling.temperature = below(2) == 0 ? 0.0f : 1.0f;
    asked->sampling.top_p = below(2) == 0 ? 1.0f : 0.9f;
    asked->sampling.repetition_penalty = below(3) == 0 ? 1.3f : 1;
    asked->tokens_min = below(3) == 0 ? below(asked->tokens_max + 1) : 0;
    asked->stop_token_count = below(3) == 0;
    asked->stop_tokens[0] = '3';
    asked->limits_reasoning = below(4) == 0;
    asked->reasoning_max = below(10);
    if (index % 3 == 0)
        return;
    const uint32_t source = below(sizeof sources / sizeof sources[0]);
    asked->ignore_end = false;
    asked->constraint = (struct engine_constraint){.is_set = true,
                                                   .kind = sources[source].kind,
                                                   .source = slice_of(sources[source].source),
                                                   .field = slice_of("constraint")};
}

static struct step_world *open_world(void)
{
    static const uint32_t fuels[] = {20, 150, 0};
    static const uint32_t pages[] = {32, 40, 64};
    static const uint32_t rows[] = {16, 33, 64};
    static const enum engine_speculation speculations[] = {
        ENGINE_SPECULATION_OFF, ENGINE_SPECULATION_LOOKUP, ENGINE_SPECULATION_EXIT};
    const struct step_world_options options = {.isa = "auto",
                                               .threads = 1 + below(2),
                                               .rows_max = rows[below(3)],
                                               .sequences_max = 1 + below(STEP_SCHEDULE_AT_ONCE),
                                               .pages = pages[below(3)],
                                               .host_pages = below(2) * 20,
                                               .no_prefix_cache = below(3) == 0,
                                               .speculation = speculations[below(3)],
                                               .mask_fuel = fuels[below(3)]};
    return step_world_open(&options);
}

static void test_same_bits(void **state)
{
    (void)state;
    const uint32_t runs = WORLD_SCHEDULES * rounds(FEW_WORLDS, ALL_WORLDS);
    struct step_world *world = NULL;
    for (uint32_t i = 0; i < REQUESTS; i++)
        request_make(i);
    step_schedule_expect(&schedules);
    late = forced = 0;
    for (uint32_t i = 0; i < runs; i++) {
        schedules.rng = (struct rng){.seed = 200000 + i};
        if (i % WORLD_SCHEDULES == 0)
            world = open_world();
        step_schedule_run(&schedules, world);
        if (i % WORLD_SCHEDULES == WORLD_SCHEDULES - 1)
            step_world_close(world);
    }
    print_message("%u schedules: %llu pauses, %llu steps with a mask that was late, %llu rows of "
                  "forced tokens\n",
                  runs, (unsigned long long)schedules.pauses, (unsigned long long)late,
                  (unsigned long long)forced);
    assert_true(schedules.pauses > runs);
    assert_true(late > runs);
    assert_true(forced > runs);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_same_bits)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
