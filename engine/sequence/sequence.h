/* sequence: one choice of one request while it runs, with its tokens and its KV pages.
 *
 * Owns:     the table of sequences; the running ones in order of age, with their page references.
 * Thread:   engine thread; records_taken is also written by the consumer.
 * Cost:     acquire and release O(sequences); no allocation after sequence_table_init.
 * Not here: requests (ticket), which sequence computes when (scheduler).
 *
 *     tokens   [prompt … | generated …]           token_count; the truth
 *     pages    [16 tokens][16 tokens][ 3 tokens]  `computed` of them have keys and values here
 *     window               └ window_page: it needs the window units of pages from here on
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "engine/kv/kv_pool.h"
#include "engine/kv/kv_swap.h"
#include "engine/request/ticket.h"
#include "engine/sampling/reasoning_budget.h"
#include "engine/sampling/text_stream.h"

enum { SEQUENCE_NONE = UINT32_MAX, SEQUENCE_FORKS = 4 };

struct sequence {
    bool is_running;
    uint32_t slot; /* of the request's ticket */
    uint32_t choice;
    uint32_t *tokens; /* [context] */
    uint32_t token_count;
    uint32_t prompt_count;
    uint32_t forced;   /* tokens behind token_count that its grammar forces, not told yet */
    uint32_t computed; /* tokens whose keys and values are in pages */
    /* Prompt rows whose logits (of an echo) or states (of a mean) were seen; UINT32_MAX = none of
     * them but the last row's are wanted. */
    uint32_t scored;
    page_id *pages; /* [pages of a full context] */
    uint32_t page_count;
    uint32_t window_page; /* first page that its next row may read in layers with a window */
    uint64_t serial;      /* of this use of the slot; never 0 */
    /* Prefix cache: it holds the pages below `inserted`; `taken` tokens came from it. */
    uint32_t inserted;
    uint32_t taken;
    /* Depths beyond `computed` where others' texts branch off, or will: the window behind each is
     * kept as a tail when it is computed. 0 = none. */
    uint32_t forks[SEQUENCE_FORKS];
    /* Charges: `reached` tokens were computed once, or found at admission. */
    uint32_t client;
    uint32_t reached;
    bool is_found_charged;
    /* Preemption. */
    bool is_paused;          /* preempted: it has no pages */
    bool is_pause_told;      /* its client was sent PAUSED; the next token comes with RESUMED */
    uint32_t arriving_steps; /* steps in which its pages were still being copied */
    uint32_t quantum_left;   /* steps with rows in which its own class takes nothing from it */
    uint64_t row_turn;       /* number of the step in which it last had a row */
    int64_t paused_since_us;
    int64_t idle_since_us;             /* without rows; 0 = had rows in the last step */
    enum service_class followed_class; /* most urgent class that waits for its prompt this step */
    struct ticket_found found;         /* while preempted */
    bool is_followed;                  /* a request waits for its prompt in this step */
    struct engine_domain domain;       /* of the pages it fills */
    struct engine_domain visible[LIMIT_DOMAINS_VISIBLE + 1];
    uint32_t visible_count;
    uint32_t undelivered; /* tokens or records, at the start of the step */
    bool is_throttled;
    int64_t last_token_us;
    struct text_stream text;
    struct reasoning_budget budget; /* without marks: the request has none */
    /* Its prompt has opened reasoning: the constraint of the request holds behind the mark that
     * ends it. */
    bool is_reasoning;
    /* Records in the outbox: the slot is reused only when the consumer has taken all of them. */
    uint32_t records_pushed;
    _Atomic uint32_t records_taken;
};

struct sequence_table {
    struct sequence *slots; /* [count] */
    uint32_t count;
    uint32_t context;
    uint64_t last_serial;
    uint32_t *order; /* [order_count] of slots, oldest first */
    uint32_t order_count;
    uint32_t *tokens;  /* [count][context] */
    page_id *pages;    /* [count][pages of a full context] */
    uint32_t *holders; /* [units of the pool], scratch of sequence_table_check, as needs */
    uint32_t *needs;
};

/* NO_MEMORY. */
enum status sequence_table_init(struct sequence_table *table, const struct kv_pool *pool,
                                uint32_t count, uint32_t context);
void sequence_table_deinit(struct sequence_table *table);

/* Slots that sequence_acquire could give now. */
uint32_t sequence_free_count(struct sequence_table *table);

/* Running sequences that are throttled. */
uint32_t sequence_throttled_count(const struct sequence_table *table);

/* Starts choice `choice` of a prepared request as the youngest sequence; returns its slot, or
 * SEQUENCE_NONE when none is free. */
uint32_t sequence_acquire(struct sequence_table *table, const struct ticket *ticket, uint32_t slot,
                          uint32_t choice);
/* Ends a sequence: releases its pages. Its slot is free when the consumer has taken its records. */
void sequence_release(struct sequence_table *table, struct kv_pool *pool, uint32_t index);

/* Acquires pages, with their window units, until `tokens` tokens have room. The plan must have made
 * sure that as many units are free. */
void sequence_grow(struct sequence *sequence, struct kv_pool *pool, uint32_t tokens);
/* Gives up the need of window units that no row behind the computed tokens reads. Called after each
 * step, when full pages have been given to the cache. */
void sequence_advance(struct sequence *sequence, struct kv_pool *pool);
/* Keeps the window behind `tokens` computed tokens as a tail, which is inside the sequence's own
 * window still; that behind one token less, too, since a hit leaves one token to be computed. */
void sequence_keep_tail(const struct sequence *sequence, struct kv_pool *pool, uint32_t tokens);
/* Notes a depth as one of `forks`. When there is no room, the deepest ones stay. */
void sequence_note_fork(struct sequence *sequence, uint32_t tokens);
/* Releases the pages after the computed tokens, which were for draft tokens. */
void sequence_trim(struct sequence *sequence, struct kv_pool *pool);
/* Releases all pages; the sequence is recomputed from its tokens. */
void sequence_drop_pages(struct sequence *sequence, struct kv_pool *pool);
/* Makes it the youngest: a sequence that lost its pages while throttled must not take them back
 * from those that took them. */
void sequence_make_youngest(struct sequence_table *table, uint32_t index);

/* Units of the pool that it holds, without those that it does not need any more. */
static inline uint32_t sequence_units(const struct sequence *sequence, const struct kv_pool *pool)
{
    return sequence->page_count +
           (sequence->page_count - sequence->window_page) * pool->layout.window_units;
}

/* Whether the references of all sequences and swap lists (`swap` may be NULL) agree with the pool's
 * counts; for tests and slow checks. */
bool sequence_table_check(struct sequence_table *table, const struct kv_pool *pool,
                          const struct kv_swap *swap);

static inline uint32_t sequence_generated(const struct sequence *sequence)
{
    return sequence->token_count - sequence->prompt_count;
}

/* Rows at this position and later need logits. */
static inline uint32_t sequence_logits_from(const struct sequence *sequence)
{
    uint32_t last = sequence->token_count - 1;
    return sequence->scored < last ? sequence->scored : last;
}
