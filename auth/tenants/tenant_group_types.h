/* tenant_group_types: a group of tenants.
 *
 * Owns:     nothing.
 * Thread:   any.
 * Cost:     –
 * Not here: finding and changing groups (tenant_group).
 */
#pragma once

#include "auth/tenants/tenant_types.h"

struct tenant_group {
    char id[LIMIT_ID_BYTES]; /* "grp_" and 20 base62 characters */
    char name[LIMIT_NAME_BYTES];
    int64_t created_at_s;
    int64_t revision;
    uint32_t tenants; /* its tenants that are not archived */
    uint32_t prompts; /* published prompts that are granted to it */
};
