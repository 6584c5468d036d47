/* cli_key: `banyan admin key …` and `banyan admin admin-key …`: the same verbs on two collections.
 *
 * Owns:     nothing; a new key's value is printed once, on standard output alone.
 * Thread:   the first.
 * Cost:     –
 * Not here: tenants (cli_tenant), files that hold keys: that is the shell's business.
 */
#pragma once

#include "gateway/cli/cli_call.h"

enum status cli_key_list(struct cli_call *call);
enum status cli_key_show(struct cli_call *call);
enum status cli_key_create(struct cli_call *call);
enum status cli_key_change(struct cli_call *call);
enum status cli_key_rotate(struct cli_call *call);
enum status cli_key_revoke(struct cli_call *call);
