/* quota_lease: one tenant's account: buckets, what is under way, and the leases between.
 *
 *   reserve ─► lease (input, output, one request) ─► known prompt, extensions ─► settle
 *      └─ denied: nothing of it is charged                    └─ past its deadline: given back
 *
 * Owns:     nothing that outlives the account; a lease is its request's memory.
 * Thread:   one at a time: an account belongs to one loop. A server of several loops gives each
 *           tenant one home loop, or asks a source of slices as it asks this: no lock either way.
 * Cost:     reserve, extend and settle are O(QUOTA_LIMITS), well under 1 µs.
 * Not here: whose account it is, its limits and the ledger's sums (quota), answers (edge_quota).
 *
 * Buckets are exact integers: a level is counted in 1/60,000,000 of a unit, so that a limit of n a
 * minute adds n of them each microsecond of monotonic time. They begin full. A bucket may owe: by
 * what a prompt had more than was guessed, never by more than one lease of each request that ran.
 */
#pragma once

#include "auth/limits/quota_limits.h"
#include "auth/tenants/price.h"

/* How long a tenant's answers are: counts by length, four classes an octave, halved as they grow
 * old. */
enum { QUOTA_LEASE_CLASSES = 128, QUOTA_LEASE_HISTORY = 256 };

struct quota_lease;

struct quota_account {
    struct quota_limits_set set;
    int64_t levels[QUOTA_LIMITS];  /* MINUTE: may be negative */
    int64_t at_us[QUOTA_LIMITS];   /* MINUTE: monotonic, when the level was that */
    int64_t held[QUOTA_LIMITS];    /* NOW: by open leases; DAY, MONTH: the same */
    int64_t counted[QUOTA_LIMITS]; /* DAY, MONTH: in the ledger */
    bool is_past[QUOTA_LIMITS];    /* DAY, MONTH: `counted` is of one that is over */
    struct quota_lease *leases;    /* open ones */
    uint16_t lengths[QUOTA_LEASE_CLASSES];
    uint32_t lengths_total;
    uint32_t tokens_per_1024; /* tokens of prompts for 1024 bytes of bodies, as seen; 0: not yet */
};

struct quota_lease {
    struct quota_account *account; /* NULL: not open */
    struct quota_lease *next;
    struct quota_lease *previous;
    int64_t deadline_us; /* monotonic; then it is nobody's */
    uint32_t charged;    /* bits of the limits it is charged to; those that lacked and let it in all
                          * the same (shadow, lower_class) are not */
    bool is_expired;     /* given back; settling charges what was used after all */
    bool is_worked;      /* an engine has worked on its text (quota_lease_worked) */
    struct price_tokens price; /* of the reservation */
    int64_t prompt;            /* tokens that occupy pages */
    int64_t cached;            /* of these, as far as the engine has told */
    int64_t input;             /* tokens charged of it */
    int64_t output;
    int64_t output_most; /* the request's own max_tokens, of all choices; 0 = unknown */
    size_t body_bytes;
};

/* What a request asks for. */
struct quota_ask {
    size_t body_bytes;
    bool is_text;              /* work on text alone: it takes a request and bytes, and no tokens */
    int64_t output_most;       /* 0 = not said */
    int64_t deadline_us;       /* monotonic */
    int64_t now_us;            /* monotonic */
    struct price_tokens price; /* zeros where no limit counts costs */
};

/* Whose limits: a request has to pass those of its tenant and those of its key. */
enum quota_scope { QUOTA_TENANT, QUOTA_KEY, QUOTA_SCOPES };

/* Why not. Numbers are in the limit's unit. */
struct quota_denial {
    enum quota_scope scope; /* set by quota_reserve and quota_extend */
    enum quota_limit limit;
    int64_t most;
    int64_t used;
    int64_t requested;
    int64_t reset_us; /* until it may pass; 0: not by waiting for the bucket */
    bool is_never;    /* the request alone is over the limit */
    uint32_t shadow;  /* bits of shadow limits that would have refused */
    uint32_t lowered; /* bits of those that let it go on in the lowest class */
};

void quota_lease_init(struct quota_account *account, const struct quota_limits_set *set,
                      int64_t now_us);
/* Other limits from now on: what was used of a bucket stays used; a new bucket is full. */
void quota_lease_set(struct quota_account *account, const struct quota_limits_set *set,
                     int64_t now_us);

/* True: all limits passed and the lease is charged to them. False: none is charged, `denial` says
 * which one stands longest in the way. `denial->shadow` and `lowered` are set either way. */
bool quota_lease_reserve(struct quota_account *account, const struct quota_ask *ask,
                         struct quota_lease *lease, struct quota_denial *denial);
/* Whether waiting for `a` takes longer than for `b`: a spent budget before a request that is too
 * large, that before a bucket. */
bool quota_lease_is_longer(const struct quota_denial *a, const struct quota_denial *b);
/* The prompt as the engine counts it. */
void quota_lease_prompt(struct quota_lease *lease, int64_t prompt, int64_t cached, int64_t now_us);
/* The answer has `output` tokens: extends the lease when its end is near. False: a limit is met and
 * the lease is used up: the answer ends here. */
bool quota_lease_extend(struct quota_lease *lease, int64_t output, int64_t now_us,
                        struct quota_denial *denial);
/* An engine has parsed and tokenised the request's text, or may have. If the request then ends
 * before its prompt is computed (a prompt that is too long, a bad field, a client that left), it
 * still counts as one request with its bytes of text and the estimated input: that work cost the
 * neighbours time, too. */
void quota_lease_worked(struct quota_lease *lease);
/* The end, once (later calls do nothing): what was not used comes back, what was more is charged.
 * Without a prompt the request is charged only when an engine has worked on it: one request and the
 * estimated input, and no output. Budgets are charged by quota_lease_count, when the row is in the
 * ledger. */
void quota_lease_settle(struct quota_lease *lease, int64_t prompt, int64_t cached, int64_t output,
                        int64_t now_us);
/* What rows of the ledger say together. */
struct quota_use {
    int64_t requests;
    int64_t prompt;
    int64_t cached;
    int64_t output;
    int64_t cost_nano;
};
/* A committed row: the budgets count it. */
void quota_lease_count(struct quota_account *account, const struct quota_use *used);
/* How much of it a budget counts. */
int64_t quota_lease_amount(const struct quota_limits_set *set, enum quota_limit limit,
                           const struct quota_use *used);
/* The sum of two that are not negative, at most INT64_MAX. */
int64_t quota_lease_sum(int64_t a, int64_t b);

/* What was used of the last minute by requests that this account never knew; so an account is
 * always behind: what a bucket had before that minute is taken for nothing. Never makes a debt. */
void quota_lease_recall(struct quota_account *account, int64_t prompt, int64_t cached,
                        int64_t output, int64_t now_us);

/* Tokens charged for a prompt. */
int64_t quota_lease_input(const struct quota_limits_set *set, int64_t prompt, int64_t cached);

/* How a limit stands: what is left (never negative) and when a bucket is full again. */
struct quota_standing {
    int64_t limit; /* 0 = none */
    bool is_shadow;
    bool is_known; /* false: a budget whose sums were not read today */
    int64_t remaining;
    int64_t reset_us;
};
struct quota_standing quota_lease_standing(struct quota_account *account, enum quota_limit limit,
                                           int64_t now_us);
