/* sim_load: who asks for what and when, drawn from a seed.
 *
 * Owns:     nothing; writes into the caller's structs.
 * Thread:   one.
 * Cost:     a few random numbers a token.
 * Not here: running it (sim_world).
 */
#pragma once

#include "config/base/rng.h"
#include "config/base/service_class.h"
#include "engine/engine.h"
#include "tests/sim/sim_trace.h"

enum {
    SIM_CONTEXT = 192, /* tokens: 12 pages */
    SIM_PAGE = 16,     /* tokens of a page, unless the machine's are larger */
    SIM_REQUESTS_MAX = 1040,
    SIM_TENANTS_MAX = 40,
    SIM_PUBLISHED_MAX = 8,
    SIM_CHOICES_MAX = 3,
};

enum sim_source {
    SIM_SOURCE_FRESH,
    SIM_SOURCE_SYSTEM,
    SIM_SOURCE_CHAT,
    SIM_SOURCE_AGAIN,
    SIM_SOURCE_TWIST,
    SIM_SOURCE_PUBLISHED,
    SIM_SOURCE_PUBLISH, /* publishes a text itself */
    SIM_SOURCE_COUNT,
};

/* Settings of the whole program call. */
struct sim_machine {
    uint32_t page_tokens; /* 16, or a multiple that divides SIM_CONTEXT */
    uint32_t late_steps;  /* steps that page copies take beside the work; 0: none */
    /* Layers of two kinds: units of a page that only the last `window` tokens need; 0: one kind. */
    uint32_t window_units;
    uint32_t window;
};

struct sim_knobs {
    const char *kind;
    struct sim_machine machine;
    uint32_t tenants;
    uint32_t groups;
    uint32_t published;
    uint32_t requests;
    uint32_t pages; /* of the pool, at least those of one full context */
    uint32_t host_pages;
    uint32_t rows_max;
    uint32_t sequences_max;
    uint32_t gap_us; /* mean time between arrivals */
    uint32_t cancels;
    uint32_t stops;     /* readers that stop */
    uint32_t deadlines; /* requests with a deadline */
    uint32_t changes;   /* grants given or taken, prompts unpublished, per request */
    uint32_t pin_percent;
    uint32_t batching; /* enum engine_batching */
    uint32_t step_ms;
    uint32_t classes[SERVICE_CLASS_COUNT]; /* weights of the classes; all 0: standard */
    uint32_t weights;                      /* tenants whose weight is not 100 */
    uint32_t flood; /* requests of tenant 0 that come in bursts, in class flood_class */
    uint32_t flood_class;
    uint32_t rush; /* this many first requests come at once, from tenant 0; the others are light */
    uint32_t prompt_most; /* most tokens of a prompt; 0: any number */
    uint32_t forever;     /* stopped readers that never go on */
    uint32_t deaf;        /* only readers of this many first tenants stop; 0: of any */
    uint32_t circles; /* of 1000 tokens, those that continue a circle; > 0: the engine speculates */
    uint32_t cancels_paused; /* requests that are cancelled as soon as they are preempted */
    uint32_t
        /* grants taken and prompts unpublished while a sequence is preempted, per step */
        changes_paused;
    uint32_t slow; /* times the model's usual time; 0: 1 */
    uint32_t fair_quantum;
    uint32_t floor_percent;
    uint32_t preemption; /* enum engine_preemption */
    uint32_t urgent_step_ms;
    uint32_t shared_us;
    bool is_trace;    /* arrivals and lengths like Azure's (sim_trace) */
    bool is_uncached; /* the server's option */
    bool is_long;     /* answers long enough to be throttled */
    uint32_t source[SIM_SOURCE_COUNT];
};

/* A text that a domain's pages may contain. */
struct sim_text {
    uint32_t count;
    uint32_t tokens[SIM_CONTEXT];
};

enum { SIM_NEVER = UINT32_MAX };

struct sim_draw {
    uint32_t tenant;
    int64_t arrival_us;
    int64_t deadline_us;   /* after the arrival; 0: none */
    uint32_t cancel_steps; /* after the arrival, or SIM_NEVER */
    uint32_t stop_tokens;  /* the reader stops after this many tokens … */
    uint32_t resume_steps; /* … and goes on after this many steps */
    uint32_t tokens_max;
    uint32_t choices;
    enum service_class service_class;
    bool is_forever; /* the reader stops for good */
    bool is_cancelled_paused;
    float temperature;
    bool is_uncached; /* without a domain */
    enum sim_source source;
    struct sim_arrival traced; /* its prompt, if the run has traced ones (generated > 0) */
};

/* Returns the number of kinds that seeds choose from; the kinds after them run only by name. */
uint32_t sim_load_kind_count(void);
/* Returns the index among all kinds; their number when none has that name. */
uint32_t sim_load_kind_find(const char *name);
const char *sim_load_kind_name(uint32_t kind);

/* Sets the knobs of a seed's run of a kind. */
void sim_load_knobs(struct sim_knobs *out, uint64_t seed, uint32_t kind,
                    const struct sim_machine *machine);
/* Returns the weight of one more tenant. */
uint32_t sim_load_weight(const struct sim_knobs *knobs, struct rng *rng);
/* Draws request `index`; `arrival_us` is that of the one before it. */
void sim_load_draw(struct sim_draw *out, const struct sim_knobs *knobs, struct rng *rng,
                   uint32_t index, int64_t arrival_us);

/* Replaces the draw's lengths and arrival by those of a trace. */
void sim_load_trace(struct sim_draw *draw, const struct sim_knobs *knobs,
                    const struct sim_arrival *arrival);
/* Makes the prompt of a traced request: its blocks, equal for all requests that have them, and new
 * tokens. */
void sim_load_traced(struct sim_text *out, const struct sim_arrival *arrival, struct rng *rng,
                     uint32_t room);

/* Appends `count` new tokens to `text`, as many as fit below `room`. */
void sim_load_append(struct sim_text *text, struct rng *rng, uint32_t count, uint32_t room);
/* Makes system prompt `index` of a tenant, the same in every call of one run. */
void sim_load_system(struct sim_text *out, uint64_t seed, uint32_t tenant, uint32_t index);
/* Changes one token, most often the last or the first of a page, and may cut what follows. */
void sim_load_twist(struct sim_text *text, struct rng *rng);
/* Returns 0 … bound − 1 with a chance of `permille` in 1000, else SIM_NEVER. */
uint32_t sim_load_sometimes(struct rng *rng, uint32_t permille, uint32_t bound);
