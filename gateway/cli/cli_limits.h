/* cli_limits: `banyan admin limits …` and `banyan admin plan …`.
 *
 * Owns:     nothing.
 * Thread:   the process's first.
 * Cost:     a change of limits reads them first; a plan given by name costs the list of plans.
 * Not here: what limits exist and mean (auth, quota_limits.def).
 */
#pragma once

#include "gateway/cli/cli_call.h"

enum status cli_limits_show(struct cli_call *call);
/* --limits tokens_per_day=5000,kv_tokens=none,requests_per_minute=60:shadow. Limits that are not
 * named stay as they are. */
enum status cli_limits_set(struct cli_call *call);

enum status cli_limits_plan_list(struct cli_call *call);
enum status cli_limits_plan_show(struct cli_call *call);
enum status cli_limits_plan_create(struct cli_call *call);
enum status cli_limits_plan_change(struct cli_call *call);
enum status cli_limits_plan_delete(struct cli_call *call);

/* `*out` is the id of the plan with this id ("pln_…") or name, a reference of the caller's.
 * NOT_FOUND. */
enum status cli_limits_plan_id(struct cli_call *call, const char *id_or_name, json_t **out);
