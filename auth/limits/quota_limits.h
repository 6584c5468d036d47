/* quota_limits: plans, which are named sets of limits, and the limits of each tenant.
 *
 * Owns:     rows of the tables plans, tenant_limits and limit_values (config/store), their records
 *           in memory.
 * Thread:   any. A look-up never waits for a commit; a change waits (auth/tenants/tenant.h).
 * Cost:     a change is one committed transaction with its audit row. quota_limits_get is O(1).
 *           quota_limits_resolve walks at most LIMIT_PLANS plans. quota_limits_plan_get walks the
 *           plans and all tenants; quota_limits_plan_list walks all tenants for each plan.
 * Not here: what has been used, refusing requests (quota).
 *
 * A tenant's own value of a limit replaces its plan's. A limit that neither has does not apply.
 */
#pragma once

#include "auth/limits/quota_limits_types.h"
#include "auth/tenants/tenant.h"

/* "stop", "lower_class"; NONE (which means stop) has no word. */
const char *quota_limits_on_limit_word(enum quota_on_limit on_limit);
uint32_t quota_limits_find_on_limit(struct slice word);

/* Appends `,"member":value` for each limit; the value is a number, or {"limit":n,"mode":"shadow"}.
 * Then appends `,"cached_input_percent":n,"on_limit":word`. A member without a value is null, or is
 * left out if `is_sparse`. */
void quota_limits_append(const struct quota_limits_set *set, bool is_sparse, struct buffer *out);

/* Appends `,"weight":n,"default_class":word,"best_class":word` in the same way. */
void quota_limits_append_class(const struct quota_limits_set *set, bool is_sparse,
                               struct buffer *out);
/* Appends the same two classes without the weight. */
void quota_limits_append_classes(const struct quota_limits_set *set, bool is_sparse,
                                 struct buffer *out);

/* Replaces values in `out` by those that `set` has. */
void quota_limits_over(struct quota_limits_set *out, const struct quota_limits_set *set);

/* --- plans --- */

struct quota_plan_fields {
    struct slice name; /* bytes NULL: not given */
    uint32_t given;    /* bits 1 << enum quota_limit: the values in `set` that are given */
    bool has_percent;
    bool has_on_limit;
    bool has_weight;
    bool has_default_class;
    bool has_best_class;
    struct quota_limits_set set;
};

/* EXISTS when another plan has the name; CONFLICT when there are LIMIT_PLANS plans; INVALID or
 * OUT_OF_RANGE with param. */
enum status quota_limits_plan_create(struct tenants *tenants, const struct tenant_change *change,
                                     const struct quota_plan_fields *fields,
                                     struct quota_plan *out);
/* Changes the given fields; a field that has its old value changes nothing. Running requests keep
 * what they have reserved. NOT_FOUND for an unknown plan; otherwise fails as
 * quota_limits_plan_create does. */
enum status quota_limits_plan_update(struct tenants *tenants, const struct tenant_change *change,
                                     struct slice id, const struct quota_plan_fields *fields,
                                     struct quota_plan *out);
/* Deletes a plan. NOT_FOUND for an unknown plan; CONFLICT while a tenant that is not archived
 * refers to the plan. Archived tenants lose the plan. */
enum status quota_limits_plan_delete(struct tenants *tenants, const struct tenant_change *change,
                                     struct slice id, struct quota_plan *out);
enum status quota_limits_plan_get(struct tenants *tenants, struct slice id, struct quota_plan *out);
/* Lists up to `capacity` plans after id `after` ("": from the start), oldest first. */
enum status quota_limits_plan_list(struct tenants *tenants, struct slice after,
                                   struct quota_plan *out, size_t capacity, size_t *count,
                                   bool *has_more);

/* --- tenants --- */

/* Replaces the tenant's plan and limits by `wanted`, whose tenant_id and revision are ignored.
 * NOT_FOUND for an unknown tenant, and with param "plan" for an unknown plan; CONFLICT for an
 * archived tenant. */
enum status quota_limits_put(struct tenants *tenants, const struct tenant_change *change,
                             struct slice tenant_id, const struct quota_tenant *wanted,
                             struct quota_tenant *out);
enum status quota_limits_get(struct tenants *tenants, struct slice tenant_id,
                             struct quota_tenant *out);

/* The limits that apply to the tenant: its own, or else its plan's; none for an unknown tenant. */
void quota_limits_resolve(struct tenants *tenants, struct slice tenant_id,
                          struct quota_limits_set *out);
/* A number that rises with each change of any limit; while it stays, resolved limits are still
 * valid. One atomic load. */
uint64_t quota_limits_generation(const struct tenants *tenants);
