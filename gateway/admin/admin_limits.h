/* admin_limits: /admin/v1/tenants/{id}/limits, …/keys/{id}/limits and /admin/v1/plans: what tenants
 * and their keys may use.
 *
 * Owns:     nothing.
 * Thread:   the worker's; admin_limits_get and admin_limits_key_get: any.
 * Cost:     a change is one committed transaction; a plan counts its tenants.
 * Not here: what limits mean (auth/limits/quota_limits), who is refused (edge_quota).
 */
#pragma once

#include "gateway/admin/admin_call.h"

enum status admin_limits_get(struct admin_call *call);
enum status admin_limits_put(struct admin_call *call);
/* The limits of a key or, with an issuer's id, of its tokens for the tenant. */
enum status admin_limits_key_get(struct admin_call *call);
enum status admin_limits_key_put(struct admin_call *call);
enum status admin_limits_plan_create(struct admin_call *call);
enum status admin_limits_plan_list(struct admin_call *call);
enum status admin_limits_plan_get(struct admin_call *call);
enum status admin_limits_plan_update(struct admin_call *call);
enum status admin_limits_plan_delete(struct admin_call *call);
