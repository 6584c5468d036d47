/* cli_certificate: `banyan admin certificate …`: which tenant or admin a client certificate stands
 * for.
 *
 * Owns:     nothing.
 * Thread:   the process's first.
 * Cost:     one call for each command; a tenant given by name costs the list of tenants.
 * Not here: the calls themselves (cli_api), what fields mean (auth, certificate).
 */
#pragma once

#include "gateway/cli/cli_call.h"

enum status cli_certificate_list(struct cli_call *call);
enum status cli_certificate_show(struct cli_call *call);
enum status cli_certificate_create(struct cli_call *call);
enum status cli_certificate_change(struct cli_call *call);
enum status cli_certificate_revoke(struct cli_call *call);
