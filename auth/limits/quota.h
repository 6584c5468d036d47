/* quota: the front door of limits: whether a request may begin and go on, and what is left.
 *
 *   quota_reserve ─► leases ─► quota_prompt, quota_extend ─► quota_settle
 *   a committed row ─► quota_count                (one account's part: quota_lease.h)
 *
 * Owns:     the accounts of tenants and of keys with limits, in memory. Accounts and leases end
 *           with the process. A new process reads the sums of the day and the month from the
 *           ledger. It charges its buckets with what the ledger has of the last minute.
 * Thread:   the loop's, except for quota_sums_read.
 * Cost:     a look-up in a table and one atomic load. When a limit changes, limits are resolved
 *           again.
 * Not here: the limits themselves (quota_limits), HTTP (edge_quota).
 *
 * Minutes follow the monotonic clock. Days and months follow the wall clock in UTC. When the wall
 * clock shows a later or an earlier day than that of the sums, the sums are read again.
 */
#pragma once

#include "auth/ledger/ledger_usage.h"
#include "auth/limits/quota_lease.h"

struct quota;

struct quota_options {
    struct tenants *tenants; /* must outlive the quota, as must `usage` */
    struct ledger_usage *usage;
    const struct clock *clock; /* NULL: the system's clock */
    const char *ledger_path;   /* for the use of the last minute; NULL: buckets begin full */
};
/* Makes the accounts' table. When the ledger cannot be read, that is logged, and buckets begin
 * full. NO_MEMORY. */
enum status quota_open(struct quota **out, const struct quota_options *options);
void quota_close(struct quota *quota);

/* What a request asks for: its tenant, its key, and the most that it may use. With `key_id` NULL or
 * "", only the tenant's limits count. */
struct quota_demand {
    const char *tenant_id;
    const char *key_id;
    const char *model; /* model and class decide the price; NULL: tokens cost nothing */
    const char *service_class;
    size_t body_bytes;
    bool is_text;         /* work on text alone, without tokens */
    bool has_no_output;   /* it generates no tokens */
    int64_t output_most;  /* the request's max_tokens times its choices; 0: unknown */
    uint32_t deadline_ms; /* the request's deadline from now */
};

/* What a request has reserved from its tenant's account and, when its key has limits, from its
 * key's. */
struct quota_leases {
    struct quota_lease of[QUOTA_SCOPES];
};

/* Reserves from all limits of the key and of its tenant, or from none. When a limit refuses, the
 * status is RATE_REQUESTS, RATE_TOKENS or, for a budget, QUOTA. The param is then the limit's name.
 * The message says scope, limit, used, requested and reset; `denial` has the same as numbers.
 * `denial->shadow` is always set. `denial->lowered` is set when the request is let in.
 * NO_MEMORY. */
enum status quota_reserve(struct quota *quota, const struct quota_demand *demand,
                          struct quota_leases *leases, struct quota_denial *denial);
/* The next four call the function of quota_lease with the same name for both leases. */
void quota_prompt(struct quota *quota, struct quota_leases *leases, int64_t prompt, int64_t cached);
bool quota_extend(struct quota *quota, struct quota_leases *leases, int64_t output,
                  struct quota_denial *denial);
void quota_worked(struct quota_leases *leases);
void quota_settle(struct quota *quota, struct quota_leases *leases, int64_t prompt, int64_t cached,
                  int64_t output);
/* Adds a row to the budgets. Call it for every row, once the row is in the ledger. */
void quota_count(struct quota *quota, const char *tenant_id, const char *key_id,
                 const struct quota_use *used);
/* Also charges the buckets with a row. Call it for the row of a request that an earlier process let
 * in, because the buckets of this process do not know of that request. */
void quota_recall(struct quota *quota, const char *tenant_id, const char *key_id, int64_t prompt,
                  int64_t cached, int64_t output);
/* Returns the state of a limit now: of the key if `key_id` is given, otherwise of the tenant. */
struct quota_standing quota_standing(struct quota *quota, const char *tenant_id, const char *key_id,
                                     enum quota_limit limit);

/* --- sums of the day and the month --- */

struct quota_sums_part {
    bool is_wanted;
    const _Atomic int64_t *known;  /* the day whose sums the account has */
    int64_t counted[QUOTA_LIMITS]; /* what the account had counted when the reading began */
    struct quota_use day;
    struct quota_use month;
};

struct quota_sums {
    struct ledger_usage *usage;
    char tenant_id[LIMIT_ID_BYTES];
    char key_id[LIMIT_ID_BYTES];
    int64_t day; /* since 1970 */
    int64_t month_day;
    struct quota_sums_part parts[QUOTA_SCOPES];
};
/* Whether the tenant or the key has a budget whose sums are not today's. Then the caller must read
 * them before it reserves: quota_sums_begin on the loop, quota_sums_read on a thread that may wait,
 * quota_sums_end on the loop. */
bool quota_wants_sums(struct quota *quota, const char *tenant_id, const char *key_id);
void quota_sums_begin(struct quota *quota, const char *tenant_id, const char *key_id,
                      struct quota_sums *sums);
/* Waits for ledger_usage, and fails as its queries do. */
enum status quota_sums_read(struct quota_sums *sums);
/* Puts the sums that were read into the accounts. Adds what was counted since quota_sums_begin, so
 * that an account never counts too little. */
void quota_sums_end(struct quota *quota, const struct quota_sums *sums);

/* Writes a duration as OpenAI's API writes resets: "17ms", "1.500s", "6m0s", "1h12m0s". The
 * duration is rounded up. */
enum { QUOTA_DURATION_BYTES = 40 };
void quota_duration(int64_t us, char out[QUOTA_DURATION_BYTES]);
