/* cli_certificate: `banyan admin certificate …`: whose clients' certificates are.
 *
 * Owns:     nothing.
 * Thread:   the first.
 * Cost:     a call each; a tenant's name instead of its id costs the list.
 * Not here: the calls themselves (cli_api), what fields mean (auth/tenants/certificate).
 */
#pragma once

#include "gateway/cli/cli_call.h"

enum status cli_certificate_list(struct cli_call *call);
enum status cli_certificate_show(struct cli_call *call);
enum status cli_certificate_create(struct cli_call *call);
enum status cli_certificate_change(struct cli_call *call);
enum status cli_certificate_revoke(struct cli_call *call);
