/* Random worlds of classes, clients and weights: the plan is carried out, and at every step the
 * properties of a schedule are checked. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "config/base/rng.h"
#include "engine/scheduler/scheduler.h"

enum {
    PAGE_TOKENS = 4,
    COMPUTING_MAX = 8,
    PLACES_MAX = 4 * COMPUTING_MAX,
    SHOWN_MAX = 64,
    CLIENTS_MAX = 8,
    JOBS_MAX = 120,
    STEP_US = 10000,
};

enum job_state { JOB_WAITING, JOB_RUNNING, JOB_ENDED };

struct job {
    enum job_state state;
    uint32_t tenant;
    uint32_t client;
    enum service_class service_class;
    uint64_t arrival; /* step */
    uint32_t prompt;
    uint32_t generate;
    uint32_t generated;
    uint32_t computed;
    uint32_t charged;
    uint32_t cached; /* of the prompt, before it is admitted */
    uint32_t pages;
    uint32_t pages_host;
    uint32_t passed;
    uint32_t quantum;
    bool is_throttled;
};

struct world {
    struct rng rng;
    struct scheduler_fair fair;
    struct job jobs[JOBS_MAX];
    uint32_t job_count;
    uint32_t running[PLACES_MAX];
    uint32_t running_count;
    uint32_t ended;
    uint32_t context;
    uint32_t pages_total;
    uint32_t pages_free;
    uint32_t rows_max;
    uint32_t sequences_max;
    bool swaps;
    bool has_slow_readers;
    uint64_t step;
    uint64_t pauses[3];
    /* Of the service of two clients, while both are backlogged. */
    bool spread_since[JOBS_MAX][JOBS_MAX];
    double spread_least[JOBS_MAX][JOBS_MAX];
    double spread_most[JOBS_MAX][JOBS_MAX];
    uint32_t shown[SHOWN_MAX];
    uint32_t shown_count;
    struct scheduler_sequence view_running[PLACES_MAX];
    struct scheduler_sequence view_waiting[SHOWN_MAX];
    struct scheduler_grant grants[PLACES_MAX + SHOWN_MAX];
    struct scheduler_plan plan;
};

static uint32_t pages_for(uint32_t tokens)
{
    return (tokens + PAGE_TOKENS - 1) / PAGE_TOKENS;
}

static struct scheduler_sequence view(const struct job *job)
{
    uint32_t tokens = job->prompt + job->generated;
    bool is_new = job->state == JOB_WAITING;
    uint32_t computed = is_new ? job->cached : job->computed;
    return (struct scheduler_sequence){
        .tokens = tokens,
        .computed = computed,
        .pages = job->pages,
        .found_pages = job->pages == 0 ? pages_for(computed) : 0,
        .found_cost = job->pages == 0 ? pages_for(computed) : 0,
        .units_back = job->pages,
        .logits_from = tokens - 1,
        .charge_from = is_new               ? job->cached
                       : job->generated > 0 ? tokens
                                            : job->charged,
        .client = job->client,
        .passed = job->passed,
        .service_class = job->service_class,
        .is_throttled = job->is_throttled,
        .is_resumed_lately = job->quantum > 0,
    };
}

/* --- one step --- */

static void step_plan(struct world *world)
{
    world->shown_count = 0;
    for (uint32_t i = 0; i < world->job_count && world->shown_count < SHOWN_MAX; i++) {
        const struct job *job = &world->jobs[i];
        if (job->state != JOB_WAITING || job->arrival > world->step)
            continue;
        world->view_waiting[world->shown_count] = view(job);
        world->shown[world->shown_count++] = i;
    }
    for (uint32_t i = 0; i < world->running_count; i++)
        world->view_running[i] = view(&world->jobs[world->running[i]]);
    const struct scheduler_input input = {
        .fair = &world->fair,
        .running = world->view_running,
        .running_count = world->running_count,
        .waiting = world->view_waiting,
        .waiting_count = world->shown_count,
        .sequences_max = world->sequences_max,
        .places = 4 * world->sequences_max,
        .units_available = world->pages_free,
        .units_total = world->pages_total,
        .page_tokens = PAGE_TOKENS,
        .rows_max = world->rows_max,
        .logit_rows_max = world->rows_max,
        .cost = {.fixed_us = 10, .row_us = 2, .key_us = 0.1},
        .budget_us = world->job_count % 2 == 0 ? 0 : 200,
        .urgent_us = 100,
    };
    static struct scheduler_grant again[PLACES_MAX + SHOWN_MAX];
    struct scheduler_plan plan_again;
    scheduler_fair_tick(&world->fair, (int64_t)world->step * STEP_US, NULL);
    scheduler_plan(&input, &world->plan, world->grants);
    scheduler_plan(&input, &plan_again, again);
    assert_memory_equal(&world->plan, &plan_again, sizeof(plan_again));
    for (uint32_t i = 0; i < world->running_count + world->shown_count; i++) {
        assert_int_equal(world->grants[i].rows, again[i].rows);
        assert_int_equal(world->grants[i].act, again[i].act);
    }
    scheduler_fair_tick(&world->fair, (int64_t)world->step * STEP_US, &world->plan.done);
}

/* Somebody goes on, or gives pages for who does in the next step. */
static void check_not_idle(const struct world *world)
{
    bool has_throttled = false;
    bool has_work = false;
    for (uint32_t i = 0; i < world->running_count; i++) {
        has_throttled = has_throttled || world->view_running[i].is_throttled;
        has_work = has_work || !world->view_running[i].is_throttled;
    }
    if ((has_work || (world->shown_count > 0 && !has_throttled)) && world->plan.paused == 0)
        assert_true(world->plan.rows > 0);
}

static void check_bound(struct world *world)
{
    const struct scheduler_client *clients = world->fair.clients;
    for (uint32_t a = 0; a < world->fair.used; a++) {
        for (uint32_t b = 0; b < a; b++) {
            if (!clients[a].is_backlogged || !clients[b].is_backlogged ||
                clients[a].service_class != clients[b].service_class) {
                world->spread_since[a][b] = 0;
                continue;
            }
            uint32_t weight =
                clients[a].weight < clients[b].weight ? clients[a].weight : clients[b].weight;
            double spread = clients[a].served - clients[b].served;
            if (world->spread_since[a][b] == 0) {
                world->spread_since[a][b] = 1;
                world->spread_least[a][b] = world->spread_most[a][b] = spread;
            }
            world->spread_least[a][b] = fmin(world->spread_least[a][b], spread);
            world->spread_most[a][b] = fmax(world->spread_most[a][b], spread);
            double range = world->spread_most[a][b] - world->spread_least[a][b];
            double bound = 2 * scheduler_fair_slack(&world->fair, weight);
            assert_true(range <= bound);
            assert_true(fabs(spread) <= bound);
        }
    }
}

static void do_pauses(struct world *world)
{
    for (uint32_t i = 0; i < world->running_count; i++) {
        struct job *job = &world->jobs[world->running[i]];
        const struct scheduler_grant *grant = &world->grants[i];
        if (grant->act != SCHEDULER_PAUSE)
            continue;
        assert_int_equal(grant->rows, 0);
        assert_true(job->pages > 0);
        /* Nobody is paused for a lower class but who computes nothing anyway. */
        assert_true(grant->for_class <= job->service_class || job->is_throttled);
        if (grant->why == SCHEDULER_FOR_CLASS)
            assert_true(grant->for_class < job->service_class);
        world->pauses[grant->why]++;
        world->pages_free += job->pages;
        job->pages = 0;
        if (!world->swaps)
            job->computed = 0;
    }
}

static void do_admissions(struct world *world)
{
    uint32_t was = world->running_count;
    uint32_t held[SERVICE_CLASS_COUNT] = {0};
    for (uint32_t i = 0; i < world->shown_count; i++) {
        struct job *job = &world->jobs[world->shown[i]];
        if (world->grants[was + i].act != SCHEDULER_ADMIT)
            continue;
        assert_true(world->grants[was + i].rows > 0);
        for (uint32_t j = 0; j < i; j++)
            if (world->grants[was + j].act != SCHEDULER_ADMIT &&
                world->jobs[world->shown[j]].client == job->client)
                world->jobs[world->shown[j]].passed++;
        job->state = JOB_RUNNING;
        job->computed = job->cached;
        job->charged = job->cached;
        scheduler_fair_charge(&world->fair, job->client, job->cached * SCHEDULER_PRICE_CACHED);
        world->grants[world->running_count] = world->grants[was + i];
        world->running[world->running_count++] = world->shown[i];
    }
    assert_true(world->running_count <= 4 * world->sequences_max);
    for (uint32_t i = 0; i < world->running_count; i++)
        held[world->jobs[world->running[i]].service_class]++;
    for (uint32_t c = 0; c < SERVICE_CLASS_COUNT; c++)
        assert_true(held[c] <= 2 * world->sequences_max);
}

static void do_rows(struct world *world)
{
    uint32_t rows = 0;
    uint32_t computing = 0;
    for (uint32_t i = 0; i < world->running_count; i++) {
        struct job *job = &world->jobs[world->running[i]];
        uint32_t granted = world->grants[i].rows;
        uint32_t tokens = job->prompt + job->generated;
        if (!job->is_throttled && granted == 0)
            continue;
        scheduler_fair_charge_pages(&world->fair, job->client, job->pages * PAGE_TOKENS);
        if (granted == 0)
            continue;
        assert_false(job->is_throttled);
        rows += granted;
        computing++;
        uint32_t end = job->computed + granted;
        assert_true(end <= tokens);
        if (job->pages == 0)
            job->quantum = SCHEDULER_QUANTUM_STEPS;
        uint32_t pages = pages_for(end);
        if (pages > job->pages) {
            assert_true(pages - job->pages <= world->pages_free);
            world->pages_free -= pages - job->pages;
            job->pages = pages;
        }
        uint32_t from = job->charged > job->computed ? job->charged : job->computed;
        if (job->generated == 0 && end > from) {
            scheduler_fair_charge(&world->fair, job->client, end - from);
            job->charged = end;
        }
        job->quantum -= job->quantum > 0;
        job->computed = end;
        if (end == tokens) {
            job->generated++;
            scheduler_fair_charge(&world->fair, job->client, SCHEDULER_PRICE_GENERATED);
        }
    }
    assert_true(rows <= world->rows_max);
    assert_int_equal(rows, world->plan.rows);
    assert_true(computing <= world->sequences_max);
}

static void do_ends(struct world *world)
{
    uint32_t kept = 0;
    uint32_t held = 0;
    for (uint32_t i = 0; i < world->running_count; i++) {
        struct job *job = &world->jobs[world->running[i]];
        if (job->generated < job->generate) {
            world->running[kept++] = world->running[i];
            held += job->pages;
            continue;
        }
        world->pages_free += job->pages;
        job->pages = 0;
        job->state = JOB_ENDED;
        world->ended++;
        scheduler_fair_leave(&world->fair, job->client);
    }
    world->running_count = kept;
    assert_int_equal(held + world->pages_free, world->pages_total);
}

static void step(struct world *world)
{
    step_plan(world);
    check_not_idle(world);
    do_pauses(world);
    do_admissions(world);
    do_rows(world);
    check_bound(world);
    do_ends(world);
    world->step++;
}

/* --- worlds --- */

static void world_make(struct world *world, uint64_t seed)
{
    memset(world, 0, sizeof(*world));
    world->rng.seed = seed;
    struct rng *rng = &world->rng;
    world->context = 64;
    world->sequences_max = 1 + (uint32_t)rng_below(rng, COMPUTING_MAX);
    world->rows_max = 4 + (uint32_t)rng_below(rng, 60);
    world->pages_total = pages_for(world->context) + 1 + (uint32_t)rng_below(rng, 60);
    world->pages_free = world->pages_total;
    world->swaps = rng_below(rng, 2) == 0;
    const struct scheduler_fair_options options = {
        .clients = JOBS_MAX,
        .quantum = 1 + (uint32_t)rng_below(rng, 200),
        .floor_percent = (uint32_t)rng_below(rng, 3) * 5,
        .rows_max = world->rows_max,
        .sequences_max = world->sequences_max,
        .context = world->context,
    };
    assert_int_equal(scheduler_fair_init(&world->fair, &options), STATUS_OK);
}

static void world_add(struct world *world, uint32_t tenant, enum service_class service_class,
                      uint32_t weight, uint64_t arrival, uint32_t prompt, uint32_t generate)
{
    const struct engine_domain name = {.bytes = {(uint8_t)(tenant + 1)}};
    assert_true(world->job_count < JOBS_MAX);
    world->jobs[world->job_count++] = (struct job){
        .tenant = tenant,
        .client = scheduler_fair_enter(&world->fair, &name, service_class, weight),
        .service_class = service_class,
        .arrival = arrival,
        .prompt = prompt,
        .generate = generate,
        .cached = rng_below(&world->rng, 3) == 0 ? (uint32_t)rng_below(&world->rng, prompt) : 0,
    };
}

static void world_fill(struct world *world)
{
    struct rng *rng = &world->rng;
    uint32_t tenants = 1 + (uint32_t)rng_below(rng, CLIENTS_MAX);
    uint32_t classes = 1 + (uint32_t)rng_below(rng, SERVICE_CLASS_COUNT);
    uint32_t weights[CLIENTS_MAX];
    for (uint32_t i = 0; i < tenants; i++)
        weights[i] = rng_below(rng, 2) == 0 ? 100 : 1 + (uint32_t)rng_below(rng, 1000);
    uint64_t spread = rng_below(rng, 2) == 0 ? 1 : 400;
    uint32_t jobs = 20 + (uint32_t)rng_below(rng, JOBS_MAX - 20);
    for (uint32_t i = 0; i < jobs; i++) {
        uint32_t tenant = (uint32_t)rng_below(rng, tenants);
        uint32_t prompt = 1 + (uint32_t)rng_below(rng, world->context - 1);
        world_add(world, tenant, (enum service_class)rng_below(rng, classes), weights[tenant],
                  rng_below(rng, spread), prompt,
                  1 + (uint32_t)rng_below(rng, world->context - prompt));
    }
    world->has_slow_readers = rng_below(rng, 3) == 0;
}

static struct world world; /* large */

static void world_run(uint64_t seed, uint64_t *pauses)
{
    world_make(&world, seed);
    world_fill(&world);
    uint64_t work = 1000;
    for (uint32_t i = 0; i < world.job_count; i++)
        work += world.jobs[i].prompt + world.jobs[i].generate;
    while (world.ended < world.job_count) {
        if (world.step > 30 * work)
            fail_msg("seed %llu: no end", (unsigned long long)seed);
        for (uint32_t i = 0; world.has_slow_readers && i < world.running_count; i++) {
            struct job *job = &world.jobs[world.running[i]];
            if (rng_below(&world.rng, 16) == 0)
                job->is_throttled = !job->is_throttled && world.step < 10 * work;
        }
        step(&world);
    }
    assert_int_equal(world.pages_free, world.pages_total);
    for (uint32_t i = 0; i < 3; i++)
        pauses[i] += world.pauses[i];
    scheduler_fair_deinit(&world.fair);
}

static void test_random_worlds(void **state)
{
    (void)state;
    uint64_t pauses[3] = {0};
    for (uint64_t seed = 1; seed <= 500; seed++)
        world_run(seed, pauses);
    for (uint32_t i = 0; i < 3; i++)
        assert_true(pauses[i] > 0); /* each reason did occur */
}

/* --- endless worlds: whoever ends is followed by another --- */

static void endless_make(uint64_t seed, uint32_t sequences, uint32_t rows_max, uint32_t pages)
{
    world_make(&world, seed);
    scheduler_fair_deinit(&world.fair);
    world.sequences_max = sequences;
    world.rows_max = rows_max;
    world.pages_total = world.pages_free = pages;
    const struct scheduler_fair_options options = {.clients = JOBS_MAX,
                                                   .quantum = 64,
                                                   .floor_percent = 5,
                                                   .rows_max = rows_max,
                                                   .sequences_max = sequences,
                                                   .context = world.context};
    assert_int_equal(scheduler_fair_init(&world.fair, &options), STATUS_OK);
}

/* Each tenant has as many requests as it is asked for, always. */
static void endless_step(const uint32_t *weights, const enum service_class *classes,
                         const uint32_t *wanted, uint32_t tenants)
{
    uint32_t waiting[CLIENTS_MAX] = {0};
    for (uint32_t i = 0; i < world.job_count;) {
        if (world.jobs[i].state == JOB_ENDED) {
            world.jobs[i] = world.jobs[--world.job_count];
            for (uint32_t r = 0; r < world.running_count; r++)
                if (world.running[r] == world.job_count)
                    world.running[r] = i;
            continue;
        }
        waiting[world.jobs[i].tenant] += world.jobs[i].state == JOB_WAITING;
        i++;
    }
    for (uint32_t t = 0; t < tenants; t++)
        for (uint32_t n = waiting[t]; n < wanted[t]; n++)
            world_add(&world, t, classes[t], weights[t], 0, 1 + (uint32_t)rng_below(&world.rng, 40),
                      1 + (uint32_t)rng_below(&world.rng, 24));
    step(&world);
}

/* Tenants of any weights with work for ever: check_bound holds throughout. */
static void test_endless_tenants(void **state)
{
    (void)state;
    uint64_t pauses = 0;
    for (uint64_t seed = 1; seed <= 60; seed++) {
        struct rng rng = {.seed = seed};
        endless_make(seed, 1 + (uint32_t)rng_below(&rng, COMPUTING_MAX),
                     8 + (uint32_t)rng_below(&rng, 50), 20 + (uint32_t)rng_below(&rng, 80));
        uint32_t tenants = 2 + (uint32_t)rng_below(&rng, 3);
        uint32_t weights[CLIENTS_MAX];
        uint32_t wanted[CLIENTS_MAX];
        enum service_class classes[CLIENTS_MAX];
        for (uint32_t t = 0; t < tenants; t++) {
            weights[t] = 20 + (uint32_t)rng_below(&rng, 400);
            wanted[t] = 1 + (uint32_t)rng_below(&rng, 4);
            classes[t] = SERVICE_CLASS_STANDARD;
        }
        for (uint32_t n = 0; n < 2000; n++)
            endless_step(weights, classes, wanted, tenants);
        pauses += world.pauses[SCHEDULER_FOR_CLIENT];
        scheduler_fair_deinit(&world.fair);
    }
    assert_true(pauses > 0);
}

/* While the highest class floods everything, the others have their floors in every second. */
static void test_floors(void **state)
{
    (void)state;
    static const uint32_t weights[] = {100, 100, 100};
    static const uint32_t wanted[] = {8, 3, 3};
    static const enum service_class classes[] = {SERVICE_CLASS_REALTIME, SERVICE_CLASS_STANDARD,
                                                 SERVICE_CLASS_BATCH};
    enum { SECOND = 1000000 / STEP_US };
    for (uint64_t seed = 1; seed <= 20; seed++) {
        uint32_t rows[SECOND][SERVICE_CLASS_COUNT];
        uint32_t sums[SERVICE_CLASS_COUNT] = {0};
        /* Of few pages the highest class leaves some free in bursts, which others fill. */
        endless_make(seed, 8, 40, seed % 2 == 0 ? 400 : 24);
        for (uint32_t n = 0; n < 20 * SECOND; n++) {
            endless_step(weights, classes, wanted, 3);
            uint32_t all = 0;
            for (uint32_t c = 0; c < SERVICE_CLASS_COUNT; c++) {
                sums[c] += world.plan.done.rows[c] - (n >= SECOND ? rows[n % SECOND][c] : 0);
                rows[n % SECOND][c] = world.plan.done.rows[c];
                all += sums[c];
            }
            for (uint32_t c = SERVICE_CLASS_STANDARD; n >= SECOND && c <= SERVICE_CLASS_BATCH; c++)
                assert_true(sums[c] + world.rows_max / 2 >= all / 20);
        }
        assert_true(sums[SERVICE_CLASS_REALTIME] > sums[SERVICE_CLASS_STANDARD]);
        scheduler_fair_deinit(&world.fair);
    }
}

/* A light tenant under a flood: it comes in with the step that sees it, and no pages are taken. */
static void test_light_tenant(void **state)
{
    (void)state;
    static const uint32_t weights[] = {100, 100};
    static const enum service_class classes[] = {SERVICE_CLASS_STANDARD, SERVICE_CLASS_STANDARD};
    endless_make(7, 4, 40, 400);
    for (uint32_t n = 0; n < 400; n++) {
        const uint32_t wanted[] = {40, n % 50 == 49};
        endless_step(weights, classes, wanted, 2);
        for (uint32_t i = 0; n % 50 == 49 && i < world.job_count; i++)
            if (world.jobs[i].tenant == 1)
                assert_int_not_equal(world.jobs[i].state, JOB_WAITING);
    }
    assert_int_equal(world.pauses[0] + world.pauses[1] + world.pauses[2], 0);
    scheduler_fair_deinit(&world.fair);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_worlds),
        cmocka_unit_test(test_endless_tenants),
        cmocka_unit_test(test_floors),
        cmocka_unit_test(test_light_tenant),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
