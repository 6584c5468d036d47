#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "config/base/rng.h"
#include "engine/scheduler/scheduler.h"

enum { PAGE_TOKENS = 4, COMPUTING_MAX = 12, RUNNING_MAX = 48, CONTEXT = 64, REQUESTS = 60 };

/* One request of the simulation: known to the test in full. */
struct job {
    uint32_t prompt;
    uint32_t generate;
    uint32_t generated;
    uint32_t computed;
    uint32_t pages;
    uint32_t logits_from; /* 0 for an echo, else prompt - 1 */
    bool is_throttled;
};

/* All of one client in one class. */
static struct scheduler_fair fair;

static int fair_make(void **state)
{
    (void)state;
    const struct scheduler_fair_options options = {.clients = 4,
                                                   .quantum = 1024,
                                                   .floor_percent = 5,
                                                   .rows_max = 64,
                                                   .sequences_max = COMPUTING_MAX,
                                                   .context = CONTEXT};
    const struct engine_domain tenant = {.bytes = {1}};
    assert_int_equal(scheduler_fair_init(&fair, &options), STATUS_OK);
    assert_int_equal(scheduler_fair_enter(&fair, &tenant, SERVICE_CLASS_REALTIME, 100), 0);
    return 0;
}

static int fair_free(void **state)
{
    (void)state;
    scheduler_fair_deinit(&fair);
    return 0;
}

struct world {
    struct job jobs[REQUESTS];
    uint32_t running[RUNNING_MAX]; /* oldest first */
    uint32_t running_count;
    uint32_t sequences_max;
    uint32_t next; /* first not admitted */
    uint32_t finished;
    uint32_t pages_total;
    uint32_t pages_free;
    uint32_t rows_max;
    uint32_t logit_rows_max;
    enum scheduler_mode mode;
    double budget_us;
    uint32_t drops;
};

static struct scheduler_sequence view(const struct job *job)
{
    uint32_t tokens = job->prompt + job->generated;
    return (struct scheduler_sequence){
        .tokens = tokens,
        .computed = job->computed,
        .pages = job->pages,
        .units_back = job->pages,
        .logits_from = job->generated > 0 ? tokens - 1 : job->logits_from,
        .is_throttled = job->is_throttled,
    };
}

static uint32_t pages_for(uint32_t tokens)
{
    return (tokens + PAGE_TOKENS - 1) / PAGE_TOKENS;
}

static void remove_running(struct world *world, uint32_t index)
{
    world->running_count--;
    memmove(&world->running[index], &world->running[index + 1],
            (world->running_count - index) * sizeof(world->running[0]));
}

static void apply_drops(struct world *world, const struct scheduler_grant *grants,
                        struct scheduler_grant *kept)
{
    uint32_t back[RUNNING_MAX];
    uint32_t back_count = 0;
    uint32_t kept_count = 0;
    uint32_t order[RUNNING_MAX];
    for (uint32_t i = 0; i < world->running_count; i++) {
        struct job *job = &world->jobs[world->running[i]];
        if (grants[i].act == SCHEDULER_PAUSE) {
            assert_true(job->pages > 0);
            assert_int_equal(grants[i].rows, 0);
            world->pages_free += job->pages;
            world->drops++;
            job->pages = 0;
            job->computed = 0;
        }
        if (grants[i].act == SCHEDULER_PAUSE && job->is_throttled) {
            back[back_count++] = world->running[i];
        } else {
            kept[kept_count] = grants[i];
            order[kept_count++] = world->running[i];
        }
    }
    for (uint32_t i = 0; i < back_count; i++) {
        kept[kept_count] = (struct scheduler_grant){0};
        order[kept_count++] = back[i];
    }
    assert_int_equal(kept_count, world->running_count);
    memcpy(world->running, order, sizeof(order));
}

static void apply_rows(struct world *world, const struct scheduler_grant *grants)
{
    uint32_t rows = 0;
    uint32_t logit_rows = 0;
    for (uint32_t i = 0; i < world->running_count; i++) {
        struct job *job = &world->jobs[world->running[i]];
        if (grants[i].rows == 0)
            continue;
        const struct scheduler_sequence before = view(job);
        assert_false(job->is_throttled);
        rows += grants[i].rows;
        uint32_t end = job->computed + grants[i].rows;
        assert_true(end <= before.tokens);
        for (uint32_t p = job->computed; p < end; p++)
            logit_rows += p >= before.logits_from;
        uint32_t pages = pages_for(end);
        if (pages > job->pages) {
            assert_true(pages - job->pages <= world->pages_free);
            world->pages_free -= pages - job->pages;
            job->pages = pages;
        }
        job->computed = end;
        if (end == before.tokens)
            job->generated++;
    }
    assert_true(rows <= world->rows_max);
    assert_true(logit_rows <= world->logit_rows_max);
}

static void step(struct world *world)
{
    struct scheduler_sequence running[RUNNING_MAX];
    struct scheduler_sequence waiting[REQUESTS];
    struct scheduler_grant grants[RUNNING_MAX + REQUESTS];
    struct scheduler_grant again[RUNNING_MAX + REQUESTS];
    struct scheduler_plan plan;
    struct scheduler_plan plan_again;
    bool has_work = false;
    bool has_throttled = false;
    for (uint32_t i = 0; i < world->running_count; i++) {
        running[i] = view(&world->jobs[world->running[i]]);
        has_work = has_work || !running[i].is_throttled;
        has_throttled = has_throttled || running[i].is_throttled;
    }
    uint32_t waiting_count = 0;
    for (uint32_t i = world->next; i < REQUESTS; i++)
        waiting[waiting_count++] = view(&world->jobs[i]);
    const struct scheduler_input input = {
        .fair = &fair,
        .running = running,
        .running_count = world->running_count,
        .waiting = waiting,
        .waiting_count = waiting_count,
        .sequences_max = world->sequences_max,
        .places = 4 * world->sequences_max,
        .units_available = world->pages_free,
        .page_tokens = PAGE_TOKENS,
        .rows_max = world->rows_max,
        .logit_rows_max = world->logit_rows_max,
        .mode = world->mode,
        .cost = {.fixed_us = 10, .row_us = 2, .key_us = 0.1},
        .budget_us = world->budget_us,
    };
    scheduler_plan(&input, &plan, grants);
    scheduler_plan(&input, &plan_again, again);
    assert_memory_equal(&plan, &plan_again, sizeof(plan));
    for (uint32_t i = 0; i < world->running_count + waiting_count; i++)
        assert_true(grants[i].rows == again[i].rows && grants[i].act == again[i].act);
    for (uint32_t c = 0; c < SERVICE_CLASS_COUNT; c++)
        assert_true(plan.done.units[c] <= world->pages_total);

    /* Where readers have stopped, half of the places left may stay free; else a step is never idle
     * while something could go on. */
    if (has_work || (waiting_count > 0 && !has_throttled))
        assert_true(plan.rows > 0);
    struct scheduler_grant kept[2 * RUNNING_MAX];
    apply_drops(world, grants, kept);
    assert_true(plan.admitted + world->running_count <= input.places);
    uint32_t was_running = input.running_count;
    for (uint32_t i = 0; i < plan.admitted; i++) {
        const struct scheduler_grant *grant = &grants[was_running + i];
        assert_true(grant->act == SCHEDULER_ADMIT);
        assert_true(grant->rows > 0 || world->mode != SCHEDULER_CONTINUOUS);
        kept[world->running_count] = *grant;
        world->running[world->running_count++] = world->next++;
    }
    apply_rows(world, kept);
    for (uint32_t i = world->running_count; i-- > 0;) {
        struct job *job = &world->jobs[world->running[i]];
        if (job->generated < job->generate)
            continue;
        world->pages_free += job->pages;
        job->pages = 0;
        world->finished++;
        remove_running(world, i);
    }
    uint32_t held = 0;
    for (uint32_t i = 0; i < world->running_count; i++)
        held += world->jobs[world->running[i]].pages;
    assert_int_equal(held + world->pages_free, world->pages_total);
}

static void run_world(uint64_t seed, uint32_t *drops)
{
    struct rng rng = {.seed = seed};
    struct world world = {
        .sequences_max = 1 + (uint32_t)rng_below(&rng, COMPUTING_MAX),
        .rows_max = 1 + (uint32_t)rng_below(&rng, 40),
    };
    world.mode = (enum scheduler_mode)rng_below(&rng, 3);
    world.budget_us = rng_below(&rng, 2) == 0 ? 0 : 60;
    world.logit_rows_max = 1 + (uint32_t)rng_below(&rng, world.rows_max);
    world.pages_total = pages_for(CONTEXT) + (uint32_t)rng_below(&rng, 20);
    world.pages_free = world.pages_total;
    uint64_t work = 0;
    for (uint32_t i = 0; i < REQUESTS; i++) {
        struct job *job = &world.jobs[i];
        job->prompt = 1 + (uint32_t)rng_below(&rng, CONTEXT - 1);
        job->generate = 1 + (uint32_t)rng_below(&rng, CONTEXT - job->prompt);
        job->logits_from = rng_below(&rng, 4) == 0 ? 0 : job->prompt - 1;
        work += job->prompt + job->generate;
    }
    bool has_slow_readers = rng_below(&rng, 2) == 0;
    /* Every step computes a row; recomputing wastes at most a context for each drop. */
    uint64_t steps = 0;
    while (world.finished < REQUESTS) {
        steps++;
        assert_true(steps < 20 * work);
        for (uint32_t i = 0; has_slow_readers && i < world.running_count; i++) {
            struct job *job = &world.jobs[world.running[i]];
            if (rng_below(&rng, 16) == 0)
                job->is_throttled = !job->is_throttled && steps < 10 * work;
        }
        step(&world);
    }
    assert_int_equal(world.pages_free, world.pages_total);
    *drops += world.drops;
}

static void test_random_worlds(void **state)
{
    (void)state;
    uint32_t drops = 0;
    for (uint64_t seed = 1; seed <= 400; seed++) {
        run_world(seed, &drops);
    }
    assert_true(drops > 100); /* the tight ones did have to take pages */
}

static void test_order_within_a_step(void **state)
{
    (void)state;
    /* Two decodes, a prompt of which 4 of 20 tokens are done, a new prompt of 30: 10 rows. */
    const struct scheduler_sequence running[] = {
        {.tokens = 20, .computed = 4, .pages = 1, .units_back = 1, .logits_from = 19},
        {.tokens = 9, .computed = 8, .pages = 3, .units_back = 3, .logits_from = 8},
        {.tokens = 5, .computed = 4, .pages = 2, .units_back = 2, .logits_from = 4},
    };
    const struct scheduler_sequence waiting[] = {{.tokens = 30, .logits_from = 29}};
    struct scheduler_input input = {
        .fair = &fair,
        .running = running,
        .running_count = 3,
        .waiting = waiting,
        .waiting_count = 1,
        .sequences_max = 8,
        .places = 32,
        .units_available = 100,
        .page_tokens = 4,
        .rows_max = 10,
        .logit_rows_max = 10,
    };
    struct scheduler_plan plan;
    struct scheduler_grant grants[4];
    scheduler_plan(&input, &plan, grants);
    assert_int_equal(grants[1].rows, 1);
    assert_int_equal(grants[2].rows, 1);
    assert_int_equal(grants[0].rows, 8);
    assert_int_equal(plan.admitted, 0);
    assert_int_equal(plan.rows, 10);

    input.rows_max = 24;
    scheduler_plan(&input, &plan, grants);
    assert_int_equal(grants[0].rows, 16);
    assert_int_equal(plan.admitted, 1);
    assert_int_equal(grants[3].rows, 6);
    assert_int_equal(plan.logit_rows, 3);
}

static void test_youngest_gives_way(void **state)
{
    (void)state;
    /* All pages are held; the oldest decode needs one more. */
    const struct scheduler_sequence running[] = {
        {.tokens = 9, .computed = 8, .pages = 2, .units_back = 2, .logits_from = 8},
        {.tokens = 7, .computed = 6, .pages = 2, .units_back = 2, .logits_from = 6},
        {.tokens = 6, .computed = 5, .pages = 2, .units_back = 2, .logits_from = 5},
    };
    struct scheduler_sequence throttled[3];
    memcpy(throttled, running, sizeof(running));
    throttled[1].is_throttled = true;
    struct scheduler_input input = {
        .fair = &fair,
        .sequences_max = 8,
        .places = 32,
        .running = running,
        .running_count = 3,
        .units_available = 0,
        .page_tokens = 4,
        .rows_max = 10,
        .logit_rows_max = 10,
    };
    struct scheduler_plan plan;
    struct scheduler_grant grants[3];
    scheduler_plan(&input, &plan, grants);
    assert_true(grants[0].act == SCHEDULER_STAY && grants[1].act == SCHEDULER_STAY);
    assert_int_equal(grants[2].act, SCHEDULER_PAUSE);
    assert_int_equal(grants[0].rows, 1);
    assert_int_equal(grants[1].rows, 1);

    input.running = throttled;
    scheduler_plan(&input, &plan, grants);
    assert_int_equal(grants[1].act, SCHEDULER_PAUSE);
    assert_int_equal(grants[2].act, SCHEDULER_STAY);
    assert_int_equal(grants[0].rows, 1);
    assert_int_equal(grants[2].rows, 1);
}

/* The pages that are available are those that the cache has for the oldest, which is paused: a
 * younger one that needs its next page gives way instead of taking them. */
static void test_oldest_paused_goes_before_growth(void **state)
{
    (void)state;
    struct scheduler_sequence running[2] = {
        {.tokens = 12, .computed = 8, .found_pages = 2, .found_cost = 2, .logits_from = 11},
        {.tokens = 9, .computed = 8, .pages = 2, .units_back = 2, .logits_from = 8},
    };
    struct scheduler_input input = {.fair = &fair,
                                    .running = running,
                                    .running_count = 2,
                                    .units_available = 2,
                                    .sequences_max = 8,
                                    .places = 32,
                                    .page_tokens = PAGE_TOKENS,
                                    .rows_max = 16,
                                    .logit_rows_max = 4};
    struct scheduler_grant grants[2];
    struct scheduler_plan plan;
    scheduler_plan(&input, &plan, grants);
    assert_int_equal(grants[1].act, SCHEDULER_PAUSE);
    assert_int_equal(grants[0].rows, 4);
    /* Without need of a page, or with enough for both, it goes on. */
    running[1] =
        (struct scheduler_sequence){.tokens = 8, .computed = 7, .pages = 2, .logits_from = 7};
    scheduler_plan(&input, &plan, grants);
    assert_int_equal(grants[1].rows, 1);
    running[1] =
        (struct scheduler_sequence){.tokens = 9, .computed = 8, .pages = 2, .logits_from = 8};
    input.units_available = 4;
    scheduler_plan(&input, &plan, grants);
    assert_int_equal(grants[0].rows, 4);
    assert_int_equal(grants[1].rows, 1);
}

static void test_first_come_first_served(void **state)
{
    (void)state;
    /* The first in line does not fit beside the one that runs; the second would, and must wait. */
    const struct scheduler_sequence running[] = {
        {.tokens = 9, .computed = 8, .pages = 3, .units_back = 3, .logits_from = 8},
    };
    const struct scheduler_sequence waiting[] = {
        {.tokens = 40, .logits_from = 39},
        {.tokens = 2, .logits_from = 1},
    };
    struct scheduler_input input = {
        .fair = &fair,
        .running = running,
        .running_count = 1,
        .waiting = waiting,
        .waiting_count = 2,
        .sequences_max = 8,
        .places = 32,
        .units_available = 11,
        .page_tokens = 4,
        .rows_max = 64,
        .logit_rows_max = 10,
    };
    struct scheduler_plan plan;
    struct scheduler_grant grants[5];
    scheduler_plan(&input, &plan, grants);
    assert_int_equal(plan.admitted, 0);
    input.units_available = 12; /* 11 for 41 tokens, 1 of growth for the one that runs */
    scheduler_plan(&input, &plan, grants);
    assert_int_equal(plan.admitted, 1);
    assert_int_equal(grants[1].rows, 40);
    input.units_available = 14; /* and 1 of growth for the first, 1 for 3 tokens */
    scheduler_plan(&input, &plan, grants);
    assert_int_equal(plan.admitted, 2);
}

static void test_logit_rows_bound_the_chunk(void **state)
{
    (void)state;
    /* An echo wants logits of all 20 rows; 7 a step are allowed. */
    const struct scheduler_sequence running[] = {
        {.tokens = 20, .computed = 4, .pages = 1, .units_back = 1, .logits_from = 0},
    };
    struct scheduler_input input = {
        .fair = &fair,
        .sequences_max = 8,
        .places = 32,
        .running = running,
        .running_count = 1,
        .units_available = 20,
        .page_tokens = 4,
        .rows_max = 64,
        .logit_rows_max = 7,
    };
    struct scheduler_plan plan;
    struct scheduler_grant grants[1];
    scheduler_plan(&input, &plan, grants);
    assert_int_equal(grants[0].rows, 7);
    assert_int_equal(plan.logit_rows, 7);
    input.logit_rows_max = 0;
    scheduler_plan(&input, &plan, grants);
    assert_int_equal(grants[0].rows, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_worlds),
        cmocka_unit_test(test_order_within_a_step),
        cmocka_unit_test(test_youngest_gives_way),
        cmocka_unit_test(test_oldest_paused_goes_before_growth),
        cmocka_unit_test(test_first_come_first_served),
        cmocka_unit_test(test_logit_rows_bound_the_chunk),
    };
    return cmocka_run_group_tests(tests, fair_make, fair_free);
}
