/* tenant_view: the domains of the prefix cache that a tenant's requests may read beside its own.
 *
 *   published prompts granted to it or to its group, in the order of the grants  ┐ in this order
 *   its group's domain, when it shares with the group                            ┘ before its own
 *
 * Owns:     the rows of all grants that count now, and each record's list of domains, computed when
 *           a grant or a tenant changes so that a request copies it.
 * Thread:   as said at each function; `change` and `memory` are the directory's.
 * Cost:     a plan compares every tenant with every row (LIMIT_GRANTS): 8 bytes each.
 * Not here: which prompts are published and may be used now (who plans), names of domains
 *           (tenant_records_name).
 */
#pragma once

#include "auth/tenants/tenant_types.h"

struct principal;
struct tenant_group_record;
struct tenant_record;
struct tenant_view;

/* A prompt's domain for one grantee: a tenant or a group; the other text is "". */
struct tenant_view_grant {
    uint8_t domain[16];
    char tenant_id[LIMIT_ID_BYTES];
    char group[LIMIT_NAME_BYTES];
};

/* All grants that count, and every tenant's view under them, beside those in use. */
struct tenant_view_plan;

/* The caller holds `change` from here to commit or forget. NO_MEMORY; LIMIT when there are more
 * than LIMIT_GRANTS, or when a tenant would see more than LIMIT_PROMPTS_VISIBLE. A grantee that is
 * not there is no error. */
enum status tenant_view_plan(struct tenants *tenants, const struct tenant_view_grant *grants,
                             size_t count, struct tenant_view_plan **out);
/* Takes `memory`; cannot fail; frees the plan. */
void tenant_view_commit(struct tenants *tenants, struct tenant_view_plan *plan);
/* NULL is fine. */
void tenant_view_forget(struct tenant_view_plan *plan);

/* One tenant's view under the grants that count. `own` is its own domain, `group` its group when
 * that is not in the directory yet, or NULL. The caller holds `change` or is alone with the
 * directory. Fails as tenant_view_plan does, LIMIT with the param "group". */
enum status tenant_view_make(const struct tenants *tenants, const struct tenant *tenant,
                             const uint8_t own[16], const struct tenant_group_record *group,
                             struct tenant_view *out);
void tenant_view_free(struct tenant_view *view);

/* Where its pages go and what it may read. The caller holds `memory`. */
void tenant_view_fill(const struct tenant_record *record, struct principal *out);
