#include "tests/sim/sim_load.h"

#include <string.h>

#include "config/base/hash.h"
#include "tests/sim/sim_model.h"

enum { PAGE_TOKENS = SIM_PAGE, CONTEXT_PAGES = SIM_CONTEXT / SIM_PAGE, SYSTEM_PROMPTS = 2 };

#define FRESH     SIM_SOURCE_FRESH
#define SYSTEM    SIM_SOURCE_SYSTEM
#define CHAT      SIM_SOURCE_CHAT
#define AGAIN     SIM_SOURCE_AGAIN
#define TWIST     SIM_SOURCE_TWIST
#define PUBLISHED SIM_SOURCE_PUBLISHED
#define PUBLISH   SIM_SOURCE_PUBLISH
static const struct sim_knobs KINDS[] = {
#define SIM_KIND(name, ...) {.kind = #name, __VA_ARGS__},
#include "tests/sim/sim_kinds.def"
#undef SIM_KIND
};

/* The last two kinds run only by name, so that the seeds of the others keep their runs. */
enum { KINDS_ALL = sizeof(KINDS) / sizeof(KINDS[0]), KINDS_COUNT = KINDS_ALL - 2 };

uint32_t sim_load_kind_count(void)
{
    return KINDS_COUNT;
}

uint32_t sim_load_kind_find(const char *name)
{
    uint32_t kind = 0;
    while (kind < KINDS_ALL && strcmp(KINDS[kind].kind, name) != 0)
        kind++;
    return kind;
}

const char *sim_load_kind_name(uint32_t kind)
{
    return kind < KINDS_ALL ? KINDS[kind].kind : NULL;
}

/* Returns a number between half and one and a half of the typical one. */
static uint32_t knobs_around(struct rng *rng, uint32_t typical, uint32_t least, uint32_t most)
{
    uint32_t drawn = (uint32_t)(typical / 2 + rng_below(rng, typical + 1));
    drawn = drawn > least ? drawn : least;
    return drawn < most ? drawn : most;
}

void sim_load_knobs(struct sim_knobs *out, uint64_t seed, uint32_t kind,
                    const struct sim_machine *machine)
{
    const uint32_t larger = machine->page_tokens / SIM_PAGE;
    struct rng rng = {.seed = hash_mix64(seed + 1)};
    *out = KINDS[kind];
    out->machine = *machine;
    out->tenants = knobs_around(&rng, out->tenants, 2, SIM_TENANTS_MAX);
    out->groups = knobs_around(&rng, out->groups, 1, SIM_TENANTS_MAX);
    out->published =
        out->published == 0 ? 0 : knobs_around(&rng, out->published, 1, SIM_PUBLISHED_MAX);
    if (out->rush == 0)
        out->requests = knobs_around(&rng, out->requests, 8, SIM_REQUESTS_MAX);
    out->slow = out->slow == 0 ? 1 : knobs_around(&rng, out->slow, 1, 1000);
    out->pages = CONTEXT_PAGES + knobs_around(&rng, out->pages, 0, 1000);
    out->pages = (out->pages + larger - 1) / larger;
    out->host_pages = knobs_around(&rng, out->host_pages, 0, 1000) / larger;
    out->gap_us = out->slow * knobs_around(&rng, out->gap_us, 1, 1000000);
    static const uint32_t rows[] = {4, 16, 40, 64, 256};
    out->rows_max = rows[rng_below(&rng, sizeof(rows) / sizeof(rows[0]))];
    out->sequences_max = (uint32_t)(1 + rng_below(&rng, 8));
    static const uint32_t percents[] = {0, 20, 50, 90};
    out->pin_percent = percents[rng_below(&rng, 4)];
    static const uint32_t modes[] = {ENGINE_BATCHING_CONTINUOUS, ENGINE_BATCHING_CONTINUOUS,
                                     ENGINE_BATCHING_CONTINUOUS, ENGINE_BATCHING_CONTINUOUS,
                                     ENGINE_BATCHING_WINDOW,     ENGINE_BATCHING_STATIC};
    out->batching = modes[rng_below(&rng, 6)];
    out->is_uncached = rng_below(&rng, 20) == 0;
    static const uint32_t budgets[] = {0, 1, 2, 10};
    out->step_ms = out->slow * budgets[rng_below(&rng, 4)];
    out->urgent_step_ms = out->slow * (uint32_t)(1 + rng_below(&rng, 3));
    /* all decodes in every step, the time of two rows, of five */
    static const uint32_t shared_us[] = {0, 260, 320};
    out->shared_us = out->slow * shared_us[seed % 3];
    static const uint32_t quanta[] = {1, 16, 64, 256, 1024};
    out->fair_quantum = quanta[rng_below(&rng, 5)];
    static const uint32_t floors[] = {5, 5, 5, 0, 10, 20};
    out->floor_percent = floors[rng_below(&rng, 6)];
    out->preemption = (uint32_t)rng_below(&rng, 4);
    if (out->rush == 0)
        return;
    out->tenants = 2;
    out->batching = ENGINE_BATCHING_CONTINUOUS;
    out->preemption %= ENGINE_PREEMPTION_OFF; /* without preemption nothing is promised */
}

uint32_t sim_load_weight(const struct sim_knobs *knobs, struct rng *rng)
{
    static const uint32_t weights[] = {10, 25, 50, 200, 400, 1000};
    uint32_t drawn = weights[rng_below(rng, 6)];
    return rng_below(rng, 1000) < knobs->weights ? drawn : 100;
}

uint32_t sim_load_sometimes(struct rng *rng, uint32_t permille, uint32_t bound)
{
    uint32_t drawn = (uint32_t)rng_below(rng, bound);
    return rng_below(rng, 1000) < permille ? drawn : SIM_NEVER;
}

/* Returns one of `count` indexes by weight. */
static uint32_t draw_weighted(const uint32_t *weights, uint32_t count, struct rng *rng)
{
    uint32_t sum = 0;
    for (uint32_t i = 0; i < count; i++)
        sum += weights[i];
    uint32_t left = (uint32_t)rng_below(rng, sum);
    uint32_t drawn = 0;
    while (left >= weights[drawn])
        left -= weights[drawn++];
    return drawn;
}

static enum service_class draw_class(const struct sim_knobs *knobs, struct rng *rng)
{
    static const uint32_t standard[SERVICE_CLASS_COUNT] = {[SERVICE_CLASS_STANDARD] = 1};
    bool is_mixed = false;
    for (uint32_t i = 0; i < SERVICE_CLASS_COUNT; i++)
        is_mixed = is_mixed || knobs->classes[i] > 0;
    return (enum service_class)draw_weighted(is_mixed ? knobs->classes : standard,
                                             SERVICE_CLASS_COUNT, rng);
}

/* Makes a request of tenant 0, short, at the same moment as the one before it. */
static void draw_flood(struct sim_draw *out, const struct sim_knobs *knobs, struct rng *rng,
                       int64_t arrival_us)
{
    if (sim_load_sometimes(rng, knobs->flood, 1) == SIM_NEVER)
        return;
    out->tenant = 0;
    out->service_class = (enum service_class)knobs->flood_class;
    if (rng_below(rng, 32) > 0)
        out->arrival_us = arrival_us;
}

void sim_load_draw(struct sim_draw *out, const struct sim_knobs *knobs, struct rng *rng,
                   uint32_t index, int64_t arrival_us)
{
    uint32_t deadline_us = sim_load_sometimes(rng, knobs->deadlines, 60000);
    *out = (struct sim_draw){
        .tenant = (uint32_t)rng_below(rng, knobs->tenants),
        .arrival_us = arrival_us + (int64_t)rng_below(rng, 2 * (uint64_t)knobs->gap_us),
        .deadline_us = deadline_us == SIM_NEVER ? 0 : 1 + (int64_t)deadline_us * knobs->slow,
        .cancel_steps = sim_load_sometimes(rng, knobs->cancels, 40),
        .stop_tokens = sim_load_sometimes(rng, knobs->stops, 20),
        .resume_steps = (uint32_t)(1 + rng_below(rng, 150)),
        .tokens_max = (uint32_t)(1 + rng_below(rng, knobs->is_long ? 110 : 24)),
        .is_forever = sim_load_sometimes(rng, knobs->forever, 1) != SIM_NEVER,
        .is_cancelled_paused = sim_load_sometimes(rng, knobs->cancels_paused, 1) != SIM_NEVER,
        .service_class = draw_class(knobs, rng),
        .choices = rng_below(rng, 6) == 0 ? (uint32_t)(1 + rng_below(rng, SIM_CHOICES_MAX)) : 1,
        .temperature = rng_below(rng, 4) == 0 ? 0.7f : 0,
        .source = (enum sim_source)draw_weighted(knobs->source, SIM_SOURCE_COUNT, rng),
        .is_uncached = rng_below(rng, 25) == 0,
    };
    /* Bursts: several requests at the same moment. */
    if (rng_below(rng, 4) == 0)
        out->arrival_us = arrival_us;
    draw_flood(out, knobs, rng, arrival_us);
    if (knobs->rush > 0)
        out->tenant = index >= knobs->rush;
    if (index < knobs->rush)
        out->arrival_us = arrival_us;
    if (knobs->deaf > 0 && out->tenant >= knobs->deaf)
        out->stop_tokens = SIM_NEVER;
}

/* Requests that begin with the same two blocks are of the same tenant. */
void sim_load_trace(struct sim_draw *draw, const struct sim_knobs *knobs,
                    const struct sim_arrival *arrival)
{
    if (arrival->block_count > 1)
        draw->tenant = (uint32_t)(hash_mix64(arrival->blocks[1]) % knobs->tenants);
    draw->arrival_us = arrival->at_us;
    draw->tokens_max = arrival->generated;
    draw->choices = 1;
    draw->source = FRESH;
    draw->traced = *arrival;
}

void sim_load_traced(struct sim_text *out, const struct sim_arrival *arrival, struct rng *rng,
                     uint32_t room)
{
    out->count = 0;
    for (uint32_t b = 0; b < arrival->block_count; b++) {
        struct rng block = {.seed = hash_mix64(arrival->blocks[b] + 99)};
        sim_load_append(out, &block, PAGE_TOKENS, room);
    }
    sim_load_append(out, rng, arrival->prompt, room);
}

void sim_load_append(struct sim_text *text, struct rng *rng, uint32_t count, uint32_t room)
{
    for (uint32_t i = 0; i < count && text->count < room; i++)
        text->tokens[text->count++] = (uint32_t)rng_below(rng, SIM_MODEL_VOCAB);
}

void sim_load_system(struct sim_text *out, uint64_t seed, uint32_t tenant, uint32_t index)
{
    struct rng rng = {.seed = hash_mix64(seed ^ ((uint64_t)tenant * SYSTEM_PROMPTS +
                                                 index % SYSTEM_PROMPTS + 77))};
    out->count = 0;
    sim_load_append(out, &rng, (uint32_t)(8 + rng_below(&rng, 80)), SIM_CONTEXT);
}

void sim_load_twist(struct sim_text *text, struct rng *rng)
{
    if (text->count == 0)
        return;
    uint32_t page = (uint32_t)rng_below(rng, (text->count + PAGE_TOKENS - 1) / PAGE_TOKENS);
    static const uint32_t places[] = {PAGE_TOKENS - 1, PAGE_TOKENS - 1, 0, 7};
    uint32_t at = page * PAGE_TOKENS + places[rng_below(rng, 4)];
    at = at < text->count ? at : text->count - 1;
    text->tokens[at] =
        (text->tokens[at] + 1 + (uint32_t)rng_below(rng, SIM_MODEL_VOCAB - 1)) % SIM_MODEL_VOCAB;
    if (rng_below(rng, 3) == 0)
        text->count = at + 1;
}
