/* cli_issuer: `banyan admin issuer …`: issuers of tokens (JWT).
 *
 * Owns:     nothing.
 * Thread:   the process's first.
 * Cost:     one call for each command; a name instead of an id costs the list of issuers.
 * Not here: the calls themselves (cli_api), what fields mean (auth, issuer).
 */
#pragma once

#include "gateway/cli/cli_call.h"

enum status cli_issuer_list(struct cli_call *call);
enum status cli_issuer_show(struct cli_call *call);
enum status cli_issuer_create(struct cli_call *call);
enum status cli_issuer_change(struct cli_call *call);
enum status cli_issuer_delete(struct cli_call *call);
