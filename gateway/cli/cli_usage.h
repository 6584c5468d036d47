/* cli_usage: `banyan admin usage …`: what was used and what it cost, as tables, JSON or CSV.
 *
 * Owns:     nothing.
 * Thread:   the first.
 * Cost:     pages of the config API, one after the other.
 * Not here: prices (cli_price), the sums (the server's).
 */
#pragma once

#include "gateway/cli/cli_call.h"

enum status cli_usage_show(struct cli_call *call);
enum status cli_usage_requests(struct cli_call *call);
