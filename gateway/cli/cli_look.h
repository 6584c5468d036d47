/* cli_look: `banyan admin audit …` and `banyan admin metrics …`.
 *
 * Owns:     nothing.
 * Thread:   the process's first.
 * Cost:     –
 * Not here: changes (cli_tenant, cli_key), options (cli_config).
 */
#pragma once

#include "gateway/cli/cli_call.h"

enum status cli_look_audit(struct cli_call *call);
enum status cli_look_metrics(struct cli_call *call);
