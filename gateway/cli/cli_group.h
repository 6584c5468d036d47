/* cli_group: groups of tenants.
 *
 * Owns:     nothing.
 * Thread:   the first.
 * Cost:     a name costs a walk over the list.
 * Not here: who is in a group (cli_tenant), tables (cli_print).
 */
#pragma once

#include "gateway/cli/cli_call.h"

enum status cli_group_list(struct cli_call *call);
enum status cli_group_show(struct cli_call *call);
enum status cli_group_create(struct cli_call *call);
enum status cli_group_change(struct cli_call *call);
enum status cli_group_delete(struct cli_call *call);
