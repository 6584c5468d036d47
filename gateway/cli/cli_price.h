/* cli_price: `banyan admin price …`: what tokens cost.
 *
 * Owns:     nothing.
 * Thread:   the process's first.
 * Cost:     –
 * Not here: what was used (cli_usage), plans (cli_limits).
 */
#pragma once

#include "gateway/cli/cli_call.h"

enum status cli_price_list(struct cli_call *call);
enum status cli_price_show(struct cli_call *call);
enum status cli_price_create(struct cli_call *call);
enum status cli_price_delete(struct cli_call *call);
