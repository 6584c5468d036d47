/* admin_state: what an operator may look at: audit rows, the running configuration, metrics.
 *
 * Owns:     nothing.
 * Thread:   the loop's thread.
 * Cost:     metrics render every series.
 * Not here: changes (admin_tenants, admin_keys).
 */
#pragma once

#include "gateway/admin/admin_call.h"

enum status admin_state_audit(struct admin_call *call);
enum status admin_state_config(struct admin_call *call);
enum status admin_state_metrics(struct admin_call *call);
enum status admin_state_health(struct admin_call *call);
