/* ticket: a request in the engine, from submit until its last event is taken.
 *
 * Owns:     the table with a slot a request, the copy of what was asked, the prompt's tokens.
 * Thread:   a slot belongs to one thread at a time: submitter → prepare → engine thread → consumer;
 *           ids, cancels and acknowledgements are atomics, from any thread.
 * Cost:     acquire allocates one copy; the engine thread allocates and frees nothing here.
 * Not here: running sequences (sequence), making tokens from text (text/prepare).
 */
#pragma once

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "config/base/ring.h"
#include "engine/request/engine_request.h"

/* Echo with log-probabilities: entry i is of prompt token i, written by one choice's sequence. */
struct ticket_score {
    float logprob;
    uint32_t top_count;
    struct engine_logprob top[]; /* [asked.top_logprobs] */
};

/* What the cache had for a text when it was last looked up. */
struct ticket_found {
    bool is_known;
    uint64_t version; /* of the cache */
    uint64_t turn;    /* of the step that looked */
    uint32_t tokens;
    uint32_t pages; /* that hold them */
    uint32_t cost;  /* of the available pages, to take them */
    bool is_shared; /* some stand where other tenants write too */
};

enum { TICKET_NONE = UINT32_MAX };

struct ticket_links {
    uint32_t before;
    uint32_t after;
};

struct ticket {
    /* The id whose request holds the slot; 0 while free. */
    _Atomic engine_request_id id;
    /* The latest id that was cancelled here: compared with the id, so a stale one does nothing. */
    _Atomic engine_request_id cancelled_id;
    /* The latest id that is to be of the lowest class from then on; in the same way. */
    _Atomic engine_request_id lowered_id;
    /* id's generation << 32 | tokens delivered. */
    _Atomic uint64_t acknowledged[LIMIT_CHOICES];

    uint32_t generation; /* the holder's */
    /* Set before the engine thread sees the slot, read-only after; but for the class, which is the
     * engine thread's then: others see shown_class. */
    struct engine_request asked;   /* slices and arrays point into `copy` */
    enum service_class door_class; /* it came in with, and its tenant is counted in */
    char *copy;
    uint32_t *prompt; /* [prompt_count] */
    uint32_t prompt_count;
    uint32_t tokens_max; /* as asked, or what the context leaves */
    char *scores;        /* [choices][prompt_count] ticket_score, or NULL */
    size_t bytes;        /* counted in the table's sum */
    int64_t submitted_us;
    struct error_note refusal; /* status OK unless refused */

    /* For engine_requests: written by the engine thread after each step that changed them. */
    _Atomic uint32_t shown_state; /* enum engine_request_state */
    _Atomic uint32_t shown_class;
    _Atomic uint32_t shown_computed;
    _Atomic uint32_t shown_cached;
    _Atomic uint32_t shown_completion;
    _Atomic int32_t shown_deficit;       /* sign of its client's, when it was last looked at */
    _Atomic uint32_t shown_preempted_by; /* 1 + enum service_class; 0 = nobody */

    /* The engine thread's. */
    uint32_t client; /* whose account is charged */
    bool is_waiting; /* in step_queue, by these links */
    struct ticket_links in_all;
    struct ticket_links in_client;
    uint32_t passed;  /* times that a later one of its client came in first */
    uint64_t arrival; /* its number in the queue */
    uint32_t choices_admitted;
    uint32_t choices_ended;
    struct ticket_found found; /* by its prompt */
    bool is_start_told;
    bool is_cache_counted;
    /* The sequence whose prompt it follows, up to so many tokens; serial 0 = none. */
    uint32_t leader;
    uint64_t leader_serial;
    uint32_t leader_until;
    uint32_t followed_steps;
    int64_t admitted_us;
    int64_t first_token_us;
    int64_t last_token_us;
    struct engine_report report;

    /* Written once before the END (START) event, read by the consumer after it. */
    struct engine_report report_end;
    int64_t queue_us;
};

struct ticket_tenant {
    struct engine_domain domain; /* the client of fairness, else its own */
    enum service_class service_class;
    uint32_t requests;
    uint64_t bytes; /* of these */
};

struct ticket_table {
    struct ticket *slots; /* [count] */
    uint32_t count;
    struct ring free_slots;
    _Atomic uint32_t free_count;
    _Atomic uint64_t bytes;
    uint64_t bytes_max;
    _Atomic uint32_t cancels; /* ever asked */
    _Atomic uint32_t lowers;  /* … */
    /* Requests of each tenant and class that has some, so that none shuts the door for others. */
    uint32_t tenant_max; /* of one tenant in one class; 0 = any number */
    pthread_mutex_t tenants_lock;
    struct ticket_tenant *tenants; /* [tenant_count], room for `count` */
    uint32_t tenant_count;
};

enum status ticket_table_init(struct ticket_table *table, uint32_t count, uint64_t bytes_max);
/* Frees what all slots hold. */
void ticket_table_deinit(struct ticket_table *table);

/* Copies `asked` into a free slot and gives it an id. BUSY when slots or bytes are used up, or its
 * tenant's share of the bytes (config/base/byte_shares), or the slots of its tenant in its class:
 * `tenant_max`, and an eighth of it while less than a quarter of all slots is free. The last eighth
 * of the slots is for those above the lowest class, the last sixteenth for the highest. */
enum status ticket_acquire(struct ticket_table *table, const struct engine_request *asked,
                           int64_t now_us, uint32_t *slot, engine_request_id *id);
/* The slot is free for another; ids of this one are stale from here on. */
void ticket_release(struct ticket_table *table, uint32_t slot);

/* Every number of what was asked against its range; `vocab` bounds biases and token prompts. */
enum status ticket_check_asked(const struct ticket *ticket, uint32_t vocab);
/* Takes the prompt's tokens (mem_free'd with the slot, also on failure), settles tokens_max and the
 * room for scores. INVALID when empty, CONTEXT_LENGTH when it does not fit, BUSY. */
enum status ticket_take_prompt(struct ticket_table *table, uint32_t slot, uint32_t *prompt,
                               size_t prompt_count, uint32_t context);
/* The prompt of a request that came as tokens, checked and copied. */
enum status ticket_take_tokens(struct ticket_table *table, uint32_t slot, uint32_t vocab,
                               uint32_t context);
/* CONTEXT_LENGTH with the usual sentence, for a prompt of more than `context` tokens. */
enum status ticket_fail_context(const struct ticket *ticket, uint32_t context);

/* --- from any thread, by id --- */

/* True when the id was alive. */
bool ticket_cancel(struct ticket_table *table, engine_request_id id);
bool ticket_lower(struct ticket_table *table, engine_request_id id);
bool ticket_acknowledge(struct ticket_table *table, engine_request_id id, uint32_t choice,
                        uint32_t tokens);

static inline bool ticket_is_cancelled(struct ticket *ticket)
{
    return atomic_load_explicit(&ticket->cancelled_id, memory_order_relaxed) ==
           atomic_load_explicit(&ticket->id, memory_order_relaxed);
}

static inline bool ticket_is_lowered(struct ticket *ticket)
{
    return atomic_load_explicit(&ticket->lowered_id, memory_order_relaxed) ==
           atomic_load_explicit(&ticket->id, memory_order_relaxed);
}

static inline uint32_t ticket_acknowledged(struct ticket *ticket, uint32_t choice)
{
    return (uint32_t)atomic_load_explicit(&ticket->acknowledged[choice], memory_order_relaxed);
}

/* Weight of the request's domain in the cache. */
static inline uint32_t ticket_cache_share(const struct ticket *ticket)
{
    enum { SHARE_DEFAULT = 100 };
    return ticket->asked.cache_share > 0 ? ticket->asked.cache_share : SHARE_DEFAULT;
}

/* Entry `index` of a choice's scores. */
struct ticket_score *ticket_score_at(const struct ticket *ticket, uint32_t choice, uint32_t index);
