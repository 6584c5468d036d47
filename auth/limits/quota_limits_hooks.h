/* quota_limits_hooks: the answers of the limits to the directory of tenants.
 *
 * Owns:     nothing.
 * Thread:   as tenant_limits says.
 * Cost:     –
 * Not here: what is asked, and when (tenant_limits), limits themselves (quota_limits).
 */
#pragma once

#include "auth/tenants/tenant_limits.h"

/* For tenants_options. */
extern const struct tenant_limits quota_limits_hooks;
