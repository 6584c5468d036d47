/* The promise of engine.md part 2 under speculation: with guesses, right and wrong, in whatever
 * company, paused, cancelled or short of pages, a request tells the same tokens, log-probabilities
 * and ends as alone and without them, bit by bit. Random schedules of the real step on a small
 * model, with texts that repeat themselves; greedy and sampled, with penalties and stop strings
 * that end within what was guessed. */
#include "engine/step_draft.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "config/base/rng.h"
#include "engine/step_pause.h"
#include "tests/kit/step_world.h"

enum {
    REQUESTS = 64,
    AT_ONCE = 6,
    LETTERS_MAX = 4,
    STEPS_MAX = 20000,
    WORLD_SCHEDULES = 20,
#ifdef BANYAN_SLOW_CHECKS /* everything is checked at each step: ten times as long */
    SCHEDULES = 40,
#else
    SCHEDULES = 200,
#endif
};

static struct request {
    uint32_t tokens[STEP_WORLD_CONTEXT];
    char stop[4];
    struct engine_request asked;
} requests[REQUESTS];
static struct step_world_told expected[REQUESTS];

static struct {
    uint64_t accepted, rejected, pauses, cancels, stops;
} seen;

static struct rng rng;

static uint32_t below(uint32_t count)
{
    return (uint32_t)rng_below(&rng, count);
}

/* --- what is asked, and the answers of who never guesses --- */

/* A phrase said again and again, its start the same for many, so that pages are shared too. */
static uint32_t make_prompt(struct request *out)
{
    uint32_t phrase = 3 + below(12);
    uint32_t count = phrase + 1 + below(100);
    uint32_t text = below(3);
    for (uint32_t i = 0; i < count; i++)
        out->tokens[i] = (uint32_t)('a' + rng_at(6, text, i % phrase) % 26);
    return count;
}

/* Letters that the answer is made of: with few of them it repeats itself, too. */
static void make_letters(struct request *out)
{
    struct engine_sampling *sampling = &out->asked.sampling;
    sampling->bias_count = below(4) == 0 ? 0 : 1 + below(LETTERS_MAX);
    for (uint32_t i = 0; i < sampling->bias_count; i++)
        sampling->bias[i] = (struct engine_bias){.token = 'a' + i, .bias = 2000};
    if (sampling->bias_count == 0 || below(3) > 0)
        return;
    uint32_t length = 1 + below(sizeof(out->stop));
    for (uint32_t i = 0; i < length; i++)
        out->stop[i] = (char)('a' + below(sampling->bias_count));
    out->asked.stop[0] = (struct slice){out->stop, length};
    out->asked.stop_count = 1;
}

static void request_make(struct request *out, uint32_t index)
{
    rng = (struct rng){.seed = 7000 + index};
    uint32_t count = make_prompt(out);
    out->asked = step_world_request(out->tokens, count, 1 + below(80), (uint8_t)below(3));
    struct engine_request *asked = &out->asked;
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
    make_letters(out);
}

static void expect_all(void)
{
    const struct step_world_options plain = {
        .rows_max = 64, .sequences_max = 16, .pages = 512, .no_prefix_cache = true};
    struct step_world *world = step_world_open(&plain);
    for (uint32_t i = 0; i < REQUESTS; i++) {
        request_make(&requests[i], i);
        world->told_count = 0;
        memset(world->told, 0, sizeof world->told);
        step_world_submit(world, &requests[i].asked);
        step_world_run(world);
        assert_true(world->told[0].is_over);
        assert_int_equal(world->told[0].refusal.status, STATUS_OK);
        expected[i] = world->told[0];
        seen.stops += expected[i].answers[0].finish == ENGINE_FINISH_STOP;
    }
    step_world_close(world);
}

/* --- one schedule --- */

struct schedule {
    struct step_world *world;
    uint32_t which[AT_ONCE];
    bool is_cancelled[AT_ONCE];
    uint32_t count;
};

/* Pauses one that has pages, by either way. */
static void pause_somebody(struct step *step)
{
    const struct sequence_table *table = &step->sequences;
    const struct scheduler_grant grant = {.act = SCHEDULER_PAUSE};
    if (table->order_count == 0)
        return;
    uint32_t index = table->order[below(table->order_count)];
    if (table->slots[index].page_count == 0)
        return;
    enum engine_preemption own = step->options.preemption;
    step->options.preemption = below(2) == 0 ? ENGINE_PREEMPTION_SWAP : ENGINE_PREEMPTION_RECOMPUTE;
    seen.pauses++;
    step_pause(step, index, &grant);
    step->options.preemption = own;
}

static bool is_over(const struct schedule *schedule)
{
    for (uint32_t i = 0; i < schedule->count; i++)
        if (i >= schedule->world->told_count || !schedule->world->told[i].is_over)
            return false;
    return true;
}

/* Between two steps nobody holds a page behind what it has computed. */
static void assert_trimmed(const struct step *step)
{
    const struct sequence_table *table = &step->sequences;
    for (uint32_t i = 0; i < table->order_count; i++) {
        const struct sequence *sequence = &table->slots[table->order[i]];
        assert_true(sequence->page_count <= kv_pool_pages_for(&step->pool, sequence->computed));
    }
}

static void schedule_step(struct schedule *schedule)
{
    struct step_world *world = schedule->world;
    if (world->told_count < schedule->count && below(3) == 0)
        step_world_submit(world, &requests[schedule->which[world->told_count]].asked);
    if (below(12) == 0)
        pause_somebody(&world->step);
    if (world->told_count > 0 && below(128) == 0) {
        uint32_t who = below(world->told_count);
        if (!world->told[who].is_over) {
            step_world_cancel(world, who);
            schedule->is_cancelled[who] = true;
            seen.cancels++;
        }
    }
    step_world_step(world);
    assert_trimmed(&world->step);
    clock_manual_advance(&world->clock, 1000);
}

/* A cancelled one told a part of its answer. */
static void assert_part(const struct step_world_told *told, const struct step_world_told *whole)
{
    for (uint32_t i = 0; i < LIMIT_CHOICES; i++) {
        const struct step_world_answer *a = &told->answers[i];
        const struct step_world_answer *b = &whole->answers[i];
        assert_true(a->count <= b->count);
        assert_memory_equal(a->tokens, b->tokens, a->count * sizeof a->tokens[0]);
        assert_memory_equal(a->logprobs, b->logprobs, a->count * sizeof a->logprobs[0]);
    }
}

static void run_schedule(struct step_world *world)
{
    struct schedule schedule = {.world = world, .count = 1 + below(AT_ONCE)};
    world->told_count = 0;
    memset(world->told, 0, sizeof world->told);
    for (uint32_t i = 0; i < schedule.count; i++)
        schedule.which[i] = below(REQUESTS);
    uint32_t steps = 0;
    while (!is_over(&schedule)) {
        assert_true(steps++ < STEPS_MAX);
        schedule_step(&schedule);
    }
    for (uint32_t i = 0; i < schedule.count; i++) {
        const struct step_world_told *whole = &expected[schedule.which[i]];
        if (schedule.is_cancelled[i]) {
            assert_part(&world->told[i], whole);
            continue;
        }
        assert_int_equal(world->told[i].refusal.status, STATUS_OK);
        if (!step_world_same(&world->told[i], whole))
            fail_msg("request %u is told otherwise than alone", schedule.which[i]);
    }
}

static struct step_world *open_world(void)
{
    static const uint32_t pages[] = {32, 36, 80, 200};
    static const uint32_t host_pages[] = {0, 12, 40};
    static const uint32_t rows[] = {8, 16, 33, 64};
    const struct step_world_options options = {.isa = "auto",
                                               .rows_max = rows[below(4)],
                                               .sequences_max = 1 + below(AT_ONCE),
                                               .pages = pages[below(4)],
                                               .host_pages = host_pages[below(3)],
                                               .no_prefix_cache = below(5) == 0,
                                               .speculation = ENGINE_SPECULATION_LOOKUP};
    return step_world_open(&options);
}

static void test_same_bits(void **state)
{
    (void)state;
    struct step_world *world = NULL;
    memset(&seen, 0, sizeof seen);
    expect_all();
    for (uint32_t i = 0; i < SCHEDULES; i++) {
        rng = (struct rng){.seed = 200000 + i};
        if (i % WORLD_SCHEDULES == 0)
            world = open_world();
        run_schedule(world);
        if (i % WORLD_SCHEDULES < WORLD_SCHEDULES - 1)
            continue;
        seen.accepted += world->step.draft.accepted;
        seen.rejected += world->step.draft.rejected;
        step_world_close(world);
    }
    print_message(
        "%d schedules: %llu guesses right, %llu wrong; %llu pauses, %llu cancels, %llu of "
        "%d texts end by a stop string\n",
        SCHEDULES, (unsigned long long)seen.accepted, (unsigned long long)seen.rejected,
        (unsigned long long)seen.pauses, (unsigned long long)seen.cancels,
        (unsigned long long)seen.stops, REQUESTS);
    assert_true(seen.accepted > 10 * SCHEDULES);
    assert_true(seen.rejected > 10 * SCHEDULES);
    assert_true(seen.pauses > SCHEDULES);
    assert_true(seen.cancels > 0);
    assert_true(seen.stops > 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_same_bits),
    };
    int failed = cmocka_run_group_tests_name("f16", tests, NULL, NULL);
    step_world_kv_type = KV_TYPE_I8;
    return failed + cmocka_run_group_tests_name("i8", tests, NULL, NULL);
}
