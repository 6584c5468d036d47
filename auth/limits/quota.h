/* quota: the front door of limits: may this request begin, go on, and how do limits stand.
 *
 *   quota_reserve ─► leases ─► quota_prompt, quota_extend ─► quota_settle
 *   a committed row ─► quota_count                (one account's part: quota_lease.h)
 *
 * Owns:     the accounts of tenants and of keys with limits, in memory. They die with the process,
 *           and leases with them: the ledger has the truth, and sums of the day and the month are
 *           read from it again; buckets begin with what its last minute left of them.
 * Thread:   the loop's, but for quota_sums_read.
 * Cost:     a look-up in a table and one atomic load; limits are resolved again when one changes.
 * Not here: what is limited (quota_limits), HTTP (edge_quota).
 *
 * Minutes are of the monotonic clock. Days and months are UTC, of the wall clock: whenever it shows
 * another day than the sums are of, forwards or back, they are read anew.
 */
#pragma once

#include "auth/ledger/ledger_usage.h"
#include "auth/limits/quota_lease.h"

struct quota;

struct quota_options {
    struct tenants *tenants;    /* outlives the quota */
    struct ledger_usage *usage; /* … */
    const struct clock *clock;  /* NULL = the system's */
    const char *ledger_path;    /* of what the last minute used; NULL: buckets begin full */
};
/* A ledger that cannot be read is logged, and buckets begin full. NO_MEMORY. */
enum status quota_open(struct quota **out, const struct quota_options *options);
void quota_close(struct quota *quota);

/* Who asks, for how much. `key_id` NULL or "": no key's limits count. */
struct quota_demand {
    const char *tenant_id;
    const char *key_id;
    const char *model;         /* with the class: what its tokens cost; NULL: nothing */
    const char *service_class; /* … */
    size_t body_bytes;
    bool is_text;         /* work on text alone, without tokens */
    int64_t output_most;  /* the request's own max_tokens, of all choices; 0 = unknown */
    uint32_t deadline_ms; /* … deadline */
};

/* What a request holds: of its tenant's account and, when its key has limits, of that one's. */
struct quota_leases {
    struct quota_lease of[QUOTA_SCOPES];
};

/* All limits of the key and of its tenant pass and `leases` is charged to them, or none is:
 * RATE_REQUESTS, RATE_TOKENS or QUOTA (a budget is spent), with the limit's name as param and a
 * message that says scope, limit, used, requested and reset; `denial` has the same as numbers, and
 * `denial->shadow` in any case; `denial->lowered` of what is let in. NO_MEMORY. */
enum status quota_reserve(struct quota *quota, const struct quota_demand *demand,
                          struct quota_leases *leases, struct quota_denial *denial);
/* As the functions of quota_lease, of both. */
void quota_prompt(struct quota *quota, struct quota_leases *leases, int64_t prompt, int64_t cached);
bool quota_extend(struct quota *quota, struct quota_leases *leases, int64_t output,
                  struct quota_denial *denial);
void quota_worked(struct quota_leases *leases);
void quota_settle(struct quota *quota, struct quota_leases *leases, int64_t prompt, int64_t cached,
                  int64_t output);
/* A row is in the ledger, whichever way it came. */
void quota_count(struct quota *quota, const char *tenant_id, const char *key_id,
                 const struct quota_use *used);
/* And it is of a request that an earlier process had let in: its minute is charged, too. */
void quota_recall(struct quota *quota, const char *tenant_id, const char *key_id, int64_t prompt,
                  int64_t cached, int64_t output);
/* How a limit of the tenant stands now; with a key, of the key. */
struct quota_standing quota_standing(struct quota *quota, const char *tenant_id, const char *key_id,
                                     enum quota_limit limit);

/* --- sums of the day and the month --- */

struct quota_sums_part {
    bool is_wanted;
    const _Atomic int64_t *known;  /* the day whose sums the account has */
    int64_t counted[QUOTA_LIMITS]; /* when it began */
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
/* Whether tenant or key has a budget and its sums are not today's: then quota_sums_begin (the
 * loop), quota_sums_read (a thread that may wait), quota_sums_end (the loop). */
bool quota_wants_sums(struct quota *quota, const char *tenant_id, const char *key_id);
void quota_sums_begin(struct quota *quota, const char *tenant_id, const char *key_id,
                      struct quota_sums *sums);
/* As ledger_usage fails. */
enum status quota_sums_read(struct quota_sums *sums);
/* What was counted in between is counted on top: never too little. */
void quota_sums_end(struct quota *quota, const struct quota_sums *sums);

/* "17ms", "1.5s", "6m0s", "1h12m0s": as OpenAI writes resets. Rounded up. */
enum { QUOTA_DURATION_BYTES = 40 };
void quota_duration(int64_t us, char out[QUOTA_DURATION_BYTES]);
