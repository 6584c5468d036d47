/* cli_key: `banyan admin key …` and `banyan admin admin-key …`: the same verbs on two collections.
 *
 * Owns:     nothing. The value of a new key is printed once, and only to standard output.
 * Thread:   the process's first.
 * Cost:     one call for each command; a tenant given by name costs the list of tenants.
 * Not here: tenants (cli_tenant), files for keys: the shell redirects the output.
 */
#pragma once

#include "gateway/cli/cli_call.h"

enum status cli_key_list(struct cli_call *call);
enum status cli_key_show(struct cli_call *call);
enum status cli_key_create(struct cli_call *call);
enum status cli_key_change(struct cli_call *call);
enum status cli_key_rotate(struct cli_call *call);
enum status cli_key_revoke(struct cli_call *call);
