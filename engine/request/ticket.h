/* ticket: a request in the engine, from submit until its last event is taken.
 *
 * Owns:     the table with a slot for each request, the copy of the request, the prompt's tokens.
 * Thread:   a slot belongs to one thread at a time: submitter → prepare → engine thread → consumer;
 *           ids, cancels and acknowledgements are atomics, for any thread.
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
#include "engine/request/guard.h"

/* Echo with log-probabilities: entry i is of prompt token i, written by the choice's sequence. */
struct ticket_score {
    float logprob;
    uint32_t top_count;
    struct engine_logprob top[]; /* [asked.top_logprobs] */
};

/* What the cache had for a prompt or sequence when it was last looked up. */
struct ticket_found {
    bool is_known;
    uint64_t version; /* of the cache */
    uint64_t turn;    /* number of the step that looked */
    uint32_t tokens;
    uint32_t pages; /* that hold them */
    uint32_t cost;  /* available pages that taking them would use */
    bool is_shared; /* some are in a domain where other tenants write too */
};

enum { TICKET_NONE = UINT32_MAX };

struct ticket_links {
    uint32_t before;
    uint32_t after;
};

struct ticket {
    /* The id of the request in the slot; 0 while the slot is free. */
    _Atomic engine_request_id id;
    /* The latest id that was cancelled here. It is compared with `id`, so a stale
     * one does nothing. */
    _Atomic engine_request_id cancelled_id;
    /* The latest id that was moved to the lowest class; compared in the same way. */
    _Atomic engine_request_id lowered_id;
    /* The id's generation << 32 | tokens delivered. */
    _Atomic uint64_t acknowledged[LIMIT_CHOICES];

    uint32_t generation; /* of `id` */
    /* Set before the engine thread gets the slot and read-only afterwards, except service_class:
     * the engine thread may lower it, and other threads read shown_class. */
    struct engine_request asked;   /* slices and arrays point into `copy` */
    enum service_class door_class; /* class at submit, in which its tenant counts it */
    char *copy;
    uint32_t *prompt; /* [prompt_count] */
    uint32_t prompt_count;
    uint32_t tokens_max;  /* as asked, or what the context leaves */
    bool is_in_reasoning; /* wants marks, and the prompt ends with the one that opens it */
    char *scores;         /* [choices][prompt_count] ticket_score, or NULL */
    struct guard *guards; /* [choices], or NULL without a constraint */
    uint64_t unconstrained[LIMIT_TOOLS / 64]; /* as engine_event.unconstrained */
    atomic_bool is_cancelled; /* a hint for compilations; ticket_is_cancelled is what counts */
    size_t bytes;             /* counted in the table's sum */
    int64_t submitted_us;
    struct error_note refusal; /* status OK unless refused */

    /* For engine_requests: written by the engine thread after each step that changed them. */
    _Atomic uint32_t shown_state; /* enum engine_request_state */
    _Atomic uint32_t shown_class;
    _Atomic uint32_t shown_computed;
    _Atomic uint32_t shown_cached;
    _Atomic uint32_t shown_completion;
    _Atomic int32_t shown_deficit;       /* sign of its client's deficit, at the last look */
    _Atomic uint32_t shown_preempted_by; /* 1 + enum service_class; 0 = not preempted */

    /* The engine thread's. */
    uint32_t client; /* account in scheduler_fair */
    bool is_waiting; /* in step_queue, by these links */
    struct ticket_links in_all;
    struct ticket_links in_client;
    uint32_t passed;  /* later requests of its client that were admitted before it */
    uint64_t arrival; /* its number in the queue */
    uint32_t choices_admitted;
    uint32_t choices_ended;
    struct ticket_found found; /* for its prompt */
    bool is_start_told;
    bool is_cache_counted;
    /* The sequence that it follows, until that has computed leader_until tokens; serial
     * 0 = none. */
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
    struct engine_domain domain; /* the client of fairness, else its own domain */
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
    _Atomic uint32_t cancels; /* since the start */
    _Atomic uint32_t lowers;  /* since the start */
    /* Requests of each tenant in each class, so that no tenant takes all slots. */
    uint32_t tenant_max; /* bound for one tenant in one class; 0 = none */
    pthread_mutex_t tenants_lock;
    struct ticket_tenant *tenants; /* [tenant_count], room for `count` */
    uint32_t tenant_count;
};

/* A table of `count` tickets whose copies, prompts and scores have at most `bytes_max`
 * bytes together. NO_MEMORY. */
enum status ticket_table_init(struct ticket_table *table, uint32_t count, uint64_t bytes_max);
/* Frees what all slots hold. */
void ticket_table_deinit(struct ticket_table *table);

/* Copies `asked` into a free slot and gives it an id. BUSY when no slot or no bytes are left;
 * ENGINE_SHARE when its tenant has used up its share of the bytes (config/base/byte_shares) or
 * its slots in the class: `tenant_max`, or an eighth of that while less than a quarter of all
 * slots is free. The last eighth of all slots is kept for classes above the lowest, the last
 * sixteenth for the highest. */
enum status ticket_acquire(struct ticket_table *table, const struct engine_request *asked,
                           int64_t now_us, uint32_t *slot, engine_request_id *id);
/* Frees the slot for another request; its id is stale from here on. */
void ticket_release(struct ticket_table *table, uint32_t slot);

/* Checks every number of the request against its range; `vocab` bounds the tokens of biases.
 * OUT_OF_RANGE, or INVALID for a stop string, with the name of the parameter. */
enum status ticket_check_asked(const struct ticket *ticket, uint32_t vocab);
/* Takes the prompt's tokens, which ticket_release frees (also after a failure), and sets tokens_max
 * and the room for scores. INVALID when the prompt is empty, CONTEXT_LENGTH when it does not fit,
 * BUSY or ENGINE_SHARE when there is no room. */
enum status ticket_take_prompt(struct ticket_table *table, uint32_t slot, uint32_t *prompt,
                               size_t prompt_count, uint32_t context);
/* Makes the guards of all choices, which ticket_release frees. They and the grammar, as large as it
 * is now, count in the memory of waiting requests and in the tenant's share of it. BUSY,
 * ENGINE_SHARE, NO_MEMORY, or LIMIT when the grammar's first row is over one. */
enum status ticket_take_grammar(struct ticket_table *table, uint32_t slot, struct grammar *grammar,
                                struct token_classes *classes);
/* As ticket_take_prompt, for a request that came as token ids: it checks them (OUT_OF_RANGE) and
 * copies them. */
enum status ticket_take_tokens(struct ticket_table *table, uint32_t slot, uint32_t vocab,
                               uint32_t context);
/* Fails with CONTEXT_LENGTH, for a prompt of more than `context` tokens. */
enum status ticket_fail_context(const struct ticket *ticket, uint32_t context);

/* --- from any thread, by id --- */

/* Each notes its call for the engine thread; true when the id was alive. */
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

/* Whether logits or states of all rows of the prompt are wanted, not those of the last alone. */
static inline bool ticket_wants_all(const struct ticket *ticket)
{
    return ticket->scores != NULL || ticket->asked.pooling == ENGINE_POOLING_MEAN ||
           ticket->asked.pooling == ENGINE_POOLING_FIRST;
}

static inline uint32_t ticket_wanted_from(const struct ticket *ticket)
{
    return ticket_wants_all(ticket) ? 0 : ticket->prompt_count - 1;
}

/* Entry `index` of a choice's scores. */
struct ticket_score *ticket_score_at(const struct ticket *ticket, uint32_t choice, uint32_t index);
