/* sequence: what runs: one choice of one request, with its tokens and its KV pages.
 *
 * Owns:     the table of running sequences, in order of age; their page references.
 * Thread:   engine thread; records_taken is also touched by the consumer.
 * Cost:     acquire and release O(running); no allocation after sequence_table_init.
 * Not here: requests (ticket), who computes when (scheduler).
 *
 *     tokens   [prompt … | generated …]           token_count; the truth
 *     pages    [16 tokens][16 tokens][ 3 tokens]  computed of them stand in pages
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "engine/kv/kv_pool.h"
#include "engine/kv/kv_swap.h"
#include "engine/request/ticket.h"
#include "engine/sampling/text_stream.h"

enum { SEQUENCE_NONE = UINT32_MAX };

struct sequence {
    bool is_running;
    uint32_t slot; /* of the request */
    uint32_t choice;
    uint32_t *tokens; /* [context] */
    uint32_t token_count;
    uint32_t prompt_count;
    uint32_t computed;
    uint32_t scored; /* echo: prompt rows whose logits were seen; UINT32_MAX when none is asked */
    page_id *pages;  /* [pages of a full context] */
    uint32_t page_count;
    uint64_t serial; /* of this use of the place; never 0 */
    /* The cache's: pages below `inserted` are in it, `taken` tokens came from it. */
    uint32_t inserted;
    uint32_t taken;
    /* Charges: `reached` tokens were computed once, or found when it came in. */
    uint32_t client;
    uint32_t reached;
    bool is_found_charged;
    /* Pauses. */
    bool is_paused;          /* others have its pages */
    bool is_pause_told;      /* its stream knows; the next token says that it goes on */
    uint32_t arriving_steps; /* in which its pages were still on their way */
    uint32_t quantum_left;   /* steps with rows in which its own class takes nothing from it */
    uint64_t row_turn;       /* the step in which it last had a row */
    int64_t paused_since_us;
    int64_t idle_since_us;             /* without rows; 0 = had some in the last step */
    enum service_class followed_class; /* in this step: the most urgent who waits for its prompt */
    struct ticket_found found;         /* while paused */
    bool is_followed;                  /* in this step somebody waits for its prompt */
    struct engine_domain domain;       /* of the pages it fills */
    struct engine_domain visible[LIMIT_DOMAINS_VISIBLE + 1];
    uint32_t visible_count;
    uint32_t undelivered; /* tokens or records, when the step began */
    bool is_throttled;
    int64_t last_token_us;
    struct text_stream text;
    /* Records in the outbox: the place is taken again only when the consumer has taken all. */
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
    uint32_t *holders; /* [pages of the pool], scratch of sequence_table_check */
};

enum status sequence_table_init(struct sequence_table *table, const struct kv_pool *pool,
                                uint32_t count, uint32_t context);
void sequence_table_deinit(struct sequence_table *table);

/* Places that sequence_acquire could give now. */
uint32_t sequence_free_count(struct sequence_table *table);

/* Running ones that are throttled. */
uint32_t sequence_throttled_count(const struct sequence_table *table);

/* Starts choice `choice` of a prepared request as the youngest. SEQUENCE_NONE when none is free. */
uint32_t sequence_acquire(struct sequence_table *table, const struct ticket *ticket, uint32_t slot,
                          uint32_t choice);
/* Ends it: its pages go back, and its place once the consumer has taken its records. */
void sequence_release(struct sequence_table *table, struct kv_pool *pool, uint32_t index);

/* Acquires pages until `tokens` tokens have room; the planner has made sure that they are free. */
void sequence_grow(struct sequence *sequence, struct kv_pool *pool, uint32_t tokens);
/* Gives back the pages behind what is computed: they were for guesses. */
void sequence_trim(struct sequence *sequence, struct kv_pool *pool);
/* Gives all pages back; the sequence is computed again from its tokens. */
void sequence_drop_pages(struct sequence *sequence, struct kv_pool *pool);
/* Makes it the youngest: one that lost its pages while throttled must not take them back from
 * those who went on. */
void sequence_make_youngest(struct sequence_table *table, uint32_t index);

/* The sum of references, those of paused ones too (`swap` may be NULL), against the pool's; for
 * tests and slow checks. */
bool sequence_table_check(struct sequence_table *table, const struct kv_pool *pool,
                          const struct kv_swap *swap);

static inline uint32_t sequence_generated(const struct sequence *sequence)
{
    return sequence->token_count - sequence->prompt_count;
}

/* Rows at this position and later want logits. */
static inline uint32_t sequence_logits_from(const struct sequence *sequence)
{
    uint32_t last = sequence->token_count - 1;
    return sequence->scored < last ? sequence->scored : last;
}
