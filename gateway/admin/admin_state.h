/* admin_state: /admin/v1/audit, /metrics, /admin/v1/openapi.json and /health.
 *
 * Owns:     nothing.
 * Thread:   the loop's; admin_state_audit reads the database, so it runs on the worker's.
 * Cost:     metrics render every series.
 * Not here: changes (admin_tenants, admin_keys), the running options (admin_config).
 */
#pragma once

#include "gateway/admin/admin_call.h"

enum status admin_state_audit(struct admin_call *call);
enum status admin_state_openapi(struct admin_call *call);
enum status admin_state_metrics(struct admin_call *call);
enum status admin_state_health(struct admin_call *call);
