/* quota_limits: what tenants may use: plans (named sets of limits) and each tenant's own limits.
 *
 * Owns:     rows of the tables plans, tenant_limits and limit_values (config/store), their records
 *           in memory.
 * Thread:   any; looking never waits for a commit, a change does (auth/tenants/tenant.h).
 * Cost:     a change is one committed transaction with its audit row; looking is O(1) for a tenant
 *           and walks at most LIMIT_PLANS records for a plan.
 * Not here: what has been used, who is refused (quota).
 *
 * A tenant's own limit takes the place of its plan's; one that neither has is not there at all.
 */
#pragma once

#include "auth/limits/quota_limits_types.h"
#include "auth/tenants/tenant.h"

/* The limit is a budget: the ledger keeps what was used of it. */
bool quota_limits_is_budget(enum quota_limit limit);
/* "stop", "lower_class"; NONE (which means stop) has no word. */
const char *quota_limits_on_limit_word(enum quota_on_limit on_limit);
uint32_t quota_limits_find_on_limit(struct slice word);

/* Appends `,"member":value` for each limit (a number, or {"limit":n,"mode":"shadow"}), then
 * `,"cached_input_percent":n,"on_limit":word`; null for none unless `is_sparse`, which leaves those
 * out. */
void quota_limits_append(const struct quota_limits_set *set, bool is_sparse, struct buffer *out);

/* In the same way `,"weight":n,"default_class":word,"best_class":word`. */
void quota_limits_append_class(const struct quota_limits_set *set, bool is_sparse,
                               struct buffer *out);
/* Without the weight. */
void quota_limits_append_classes(const struct quota_limits_set *set, bool is_sparse,
                                 struct buffer *out);

/* The values that `set` has, over those of `out`. */
void quota_limits_over(struct quota_limits_set *out, const struct quota_limits_set *set);

/* --- plans --- */

struct quota_plan_fields {
    struct slice name; /* bytes NULL: as it is */
    uint32_t given;    /* bit 1 << enum quota_limit: that value counts */
    bool has_percent;
    bool has_on_limit;
    bool has_weight;
    bool has_default_class;
    bool has_best_class;
    struct quota_limits_set set;
};

/* EXISTS for a name that is taken, CONFLICT for one plan too many; INVALID or OUT_OF_RANGE with
 * param. */
enum status quota_limits_plan_create(struct tenants *tenants, const struct tenant_change *change,
                                     const struct quota_plan_fields *fields,
                                     struct quota_plan *out);
/* NOT_FOUND. What is as it was changes nothing. Running requests keep what they have reserved. */
enum status quota_limits_plan_update(struct tenants *tenants, const struct tenant_change *change,
                                     struct slice id, const struct quota_plan_fields *fields,
                                     struct quota_plan *out);
/* NOT_FOUND; CONFLICT while a tenant refers to it. */
enum status quota_limits_plan_delete(struct tenants *tenants, const struct tenant_change *change,
                                     struct slice id, struct quota_plan *out);
enum status quota_limits_plan_get(struct tenants *tenants, struct slice id, struct quota_plan *out);
/* Up to `capacity` plans after id `after` ("" = from the start), oldest first. */
enum status quota_limits_plan_list(struct tenants *tenants, struct slice after,
                                   struct quota_plan *out, size_t capacity, size_t *count,
                                   bool *has_more);

/* --- tenants --- */

/* All of it is replaced by `wanted` (whose tenant_id and revision do not count). NOT_FOUND for an
 * unknown tenant, and with param "plan" for an unknown plan; CONFLICT for an archived tenant. */
enum status quota_limits_put(struct tenants *tenants, const struct tenant_change *change,
                             struct slice tenant_id, const struct quota_tenant *wanted,
                             struct quota_tenant *out);
enum status quota_limits_get(struct tenants *tenants, struct slice tenant_id,
                             struct quota_tenant *out);

/* What holds for the tenant: its own, else its plan's; all none for an unknown one. */
void quota_limits_resolve(struct tenants *tenants, struct slice tenant_id,
                          struct quota_limits_set *out);
/* Rises with each change of any limit: who has resolved need not again while it stands. One load.
 */
uint64_t quota_limits_generation(const struct tenants *tenants);
