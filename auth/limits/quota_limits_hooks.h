/* quota_limits_hooks: the functions of limits that the directory of tenants calls.
 *
 * Owns:     nothing.
 * Thread:   as tenant_limits says.
 * Cost:     –
 * Not here: when they are called (tenant_limits), limits themselves (quota_limits).
 */
#pragma once

#include "auth/tenants/tenant_limits.h"

/* Its address goes into tenants_options. */
extern const struct tenant_limits quota_limits_hooks;
