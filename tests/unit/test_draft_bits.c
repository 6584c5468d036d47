/* The promise of engine.md part 2 under speculation: with guesses, right and wrong, in whatever
 * company, paused, cancelled or short of pages, a request tells the same tokens, log-probabilities
 * and ends as alone and without them, bit by bit. Random schedules of the real step on a small
 * model, with texts that repeat themselves; greedy and sampled, with penalties, stop strings that
 * end within what was guessed, and grammars. */
#include "tests/kit/rounds.h"
#include "tests/kit/step_schedule.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

enum {
    REQUESTS = STEP_SCHEDULE_REQUESTS,
    AT_ONCE = 6,
    LETTERS_MAX = 4,
    STOP_BYTES = 4,
    WORLD_SCHEDULES = 20,
#ifdef BANYAN_SLOW_CHECKS /* everything is checked at each step: ten times as long */
    FEW_WORLDS = 1,
    ALL_WORLDS = 2,
#else
    FEW_WORLDS = 3,
    ALL_WORLDS = 10,
#endif
};

static uint32_t tokens[REQUESTS][STEP_WORLD_CONTEXT];
static char stops[REQUESTS][STOP_BYTES];

static uint64_t masked; /* draft tokens of constrained answers */

/* Between two steps nobody holds a page behind what it has computed. */
static void assert_trimmed(const struct step *step)
{
    const struct sequence_table *table = &step->sequences;
    masked += step->draft.mask_count;
    for (uint32_t i = 0; i < table->order_count; i++) {
        const struct sequence *sequence = &table->slots[table->order[i]];
        assert_true(sequence->page_count <= kv_pool_pages_for(&step->pool, sequence->computed));
    }
}

static struct step_schedules schedules = {
    .requests = REQUESTS, .at_once = AT_ONCE, .steps_a_pause = 12, .check = assert_trimmed};

static uint32_t below(uint32_t count)
{
    return step_schedule_below(&schedules, count);
}

/* A phrase said again and again, its start the same for many, so that pages are shared too. */
static uint32_t make_prompt(uint32_t *out)
{
    uint32_t phrase = 3 + below(12);
    uint32_t count = phrase + 1 + below(100);
    uint32_t text = below(3);
    for (uint32_t i = 0; i < count; i++)
        out[i] = (uint32_t)('a' + rng_at(6, text, i % phrase) % 26);
    return count;
}

/* Letters that the answer is made of: with few of them it repeats itself, too. */
static void make_letters(struct engine_request *asked, char *stop)
{
    struct engine_sampling *sampling = &asked->sampling;
    sampling->bias_count = below(4) == 0 ? 0 : 1 + below(LETTERS_MAX);
    for (uint32_t i = 0; i < sampling->bias_count; i++)
        sampling->bias[i] = (struct engine_bias){.token = 'a' + i, .bias = 2000};
    if (sampling->bias_count == 0 || below(3) > 0)
        return;
    uint32_t length = 1 + below(STOP_BYTES);
    for (uint32_t i = 0; i < length; i++)
        stop[i] = (char)('a' + below(sampling->bias_count));
    asked->stop[0] = (struct slice){stop, length};
    asked->stop_count = 1;
}

/* Answers that repeat themselves, and some of whose text is forced. */
static void make_constraint(struct engine_request *asked)
{
    static const char *const regexes[] = {"[a-d ]{20,}", "([a-c]{1,3}[xyz]){9,}",
                                          "([ab] is not [ab], |[a-d]{2}){5,}", "[a-c]{7}end[a-c]"};
    const uint32_t regex = below(sizeof regexes / sizeof regexes[0]);
    asked->ignore_end = false;
    asked->echo = false;
    asked->constraint = (struct engine_constraint){.is_set = true,
                                                   .kind = CONSTRAINT_REGEX,
                                                   .source = slice_of(regexes[regex]),
                                                   .field = slice_of("constraint")};
}

/* What looks at tokens before: the prompt's, those that end an answer, those of its reasoning. */
static void make_knobs(struct engine_request *asked)
{
    if (below(3) == 0)
        asked->sampling.repetition_penalty = 0.5f + 0.25f * (float)below(6);
    if (below(3) == 0)
        asked->stop_tokens[asked->stop_token_count++] = 'a' + below(LETTERS_MAX);
    if (below(3) == 0)
        asked->tokens_min = below(asked->tokens_max + 1);
    asked->limits_reasoning = below(4) == 0;
    asked->reasoning_max = below(40);
}

static void request_make(uint32_t index)
{
    schedules.rng = (struct rng){.seed = 7000 + index};
    uint32_t count = make_prompt(tokens[index]);
    struct engine_request *asked = &schedules.asked[index];
    *asked = step_world_request(tokens[index], count, 1 + below(80), (uint8_t)below(3));
    asked->tenant = step_world_domain((uint8_t)(100 + below(3)));
    asked->service_class = (enum service_class)below(SERVICE_CLASS_COUNT);
    asked->choices = below(5) == 0 ? 2 : 1;
    asked->want_logprobs = true;
    asked->echo = below(8) == 0;
    asked->sampling.seed = index;
    static const float temperatures[] = {0, 0.9f, 50}; /* with the last, letters come by chance */
    asked->sampling.temperature = temperatures[below(3)];
    if (below(3) == 0) {
        asked->sampling.presence_penalty = 0.5f;
        asked->sampling.frequency_penalty = 0.1f * (float)below(5);
    }
    make_letters(asked, stops[index]);
    if (index % 3 == 0)
        make_constraint(asked);
    make_knobs(asked);
}

static struct step_world *open_world(void)
{
    static const uint32_t pages[] = {32, 36, 80, 200};
    static const uint32_t host_pages[] = {0, 12, 40};
    static const uint32_t rows[] = {8, 16, 33, 64};
    const struct step_world_options options = {
        .isa = "auto",
        .rows_max = rows[below(4)],
        .sequences_max = 1 + below(AT_ONCE),
        .pages = pages[below(4)],
        .host_pages = host_pages[below(3)],
        .no_prefix_cache = below(5) == 0,
        .speculation = below(2) == 0 ? ENGINE_SPECULATION_LOOKUP : ENGINE_SPECULATION_EXIT};
    return step_world_open(&options);
}

static void test_same_bits(void **state)
{
    (void)state;
    const uint32_t count = WORLD_SCHEDULES * rounds(FEW_WORLDS, ALL_WORLDS);
    struct step_world *world = NULL;
    uint64_t accepted = 0;
    uint64_t rejected = 0;
    uint32_t stopped = 0;
    for (uint32_t i = 0; i < REQUESTS; i++)
        request_make(i);
    step_schedule_expect(&schedules);
    for (uint32_t i = 0; i < REQUESTS; i++)
        stopped += schedules.expected[i].answers[0].finish == ENGINE_FINISH_STOP;
    schedules.pauses = schedules.cancels = masked = 0;
    for (uint32_t i = 0; i < count; i++) {
        schedules.rng = (struct rng){.seed = 200000 + i};
        if (i % WORLD_SCHEDULES == 0)
            world = open_world();
        step_schedule_run(&schedules, world);
        if (i % WORLD_SCHEDULES < WORLD_SCHEDULES - 1)
            continue;
        accepted += world->step.draft.accepted;
        rejected += world->step.draft.rejected;
        step_world_close(world);
    }
    print_message(
        "%u schedules: %llu guesses right, %llu wrong; %llu pauses, %llu cancels, %u of %d texts "
        "end by a stop string\n",
        count, (unsigned long long)accepted, (unsigned long long)rejected,
        (unsigned long long)schedules.pauses, (unsigned long long)schedules.cancels, stopped,
        REQUESTS);
    print_message("%llu guesses under a grammar\n", (unsigned long long)masked);
    assert_true(masked > count);
    assert_true(accepted > 10 * count);
    assert_true(rejected > 3 * count);
    assert_true(schedules.pauses > count);
    assert_true(schedules.cancels > 0);
    assert_true(stopped > 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_same_bits),
    };
    int failed = cmocka_run_group_tests_name("f16", tests, NULL, NULL);
    step_world_kv_type = KV_TYPE_I8;
    failed += cmocka_run_group_tests_name("i8", tests, NULL, NULL);
    step_world_kv_type = KV_TYPE_K4V8;
    failed += cmocka_run_group_tests_name("k4v8", tests, NULL, NULL);
    step_world_kv_type = KV_TYPE_K4V4;
    return failed + cmocka_run_group_tests_name("k4v4", tests, NULL, NULL);
}
