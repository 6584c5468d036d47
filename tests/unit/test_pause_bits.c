/* The promise of engine.md part 2 under pauses: whoever is paused, whenever, by swap or to be
 * computed again, in whatever company, tells the same tokens and log-probabilities as undisturbed,
 * bit by bit. Random schedules of the real step on a small model: pauses that the scheduler decides
 * for want of pages, by class and by share, and more of them from here, at any step. */
#include "engine/step_pause.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "config/base/rng.h"
#include "tests/kit/step_world.h"

enum {
    REQUESTS = 48,
    TEXTS = 3,
    AT_ONCE = 8,
    STEPS_MAX = 20000,
    WORLD_SCHEDULES = 25,
#ifdef BANYAN_SLOW_CHECKS /* everything is checked at each step: ten times as long */
    SCHEDULES = 100,
#else
    SCHEDULES = 500,
#endif
};

static struct request {
    uint32_t tokens[STEP_WORLD_CONTEXT];
    struct engine_request asked;
} requests[REQUESTS];
static struct step_world_told expected[REQUESTS];

static struct {
    uint64_t pauses, swaps, recomputes, in_prompt, cancels, drops;
} seen;

static struct rng rng;

static uint32_t below(uint32_t count)
{
    return (uint32_t)rng_below(&rng, count);
}

/* --- what is asked, and the answers of who is never disturbed --- */

/* Prompts of a few texts, cut anywhere and gone on with, so that many share pages; of domains that
 * see each other in part, or of none; greedy and sampled, one choice and two. */
static void request_make(struct request *out, uint32_t index)
{
    rng = (struct rng){.seed = 4000 + index};
    uint32_t shared = below(90);
    uint32_t count = shared + 1 + below(50);
    uint32_t text = below(TEXTS);
    uint32_t own = TEXTS + below(4);
    uint8_t domain = (uint8_t)below(4);
    for (uint32_t i = 0; i < count; i++)
        out->tokens[i] = (uint32_t)(rng_at(5, i < shared ? text : own, i) % 256);
    out->asked = step_world_request(out->tokens, count, 1 + below(40), domain);
    struct engine_request *asked = &out->asked;
    if (domain == 2) { /* reads what 1 has, as a group's */
        asked->visible[0] = step_world_domain(1);
        asked->visible_count = 1;
        asked->visible_group = 1;
    }
    asked->tenant = step_world_domain((uint8_t)(100 + below(3)));
    asked->service_class = (enum service_class)below(SERVICE_CLASS_COUNT);
    asked->weight = 1 + below(300);
    asked->choices = below(5) == 0 ? 2 : 1;
    asked->want_logprobs = true;
    asked->echo = below(8) == 0;
    asked->sampling.seed = index;
    asked->sampling.temperature = below(2) == 0 ? 0.0f : 0.9f;
}

static void expect_all(void)
{
    const struct step_world_options ample = {
        .rows_max = 64, .sequences_max = 16, .pages = 512, .no_prefix_cache = true};
    struct step_world *world = step_world_open(&ample);
    for (uint32_t i = 0; i < REQUESTS; i++) {
        request_make(&requests[i], i);
        world->told_count = 0;
        memset(world->told, 0, sizeof world->told);
        step_world_submit(world, &requests[i].asked);
        step_world_run(world);
        assert_true(world->told[0].is_over);
        expected[i] = world->told[0];
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
    const struct sequence *sequence = &table->slots[index];
    if (sequence->page_count == 0)
        return;
    enum engine_preemption own = step->options.preemption;
    step->options.preemption = below(3) > 0 ? ENGINE_PREEMPTION_SWAP : ENGINE_PREEMPTION_RECOMPUTE;
    seen.pauses++;
    seen.in_prompt += sequence->computed < sequence->prompt_count;
    step_pause(step, index, &grant);
    step->options.preemption = own;
}

/* What domain 1 has is forgotten, unless somebody computes into it. */
static void drop_domain(struct schedule *schedule)
{
    const struct engine_domain domain = step_world_domain(1);
    for (uint32_t i = 0; i < schedule->world->told_count; i++)
        if (!schedule->world->told[i].is_over &&
            memcmp(&requests[schedule->which[i]].asked.domain, &domain, sizeof domain) == 0)
            return;
    prefix_cache_drop_domain(&schedule->world->step.cache, &domain);
    seen.drops++;
}

static bool is_over(const struct schedule *schedule)
{
    for (uint32_t i = 0; i < schedule->count; i++)
        if (i >= schedule->world->told_count || !schedule->world->told[i].is_over)
            return false;
    return true;
}

static void schedule_step(struct schedule *schedule)
{
    struct step_world *world = schedule->world;
    if (world->told_count < schedule->count && below(3) == 0)
        step_world_submit(world, &requests[schedule->which[world->told_count]].asked);
    if (below(4) == 0)
        pause_somebody(&world->step);
    if (below(64) == 0)
        drop_domain(schedule);
    if (world->told_count > 0 && below(128) == 0) {
        uint32_t who = below(world->told_count);
        if (!world->told[who].is_over) {
            step_world_cancel(world, who);
            schedule->is_cancelled[who] = true;
            seen.cancels++;
        }
    }
    step_world_step(world);
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
    struct schedule schedule = {.world = world, .count = 2 + below(AT_ONCE - 1)};
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
        assert_true(step_world_same(&world->told[i], whole));
    }
}

static struct step_world *open_world(void)
{
    static const uint32_t pages[] = {32, 36, 48, 80};
    static const uint32_t host_pages[] = {0, 3, 12, 40, 80};
    static const uint32_t rows[] = {16, 33, 64};
    const struct step_world_options options = {.isa = "auto",
                                               .rows_max = rows[below(3)],
                                               .sequences_max = 1 + below(AT_ONCE),
                                               .pages = pages[below(4)],
                                               .host_pages = host_pages[below(5)],
                                               .no_prefix_cache = below(5) == 0};
    struct step_world *world = step_world_open(&options);
    world->step.options.preemption = (enum engine_preemption)below(3);
    return world;
}

static void test_same_bits(void **state)
{
    (void)state;
    struct step_world *world = NULL;
    memset(&seen, 0, sizeof seen);
    expect_all();
    for (uint32_t i = 0; i < SCHEDULES; i++) {
        rng = (struct rng){.seed = 100000 + i};
        if (i % WORLD_SCHEDULES == 0)
            world = open_world();
        run_schedule(world);
        if (i % WORLD_SCHEDULES < WORLD_SCHEDULES - 1)
            continue;
        seen.swaps += atomic_load(&world->step.figures.preemptions_swap);
        seen.recomputes += atomic_load(&world->step.figures.preemptions_recompute);
        step_world_close(world);
    }
    print_message(
        "%d schedules: %llu pauses from here (%llu in a prompt); in all %llu by swap, %llu "
        "to compute again; %llu cancels, %llu domains dropped\n",
        SCHEDULES, (unsigned long long)seen.pauses, (unsigned long long)seen.in_prompt,
        (unsigned long long)seen.swaps, (unsigned long long)seen.recomputes,
        (unsigned long long)seen.cancels, (unsigned long long)seen.drops);
    assert_true(seen.swaps > 5 * SCHEDULES);
    assert_true(seen.recomputes > 5 * SCHEDULES);
    assert_true(seen.in_prompt > SCHEDULES);
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
