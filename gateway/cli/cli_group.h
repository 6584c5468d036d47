/* cli_group: `banyan admin group …`: groups of tenants.
 *
 * Owns:     nothing.
 * Thread:   the process's first.
 * Cost:     one call for each command; a name instead of an id costs the list of groups.
 * Not here: which group a tenant is in (cli_tenant), tables (cli_print).
 */
#pragma once

#include "gateway/cli/cli_call.h"

enum status cli_group_list(struct cli_call *call);
enum status cli_group_show(struct cli_call *call);
enum status cli_group_create(struct cli_call *call);
enum status cli_group_change(struct cli_call *call);
enum status cli_group_delete(struct cli_call *call);
