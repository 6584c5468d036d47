/* quota_lease: one account of a tenant or a key: its buckets and budgets, and the leases of running
 * requests.
 *
 *   reserve ─► lease (input, output, one request) ─► known prompt, extensions ─► settle
 *      └─ denied: nothing of it is charged                    └─ past its deadline: given back
 *
 * Owns:     nothing that outlives the account. The caller owns the memory of leases.
 * Thread:   one at a time; an account belongs to one loop, so there is no lock.
 * Cost:     reserve, extend and settle are O(QUOTA_LIMITS), well under 1 µs.
 * Not here: whose account it is, its limits and the ledger's sums (quota), answers (edge_quota).
 *
 * Buckets are exact integers. A level is counted in 1/60,000,000 of a unit, so that a limit of n a
 * minute adds n of them in each microsecond of monotonic time. Buckets begin full. A level may be
 * negative when a prompt had more tokens than were estimated. The debt is at most one lease for
 * each request that ran.
 */
#pragma once

#include "auth/limits/quota_limits.h"
#include "auth/tenants/price.h"

/* A histogram of the lengths of an account's answers, with four classes an octave. Its counts are
 * halved after QUOTA_LEASE_HISTORY answers, so that old answers lose weight. */
enum { QUOTA_LEASE_CLASSES = 128, QUOTA_LEASE_HISTORY = 256 };

struct quota_lease;

struct quota_account {
    struct quota_limits_set set;
    int64_t levels[QUOTA_LIMITS];  /* MINUTE: what is left; may be negative */
    int64_t at_us[QUOTA_LIMITS];   /* MINUTE: the monotonic time of that level */
    int64_t held[QUOTA_LIMITS];    /* NOW, DAY, MONTH: what open leases have reserved */
    int64_t counted[QUOTA_LIMITS]; /* DAY, MONTH: what the ledger has */
    bool is_past[QUOTA_LIMITS];    /* DAY, MONTH: `counted` is of an earlier day or month */
    struct quota_lease *leases;    /* the open ones */
    uint16_t lengths[QUOTA_LEASE_CLASSES];
    uint32_t lengths_total;
    uint32_t tokens_per_1024; /* tokens of prompts for 1,024 bytes of bodies; 0: not known yet */
};

struct quota_lease {
    struct quota_account *account; /* NULL: not open */
    struct quota_lease *next;
    struct quota_lease *previous;
    int64_t deadline_us; /* monotonic; after it the lease is given back */
    /* Bits of the limits that are charged. A limit that was met and still let the request in
     * (shadow, lower_class) is not charged. */
    uint32_t charged;
    bool is_expired;           /* given back at its deadline; settling charges what was used */
    bool has_no_output;        /* its output says nothing of the answers to come */
    bool is_worked;            /* an engine has worked on its text (quota_lease_worked) */
    struct price_tokens price; /* the prices at the reservation */
    int64_t prompt;            /* tokens of the prompt, which occupy pages */
    int64_t cached;            /* of these tokens, the cached ones that the engine has reported */
    int64_t input;             /* input tokens that are charged */
    int64_t output;
    int64_t output_most; /* the request's max_tokens times its choices; 0: unknown */
    size_t body_bytes;
};

/* What a request asks for. */
struct quota_ask {
    size_t body_bytes;
    bool is_text;              /* work on text alone: it takes a request and bytes, and no tokens */
    bool has_no_output;        /* it takes input tokens alone */
    int64_t output_most;       /* 0: unknown */
    int64_t deadline_us;       /* monotonic */
    int64_t now_us;            /* monotonic */
    struct price_tokens price; /* zeros where no limit counts costs */
};

/* Whether limits are a tenant's or a key's. A request must pass both. */
enum quota_scope { QUOTA_TENANT, QUOTA_KEY, QUOTA_SCOPES };

/* Why a limit refuses. Numbers are in the limit's unit. */
struct quota_denial {
    enum quota_scope scope; /* set by quota_reserve and quota_extend */
    enum quota_limit limit;
    int64_t most;
    int64_t used;
    int64_t requested;
    int64_t reset_us; /* the time until the request may pass; 0: another request must end first */
    bool is_never;    /* the request alone is larger than the limit */
    uint32_t shadow;  /* bits of shadow limits that would have refused */
    uint32_t lowered; /* bits of limits that let it go on in the lowest class */
};

void quota_lease_init(struct quota_account *account, const struct quota_limits_set *set,
                      int64_t now_us);
/* Changes the account's limits. What was used of a bucket stays used; a new bucket is full. */
void quota_lease_set(struct quota_account *account, const struct quota_limits_set *set,
                     int64_t now_us);

/* Reserves a lease. True: all limits pass and are charged. False: none is charged, and `denial`
 * names the limit that refuses for the longest time. `denial->shadow` and `lowered` are set in both
 * cases. */
bool quota_lease_reserve(struct quota_account *account, const struct quota_ask *ask,
                         struct quota_lease *lease, struct quota_denial *denial);
/* Whether `a` refuses for longer than `b`. The budget of a month counts as longest, then that of a
 * day, then a request that is too large, then a bucket. */
bool quota_lease_is_longer(const struct quota_denial *a, const struct quota_denial *b);
/* The engine has counted the prompt: corrects the estimated charge. */
void quota_lease_prompt(struct quota_lease *lease, int64_t prompt, int64_t cached, int64_t now_us);
/* The answer has `output` tokens: extends the lease when it is nearly used up. False: a limit is
 * met and the lease is used up, so the answer must end. */
bool quota_lease_extend(struct quota_lease *lease, int64_t output, int64_t now_us,
                        struct quota_denial *denial);
/* An engine has parsed and tokenised the request's text, or may have. If the request then ends
 * before its prompt is computed (a prompt that is too long, a bad field, a client that left), it
 * still counts as one request with its bytes of text and the estimated input: that work cost the
 * neighbours time, too. */
void quota_lease_worked(struct quota_lease *lease);
/* Ends the lease; later calls do nothing. What was not used is given back, and what was used beyond
 * the lease is charged. With a prompt of 0 tokens, the request is charged only when an engine has
 * worked on it: one request and the estimated input, and no output. Budgets are charged by
 * quota_lease_count, when the row is in the ledger. */
void quota_lease_settle(struct quota_lease *lease, int64_t prompt, int64_t cached, int64_t output,
                        int64_t now_us);
/* Sums of rows of the ledger. */
struct quota_use {
    int64_t requests;
    int64_t prompt;
    int64_t cached;
    int64_t output;
    int64_t cost_nano;
};
/* Adds committed rows to the budgets. */
void quota_lease_count(struct quota_account *account, const struct quota_use *used);
/* The part of `used` that a limit counts, in the limit's unit. */
int64_t quota_lease_amount(const struct quota_limits_set *set, enum quota_limit limit,
                           const struct quota_use *used);
/* The sum of two numbers from 0 on, at most INT64_MAX. */
int64_t quota_lease_sum(int64_t a, int64_t b);

/* Charges the buckets for a request of the last minute that this account did not reserve for,
 * because an earlier process did. It never makes a level negative. */
void quota_lease_recall(struct quota_account *account, int64_t prompt, int64_t cached,
                        int64_t output, int64_t now_us);

/* The input tokens that are charged for a prompt: cached ones count by cached_percent. */
int64_t quota_lease_input(const struct quota_limits_set *set, int64_t prompt, int64_t cached);

/* The state of a limit. */
struct quota_standing {
    int64_t limit; /* 0: there is none */
    bool is_shadow;
    bool is_known;     /* false: a budget whose sums were not read today */
    int64_t remaining; /* at least 0 */
    int64_t reset_us;  /* until a bucket is full again, or a budget's day or month ends */
};
struct quota_standing quota_lease_standing(struct quota_account *account, enum quota_limit limit,
                                           int64_t now_us);
