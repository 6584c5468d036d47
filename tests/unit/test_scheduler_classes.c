/* Random worlds of classes, clients and weights: the plan is carried out, and at every step the
 * properties of a schedule are checked. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "config/base/rng.h"
#include "engine/scheduler.h"

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
        .pages_back = job->pages,
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
        .pages_available = world->pages_free,
        .pages_total = world->pages_total,
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
        scheduler_fair_charge_pages(&world->fair, job->client, job->pages);
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

/* --- single plans --- */

enum { CLIENT_RED, CLIENT_BLUE, CLIENT_URGENT, CLIENTS };

struct table {
    struct scheduler_fair fair;
    struct scheduler_sequence running[4];
    struct scheduler_sequence waiting[4];
    struct scheduler_grant grants[8];
    struct scheduler_plan plan;
    struct scheduler_input input;
};

static void table_make(struct table *table)
{
    const struct scheduler_fair_options options = {.clients = CLIENTS,
                                                   .quantum = 10,
                                                   .floor_percent = 5,
                                                   .rows_max = 64,
                                                   .sequences_max = 4,
                                                   .context = 64};
    static const enum service_class classes[CLIENTS] = {SERVICE_CLASS_BATCH, SERVICE_CLASS_BATCH,
                                                        SERVICE_CLASS_REALTIME};
    *table = (struct table){0};
    assert_int_equal(scheduler_fair_init(&table->fair, &options), STATUS_OK);
    for (uint32_t c = 0; c < CLIENTS; c++) {
        const struct engine_domain tenant = {.bytes = {(uint8_t)(c + 1)}};
        assert_int_equal(scheduler_fair_enter(&table->fair, &tenant, classes[c], 100), c);
    }
    table->input = (struct scheduler_input){.fair = &table->fair,
                                            .running = table->running,
                                            .waiting = table->waiting,
                                            .sequences_max = 4,
                                            .places = 16,
                                            .pages_available = 40,
                                            .pages_total = 40,
                                            .page_tokens = PAGE_TOKENS,
                                            .rows_max = 64,
                                            .logit_rows_max = 64};
}

static void table_run(struct table *table, uint32_t client, uint32_t tokens)
{
    table->running[table->input.running_count++] = (struct scheduler_sequence){
        .tokens = tokens,
        .computed = tokens - 1,
        .pages = pages_for(tokens),
        .pages_back = pages_for(tokens),
        .logits_from = tokens - 1,
        .charge_from = tokens,
        .client = client,
        .service_class = table->fair.clients[client].service_class,
    };
    table->input.pages_available -= pages_for(tokens);
}

static struct scheduler_sequence *table_wait(struct table *table, uint32_t client, uint32_t tokens)
{
    struct scheduler_sequence *waiting = &table->waiting[table->input.waiting_count++];
    *waiting = (struct scheduler_sequence){
        .tokens = tokens,
        .logits_from = tokens - 1,
        .client = client,
        .service_class = table->fair.clients[client].service_class,
    };
    return waiting;
}

static void table_plan(struct table *table)
{
    scheduler_plan(&table->input, &table->plan, table->grants);
}

/* The least computed batch sequence gives way, and only when that is enough. */
static void test_urgent_takes_pages(void **state)
{
    (void)state;
    struct table table;
    table_make(&table);
    table_run(&table, CLIENT_RED, 40);
    table_run(&table, CLIENT_BLUE, 40);
    table_run(&table, CLIENT_RED, 20);
    table.input.pages_available = 4;
    struct scheduler_sequence *urgent = table_wait(&table, CLIENT_URGENT, 30);
    table_plan(&table);
    assert_int_equal(table.grants[3].act, SCHEDULER_ADMIT);
    assert_int_equal(table.grants[3].rows, 30);
    assert_int_equal(table.plan.paused, 1);
    assert_int_equal(table.grants[2].act, SCHEDULER_PAUSE);
    assert_int_equal(table.grants[2].why, SCHEDULER_FOR_CLASS);
    assert_int_equal(table.grants[0].rows, 0); /* put off beside its prompt, with their pages */
    assert_int_equal(table.grants[0].act, SCHEDULER_STAY);

    urgent->tokens = 4 * 40;
    urgent->logits_from = 4 * 40 - 1;
    table_plan(&table);
    assert_int_equal(table.plan.paused, 0);
    assert_int_equal(table.plan.admitted, 0);
    assert_int_equal(table.plan.rows, 3);

    urgent->tokens = 30;
    urgent->logits_from = 29;
    table.input.is_preemption_off = true;
    table_plan(&table);
    assert_int_equal(table.plan.paused, 0);
    assert_int_equal(table.plan.admitted, 0);
    scheduler_fair_deinit(&table.fair);
}

/* A class keeps its oldest sequence within its floor's part of the pages, whoever asks for them. */
static void test_floor_keeps_pages(void **state)
{
    (void)state;
    struct table table;
    table_make(&table);
    table_run(&table, CLIENT_RED, 2 * PAGE_TOKENS);
    table_run(&table, CLIENT_RED, 5 * PAGE_TOKENS);
    table.input.pages_available = 0;
    struct scheduler_sequence *urgent = table_wait(&table, CLIENT_URGENT, 2 * PAGE_TOKENS + 2);
    table_plan(&table);
    assert_int_equal(table.grants[0].act, SCHEDULER_STAY);
    assert_int_equal(table.grants[1].act, SCHEDULER_PAUSE);
    assert_int_equal(table.grants[2].act, SCHEDULER_ADMIT);
    urgent->tokens = 6 * PAGE_TOKENS;
    urgent->logits_from = urgent->tokens - 1;
    table_plan(&table);
    assert_int_equal(table.plan.paused, 0);
    assert_int_equal(table.plan.admitted, 0);
    table.input.pages_total = 39; /* of which 5 % are one page */
    table_plan(&table);
    assert_int_equal(table.plan.paused, 2);
    assert_int_equal(table.grants[2].act, SCHEDULER_ADMIT);
    scheduler_fair_deinit(&table.fair);
}

/* Pages that a pause gives back are not found at no cost too, in the same plan. */
static void test_found_may_be_paused(void **state)
{
    (void)state;
    for (uint32_t is_shared = 0; is_shared < 2; is_shared++) {
        struct table table;
        table_make(&table);
        table_run(&table, CLIENT_RED, 5 * PAGE_TOKENS);
        table.input.pages_available = 2;
        struct scheduler_sequence *urgent = table_wait(&table, CLIENT_URGENT, 5 * PAGE_TOKENS - 1);
        urgent->computed = urgent->charge_from = 2 * PAGE_TOKENS;
        urgent->found_pages = 2;
        urgent->is_found_shared = is_shared == 1;
        table_plan(&table);
        assert_int_equal(table.grants[0].act, SCHEDULER_PAUSE);
        assert_int_equal(table.plan.admitted, is_shared == 0);
        scheduler_fair_deinit(&table.fair);
    }
}

/* The last free page goes to the urgent one that runs, not to a floor that has its part. */
static void test_floor_takes_no_page(void **state)
{
    (void)state;
    struct scheduler_fair_step done = {.rows = {100}, .has_work = {true, false, true}};
    struct table table;
    table_make(&table);
    scheduler_fair_tick(&table.fair, 0, &done);
    assert_int_equal(scheduler_fair_owed(&table.fair, SERVICE_CLASS_BATCH), 5);
    table_run(&table, CLIENT_RED, 3 * PAGE_TOKENS + 1);
    table_run(&table, CLIENT_URGENT, 2 * PAGE_TOKENS + 1);
    table.running[0].pages = table.running[0].pages_back = 3;
    table.running[1].pages = table.running[1].pages_back = 2;
    table.input.pages_available = 1;
    table_plan(&table);
    assert_int_equal(table.grants[0].rows, 0);
    assert_int_equal(table.grants[1].rows, 1);
    assert_int_equal(table.plan.paused, 0);
    table.input.pages_available = 2;
    table_plan(&table);
    assert_int_equal(table.grants[0].rows, 1);
    assert_int_equal(table.grants[1].rows, 1);
    scheduler_fair_deinit(&table.fair);
}

/* Who waits takes the pages of a client of its class that has had more by U + Q, not before. */
static void test_client_over_gives_way(void **state)
{
    (void)state;
    struct table table;
    table_make(&table);
    table_run(&table, CLIENT_RED, 40);
    table_run(&table, CLIENT_RED, 24);
    table.input.pages_available = 2;
    table_wait(&table, CLIENT_BLUE, 20);
    table_plan(&table);
    assert_int_equal(table.plan.paused, 0);
    assert_int_equal(table.plan.admitted, 0);
    scheduler_fair_charge(&table.fair, CLIENT_RED, scheduler_fair_slack(&table.fair, 100));
    table_plan(&table);
    assert_int_equal(table.grants[1].act, SCHEDULER_PAUSE);
    assert_int_equal(table.grants[1].why, SCHEDULER_FOR_CLIENT);
    assert_int_equal(table.grants[2].act, SCHEDULER_ADMIT);
    assert_int_equal(table.grants[0].act, SCHEDULER_STAY);
    scheduler_fair_deinit(&table.fair);
}

/* A quantum protects whoever came lately from its equals, until its client has had all it may. */
static void test_quantum_ends_at_the_limit(void **state)
{
    (void)state;
    struct table table;
    table_make(&table);
    table_run(&table, CLIENT_RED, 40);
    table.running[0].is_resumed_lately = true;
    table.input.pages_available = 2;
    table_wait(&table, CLIENT_BLUE, 20);
    double slack = scheduler_fair_slack(&table.fair, 100);
    scheduler_fair_charge(&table.fair, CLIENT_RED, slack - 20);
    table_plan(&table);
    assert_true(table.fair.clients[CLIENT_RED].is_over);
    assert_int_equal(table.plan.paused, 0);
    scheduler_fair_charge(&table.fair, CLIENT_RED, 20);
    table_plan(&table);
    assert_int_equal(table.grants[0].act, SCHEDULER_PAUSE);
    assert_int_equal(table.grants[1].act, SCHEDULER_ADMIT);
    scheduler_fair_deinit(&table.fair);
}

/* Half of a step's rows stay for more urgent work, whatever a floor is owed; of a class those who
 * are not over have what it is owed first. */
static void test_floor_in_half_a_step(void **state)
{
    (void)state;
    struct scheduler_fair_step done = {.rows = {4000}, .has_work = {true, false, true}};
    struct table table;
    table_make(&table);
    scheduler_fair_tick(&table.fair, 0, &done);
    assert_int_equal(scheduler_fair_owed(&table.fair, SERVICE_CLASS_BATCH), 200);
    for (uint32_t i = 0; i < 2; i++) {
        table_run(&table, i == 0 ? CLIENT_RED : CLIENT_BLUE, 50);
        table.running[i].computed = table.running[i].charge_from = 2;
    }
    table_wait(&table, CLIENT_URGENT, 60);
    table_wait(&table, CLIENT_BLUE, 10);
    scheduler_fair_charge(&table.fair, CLIENT_RED, scheduler_fair_slack(&table.fair, 100));
    table.input.pages_available = 40;
    table_plan(&table);
    assert_true(table.fair.clients[CLIENT_RED].is_over);
    assert_int_equal(table.grants[0].rows, 0);
    assert_int_equal(table.grants[1].rows, 32);
    assert_int_equal(table.grants[2].rows, 32);
    scheduler_fair_deinit(&table.fair);
}

/* The longest match comes in first, the client that has had less when they are equal, and one that
 * was passed by often enough before its client's others. */
static void test_who_comes_in(void **state)
{
    (void)state;
    struct table table;
    table_make(&table);
    table_wait(&table, CLIENT_RED, 60);
    struct scheduler_sequence *second = table_wait(&table, CLIENT_RED, 60);
    second->computed = second->charge_from = 8;
    second->found_pages = second->found_cost = 2;
    table.input.pages_available = 20;
    table_plan(&table);
    assert_int_equal(table.grants[0].act, SCHEDULER_STAY);
    assert_int_equal(table.grants[1].act, SCHEDULER_ADMIT);
    table.waiting[0].passed = SCHEDULER_PASSED_MAX;
    table_plan(&table);
    assert_int_equal(table.grants[0].act, SCHEDULER_ADMIT);
    assert_int_equal(table.grants[1].act, SCHEDULER_STAY);

    table_wait(&table, CLIENT_BLUE, 60);
    second->computed = second->found_pages = second->found_cost = 0;
    scheduler_fair_charge(&table.fair, CLIENT_RED, 5);
    table_plan(&table);
    assert_int_equal(table.grants[2].act, SCHEDULER_ADMIT);
    scheduler_fair_deinit(&table.fair);
}

/* With one place in the step left to share, each client has one, whoever came first. */
static void test_places_are_shared(void **state)
{
    (void)state;
    struct table table;
    table_make(&table);
    table.input.sequences_max = 2;
    table_run(&table, CLIENT_RED, 9);
    table_run(&table, CLIENT_RED, 9);
    table_wait(&table, CLIENT_BLUE, 10);
    table_plan(&table);
    assert_int_equal(table.grants[2].act, SCHEDULER_ADMIT);
    assert_int_equal(table.grants[0].rows, 1);
    assert_int_equal(table.grants[1].rows, 0);
    assert_int_equal(table.grants[1].act, SCHEDULER_STAY);
    scheduler_fair_deinit(&table.fair);
}

/* The prompt of a client's only sequence has the step nearly for itself; when it cannot come in, or
 * its client has had more by a quantum, the decodes that would make way go on. */
static void test_first_prompt(void **state)
{
    (void)state;
    struct table table;
    table_make(&table);
    for (uint32_t i = 0; i < 3; i++)
        table_run(&table, CLIENT_RED, 10);
    table_wait(&table, CLIENT_BLUE, 30);
    table_plan(&table);
    assert_int_equal(table.grants[3].act, SCHEDULER_ADMIT);
    assert_int_equal(table.grants[3].rows, 30);
    assert_int_equal(table.plan.rows, 31);
    assert_int_equal(table.grants[0].rows, 1);
    table.input.is_preemption_off = true;
    table_plan(&table);
    assert_int_equal(table.plan.rows, 33);
    table.input.is_preemption_off = false;
    table.input.pages_available = 4;
    table_plan(&table);
    assert_int_equal(table.plan.admitted, 0);
    assert_int_equal(table.plan.rows, 3);
    table.input.pages_available = 20;
    scheduler_fair_charge(&table.fair, CLIENT_BLUE, 15);
    table_plan(&table);
    assert_int_equal(table.plan.rows, 33);

    /* The second sequence of a client is not its first. */
    scheduler_fair_charge(&table.fair, CLIENT_RED, 15);
    table_run(&table, CLIENT_BLUE, 10);
    table_plan(&table);
    assert_int_equal(table.grants[1].rows, 1);
    scheduler_fair_deinit(&table.fair);
}

/* Where several clients ask a step is half as long, but for a first prompt; later whole again. */
static void test_half_a_step(void **state)
{
    (void)state;
    struct table table;
    table_make(&table);
    table.input.cost.row_us = 1;
    table.input.budget_us = 90;
    table_run(&table, CLIENT_RED, 1);
    table_wait(&table, CLIENT_RED, 60);
    table_plan(&table);
    assert_int_equal(table.grants[1].rows, 44);
    table_wait(&table, CLIENT_BLUE, 60);
    table_plan(&table);
    assert_int_equal(table.grants[2].rows, 60);
    table.input.waiting_count = 1;
    scheduler_fair_tick(&table.fair, 61 * (int64_t)1000000, NULL);
    table_plan(&table);
    assert_int_equal(table.grants[1].rows, 60);
    scheduler_fair_deinit(&table.fair);
}

/* Without a realtime row a step is shorter still, for first prompts too. */
static void test_urgent_limit(void **state)
{
    (void)state;
    struct table table;
    table_make(&table);
    table.input.cost.row_us = 1;
    table.input.budget_us = 90;
    table.input.urgent_us = 40;
    table_wait(&table, CLIENT_RED, 60);
    table_plan(&table);
    assert_int_equal(table.grants[0].rows, 40);
    scheduler_fair_deinit(&table.fair);
}

/* Who comes in leaves a lower class that has work its floor's part of the pages. */
static void test_room_for_a_floor(void **state)
{
    (void)state;
    struct table table;
    table_make(&table);
    table_run(&table, CLIENT_RED, 10);
    table.running[0].computed = table.running[0].pages = table.running[0].pages_back = 0;
    table_run(&table, CLIENT_URGENT, 5); /* grows by a page */
    table_wait(&table, CLIENT_URGENT, 10 * PAGE_TOKENS - 1);
    table.input.pages_available = 12;
    table_plan(&table);
    assert_int_equal(table.plan.admitted, 0);
    table.input.pages_available = 13;
    table_plan(&table);
    assert_int_equal(table.grants[2].act, SCHEDULER_ADMIT);
    scheduler_fair_deinit(&table.fair);
}

/* Of 16 places a class has 8 at most; whose readers have stopped gets half of those left. */
static void test_stopped_readers(void **state)
{
    (void)state;
    struct table table;
    table_make(&table);
    for (uint32_t i = 0; i < 4; i++)
        table_run(&table, CLIENT_RED, 5);
    for (uint32_t i = 0; i < 4; i++)
        table.running[i].is_throttled = true;
    table_wait(&table, CLIENT_RED, 10);
    table_wait(&table, CLIENT_BLUE, 10);
    table_plan(&table);
    assert_int_equal(table.grants[4].act, SCHEDULER_STAY);
    assert_int_equal(table.grants[5].act, SCHEDULER_ADMIT);
    scheduler_fair_deinit(&table.fair);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_worlds),
        cmocka_unit_test(test_endless_tenants),
        cmocka_unit_test(test_floors),
        cmocka_unit_test(test_light_tenant),
        cmocka_unit_test(test_urgent_takes_pages),
        cmocka_unit_test(test_floor_keeps_pages),
        cmocka_unit_test(test_found_may_be_paused),
        cmocka_unit_test(test_floor_takes_no_page),
        cmocka_unit_test(test_client_over_gives_way),
        cmocka_unit_test(test_quantum_ends_at_the_limit),
        cmocka_unit_test(test_floor_in_half_a_step),
        cmocka_unit_test(test_who_comes_in),
        cmocka_unit_test(test_places_are_shared),
        cmocka_unit_test(test_first_prompt),
        cmocka_unit_test(test_half_a_step),
        cmocka_unit_test(test_urgent_limit),
        cmocka_unit_test(test_room_for_a_floor),
        cmocka_unit_test(test_stopped_readers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
