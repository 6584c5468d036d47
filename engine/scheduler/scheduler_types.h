/* scheduler_types: input and output of a plan.
 *
 * Owns:     nothing: the arrays are the caller's.
 * Thread:   any.
 * Cost:     –
 * Not here: making the plan (scheduler), accounts (scheduler_fair).
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "engine/scheduler/scheduler_fair.h"

struct scheduler_sequence {
    uint32_t tokens;   /* known: prompt and generated */
    uint32_t computed; /* of these, the ones whose keys and values are in pages; < tokens */
    uint32_t pages;    /* held; 0 = waiting or preempted */
    /* Without pages: what the cache or host memory has for it, `computed` tokens in this many
     * pages. Taking them uses `found_cost` of the available units. */
    uint32_t found_pages;
    uint32_t found_cost;
    uint32_t window_pages; /* of `pages`, or of found_pages: those with window units */
    bool is_found_shared;  /* some of it is in a domain where other tenants write too */
    uint32_t units_back;   /* that a preemption makes available: no other sequence needs them */
    uint32_t logits_from;  /* rows at this position and later need logits; < tokens */
    uint32_t charge_from;  /* rows at this position and later cost SCHEDULER_PRICE_PROMPT each */
    uint32_t client;       /* account in scheduler_fair */
    double draw_work;      /* sampler_work of each of its rows that need logits */
    uint32_t rested;       /* with pages: steps since it last had a row */
    uint32_t passed;       /* waiting: later requests of its client that were admitted before it */
    enum service_class service_class; /* its own, or that of its most urgent follower */
    bool is_throttled;      /* computes nothing, and its pages are the first to be taken */
    bool is_resumed_lately; /* fewer than SCHEDULER_QUANTUM_STEPS with rows since it got pages */
};

enum scheduler_mode {
    SCHEDULER_CONTINUOUS, /* new sequences at any step */
    SCHEDULER_WINDOW,     /* all that wait, when no running sequence is in its prompt */
    SCHEDULER_STATIC,     /* all that wait, when no sequence runs */
};

/* Predicted microseconds of a step: fixed + rows × row + (keys read by all rows) × key + (work of
 * sampling all tokens) × draw. */
struct scheduler_cost {
    double fixed_us;
    double row_us;
    double key_us;
    double draw_us;
    /* Where layers have two kinds: the part of the layers that read only the last `window` keys. */
    double window_share;
    uint32_t window;
};

/* Returns the keys that `rows` rows from position `first` on read in all, as an average over the
 * layers. */
static inline double scheduler_cost_keys(const struct scheduler_cost *cost, uint32_t first,
                                         uint32_t rows)
{
    const double all = (double)rows * first + (double)rows * (rows + 1.0) / 2;
    if (cost->window_share <= 0)
        return all;
    const uint32_t room = cost->window > first ? cost->window - first : 0;
    const uint32_t before = rows < room ? rows : room; /* rows that see all keys */
    const double few = (double)before * first + (double)before * (before + 1.0) / 2 +
                       (double)(rows - before) * cost->window;
    return all + (few - all) * cost->window_share;
}

struct scheduler_input {
    /* The plan reads the accounts and writes `is_over`, `is_backlogged`, levels, `served` and
     * scratch; it writes the same whenever it is shown the same. */
    struct scheduler_fair *fair;
    const struct scheduler_sequence *running; /* [running_count] oldest first, preempted ones too */
    uint32_t running_count;
    const struct scheduler_sequence *waiting; /* [waiting_count] in order of arrival, no pages */
    uint32_t waiting_count;
    uint32_t sequences_max;   /* that compute in one step */
    uint32_t places;          /* slots of running, preempted and throttled sequences together */
    uint32_t units_available; /* free, or held by the cache alone, or needed by nobody */
    /* Held for swapped-out sequences alone, and taken last: their tokens are recomputed then. */
    uint32_t units_protected;
    uint32_t units_total;
    uint32_t page_tokens;
    uint32_t window_units; /* of a page inside a window, beside its own unit; 0 = none */
    uint32_t window_most;  /* most pages of a sequence that have window units at once */
    uint32_t rows_max;
    uint32_t logit_rows_max;
    enum scheduler_mode mode;
    struct scheduler_cost cost;
    /* Predicted time of a step, to which prompts are cut; 0 = no limit. Decodes are not put off
     * for it, and the first chunk of a step has at least SCHEDULER_CHUNK_MIN rows. While a client
     * without requests may come beside others of its class (scheduler_fair_is_mixed), it is a
     * third, so that such a client waits less for the current step; a client's first prompt has
     * the whole time. */
    double budget_us;
    double urgent_us; /* the same for a step without a realtime row; 0 = budget_us */
    /* Time that the decodes of a step may take when several clients compute, or may soon; 0 = no
     * limit. Each client's first decode is in every step. The rest of the time is shared by weight;
     * among the sequences of a client those go first that have rested longest. At least one in
     * SCHEDULER_SHARED_MIN of sequences_max decodes is in the step whatever it takes. */
    double shared_us;
    bool is_preemption_off; /* none for another class or client, unless nothing can go on */
};

/* Smaller chunks do too little work for one read of the weights: SmolLM2-135M computes half as many
 * rows a second in steps of 32 as in steps of 512. */
enum { SCHEDULER_CHUNK_MIN = 32 };

/* A client with all sequences of a step has each of them computed once in this many steps. */
enum { SCHEDULER_SHARED_MIN = 8 };

/* A request that was passed this often goes first within its client. */
enum { SCHEDULER_PASSED_MAX = 8 };

enum scheduler_act {
    SCHEDULER_STAY,   /* no change; without rows it is put off and keeps its pages */
    SCHEDULER_PAUSE,  /* is preempted before the step: swapped out, or recomputed later */
    SCHEDULER_RESUME, /* has rows, and had no pages */
    SCHEDULER_ADMIT,  /* a waiting one; has rows, except in a window or static batch */
};

/* Why a sequence is preempted. */
enum scheduler_why {
    SCHEDULER_FOR_GROWTH, /* for an older one of its class, or because it is throttled */
    SCHEDULER_FOR_CLASS,  /* for a more urgent class */
    SCHEDULER_FOR_CLIENT, /* for a client of its class with less service */
};

struct scheduler_grant {
    uint32_t rows;
    enum scheduler_act act;
    enum scheduler_why why;       /* of a preemption */
    enum service_class for_class; /* of a preemption: the class that takes the pages */
    /* Scratch of the plan. grants[n].turn is the sequence that goes n-th; the other fields belong
     * to the grant's own sequence. */
    uint32_t turn;
    double key;
    bool is_tried;
    bool is_yielding; /* to the first prompt of another client */
    bool is_resting;  /* a decode that is put off because of shared_us */
};

struct scheduler_plan {
    uint32_t admitted;
    uint32_t rows;
    uint32_t logit_rows;
    uint32_t paused;                 /* sequences preempted */
    bool is_shared;                  /* shared_us bounded the decodes */
    struct scheduler_fair_step done; /* for scheduler_fair_tick: rows as granted, pages as held */
};
