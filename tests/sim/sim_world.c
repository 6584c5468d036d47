#include "tests/sim/sim_world.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config/base/hash.h"
#include "config/base/mem.h"
#include "engine/step/step.h"
#include "tests/kit/gguf_writer.h"
#include "tests/kit/late_pages.h"
#include "tests/sim/sim_account.h"
#include "tests/sim/sim_load.h"
#include "tests/sim/sim_model.h"

enum {
    DOMAINS_MAX = 256,
    IDLE_US = 1000,         /* times the model's slowness */
    CACHE_CHECK_TICKS = 64, /* the table of nodes is large; debug builds check at each step */
    HANG_UP_STEPS = 400,    /* until a reader that has stopped for good disconnects */
    POISON = 0xff,
    EXCHANGE_PAGES = 4,
};

struct sim_choice {
    uint64_t chain; /* of the prompt and the generated tokens */
    uint32_t count;
    uint32_t unacknowledged;
    uint32_t tokens[SIM_CONTEXT];
    enum engine_finish finish;
    bool is_paused; /* as the stream was told */
};

struct sim_request {
    struct sim_draw draw;
    struct sim_text prompt;
    struct sim_choice choices[SIM_CHOICES_MAX];
    uint32_t domain;                         /* where its pages go */
    uint32_t visible[LIMIT_DOMAINS_VISIBLE]; /* published, the group's, the tenant's own */
    uint32_t visible_count;
    uint32_t visible_public;
    uint32_t visible_group;
    uint32_t published;   /* the prompt that it publishes, or SIM_NEVER */
    uint32_t found_least; /* least tokens found of its prompt, in a cache that evicts nothing */
    int64_t forgotten_us; /* when its domain was dropped; 0: it was not */
    struct engine_sampling sampling;
    engine_request_id id;
    uint32_t slot;
    uint64_t tick_submitted;
    uint64_t tick_stopped; /* when its reader stopped; 0: it has not */
    bool is_submitted;
    bool is_started;
    bool is_cancelled;
    bool is_over;
    bool is_pinned;  /* the prompt that it publishes is pinned */
    uint32_t passed; /* by later requests of its client that started */
    bool is_paused;  /* one of its choices has lost its pages */
};

struct sim_tenant {
    uint32_t group;
    bool shares;     /* its pages go to the group's domain */
    uint32_t grants; /* one bit for each published prompt */
    uint32_t weight;
};

struct sim_published {
    uint32_t domain; /* 0: not published */
    struct sim_text text;
};

struct sim_world {
    uint64_t seed;
    bool is_traced;
    struct sim_knobs knobs;
    struct rng rng;
    struct clock clock;
    struct gguf *gguf;
    struct buffer vocab_file;
    struct vocab *vocab;
    struct kernels *kernels;
    struct model *model;
    struct kv_layout layout;
    struct ticket_table tickets;
    struct step step;
    struct sampler sampler;
    struct sim_account account;
    uint32_t lag; /* the consumer takes events once in this many ticks */

    struct sim_tenant tenants[SIM_TENANTS_MAX];
    struct sim_published published[SIM_PUBLISHED_MAX];
    uint32_t domain_count;
    bool is_dropped[DOMAINS_MAX];
    struct engine_domain ids[DOMAINS_MAX]; /* [0] is no domain: all zero */
    struct sim_request *requests;          /* [knobs.requests] */
    uint32_t submitted;
    uint32_t over;
    uint64_t tick;
    struct sim_result result;
};

/* --- messages --- */

__attribute__((format(printf, 2, 3))) static void trace(const struct sim_world *world,
                                                        const char *format, ...)
{
    if (!world->is_traced)
        return;
    va_list arguments;
    printf("%8.3f ms tick %" PRIu64 ": ", (double)clock_mono_us(&world->clock) / 1000, world->tick);
    va_start(arguments, format);
    vprintf(format, arguments);
    va_end(arguments);
    putchar('\n');
}

__attribute__((format(printf, 2, 3))) static _Noreturn void fail(const struct sim_world *world,
                                                                 const char *format, ...)
{
    va_list arguments;
    fflush(stdout);
    fprintf(stderr, "sim: tick %" PRIu64 ": ", world->tick);
    va_start(arguments, format);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    fputc('\n', stderr);
    abort();
}

static void digest(struct sim_world *world, uint64_t value)
{
    world->result.digest = hash_mix64(world->result.digest ^ value) + world->tick;
}

/* --- domains --- */

static uint32_t domain_own(uint32_t tenant)
{
    return 1 + tenant;
}

static uint32_t domain_group(const struct sim_world *world, uint32_t group)
{
    return 1 + world->knobs.tenants + group;
}

static void domain_ids(struct sim_world *world)
{
    for (uint32_t d = 1; d < DOMAINS_MAX; d++)
        for (uint32_t i = 0; i < sizeof(world->ids[d].bytes); i++)
            world->ids[d].bytes[i] = (uint8_t)(hash_mix64(d * 16 + i) | 1);
}

/* --- checks in each pass --- */

/* No row of a sequence reads a page of a domain that its request may not see. */
static void check_pass(void *context, const struct model_batch *batch)
{
    struct sim_world *world = context;
    const struct sequence_table *table = &world->step.sequences;
    for (uint32_t i = 0; i < table->order_count; i++) {
        const struct sequence *sequence = &table->slots[table->order[i]];
        const struct sim_request *request = world->tickets.slots[sequence->slot].asked.context;
        for (uint32_t p = 0; p < sequence->page_count; p++) {
            const struct engine_domain *of = &world->step.pool.domains[sequence->pages[p]];
            bool sees = memcmp(of, &world->ids[request->domain], sizeof(*of)) == 0;
            for (uint32_t v = 0; v < request->visible_count && !sees; v++)
                sees = memcmp(of, &world->ids[request->visible[v]], sizeof(*of)) == 0;
            if (!sees)
                fail(world, "slot %u holds a page of a domain that it must not see",
                     sequence->slot);
        }
    }
    sim_account_pass(&world->account, batch);
}

/* --- open and close --- */

/* 48 tokens of one printable character each; the last one ends a text. */
static void open_vocab(struct sim_world *world)
{
    struct gguf_writer writer;
    char texts[SIM_MODEL_VOCAB][2];
    const char *pointers[SIM_MODEL_VOCAB];
    for (uint32_t t = 0; t < SIM_MODEL_VOCAB; t++) {
        texts[t][0] = (char)('0' + t);
        texts[t][1] = '\0';
        pointers[t] = texts[t];
    }
    gguf_writer_init(&writer);
    gguf_writer_string(&writer, "tokenizer.ggml.model", "gpt2");
    gguf_writer_strings(&writer, "tokenizer.ggml.tokens", pointers, SIM_MODEL_VOCAB);
    gguf_writer_u32(&writer, "tokenizer.ggml.eos_token_id", SIM_MODEL_END_TOKEN);
    gguf_writer_finish(&writer, &world->vocab_file);
    gguf_writer_deinit(&writer);
    if (gguf_parse(&world->gguf, world->vocab_file.bytes, world->vocab_file.length) != STATUS_OK ||
        vocab_create(&world->vocab, world->gguf) != STATUS_OK)
        fail(world, "no vocabulary: %s", status_note()->message);
}

static void open_tenants(struct sim_world *world)
{
    const struct sim_knobs *knobs = &world->knobs;
    for (uint32_t t = 0; t < knobs->tenants; t++)
        world->tenants[t] = (struct sim_tenant){
            .group = (uint32_t)rng_below(&world->rng, knobs->groups),
            .shares = rng_below(&world->rng, 2) == 0,
            .grants = (uint32_t)rng_below(&world->rng, 1u << SIM_PUBLISHED_MAX),
            .weight = sim_load_weight(knobs, &world->rng),
        };
    world->domain_count = 1 + knobs->tenants + knobs->groups;
}

/* Units of the pool: where layers have two kinds, those that one full context needs, and for each
 * page beyond that half of the units that it may have. */
static uint64_t open_units(const struct sim_world *world, uint32_t pages, bool is_host)
{
    const struct kv_pool pool = {.layout = world->layout};
    const uint32_t context = is_host ? 0 : kv_pool_pages_for(&pool, SIM_CONTEXT);
    const uint32_t beside = pages > context ? pages - context : 0;
    if (world->layout.window_units == 0)
        return pages;
    return (is_host ? 0 : kv_pool_units_least(&pool, SIM_CONTEXT)) +
           (uint64_t)beside * kv_pool_page_units(&pool) / 2;
}

static void open_step(struct sim_world *world)
{
    const struct sim_knobs *knobs = &world->knobs;
    const struct kernels_options kernels_options = {
        .isa = "ref", .threads = 1, .rows_max = knobs->rows_max, .cols_max = 64};
    const struct sim_model_cost cost = {.fixed_us = 200 * (int64_t)knobs->slow,
                                        .row_us = 20 * (int64_t)knobs->slow,
                                        .keys_of_us = 50};
    if (kernels_create(&world->kernels, &kernels_options) != STATUS_OK ||
        sim_model_layout(world->kernels, knobs->machine.page_tokens, knobs->machine.window_units,
                         knobs->machine.window, &world->layout) != STATUS_OK ||
        ticket_table_init(&world->tickets, 2 * knobs->requests + 8, 64 << 20) != STATUS_OK ||
        sampler_init(&world->sampler, world->kernels, SIM_MODEL_VOCAB) != STATUS_OK)
        fail(world, "no world: %s", status_note()->message);
    world->model = sim_model_create(&world->clock, &cost, knobs->rows_max, knobs->rows_max,
                                    SIM_CONTEXT, knobs->circles);
    enum engine_speculation speculation = ENGINE_SPECULATION_OFF;
    if (knobs->circles > 0)
        speculation = world->seed % 2 == 0 ? ENGINE_SPECULATION_LOOKUP : ENGINE_SPECULATION_EXIT;
    const struct step_options options = {
        .kernels = world->kernels,
        .model = world->model,
        .vocab = world->vocab,
        .layout = &world->layout,
        .tickets = &world->tickets,
        .clock = &world->clock,
        .kv_bytes = open_units(world, knobs->pages, false) * world->layout.page_bytes,
        .context = SIM_CONTEXT,
        .rows_max = knobs->rows_max,
        .logit_rows_max = knobs->rows_max,
        .sequences_max = knobs->sequences_max,
        .mode = (enum scheduler_mode)knobs->batching,
        .step_ms = knobs->step_ms,
        .class_floor_percent = knobs->floor_percent,
        .fair_quantum = knobs->fair_quantum,
        .preemption = (enum engine_preemption)knobs->preemption,
        .speculation = speculation,
        .draft_layers = 1,
        .urgent_step_ms = knobs->urgent_step_ms,
        .shared_us = knobs->shared_us,
        .no_prefix_cache = knobs->is_uncached,
        .kv_host_bytes = open_units(world, knobs->host_pages, true) * world->layout.page_bytes,
        .exchange_pages = knobs->machine.late_steps > 0 ? EXCHANGE_PAGES : 0,
        .pin_percent = knobs->pin_percent,
        .cache_seed = world->seed,
    };
    if (knobs->machine.late_steps > 0)
        late_pages_begin(world->kernels, knobs->machine.late_steps);
    if (step_init(&world->step, &options) != STATUS_OK)
        fail(world, "no step: %s", status_note()->message);
    sim_account_init(&world->account, knobs, &world->step);
    sim_model_watch(world->model, check_pass, world);
}

static struct sim_world *world_open(uint64_t seed, uint32_t kind, const struct sim_machine *machine,
                                    bool is_traced)
{
    struct sim_world *world = mem_alloc_aligned(64, (sizeof(*world) + 63) & ~(size_t)63);
    ASSERT(world != NULL);
    memset(world, 0, sizeof(*world));
    world->seed = seed;
    world->is_traced = is_traced;
    world->rng = (struct rng){.seed = hash_mix64(seed + 2)};
    clock_manual_init(&world->clock, 1000);
    sim_load_knobs(&world->knobs, seed, kind, machine);
    world->requests = mem_zalloc(world->knobs.requests, sizeof(*world->requests));
    ASSERT(world->requests != NULL);
    world->lag = rng_below(&world->rng, 4) == 0 ? (uint32_t)(1 + rng_below(&world->rng, 8)) : 1;
    domain_ids(world);
    open_vocab(world);
    open_tenants(world);
    open_step(world);
    trace(world, "%s: %u tenants, %u requests, %u + %u pages, %u rows, %u sequences, mode %u",
          world->knobs.kind, world->knobs.tenants, world->knobs.requests, world->knobs.pages,
          world->knobs.host_pages, world->knobs.rows_max, world->knobs.sequences_max,
          world->knobs.batching);
    trace(world, "quantum %u, floor %u %%, preemption %u, steps of %u ms (urgent %u)",
          world->knobs.fair_quantum, world->knobs.floor_percent, world->knobs.preemption,
          world->knobs.step_ms, world->knobs.urgent_step_ms);
    return world;
}

static void world_close(struct sim_world *world)
{
    sim_account_deinit(&world->account);
    step_deinit(&world->step);
    if (world->knobs.machine.late_steps > 0)
        late_pages_end();
    sampler_deinit(&world->sampler);
    ticket_table_deinit(&world->tickets);
    sim_model_destroy(world->model);
    kernels_destroy(world->kernels);
    vocab_destroy(world->vocab);
    gguf_close(world->gguf);
    buffer_deinit(&world->vocab_file);
    mem_free(world->requests);
    mem_free(world);
}

/* --- prompts --- */

static uint32_t text_shared(const struct sim_text *a, const struct sim_text *b)
{
    uint32_t count = 0;
    while (count < a->count && count < b->count && a->tokens[count] == b->tokens[count])
        count++;
    return count;
}

/* Makes the text of the prompt and of what choice `choice` has generated so far. */
static void text_of(struct sim_text *out, const struct sim_request *request, uint32_t choice)
{
    *out = request->prompt;
    const struct sim_choice *said = &request->choices[choice];
    for (uint32_t i = 0; i < said->count && out->count < SIM_CONTEXT; i++)
        out->tokens[out->count++] = said->tokens[i];
}

/* Returns an earlier request, of the tenant unless `tenant` is SIM_NEVER; NULL when there is none.
 */
static const struct sim_request *prompt_earlier(struct sim_world *world, uint32_t tenant)
{
    for (uint32_t tries = 0; tries < 8 && world->submitted > 0; tries++) {
        const struct sim_request *earlier =
            &world->requests[rng_below(&world->rng, world->submitted)];
        if (tenant == SIM_NEVER || earlier->draw.tenant == tenant)
            return earlier;
    }
    return NULL;
}

static void prompt_make(struct sim_world *world, struct sim_request *request)
{
    if (request->draw.traced.generated > 0) {
        sim_load_traced(&request->prompt, &request->draw.traced, &world->rng,
                        SIM_CONTEXT - request->draw.tokens_max);
        return;
    }
    struct sim_text *prompt = &request->prompt;
    struct rng *rng = &world->rng;
    uint32_t tenant = request->draw.tenant;
    enum sim_source source = request->draw.source;
    bool is_own = source == SIM_SOURCE_CHAT || source == SIM_SOURCE_AGAIN;
    const struct sim_request *earlier = prompt_earlier(world, is_own ? tenant : SIM_NEVER);
    uint32_t tail = (uint32_t)rng_below(rng, 40);
    prompt->count = 0;
    if (source == SIM_SOURCE_SYSTEM) {
        sim_load_system(prompt, world->seed, tenant, (uint32_t)rng_below(rng, 2));
    } else if (source == SIM_SOURCE_PUBLISHED && world->knobs.published > 0) {
        *prompt = world->published[rng_below(rng, world->knobs.published)].text;
    } else if (source == SIM_SOURCE_CHAT && earlier != NULL) {
        text_of(prompt, earlier, 0);
    } else if (source == SIM_SOURCE_AGAIN && earlier != NULL) {
        *prompt = earlier->prompt;
        tail = 0;
    } else if (source == SIM_SOURCE_TWIST && earlier != NULL) {
        *prompt = earlier->prompt;
        sim_load_twist(prompt, rng);
    } else {
        tail += 60;
    }
    uint32_t room = SIM_CONTEXT - request->draw.tokens_max;
    uint32_t most = world->knobs.prompt_most;
    if (most > 0 && most < room)
        room = (uint32_t)(1 + rng_below(rng, most));
    if (prompt->count > room)
        prompt->count = room;
    sim_load_append(prompt, rng, tail + (prompt->count == 0), room);
}

/* --- submitting --- */

static void submit_visibility(const struct sim_world *world, struct sim_request *request)
{
    const struct sim_tenant *tenant = &world->tenants[request->draw.tenant];
    uint32_t count = 0;
    for (uint32_t p = 0; p < world->knobs.published; p++)
        if ((tenant->grants >> p & 1) != 0 && world->published[p].domain != 0)
            request->visible[count++] = world->published[p].domain;
    request->visible_public = count;
    if (tenant->shares)
        request->visible[count++] = domain_group(world, tenant->group);
    request->visible_group = tenant->shares;
    request->visible[count++] = domain_own(request->draw.tenant);
    request->visible_count = count;
    request->domain =
        tenant->shares ? domain_group(world, tenant->group) : domain_own(request->draw.tenant);
}

/* The request publishes a prompt that has no version now; it sees no other domain's pages. */
static void submit_publish(struct sim_world *world, struct sim_request *request)
{
    uint32_t prompt = (uint32_t)rng_below(&world->rng, world->knobs.published);
    if (world->published[prompt].domain != 0)
        return;
    request->published = prompt;
    request->prompt = world->published[prompt].text;
    request->draw.choices = 1;
    request->draw.is_uncached = false;
    request->draw.tokens_max = 0;
    request->visible_count = request->visible_public = request->visible_group = 0;
    request->domain = world->published[prompt].domain = world->domain_count++;
    trace(world, "prompt %u is published as domain %u", prompt, request->domain);
}

static void submit_fill(const struct sim_world *world, const struct sim_request *request,
                        struct engine_request *out)
{
    *out = (struct engine_request){
        .prompt_kind = ENGINE_PROMPT_TOKENS,
        .tokens = request->prompt.tokens,
        .token_count = request->prompt.count,
        .choices = request->draw.choices,
        .tokens_max = request->draw.tokens_max,
        .sampling = request->sampling,
        .domain = world->ids[request->domain],
        .visible_count = request->visible_count,
        .visible_public = request->visible_public,
        .visible_group = request->visible_group,
        .service_class = request->draw.service_class,
        .weight = world->tenants[request->draw.tenant].weight,
        .tenant = world->ids[domain_own(request->draw.tenant)],
        .cache_share = 1 + request->domain * 37 % 200,
        .is_published = request->published != SIM_NEVER,
        .deadline_us = request->draw.deadline_us > 0
                           ? request->draw.arrival_us + request->draw.deadline_us
                           : 0,
        .context = (void *)(uintptr_t)request,
    };
    for (uint32_t i = 0; i < request->visible_count; i++)
        out->visible[i] = world->ids[request->visible[i]];
}

static void submit(struct sim_world *world, struct sim_request *request)
{
    struct engine_request asked;
    prompt_make(world, request);
    submit_visibility(world, request);
    request->published = SIM_NEVER;
    if (request->draw.source == SIM_SOURCE_PUBLISH && world->knobs.published > 0)
        submit_publish(world, request);
    if (request->draw.is_uncached)
        request->domain = request->visible_count = request->visible_public =
            request->visible_group = 0;
    request->sampling = (struct engine_sampling){
        .temperature = request->draw.temperature, .top_p = 1, .seed = world->submitted};
    for (uint32_t p = 0; p < request->prompt.count; p++)
        request->choices[0].chain =
            sim_model_chain(request->choices[0].chain, request->prompt.tokens[p], p);
    for (uint32_t c = 1; c < request->draw.choices; c++)
        request->choices[c].chain = request->choices[0].chain;
    submit_fill(world, request, &asked);
    if (ticket_acquire(&world->tickets, &asked, clock_mono_us(&world->clock), &request->slot,
                       &request->id) != STATUS_OK ||
        ticket_take_tokens(&world->tickets, request->slot, SIM_MODEL_VOCAB, SIM_CONTEXT) !=
            STATUS_OK)
        fail(world, "request %u is refused: %s", world->submitted, status_note()->message);
    inbox_push(&world->step.inbox, request->slot);
    sim_account_submit(&world->account, request->slot, request->draw.tenant, &asked);
    request->is_submitted = true;
    request->tick_submitted = world->tick;
    trace(world, "request %u of tenant %u: %u tokens, at most %u × %u more", world->submitted,
          request->draw.tenant, request->prompt.count, request->draw.choices,
          request->draw.tokens_max);
    world->submitted++;
}

/* No new request sees the prompt's domain, and the engine forgets it at the next step. */
static void submit_unpublish(struct sim_world *world, uint32_t prompt)
{
    uint32_t domain = world->published[prompt].domain;
    struct engine_domain id = world->ids[domain];
    world->published[prompt].domain = 0;
    world->is_dropped[domain] = true;
    trace(world, "prompt %u, domain %u, is unpublished", prompt, domain);
    if (!ring_push(&world->step.unpublished, &id))
        fail(world, "no room to unpublish");
    for (uint32_t i = 0; i < world->submitted; i++)
        if (world->requests[i].domain == domain)
            world->requests[i].forgotten_us = clock_mono_us(&world->clock);
}

/* Gives and takes grants, unpublishes prompts. */
static void submit_change(struct sim_world *world, uint32_t permille)
{
    if (world->knobs.published == 0 || sim_load_sometimes(&world->rng, permille, 1) == SIM_NEVER)
        return;
    uint32_t tenant = (uint32_t)rng_below(&world->rng, world->knobs.tenants);
    uint32_t prompt = (uint32_t)rng_below(&world->rng, world->knobs.published);
    if (rng_below(&world->rng, 3) == 0 && world->published[prompt].domain != 0) {
        submit_unpublish(world, prompt);
        return;
    }
    world->tenants[tenant].grants ^= 1u << prompt;
    trace(world, "prompt %u is %s tenant %u", prompt,
          (world->tenants[tenant].grants >> prompt & 1) != 0 ? "granted to" : "taken from", tenant);
}

/* Submits all requests whose time has come; returns when the next one comes. */
static int64_t submit_due(struct sim_world *world)
{
    while (world->submitted < world->knobs.requests) {
        struct sim_request *request = &world->requests[world->submitted];
        if (request->draw.arrival_us > clock_mono_us(&world->clock))
            return request->draw.arrival_us;
        submit_change(world, world->knobs.changes);
        submit(world, request);
    }
    return INT64_MAX;
}

/* --- clients that leave, and readers that stop --- */

static void act_acknowledge(struct sim_world *world, struct sim_request *request, uint32_t choice)
{
    struct sim_choice *own = &request->choices[choice];
    if (own->unacknowledged > 0 && !request->is_over)
        ticket_acknowledge(&world->tickets, request->id, choice, own->unacknowledged);
    own->unacknowledged = 0;
}

/* For requests whose sequences have lost their pages: what they may see changes meanwhile. */
static void act_paused(struct sim_world *world)
{
    const struct sequence_table *table = &world->step.sequences;
    bool is_somebody = false;
    for (uint32_t i = 0; i < world->submitted; i++)
        world->requests[i].is_paused = false;
    for (uint32_t i = 0; i < table->order_count; i++) {
        const struct sequence *sequence = &table->slots[table->order[i]];
        struct sim_request *request = world->tickets.slots[sequence->slot].asked.context;
        request->is_paused = request->is_paused || sequence->page_count == 0;
        is_somebody = is_somebody || request->is_paused;
    }
    if (is_somebody)
        submit_change(world, world->knobs.changes_paused);
}

static void act(struct sim_world *world)
{
    act_paused(world);
    for (uint32_t i = 0; i < world->submitted; i++) {
        struct sim_request *request = &world->requests[i];
        uint64_t age = world->tick - request->tick_submitted;
        if (request->is_over)
            continue;
        bool is_due = request->draw.cancel_steps != SIM_NEVER && age >= request->draw.cancel_steps;
        is_due = is_due || (request->is_paused && request->draw.is_cancelled_paused);
        if (!request->is_cancelled && is_due) {
            request->is_cancelled = ticket_cancel(&world->tickets, request->id);
            trace(world, "request %u is cancelled", i);
        }
        bool is_hung = request->tick_stopped > 0 && request->draw.is_forever &&
                       !request->is_cancelled &&
                       world->tick - request->tick_stopped >= HANG_UP_STEPS;
        if (is_hung)
            request->is_cancelled = ticket_cancel(&world->tickets, request->id);
        if (request->tick_stopped > 0 && !request->draw.is_forever &&
            world->tick - request->tick_stopped >= request->draw.resume_steps) {
            request->draw.stop_tokens = SIM_NEVER;
            for (uint32_t c = 0; c < request->draw.choices; c++)
                act_acknowledge(world, request, c);
        }
    }
}

/* --- events, compared with the expected ones --- */

/* Returns whether a page that the request could have found may be gone. */
static bool has_lost(const struct sim_world *world, const struct sim_request *request)
{
    struct prefix_figures figures;
    prefix_cache_figures(&world->step.cache, &figures);
    for (uint32_t v = 0; v < request->visible_count; v++)
        if (world->is_dropped[request->visible[v]])
            return true;
    return world->knobs.is_uncached ||
           figures.evicted_to_host + figures.evicted_dropped + figures.windows_dropped > 0;
}

static bool take_sees(const struct sim_request *request, uint32_t domain)
{
    bool sees = domain != 0 && request->domain == domain;
    for (uint32_t v = 0; v < request->visible_count; v++)
        sees = sees || request->visible[v] == domain;
    return sees && request->domain != 0;
}

/* Computes what a request may find of its prompt, and what it must find, from the longest beginning
 * that it shares with another text. It may find that if it sees the other's domain. It must find
 * it, in whole pages, if nothing was ever evicted, the other's first token is known and it sees all
 * that the other saw. */
static void take_bounds(const struct sim_world *world, const struct sim_request *request,
                        int64_t admitted_us, uint32_t *least, uint32_t *most)
{
    *least = *most = 0;
    for (uint32_t i = 0; i < world->submitted; i++) {
        const struct sim_request *other = &world->requests[i];
        bool is_forgotten = other->forgotten_us > 0 && other->forgotten_us <= admitted_us;
        if (other == request || is_forgotten || !take_sees(request, other->domain))
            continue;
        bool is_computed = other->choices[0].count > 0 || other->is_pinned;
        bool sees_all = is_computed && other->forgotten_us == 0;
        for (uint32_t v = 0; v < other->visible_count; v++)
            sees_all = sees_all && take_sees(request, other->visible[v]);
        for (uint32_t c = 0; c < other->draw.choices; c++) {
            struct sim_text text;
            text_of(&text, other, c);
            uint32_t shared = text_shared(&text, &request->prompt);
            *most = shared > *most ? shared : *most;
        }
        uint32_t whole = text_shared(&other->prompt, &request->prompt);
        whole = whole < request->prompt.count ? whole : request->prompt.count - 1;
        whole -= whole % world->knobs.machine.page_tokens;
        *least = sees_all && whole > *least ? whole : *least;
    }
}

/* Checked at the first token: in a window or static batch a request starts before it looks. */
static void take_found(struct sim_world *world, const struct sim_request *request, uint32_t number)
{
    const struct ticket *ticket = &world->tickets.slots[request->slot];
    const struct engine_report *report = &ticket->report;
    uint32_t found = report->cached_tokens;
    uint32_t least;
    uint32_t most;
    take_bounds(world, request, ticket->admitted_us, &least, &most);
    if (found >= request->prompt.count)
        fail(world, "request %u computes nothing of its prompt", number);
    if (found > most)
        fail(world, "request %u found %u tokens, but what it may see shares only %u", number, found,
             most);
    if (found < request->found_least && !has_lost(world, request))
        fail(world, "request %u found %u tokens, though %u were there to be found", number, found,
             request->found_least);
    if (report->cached_public + report->cached_group + report->cached_own != found)
        fail(world, "the parts of what request %u found are not the whole", number);
}

/* Returns whether another request may pass it, because one of its domain with the same beginning
 * runs, or waits before it. */
static bool take_may_follow(const struct sim_world *world, const struct sim_request *request)
{
    for (uint32_t i = 0; i < world->submitted; i++) {
        const struct sim_request *other = &world->requests[i];
        bool is_leader = other->is_started || other < request;
        if (is_leader && !other->is_over && other->domain == request->domain &&
            other->domain != 0 && text_shared(&other->prompt, &request->prompt) > 0)
            return true;
    }
    return false;
}

/* In a batch that is formed at once, requests start in the order of arrival. Otherwise the order
 * counts only within a client, where a longer match goes first, but not more often than PASSED_MAX.
 */
static void take_passed(const struct sim_world *world, const struct sim_request *request,
                        struct sim_request *before)
{
    bool is_continuous = world->knobs.batching == ENGINE_BATCHING_CONTINUOUS;
    bool is_own = request->draw.tenant == before->draw.tenant &&
                  request->draw.service_class == before->draw.service_class;
    if (is_continuous && !is_own)
        return;
    before->passed++;
    if (!is_continuous || before->passed > SCHEDULER_PASSED_MAX + world->knobs.sequences_max)
        fail(world, "request %u starts before request %u", (uint32_t)(request - world->requests),
             (uint32_t)(before - world->requests));
}

static void take_start(struct sim_world *world, struct sim_request *request, uint32_t number)
{
    if (request->is_started)
        fail(world, "request %u starts twice", number);
    uint32_t most;
    take_bounds(world, request, world->tickets.slots[request->slot].admitted_us,
                &request->found_least, &most);
    for (uint32_t i = 0; i < number; i++) {
        struct sim_request *before = &world->requests[i];
        bool is_following = atomic_load(&world->tickets.slots[before->slot].shown_state) ==
                            ENGINE_REQUEST_FOLLOWING;
        if (!before->is_started && !before->is_cancelled && !before->is_over && !is_following &&
            !take_may_follow(world, before))
            take_passed(world, request, before);
    }
    request->is_started = true;
}

/* Checks the token: it must be the one that the model gives after this choice's text alone,
 * whatever else was computed. */
static void take_token(struct sim_world *world, struct sim_request *request, uint32_t number,
                       const struct outbox_record *record)
{
    struct sim_choice *choice = &request->choices[record->choice];
    float logits[SIM_MODEL_VOCAB];
    struct logits_stats stats;
    uint32_t position = request->prompt.count + choice->count;
    if (record->tokens_so_far == 1)
        take_found(world, request, number);
    uint32_t last = choice->count > 0 ? choice->tokens[choice->count - 1]
                                      : request->prompt.tokens[request->prompt.count - 1];
    sim_model_logits(choice->chain, last, world->knobs.circles, logits);
    kernels_logits_stats(world->kernels, logits, 1, SIM_MODEL_VOCAB, &stats);
    const struct sampler_args args = {
        .logits = logits,
        .stats = &stats,
        .sampling = &request->sampling,
        .choice = record->choice,
        .position = position,
        .generated = choice->tokens,
        .generated_count = choice->count,
    };
    uint32_t right = sampler_choose(&world->sampler, &args);
    float logprob = sampler_logprob(logits, &stats, right);
    if (record->token != right || memcmp(&record->logprob, &logprob, sizeof(logprob)) != 0)
        fail(world, "request %u, choice %u, token %u is %u, alone it is %u", number, record->choice,
             choice->count, record->token, right);
    if (choice->is_paused || choice->finish != ENGINE_FINISH_NONE ||
        choice->count >= request->draw.tokens_max)
        fail(world, "request %u, choice %u goes on after its end, or paused", number,
             record->choice);
    choice->chain = sim_model_chain(choice->chain, right, position);
    choice->tokens[choice->count++] = right;
    choice->unacknowledged++;
    world->result.tokens_generated++;
    if (choice->count >= request->draw.stop_tokens) {
        request->tick_stopped = request->tick_stopped > 0 ? request->tick_stopped : world->tick;
        return;
    }
    act_acknowledge(world, request, record->choice);
}

/* A stream is told alternately that it is paused and that it goes on. */
static void take_pause(struct sim_world *world, struct sim_request *request, uint32_t number,
                       const struct outbox_record *record)
{
    struct sim_choice *choice = &request->choices[record->choice];
    bool is_pause = record->kind == ENGINE_EVENT_PAUSED;
    if (choice->is_paused == is_pause || choice->finish != ENGINE_FINISH_NONE)
        fail(world, "request %u, choice %u is told twice that it %s", number, record->choice,
             is_pause ? "is paused" : "goes on");
    choice->is_paused = is_pause;
    world->result.pauses += is_pause;
}

static bool take_choice_end_is_right(const struct sim_request *request,
                                     const struct sim_choice *choice, enum engine_finish finish)
{
    if (finish == ENGINE_FINISH_CANCELLED)
        return request->is_cancelled || request->forgotten_us > 0;
    if (finish == ENGINE_FINISH_DEADLINE)
        return request->draw.deadline_us > 0;
    if (request->published != SIM_NEVER)
        return choice->count == 0 &&
               (finish == ENGINE_FINISH_STOP || finish == ENGINE_FINISH_ERROR);
    if (finish == ENGINE_FINISH_LENGTH)
        return choice->count == request->draw.tokens_max;
    return finish == ENGINE_FINISH_STOP && choice->count > 0 &&
           choice->tokens[choice->count - 1] == SIM_MODEL_END_TOKEN;
}

static void take_choice_end(struct sim_world *world, struct sim_request *request, uint32_t number,
                            const struct outbox_record *record)
{
    struct sim_choice *choice = &request->choices[record->choice];
    if (choice->finish != ENGINE_FINISH_NONE ||
        !take_choice_end_is_right(request, choice, record->finish))
        fail(world, "request %u, choice %u ends after %u tokens as %d", number, record->choice,
             choice->count, (int)record->finish);
    choice->finish = record->finish;
}

/* A prompt that could not be published is dropped, as the edge does. */
static void take_published(struct sim_world *world, struct sim_request *request, uint32_t number,
                           bool is_refused)
{
    struct sim_published *published = &world->published[request->published];
    const struct engine_report *report = &world->tickets.slots[request->slot].report_end;
    uint32_t pages =
        world->knobs.is_uncached ? 0 : kv_pool_pages_for(&world->step.pool, request->prompt.count);
    bool is_whole = !is_refused && !request->is_cancelled && request->draw.deadline_us == 0;
    if (is_whole && request->forgotten_us == 0 && report->pinned_pages != pages)
        fail(world, "request %u pinned %u pages, not %u", number, report->pinned_pages, pages);
    request->is_pinned = !is_refused && report->pinned_pages == pages;
    if (!request->is_pinned && published->domain == request->domain)
        submit_unpublish(world, request->published);
}

static void take_refusal(const struct sim_world *world, const struct sim_request *request,
                         uint32_t number)
{
    const struct error_note *note = &world->tickets.slots[request->slot].refusal;
    bool is_ended = request->is_cancelled || request->forgotten_us > 0;
    bool is_right = note->status == STATUS_CANCELLED  ? is_ended
                    : note->status == STATUS_DEADLINE ? request->draw.deadline_us > 0
                    : note->status == STATUS_LIMIT    ? request->published != SIM_NEVER
                                                      : false;
    if (!is_right || request->is_started)
        fail(world, "request %u is refused: %s", number, note->message);
}

static void take_end(struct sim_world *world, struct sim_request *request, uint32_t number,
                     const struct outbox_record *record)
{
    bool is_refused = record->kind == ENGINE_EVENT_ERROR;
    bool has_time = !request->is_cancelled && request->draw.deadline_us == 0;
    if (is_refused)
        take_refusal(world, request, number);
    for (uint32_t c = 0; c < request->draw.choices && has_time && !is_refused; c++)
        if (request->choices[c].finish == ENGINE_FINISH_NONE)
            fail(world, "request %u ends, its choice %u has not", number, c);
    const struct engine_report *report = &world->tickets.slots[request->slot].report;
    world->result.preemptions += report->preemptions;
    if (request->is_started && request->published == SIM_NEVER) {
        world->result.tokens_prompt += request->prompt.count;
        world->result.tokens_cached += report->cached_tokens;
    }
    if (request->published != SIM_NEVER)
        take_published(world, request, number, is_refused);
    request->is_over = true;
    world->over++;
    world->result.cancelled += request->is_cancelled;
    sim_account_release(&world->account, request->slot);
    ticket_release(&world->tickets, request->slot);
}

static void take_events(struct sim_world *world)
{
    const struct engine_logprob *top;
    struct slice text;
    const struct outbox_record *record;
    while ((record = outbox_next(&world->step.outbox, &top, &text)) != NULL) {
        struct sim_request *request = world->tickets.slots[record->slot].asked.context;
        uint32_t number = (uint32_t)(request - world->requests);
        if (record->sequence != SEQUENCE_NONE)
            atomic_fetch_add(&world->step.sequences.slots[record->sequence].records_taken, 1);
        digest(world, (uint64_t)number << 40 | (uint64_t)record->kind << 32 |
                          (uint64_t)record->choice << 24 | record->token);
        digest(world, (uint64_t)clock_mono_us(&world->clock));
        trace(world, "request %u: event %d, choice %u, token %u, finish %d", number,
              (int)record->kind, record->choice, record->token, (int)record->finish);
        if (request->is_over)
            fail(world, "request %u has an event after its last", number);
        if (record->kind == ENGINE_EVENT_START)
            take_start(world, request, number);
        else if (record->kind == ENGINE_EVENT_TOKEN)
            take_token(world, request, number, record);
        else if (record->kind == ENGINE_EVENT_PAUSED || record->kind == ENGINE_EVENT_RESUMED)
            take_pause(world, request, number, record);
        else if (record->kind == ENGINE_EVENT_CHOICE_END)
            take_choice_end(world, request, number, record);
        else
            take_end(world, request, number, record);
    }
}

/* --- checks at each step --- */

/* A request that was cancelled before the step has nothing left after it. */
static void check_cancelled(const struct sim_world *world)
{
    const struct step *step = &world->step;
    for (uint32_t i = 0; i < world->submitted; i++) {
        const struct sim_request *request = &world->requests[i];
        if (request->is_over || !request->is_cancelled)
            continue;
        for (uint32_t s = 0; s < step->sequences.order_count; s++)
            if (step->sequences.slots[step->sequences.order[s]].slot == request->slot)
                fail(world, "request %u still runs after its cancel", i);
        if (world->tickets.slots[request->slot].is_waiting)
            fail(world, "request %u still waits after its cancel", i);
    }
}

/* No sequence idles that could compute, none waits that could come in. */
static void check_idle(struct sim_world *world)
{
    struct step *step = &world->step;
    const struct sequence_table *table = &step->sequences;
    for (uint32_t i = 0; i < table->order_count; i++)
        if (!table->slots[table->order[i]].is_throttled)
            fail(world, "no step, but slot %u could compute", table->slots[table->order[i]].slot);
    if (sequence_free_count(&step->sequences) > 0 && sim_account_may_enter(&world->account))
        fail(world, "no step, but somebody could be admitted");
}

/* Free pages that no copy reads belong to no sequence. They are overwritten, so that reading one
 * breaks the chain. */
static void check_poison(struct sim_world *world)
{
    const struct kv_pool *pool = &world->step.pool;
    for (uint32_t i = pool->flying_count; i < pool->free_count; i++)
        memset((char *)pool->memory + pool->free_units[i] * pool->layout.page_bytes, POISON,
               pool->layout.page_bytes);
}

/* Prints the sequences with a slot, oldest first. */
static void check_trace(const struct sim_world *world)
{
    const struct sequence_table *table = &world->step.sequences;
    for (uint32_t i = 0; i < table->order_count && world->is_traced; i++) {
        const struct sequence *sequence = &table->slots[table->order[i]];
        const struct sim_request *request = world->tickets.slots[sequence->slot].asked.context;
        trace(world, "  request %u, tenant %u, %s: %u of %u computed, %u pages, %u rows%s",
              (uint32_t)(request - world->requests), request->draw.tenant,
              service_class_name(request->draw.service_class), sequence->computed,
              sequence->token_count, sequence->page_count,
              world->account.places[table->order[i]].rows,
              sequence->is_throttled ? ", throttled" : "");
    }
}

static void check_step(struct sim_world *world, bool has_worked)
{
    check_trace(world);
    if (!sim_account_after(&world->account, clock_mono_us(&world->clock), has_worked))
        fail(world, "%s", world->account.wrong);
    if (!sequence_table_check(&world->step.sequences, &world->step.pool, &world->step.swap))
        fail(world, "references to pages do not add up");
    if ((world->tick % CACHE_CHECK_TICKS == 0 || !has_worked) &&
        !prefix_cache_check(&world->step.cache))
        fail(world, "the prefix cache is broken");
    if (!kv_swap_check(&world->step.swap))
        fail(world, "swapped pages do not add up");
    check_cancelled(world);
    if (!has_worked)
        check_idle(world);
    check_poison(world);
}

/* At the end nothing runs; the cache's pages go with its domains, and nothing is left. */
static void check_end(struct sim_world *world)
{
    struct step *step = &world->step;
    struct prefix_figures figures;
    if (step->sequences.order_count != 0 || step->queue.all.count != 0 ||
        atomic_load(&world->tickets.free_count) != world->tickets.count)
        fail(world, "something still runs at the end");
    prefix_cache_figures(&step->cache, &figures);
    if (figures.pages_active != 0)
        fail(world, "%u pages are in use at the end", figures.pages_active);
    if (figures.hit_tokens != world->result.tokens_cached)
        fail(world, "%" PRIu64 " tokens were told as found, %" PRIu64 " were counted",
             world->result.tokens_cached, figures.hit_tokens);
    world->result.evicted_to_host = figures.evicted_to_host;
    world->result.evicted_dropped = figures.evicted_dropped + figures.host_dropped;
    world->result.returned = figures.returned_pages;
    world->result.windows_dropped = figures.windows_dropped;
    world->result.window_lost = figures.window_lost_tokens;
    for (uint32_t d = 1; d < world->domain_count && !world->knobs.is_uncached; d++) {
        struct engine_domain id = world->ids[d];
        prefix_cache_drop_domain(&step->cache, &id);
    }
    prefix_cache_figures(&step->cache, &figures);
    if (step->pool.free_count != step->pool.unit_count || figures.pages_host != 0 ||
        figures.pages_pinned != 0)
        fail(world, "%u of %u pages are free at the end, %u are in the host tier, %u pinned",
             step->pool.free_count, step->pool.unit_count, figures.pages_host,
             figures.pages_pinned);
    check_step(world, false);
}

/* --- a run --- */

/* Takes a part of a trace, as fast as this model's load on average. */
static void run_draw_trace(struct sim_world *world, const struct sim_trace *trace)
{
    uint32_t count = world->knobs.requests;
    count = count < trace->count ? count : trace->count;
    world->knobs.requests = count;
    uint32_t first = (uint32_t)rng_below(&world->rng, trace->count - count + 1);
    const struct sim_arrival *part = &trace->arrivals[first];
    double span_us = (double)(part[count - 1].at_us - part[0].at_us) + 1;
    double scale = (double)world->knobs.gap_us * count / span_us;
    for (uint32_t i = 0; i < count; i++) {
        struct sim_arrival arrival = part[i];
        arrival.at_us = 1000 + (int64_t)((double)(part[i].at_us - part[0].at_us) * scale);
        sim_load_trace(&world->requests[i].draw, &world->knobs, &arrival);
    }
}

static void run_draw(struct sim_world *world, const struct sim_trace *trace)
{
    int64_t arrival_us = clock_mono_us(&world->clock);
    for (uint32_t i = 0; i < world->knobs.requests; i++) {
        struct sim_arrival arrival;
        struct sim_draw *draw = &world->requests[i].draw;
        sim_load_draw(draw, &world->knobs, &world->rng, i, arrival_us);
        if (world->knobs.is_trace) {
            sim_trace_draw(&arrival, &world->rng, arrival_us, world->knobs.gap_us);
            sim_load_trace(draw, &world->knobs, &arrival);
        }
        arrival_us = draw->arrival_us;
    }
    if (trace != NULL)
        run_draw_trace(world, trace);
    for (uint32_t p = 0; p < world->knobs.published; p++)
        sim_load_append(&world->published[p].text, &world->rng,
                        (uint32_t)(20 + rng_below(&world->rng, 70)), SIM_CONTEXT);
}

/* Returns the ticks that may still pass once no request comes any more: twice one for each token
 * still to be computed, and each reader's stop. */
static uint64_t run_ticks_left(const struct sim_world *world)
{
    uint64_t ticks = 2000;
    for (uint32_t i = 0; i < world->knobs.requests; i++) {
        const struct sim_request *request = &world->requests[i];
        if (!request->is_over)
            ticks += (request->draw.is_forever ? HANG_UP_STEPS : 0) +
                     2 * (uint64_t)request->draw.choices *
                         (request->prompt.count + request->draw.tokens_max);
    }
    return ticks;
}

/* When only requests with readers that stopped for good are left, these disconnect. */
static void run_hang_up(struct sim_world *world)
{
    for (uint32_t i = 0; i < world->submitted; i++) {
        const struct sim_request *request = &world->requests[i];
        if (!request->is_over && !(request->draw.is_forever && request->tick_stopped > 0))
            return;
    }
    for (uint32_t i = 0; i < world->submitted; i++)
        if (!world->requests[i].is_over)
            world->requests[i].is_cancelled = ticket_cancel(&world->tickets, world->requests[i].id);
}

void sim_world_run(struct sim_result *out, uint64_t seed, uint32_t kind,
                   const struct sim_machine *machine, const struct sim_trace *trace, bool is_traced)
{
    struct sim_world *world = world_open(seed, kind, machine, is_traced);
    uint64_t tick_last = UINT64_MAX;
    run_draw(world, trace);
    while (world->over < world->knobs.requests) {
        if (++world->tick > tick_last)
            fail(world, "no end: %u of %u requests are over", world->over, world->knobs.requests);
        int64_t next_us = submit_due(world);
        if (next_us == INT64_MAX && tick_last == UINT64_MAX)
            tick_last = world->tick + run_ticks_left(world);
        act(world);
        sim_account_before(&world->account);
        late_pages_step();
        bool has_worked = step_once(&world->step);
        check_step(world, has_worked);
        if (world->tick % world->lag == 0)
            take_events(world);
        if (has_worked)
            continue;
        if (next_us == INT64_MAX)
            run_hang_up(world);
        int64_t until_next_us = next_us - clock_mono_us(&world->clock);
        int64_t idle_us = IDLE_US * (int64_t)world->knobs.slow;
        clock_manual_advance(&world->clock, until_next_us < idle_us ? until_next_us : idle_us);
    }
    step_once(&world->step);
    check_end(world);
    world->result.requests = world->knobs.requests;
    world->result.overhead = (uint64_t)world->account.overhead;
    world->result.spread = world->account.spread;
    world->result.pairs_wanted = world->account.pairs_wanted;
    world->result.pairs_judged = world->account.pairs_judged;
    world->result.wait_steps = world->account.wait_steps;
    world->result.wait_served = world->account.wait_served;
    world->result.steps = atomic_load(&world->step.figures.steps);
    world->result.rows = atomic_load(&world->step.figures.rows);
    world->result.copies = late_pages_begun();
    world->result.copies_waited = late_pages_waited();
    world->result.guesses_right = world->step.draft.accepted;
    world->result.guesses_wrong = world->step.draft.rejected;
    *out = world->result;
    world_close(world);
}
