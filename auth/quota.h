/* quota: the front door of limits: may this tenant's request begin, and how do its limits stand.
 *
 *   quota_reserve ─► lease ─► quota_lease_prompt, quota_lease_extend ─► quota_lease_settle
 *   a committed row ─► quota_count                (leases: quota_lease.h)
 *
 * Owns:     the tenants' accounts, in memory. They die with the process, and leases with them: the
 *           ledger has the truth, and sums of the day and the month are read from it again; buckets
 *           begin full.
 * Thread:   the loop's, but for quota_sums_read.
 * Cost:     a look-up in a table and one atomic load; limits are resolved again when one changes.
 * Not here: what is limited (quota_limits), HTTP (edge_quota).
 *
 * Minutes are of the monotonic clock. Days and months are UTC, of the wall clock: whenever it shows
 * another day than the sums are of, forwards or back, they are read anew.
 */
#pragma once

#include "auth/ledger_usage.h"
#include "auth/quota_lease.h"

struct quota;

struct quota_options {
    struct tenants *tenants;    /* outlives the quota */
    struct ledger_usage *usage; /* … */
    const struct clock *clock;  /* NULL = the system's */
};
enum status quota_open(struct quota **out, const struct quota_options *options);
void quota_close(struct quota *quota);

/* All of the tenant's limits pass and `lease` is charged to them, or none is: RATE_REQUESTS,
 * RATE_TOKENS or QUOTA (a budget is spent), with the limit's name as param and a message that says
 * limit, used, requested and reset; `denial` has the same as numbers, and `denial->shadow` in any
 * case. NO_MEMORY. `deadline_ms` is the request's own. */
enum status quota_reserve(struct quota *quota, const char *tenant_id, size_t body_bytes,
                          int64_t output_most, uint32_t deadline_ms, struct quota_lease *lease,
                          struct quota_denial *denial);
/* A row is in the ledger, whichever way it came. */
void quota_count(struct quota *quota, const char *tenant_id, int64_t prompt, int64_t cached,
                 int64_t output);
/* How a limit of the tenant stands now. */
struct quota_standing quota_standing(struct quota *quota, const char *tenant_id,
                                     enum quota_limit limit);
/* For the functions of quota_lease: monotonic microseconds. */
int64_t quota_now_us(const struct quota *quota);

/* --- sums of the day and the month --- */

struct quota_sums {
    struct ledger_usage *usage;
    char tenant_id[LIMIT_ID_BYTES];
    int64_t day; /* since 1970 */
    int64_t month_day;
    int64_t counted[2]; /* when it began: of the day, of the month */
    int64_t prompt[2];
    int64_t cached[2];
    int64_t output[2];
};
/* Whether the tenant has a budget and its sums are not today's: then quota_sums_begin (the loop),
 * quota_sums_read (a thread that may wait), quota_sums_end (the loop). */
bool quota_wants_sums(struct quota *quota, const char *tenant_id);
void quota_sums_begin(struct quota *quota, const char *tenant_id, struct quota_sums *sums);
/* As ledger_usage fails. */
enum status quota_sums_read(struct quota_sums *sums);
/* What was counted in between is counted on top: never too little. */
void quota_sums_end(struct quota *quota, const struct quota_sums *sums);

/* "17ms", "1.5s", "6m0s", "1h12m0s": as OpenAI writes resets. Rounded up. */
enum { QUOTA_DURATION_BYTES = 40 };
void quota_duration(int64_t us, char out[QUOTA_DURATION_BYTES]);
