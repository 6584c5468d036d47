/* scheduler_fair: the service that each client has received, and what each class received lately.
 *
 * Owns:     accounts of clients (a tenant in a class), the level of each class, the floors' window.
 * Thread:   engine thread only; other threads read figures only while the engine stands still.
 * Cost:     enter and charge O(1), a new tenant O(its bucket); tick O(classes); no allocation.
 * Not here: which sequence goes next (scheduler), whose pages are taken (scheduler_take), queues
 *           (step).
 *
 * Fairness works by deficits, kept as virtual time. An account is the service of its client divided
 * by the client's weight. A class has a level; a client below it has a positive deficit. The level
 * rises by whole quanta as soon as no client that wants service is below it. A client that begins
 * to want service gets at most one quantum of credit. While no client of a class wants service, the
 * level is raised to the account of the client that was served most, among those in the plan. Debts
 * are kept until the account is needed for another client.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "config/base/service_class.h"
#include "config/base/status.h"
#include "engine/request/engine_request.h"

enum { SCHEDULER_FAIR_NOBODY = UINT32_MAX };

/* Prices, in tokens at weight 100. */
#define SCHEDULER_PRICE_PROMPT    1.0 /* a prompt token, computed for the first time */
#define SCHEDULER_PRICE_CACHED    0.1 /* a prompt token that the cache had at admission */
#define SCHEDULER_PRICE_GENERATED 2.0
/* For each unit of sampler_work beyond the first, on top of the token. The price lies between the
 * cost beside a small model and that beside a large one. U counts tokens at the ordinary price: a
 * client whose tokens are dearer reaches it sooner. */
#define SCHEDULER_PRICE_DRAW      0.05
#define SCHEDULER_PRICE_DRAW_MOST 0.5
#define SCHEDULER_PRICE_DRAFT     0.5 /* a draft token that was rejected */
/* Each step, of a running or throttled sequence: for every 16 tokens that its units of KV memory
 * have room for in all layers, whatever the size of a unit. Where layers have two kinds, a page
 * without window units is the part of a page of all layers that its one unit is of all its units.
 */
#define SCHEDULER_PRICE_RESIDENCY 0.01
enum { SCHEDULER_RESIDENCY_TOKENS = 16 };

/* Steps with rows that a sequence is protected for after its admission or resume. */
enum { SCHEDULER_QUANTUM_STEPS = 32 };

enum { SCHEDULER_FLOOR_MOST = 50 / (SERVICE_CLASS_COUNT - 1) };

/* The window of the floors: its number of parts, and the microseconds of a part. */
enum { SCHEDULER_WINDOW_PARTS = 10, SCHEDULER_WINDOW_PART_US = 100000 };

/* After a client came beside others of its class, the next one is expected for this many parts. */
enum { SCHEDULER_MIXED_PARTS = 600 };

struct scheduler_fair_options {
    uint32_t clients; /* accounts: one for each request that can be in the engine */
    uint32_t quantum; /* Q: tokens at weight 100 */
    /* Share of the tokens of a second for each lower class with work; at most SCHEDULER_FLOOR_MOST,
     * so that all floors together leave half to more urgent work. */
    uint32_t floor_percent;
    uint32_t rows_max;
    uint32_t sequences_max;
    uint32_t context;
};

struct scheduler_client {
    struct engine_domain tenant;
    uint32_t weight;
    enum service_class service_class;
    uint32_t requests; /* in the engine; 0 = idle or never used */
    uint32_t next;     /* account in the same bucket */
    /* One step more could take it past U + Q beyond a client that wants service; stays set until it
     * is within Q of all of them. */
    bool is_over;
    /* Wants more service than it has: waiting, preempted or put off in the last plan. */
    bool is_backlogged;
    uint64_t backlogged_at; /* the number of the last plan in which it was backlogged */
    double served;          /* sum of charges / (weight / 100), raised by what is forgotten */
    double charged;         /* sum of charges */
    /* Scratch of a plan. */
    double planned;     /* what the plan will charge it, divided by its weight */
    double limit;       /* bound of `served` while others of its class have rows in the step */
    uint32_t holding;   /* sequences with pages that are not throttled */
    uint64_t units;     /* of KV memory that its sequences hold */
    uint32_t computing; /* sequences with rows in the step */
    double shared_us;   /* time of its decodes in the step, divided by its weight */
    uint32_t throttled;
    uint32_t best; /* among its candidates, the next to be admitted */
    bool is_shown; /* in `shown` */
    bool wants;    /* has a candidate with a free slot, a preempted sequence, or one put off */
    bool is_done;  /* this plan admits no more of its requests */
};

struct scheduler_window_part {
    int64_t number;                      /* time / SCHEDULER_WINDOW_PART_US */
    uint64_t asked[SERVICE_CLASS_COUNT]; /* rows of all classes in steps when this one had work */
    uint64_t had[SERVICE_CLASS_COUNT];   /* its own rows in those steps */
    uint32_t units[SERVICE_CLASS_COUNT]; /* the most that it held */
};

struct scheduler_fair {
    struct scheduler_fair_options options;
    struct scheduler_client *clients; /* [options.clients] */
    uint32_t *buckets; /* [bucket_mask + 1] first client; hashed by tenant and class */
    uint32_t bucket_mask;
    uint32_t used;   /* accounts below this index were used at some time */
    uint32_t *shown; /* [shown_count] scratch of a plan: its clients */
    uint32_t shown_count;
    double level[SERVICE_CLASS_COUNT];
    uint64_t plans;                         /* made since the start */
    uint64_t steps;                         /* done since the start */
    uint32_t requests[SERVICE_CLASS_COUNT]; /* of all clients */
    int64_t mixed_part; /* when an idle client last came to a class in which others had requests */
    double overhead;    /* tokens computed again after preemptions */
    double forgotten[SERVICE_CLASS_COUNT]; /* service that clients lack and are no longer owed */
    uint64_t pauses;                       /* preemptions for fairness inside a class */
    struct scheduler_window_part parts[SCHEDULER_WINDOW_PARTS];
    int64_t now_part;
};

/* What a step did, by class. */
struct scheduler_fair_step {
    uint32_t rows[SERVICE_CLASS_COUNT];
    uint32_t units[SERVICE_CLASS_COUNT]; /* held when it ran */
    bool has_work[SERVICE_CLASS_COUNT];  /* has a running, preempted or admissible sequence */
};

/* NO_MEMORY. */
enum status scheduler_fair_init(struct scheduler_fair *fair,
                                const struct scheduler_fair_options *options);
void scheduler_fair_deinit(struct scheduler_fair *fair);

/* The account of a tenant in a class, which counts one request more; each enter needs one
 * leave. The account's weight becomes `weight` (1 to LIMIT_WEIGHT; 0 = 100). A zero tenant is
 * a client too. */
uint32_t scheduler_fair_enter(struct scheduler_fair *fair, const struct engine_domain *tenant,
                              enum service_class service_class, uint32_t weight);
void scheduler_fair_leave(struct scheduler_fair *fair, uint32_t client);

/* Price of one token that takes `draw_work` to sample. */
static inline double scheduler_fair_token(double draw_work)
{
    double more = draw_work > 1 ? (draw_work - 1) * SCHEDULER_PRICE_DRAW : 0;
    return SCHEDULER_PRICE_GENERATED +
           (more < SCHEDULER_PRICE_DRAW_MOST ? more : SCHEDULER_PRICE_DRAW_MOST);
}

/* Charges `tokens`, which are already multiplied with their price. */
void scheduler_fair_charge(struct scheduler_fair *fair, uint32_t client, double tokens);
/* What one step charges for units with room for `room_tokens` tokens in all layers. */
double scheduler_fair_residency(double room_tokens);
/* Charges that, but nothing to a client that is over: most of its work is put off, and
 * its pages stay. */
void scheduler_fair_charge_pages(struct scheduler_fair *fair, uint32_t client, double room_tokens);

/* Moves the window to `now_us`, and adds what a step did (NULL = none). */
void scheduler_fair_tick(struct scheduler_fair *fair, int64_t now_us,
                         const struct scheduler_fair_step *step);

/* U + Q between two clients of a class, of whom the lighter has weight `least_weight`: half of the
 * bound on their difference in service while both are backlogged. */
double scheduler_fair_slack(const struct scheduler_fair *fair, uint32_t least_weight);
/* The most that one step charges a client, divided by the same weight. */
double scheduler_fair_step_most(const struct scheduler_fair *fair, uint32_t least_weight);
/* Rows that a class lacks to reach its floor over the last second; 0 when it has reached it. In
 * each part of the window at most twice the floor counts as received, so that one burst does not
 * use up a whole second. */
uint32_t scheduler_fair_owed(const struct scheduler_fair *fair, enum service_class service_class);
/* The most units that the class held at once within the last second. */
uint32_t scheduler_fair_peak(const struct scheduler_fair *fair, enum service_class service_class);
/* Raises the level by the fewest whole quanta that put it above `served`. */
void scheduler_fair_raise(struct scheduler_fair *fair, enum service_class service_class,
                          double served);
/* Whether a client without requests may soon come beside others of its class, as one did lately. */
bool scheduler_fair_is_mixed(const struct scheduler_fair *fair);
/* Sign of its deficit: 1 = it has had less than its share, -1 = more. */
int scheduler_fair_sign(const struct scheduler_fair *fair, uint32_t client);
