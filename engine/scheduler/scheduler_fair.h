/* scheduler_fair: what every client has had, and what the classes have had lately.
 *
 * Owns:     accounts of clients (a tenant in a class), the level of each class, the floors' window.
 * Thread:   engine thread only; figures by whoever holds the engine still.
 * Cost:     enter and charge O(1), a new tenant O(its bucket); tick O(classes); no allocation.
 * Not here: who goes next (scheduler), whose pages are taken (scheduler_take), queues (step).
 *
 * Deficits as virtual time: an account is what its client has had, divided by its weight; a class
 * has a level, and who is below it has a positive deficit. The level rises by whole quanta as soon
 * as nobody who waits is below it. Nobody starts to wait with more than one quantum of credit, and
 * while nobody waits nobody is owed anything. Debts are kept for those who come back.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "config/base/service_class.h"
#include "config/base/status.h"
#include "engine/request/engine_request.h"

enum { SCHEDULER_FAIR_NOBODY = UINT32_MAX };

/* What is charged, in tokens at weight 100. */
#define SCHEDULER_PRICE_PROMPT    1.0 /* a prompt token, computed for the first time */
#define SCHEDULER_PRICE_CACHED    0.1 /* one that the cache had, at admission */
#define SCHEDULER_PRICE_GENERATED 2.0
/* For each work of sampler_work beyond the ordinary 1, on top of the token; between what it takes
 * beside a small model and beside a large one. U counts tokens at the ordinary price: a client
 * whose tokens are dearer has reached it sooner. */
#define SCHEDULER_PRICE_DRAW      0.05
#define SCHEDULER_PRICE_DRAW_MOST 0.5
#define SCHEDULER_PRICE_DRAFT     0.5 /* a guess that was wrong */
/* Each step, of a running or throttled sequence: pages with room for 16 tokens, whatever part of a
 * page, or how many, that is. */
#define SCHEDULER_PRICE_RESIDENCY 0.01
enum { SCHEDULER_RESIDENCY_TOKENS = 16 };

/* Steps that a sequence has for itself after it has come in or come back. */
enum { SCHEDULER_QUANTUM_STEPS = 32 };

enum { SCHEDULER_FLOOR_MOST = 50 / (SERVICE_CLASS_COUNT - 1) };

/* The window of the floors: so many parts of so many microseconds. */
enum { SCHEDULER_WINDOW_PARTS = 10, SCHEDULER_WINDOW_PART_US = 100000 };

/* After a client came in beside others of its class the next is expected for so many parts. */
enum { SCHEDULER_MIXED_PARTS = 600 };

struct scheduler_fair_options {
    uint32_t clients; /* accounts: one for each request that can be in the engine */
    uint32_t quantum; /* Q: tokens at weight 100 */
    /* Of the tokens of a second, for each lower class with work; SCHEDULER_FLOOR_MOST at most, so
     * that together they leave half to more urgent work. */
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
    uint32_t next;     /* of the same bucket */
    /* Would with one more step pass U + Q beyond the poorest that waits; until it is within Q. */
    bool is_over;
    /* Wants more than it has: shown waiting, paused or put off in the last plan. */
    bool is_backlogged;
    uint64_t backlogged_at; /* the number of the last plan in which it was */
    double served;          /* Σ charges ÷ (weight / 100), and what the level gave it */
    double charged;         /* Σ charges */
    /* Scratch of a plan. */
    double planned;     /* what it will be charged, divided by its weight */
    double limit;       /* of served, when others of its class have rows in the step */
    uint32_t holding;   /* sequences with pages that are not throttled */
    uint32_t computing; /* sequences with rows in the step */
    double shared_us;   /* what its decodes in the step take, divided by its weight */
    uint32_t throttled;
    uint32_t best; /* of its candidates, the next to be admitted */
    bool is_shown; /* in `shown` */
    bool wants;    /* shown waiting with a place to be had, paused, or put off */
    bool is_done;  /* no more is admitted of it in this plan */
};

struct scheduler_window_part {
    int64_t number;                      /* time ÷ SCHEDULER_WINDOW_PART_US */
    uint64_t asked[SERVICE_CLASS_COUNT]; /* rows of all classes in steps when this one had work */
    uint64_t had[SERVICE_CLASS_COUNT];   /* its own rows in those */
    uint32_t pages[SERVICE_CLASS_COUNT]; /* the most it held */
};

struct scheduler_fair {
    struct scheduler_fair_options options;
    struct scheduler_client *clients; /* [options.clients] */
    uint32_t *buckets; /* [bucket_mask + 1] first client; hashed by tenant and class */
    uint32_t bucket_mask;
    uint32_t used;   /* the first so many accounts were ever used */
    uint32_t *shown; /* [shown_count] scratch of a plan: who is in it */
    uint32_t shown_count;
    double level[SERVICE_CLASS_COUNT];
    uint64_t plans;                         /* ever made */
    uint64_t steps;                         /* ever done */
    uint32_t requests[SERVICE_CLASS_COUNT]; /* of all clients */
    int64_t mixed_part; /* when somebody who had none came to a class where others have some */
    double overhead;    /* tokens computed again, or swapped, because of others */
    double forgotten[SERVICE_CLASS_COUNT]; /* of served: what others had and nobody is owed for */
    uint64_t pauses;                       /* for fairness inside a class */
    struct scheduler_window_part parts[SCHEDULER_WINDOW_PARTS];
    int64_t now_part;
};

/* What a step did, class by class. */
struct scheduler_fair_step {
    uint32_t rows[SERVICE_CLASS_COUNT];
    uint32_t pages[SERVICE_CLASS_COUNT]; /* held when it ran */
    bool has_work[SERVICE_CLASS_COUNT];  /* somebody computes, is paused, or may be admitted */
};

enum status scheduler_fair_init(struct scheduler_fair *fair,
                                const struct scheduler_fair_options *options);
void scheduler_fair_deinit(struct scheduler_fair *fair);

/* The account of a tenant in a class, with one more request; each is given back by one leave. The
 * weight is that of the last request (1 … LIMIT_WEIGHT; 0 = 100). A zero tenant is one client. */
uint32_t scheduler_fair_enter(struct scheduler_fair *fair, const struct engine_domain *tenant,
                              enum service_class service_class, uint32_t weight);
void scheduler_fair_leave(struct scheduler_fair *fair, uint32_t client);

/* What is charged for one token that takes so much work to draw. */
static inline double scheduler_fair_token(double draw_work)
{
    double more = draw_work > 1 ? (draw_work - 1) * SCHEDULER_PRICE_DRAW : 0;
    return SCHEDULER_PRICE_GENERATED +
           (more < SCHEDULER_PRICE_DRAW_MOST ? more : SCHEDULER_PRICE_DRAW_MOST);
}

/* `tokens` are already multiplied with their price. */
void scheduler_fair_charge(struct scheduler_fair *fair, uint32_t client, double tokens);
/* What a step charges for pages with room for so many tokens. */
double scheduler_fair_residency(uint64_t room_tokens);
/* That; nothing of a client that is over: most of it is put off, and what it has stays. */
void scheduler_fair_charge_pages(struct scheduler_fair *fair, uint32_t client,
                                 uint64_t room_tokens);

/* Time passes: before a plan, with NULL, and after it, with what it does. */
void scheduler_fair_tick(struct scheduler_fair *fair, int64_t now_us,
                         const struct scheduler_fair_step *step);

/* U + Q between two clients of a class, of whom the lighter has this weight: half of what their
 * service may differ while both are backlogged. */
double scheduler_fair_slack(const struct scheduler_fair *fair, uint32_t least_weight);
/* The most that one step charges a client, divided by the same weight. */
double scheduler_fair_step_most(const struct scheduler_fair *fair, uint32_t least_weight);
/* Rows that a class lacks of its floor over the last second; 0 when it has had it. A burst counts
 * for two floors of its part at most, so that it does not buy the silence of a whole second. */
uint32_t scheduler_fair_owed(const struct scheduler_fair *fair, enum service_class service_class);
/* The most pages that the class held at once within the last second. */
uint32_t scheduler_fair_peak(const struct scheduler_fair *fair, enum service_class service_class);
/* The level rises by whole quanta, the fewest that leave `served` below it. */
void scheduler_fair_raise(struct scheduler_fair *fair, enum service_class service_class,
                          double served);
/* Whether a client without a request may soon ask beside others of its class, as one did lately. */
bool scheduler_fair_is_mixed(const struct scheduler_fair *fair);
/* Of its deficit: 1 = it is owed service, -1 = it has had more than its part. */
int scheduler_fair_sign(const struct scheduler_fair *fair, uint32_t client);
