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

/* A prompt's domain and one grantee: a tenant or a group. The other text is "". */
struct tenant_view_grant {
    uint8_t domain[16];
    char tenant_id[LIMIT_ID_BYTES];
    char group[LIMIT_NAME_BYTES];
};

/* A new list of all grants and every tenant's view that follows from it, before they come into
 * use. */
struct tenant_view_plan;

/* Makes a plan. The caller holds `change` until commit or forget. NO_MEMORY. LIMIT when there are
 * more than LIMIT_GRANTS grants, or when a tenant would see more than LIMIT_PROMPTS_VISIBLE
 * prompts. An unknown grantee is no error. */
enum status tenant_view_plan(struct tenants *tenants, const struct tenant_view_grant *grants,
                             size_t count, struct tenant_view_plan **out);
/* Puts the plan into use and frees it. Takes `memory` itself. Cannot fail. */
void tenant_view_commit(struct tenants *tenants, struct tenant_view_plan *plan);
/* Frees a plan that is not used. NULL is allowed. */
void tenant_view_forget(struct tenant_view_plan *plan);

/* Makes one tenant's view from the grants in use. `own` is its own domain. `group` is its group if
 * the directory does not have it yet, otherwise NULL. The caller holds `change`, or alone has the
 * directory. Fails as tenant_view_plan does; LIMIT has the param "group". */
enum status tenant_view_make(const struct tenants *tenants, const struct tenant *tenant,
                             const uint8_t own[16], const struct tenant_group_record *group,
                             struct tenant_view *out);
void tenant_view_free(struct tenant_view *view);

/* Writes to `out` the domain of the tenant's own pages and the domains that it may read. The caller
 * holds `memory`. */
void tenant_view_fill(const struct tenant_record *record, struct principal *out);
