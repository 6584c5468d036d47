/* cli_usage: `banyan admin usage …`: usage and its cost, as tables, JSON or CSV.
 *
 * Owns:     nothing.
 * Thread:   the process's first.
 * Cost:     reads pages of the config API one after the other, and keeps all rows.
 * Not here: prices (cli_price); the server computes the sums.
 */
#pragma once

#include "gateway/cli/cli_call.h"

enum status cli_usage_show(struct cli_call *call);
enum status cli_usage_requests(struct cli_call *call);
