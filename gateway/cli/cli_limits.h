/* cli_limits: `banyan admin limits …` and `banyan admin plan …`.
 *
 * Owns:     nothing.
 * Thread:   the first.
 * Cost:     a change of limits reads them first; a plan's name is looked for in the list.
 * Not here: what limits there are: the server knows (auth/limits/quota_limits.def).
 */
#pragma once

#include "gateway/cli/cli_call.h"

enum status cli_limits_show(struct cli_call *call);
/* --limits tokens_per_day=5000,kv_tokens=none,requests_per_minute=60:shadow; what is not named
 * stays. */
enum status cli_limits_set(struct cli_call *call);

enum status cli_limits_plan_list(struct cli_call *call);
enum status cli_limits_plan_show(struct cli_call *call);
enum status cli_limits_plan_create(struct cli_call *call);
enum status cli_limits_plan_change(struct cli_call *call);
enum status cli_limits_plan_delete(struct cli_call *call);

/* The plan's id, of an id ("pln_…") or a name; the caller drops the reference. NOT_FOUND. */
enum status cli_limits_plan_id(struct cli_call *call, const char *id_or_name, json_t **out);
