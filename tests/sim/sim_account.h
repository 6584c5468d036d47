/* sim_account: what each client was served, as the forward passes show it, and what must hold of
 * it.
 *
 * Owns:     clients (a tenant in a class) with their charges, the rows of each class in the last
 *           second, how far every sequence has come.
 * Thread:   one.
 * Cost:     O(sequences + requests) a step, and O(clients²) of those that wait together.
 * Not here: the scheduler's own view (scheduler_fair), except three facts it is asked for: who has
 *           had too much, what a floor is owed, the most pages that a class had in the last second.
 *
 *     before:  who waits, who is preempted ─► pass: rows of each ─► after: charges, then the checks
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "engine/step/step.h"
#include "tests/sim/sim_load.h"

enum {
    SIM_CLIENTS_MAX = SIM_TENANTS_MAX * SERVICE_CLASS_COUNT,
    SIM_SECOND_STEPS = 8192, /* most steps of a second that are remembered */
};

/* A tenant in a class. */
struct sim_client {
    uint32_t tenant;
    struct engine_domain id;
    enum service_class service_class;
    uint32_t weight;
    double charge;        /* without pages */
    double charge_pages;  /* the engine's charge for pages: at most `residency` */
    double residency;     /* pages of all its sequences */
    double charge_before; /* before this step */
    double residency_before;
    double theirs; /* the engine's account before this step; < 0: none */
    uint32_t throttled;
    uint32_t held;       /* slots */
    bool is_over;        /* as the engine's account said before this step, or says now */
    bool is_waiting;     /* has something to admit or resume that waits for nothing else */
    bool wants;          /* has something without a row, whatever it waits for */
    uint64_t since_step; /* `is_waiting` held in every step since then */
};

/* Two clients of a class that wait together: the least and the most that one was ahead. */
struct sim_pair {
    uint64_t since_step;
    double least;
    double most;
};

/* A request, by its ticket's slot. */
struct sim_asked {
    uint32_t client;
    bool is_known;
    bool is_waiting; /* no part of it was ever admitted */
    bool was_waiting;
    uint32_t followed_steps; /* before this step */
    uint32_t told_before;    /* tokens reported before this step */
    uint32_t drawn;          /* in this step: sequences that give a token */
    uint32_t guessed;        /* in this step: draft rows behind those */
    uint32_t waited;         /* steps, for a light client beside a rush */
    double flood_served;     /* what tenant 0 had been charged when it came */
    bool is_published;
};

/* A slot of the table of sequences. */
struct sim_place {
    uint64_t serial; /* of the sequence last seen there */
    uint32_t slot;
    uint32_t client;
    /* tokens that were ever computed or cached; rows that compute them again are charged to nobody
     */
    uint32_t high;
    uint32_t rows;          /* in this step */
    uint32_t left;          /* tokens that it could have computed in this step, minus `rows` */
    uint64_t serial_before; /* before this step */
    uint32_t pages_before;
    uint32_t pages_in; /* pages during the pass, or after a step without one */
    /* class during the pass: its own, or that of the request that waits for its prompt */
    enum service_class runs_in;
    bool is_in;           /* present during the pass */
    uint32_t quantum;     /* steps with rows until its class may take its pages */
    uint32_t alone_still; /* consecutive steps in which its client's only decode had no row */
    bool was_throttled;
    bool is_running; /* at the last look */
    bool is_paused;
    bool is_throttled;
    bool has_pages; /* has ever had pages */
};

/* A step of the last second. */
struct sim_second {
    int64_t began_us;
    int64_t end_us;
    uint32_t rows[SERVICE_CLASS_COUNT];
};

struct sim_account {
    const struct sim_knobs *knobs;
    const struct step *step;
    struct sim_client clients[SIM_CLIENTS_MAX];
    uint32_t client_count;
    struct sim_pair *pairs;   /* [SIM_CLIENTS_MAX][SIM_CLIENTS_MAX] */
    struct sim_asked *asked;  /* [tickets] */
    struct sim_place *places; /* [slots] */
    double overhead;          /* rows computed again */
    double operators;         /* rows of published prompts */
    double executed;          /* rows */
    uint64_t steps;
    uint64_t oldest; /* serial of the sequence that should advance */
    uint32_t steps_still;
    bool was_paused; /* preempted within those steps */

    struct sim_second *seconds; /* [SIM_SECOND_STEPS], a ring: first … next */
    uint64_t second_first;
    uint64_t second_next;
    uint64_t second_rows[SERVICE_CLASS_COUNT];
    int64_t
        /* since when it wants more than it has; < 0: it does not */
        short_since_us[SERVICE_CLASS_COUNT];
    uint32_t rows[SERVICE_CLASS_COUNT]; /* of this step */
    uint32_t admitted[SERVICE_CLASS_COUNT];
    bool is_short[SERVICE_CLASS_COUNT];
    bool has_work[SERVICE_CLASS_COUNT]; /* a sequence computes, is preempted, or may come in */
    uint32_t owed_before[SERVICE_CLASS_COUNT]; /* of floors, as the engine said before the step */
    int64_t began_us;                          /* of this step */
    int64_t last_us;                           /* of the step before it, with or without work */
    bool has_pass;                             /* this step had a pass */
    uint32_t wait_steps;                       /* the longest wait of a light client */
    double wait_served;    /* the flood's charge meanwhile, as a part of the bound */
    double spread;         /* the largest share of the bound that two clients reached */
    uint64_t pairs_wanted; /* steps in which two clients of a class both wanted more */
    uint64_t pairs_judged; /* those of them in which the bound was checked */
    char wrong[200];       /* the first property that does not hold */
};

void sim_account_init(struct sim_account *account, const struct sim_knobs *knobs,
                      const struct step *step);
void sim_account_deinit(struct sim_account *account);

/* Records a request of a tenant in a slot. */
void sim_account_submit(struct sim_account *account, uint32_t slot, uint32_t tenant,
                        const struct engine_request *asked);
/* The slot is free. */
void sim_account_release(struct sim_account *account, uint32_t slot);

/* Called around step_once: before it, in each pass, after it. sim_account_after returns whether all
 * properties hold; if not, `wrong` names one that does not. */
void sim_account_before(struct sim_account *account);
void sim_account_pass(struct sim_account *account, const struct model_batch *batch);
bool sim_account_after(struct sim_account *account, int64_t now_us, bool has_worked);
/* Returns whether a request waits for nothing, of a client without stopped readers: those may keep
 * out their client's other requests. */
bool sim_account_may_enter(const struct sim_account *account);
