/* scheduler_types: the state that a plan is made of, and what a plan consists of.
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
    uint32_t computed; /* of them, those whose K and V stand in pages; < tokens */
    uint32_t pages;    /* held; 0 = waiting or paused */
    /* Without pages, what the cache or the host pool has for it: `computed` of its tokens, in so
     * many pages; to take them costs `found_cost` of the available ones. */
    uint32_t found_pages;
    uint32_t found_cost;
    bool is_found_shared; /* some of it stands where other tenants write too */
    uint32_t pages_back;  /* available again when it is paused: those that nobody else holds */
    uint32_t logits_from; /* rows at this position and later want logits; < tokens */
    uint32_t charge_from; /* rows at this position and later cost SCHEDULER_PRICE_PROMPT each */
    uint32_t client;      /* of scheduler_fair */
    double draw_work;     /* sampler_work of each of its rows that want logits */
    uint32_t rested;      /* of one with pages: steps since it last had a row */
    uint32_t passed;      /* of a waiting one: later ones of its client that were admitted first */
    enum service_class service_class; /* of the most urgent that follows it */
    bool is_throttled;      /* computes nothing, and its pages are the first to be taken */
    bool is_resumed_lately; /* less than SCHEDULER_QUANTUM_STEPS with rows since it came (back) */
};

enum scheduler_mode {
    SCHEDULER_CONTINUOUS, /* new sequences at any step */
    SCHEDULER_WINDOW,     /* all that wait, when nobody who runs is in its prompt */
    SCHEDULER_STATIC,     /* all that wait, when nobody runs */
};

/* Predicted microseconds of a step: fixed + rows × row + (keys read by all rows) × key + (work of
 * all tokens that are drawn) × draw. */
struct scheduler_cost {
    double fixed_us;
    double row_us;
    double key_us;
    double draw_us;
};

struct scheduler_input {
    /* Accounts are read; `is_over`, `is_backlogged`, levels and scratch are written, the same each
     * time that the same is shown. */
    struct scheduler_fair *fair;
    const struct scheduler_sequence *running; /* [running_count] oldest first, and all paused */
    uint32_t running_count;
    const struct scheduler_sequence *waiting; /* [waiting_count] in order of arrival, no pages */
    uint32_t waiting_count;
    uint32_t sequences_max;   /* that compute in one step */
    uint32_t places;          /* that can be admitted at all: running, paused and throttled */
    uint32_t pages_available; /* free, or in the cache and held by nobody */
    /* Held for paused sequences alone, and given up last: they have to be computed again. */
    uint32_t pages_protected;
    uint32_t pages_total;
    uint32_t page_tokens;
    uint32_t rows_max;
    uint32_t logit_rows_max;
    enum scheduler_mode mode;
    struct scheduler_cost cost;
    /* Prompts are cut to this; 0 = any time. Decodes are not put off for it, and the first chunk of
     * a step has at least SCHEDULER_CHUNK_MIN rows. A third of it while somebody without a request
     * may ask beside others of its class, so that it waits less for the step under way, but whole
     * for the first prompt of such a one. */
    double budget_us;
    double urgent_us; /* the same for a step without a realtime row; 0 = budget_us */
    /* What decodes of a step take at most where several clients compute, or may soon; 0 = any time.
     * Each client's first decode is in every step; the time that is left is shared by weight, and
     * of a client that has more those go first that have rested longest. At least one in
     * SCHEDULER_SHARED_MIN places of a step is given whatever it takes. */
    double shared_us;
    bool is_preemption_off; /* nobody is paused for another class or client, but to end at all */
};

/* With fewer rows the weights are read for too little: SmolLM2-135M computes half as many rows a
 * second in steps of 32 as in steps of 512. */
enum { SCHEDULER_CHUNK_MIN = 32 };

/* So that a client with all the places of a step is through within as many steps. */
enum { SCHEDULER_SHARED_MIN = 8 };

/* A request that was passed by so often goes first within its client. */
enum { SCHEDULER_PASSED_MAX = 8 };

enum scheduler_act {
    SCHEDULER_STAY,   /* as it is; without rows it is put off, and keeps what it has */
    SCHEDULER_PAUSE,  /* gives back all pages before the step, by swap or to be computed again */
    SCHEDULER_RESUME, /* has rows, and had no pages */
    SCHEDULER_ADMIT,  /* of a waiting one; with rows, but in a window or static batch */
};

/* Why somebody is paused. */
enum scheduler_why {
    SCHEDULER_FOR_GROWTH, /* an older one of its class needs the pages, or it is throttled */
    SCHEDULER_FOR_CLASS,  /* a more urgent class */
    SCHEDULER_FOR_CLIENT, /* one of its class that had less */
};

struct scheduler_grant {
    uint32_t rows;
    enum scheduler_act act;
    enum scheduler_why why;       /* of a pause */
    enum service_class for_class; /* of a pause: who takes the pages */
    /* Scratch of the plan: of all grants, in order, who goes next; its key in that order. */
    uint32_t turn;
    double key;
    bool is_tried;
    bool is_yielding; /* to the first prompt of another client */
    bool is_resting;  /* a decode that is put off for the time of the step */
};

struct scheduler_plan {
    uint32_t admitted;
    uint32_t rows;
    uint32_t logit_rows;
    uint32_t paused;
    bool is_shared;                  /* decodes took shared_us at most */
    struct scheduler_fair_step done; /* for scheduler_fair_tick: rows as granted, pages as held */
};
