/* The promise of engine.md part 2 under pauses: whoever is paused, whenever, by swap or to be
 * computed again, in whatever company, tells the same tokens and log-probabilities as undisturbed,
 * bit by bit. Random schedules of the real step on a small model: pauses that the scheduler decides
 * for want of pages, by class and by share, and more of them from here, at any step. */
#include "tests/kit/late_pages.h"
#include "tests/kit/rounds.h"
#include "tests/kit/step_schedule.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

enum {
    REQUESTS = 48,
    TEXTS = 3,
    WORLD_SCHEDULES = 25,
    FEW_WINDOWS = 1,
    WINDOW_SEEDS = 1000,  /* worlds with host memory */
#ifdef BANYAN_SLOW_CHECKS /* everything is checked at each step: ten times as long */
    FEW_WORLDS = 1,
    ALL_WORLDS = 3,
#else
    FEW_WORLDS = 4,
    ALL_WORLDS = 16,
#endif
};

static uint32_t tokens[REQUESTS][STEP_WORLD_CONTEXT];
static uint64_t drops;
static uint32_t late_steps; /* that copies of pages take; 0 = they are over at once */

static void drop_domain(struct step_schedules *schedules, const struct step_schedule *schedule);

static struct step_schedules schedules = {.requests = REQUESTS,
                                          .at_once = STEP_SCHEDULE_AT_ONCE,
                                          .steps_a_pause = 4,
                                          .disturb = drop_domain};

static uint32_t below(uint32_t count)
{
    return step_schedule_below(&schedules, count);
}

/* Prompts of a few texts, cut anywhere and gone on with, so that many share pages; of domains that
 * see each other in part, or of none; greedy and sampled, one choice and two. */
static void request_make(uint32_t index)
{
    schedules.rng = (struct rng){.seed = 4000 + index};
    uint32_t shared = below(90);
    uint32_t count = shared + 1 + below(50);
    uint32_t text = below(TEXTS);
    uint32_t own = TEXTS + below(4);
    uint8_t domain = (uint8_t)below(4);
    for (uint32_t i = 0; i < count; i++)
        tokens[index][i] = (uint32_t)(rng_at(5, i < shared ? text : own, i) % 256);
    struct engine_request *asked = &schedules.asked[index];
    *asked = step_world_request(tokens[index], count, 1 + below(40), domain);
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

/* Now and then what domain 1 has is forgotten, unless somebody computes into it. */
static void drop_domain(struct step_schedules *of, const struct step_schedule *schedule)
{
    const struct engine_domain domain = step_world_domain(1);
    if (step_schedule_below(of, 64) > 0)
        return;
    for (uint32_t i = 0; i < schedule->world->told_count; i++)
        if (!schedule->world->told[i].is_over &&
            memcmp(&of->asked[schedule->which[i]].domain, &domain, sizeof domain) == 0)
            return;
    prefix_cache_drop_domain(&schedule->world->step.cache, &domain);
    drops++;
}

static struct step_world *open_world(void)
{
    static const uint32_t pages[] = {32, 36, 48, 80}; /* of 16 tokens */
    static const uint32_t host_pages[] = {0, 3, 12, 40, 80};
    const uint32_t larger = step_world_page_tokens / STEP_WORLD_PAGE;
    static const uint32_t rows[] = {16, 33, 64};
    const struct step_world_options options = {.isa = "auto",
                                               .rows_max = rows[below(3)],
                                               .sequences_max = 1 + below(STEP_SCHEDULE_AT_ONCE),
                                               .pages = pages[below(4)] / larger,
                                               .host_pages = host_pages[below(5)] / larger,
                                               .exchange_pages = late_steps > 0 ? 2 : 0,
                                               .late_steps = late_steps,
                                               .no_prefix_cache = below(5) == 0};
    struct step_world *world = step_world_open(&options);
    world->step.options.preemption = (enum engine_preemption)below(3);
    return world;
}

static void test_same_bits(void **state)
{
    (void)state;
    const uint32_t few = step_world_window > 0 ? FEW_WINDOWS : FEW_WORLDS;
    const uint32_t count = WORLD_SCHEDULES * rounds(few, ALL_WORLDS);
    struct step_world *world = NULL;
    uint64_t swaps = 0;
    uint64_t recomputes = 0;
    uint64_t begun = 0;
    uint64_t waited = 0;
    for (uint32_t i = 0; i < REQUESTS; i++)
        request_make(i);
    step_schedule_expect(&schedules);
    schedules.pauses = schedules.in_prompt = schedules.cancels = drops = 0;
    for (uint32_t i = 0; i < count; i++) {
        schedules.rng =
            (struct rng){.seed = 100000 + (step_world_window > 0 ? WINDOW_SEEDS : 0u) + i};
        if (i % WORLD_SCHEDULES == 0)
            world = open_world();
        step_schedule_run(&schedules, world);
        if (i % WORLD_SCHEDULES < WORLD_SCHEDULES - 1)
            continue;
        swaps += atomic_load(&world->step.figures.preemptions_swap);
        recomputes += atomic_load(&world->step.figures.preemptions_recompute);
        if (late_steps > 0) {
            begun += late_pages_begun();
            waited += late_pages_waited();
        }
        step_world_close(world);
    }
    print_message(
        "%u schedules: %llu pauses from here (%llu in a prompt); in all %llu by swap, %llu "
        "to compute again; %llu cancels, %llu domains dropped\n",
        count, (unsigned long long)schedules.pauses, (unsigned long long)schedules.in_prompt,
        (unsigned long long)swaps, (unsigned long long)recomputes,
        (unsigned long long)schedules.cancels, (unsigned long long)drops);
    if (late_steps > 0)
        print_message("%llu batches of late copies, %llu of them waited for\n",
                      (unsigned long long)begun, (unsigned long long)waited);
    assert_true(late_steps == 0 || begun - waited > count);
    assert_true(swaps > 2 * count);
    assert_true(recomputes > 2 * count);
    assert_true(schedules.in_prompt > count);
    assert_true(schedules.cancels > 0 && drops > 0);
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
    step_world_page_tokens = 4 * STEP_WORLD_PAGE; /* of several groups */
    failed += cmocka_run_group_tests_name("k4v8, pages of 64", tests, NULL, NULL);
    step_world_kv_type = KV_TYPE_K4V4;
    failed += cmocka_run_group_tests_name("k4v4, pages of 64", tests, NULL, NULL);
    step_world_page_tokens = STEP_WORLD_PAGE;
    failed += cmocka_run_group_tests_name("k4v4", tests, NULL, NULL);
    step_world_page_tokens = 4 * STEP_WORLD_PAGE;
    /* As on a device: large pages, and copies beside the work, at their slowest. */
    step_world_kv_type = KV_TYPE_F16;
    late_steps = 3;
    failed += cmocka_run_group_tests_name("f16, late, pages of 64", tests, NULL, NULL);
    /* Layers of two kinds: windows shorter and longer than a block of keys. */
    step_world_window = 100;
    failed += cmocka_run_group_tests_name("window, late, pages of 64", tests, NULL, NULL);
    late_steps = 0;
    step_world_page_tokens = STEP_WORLD_PAGE;
    step_world_window = 21;
    failed += cmocka_run_group_tests_name("window", tests, NULL, NULL);
    step_world_kv_type = KV_TYPE_I8;
    return failed + cmocka_run_group_tests_name("window, i8", tests, NULL, NULL);
}
