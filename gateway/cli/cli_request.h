/* cli_request: `banyan admin request …`: generations under way, and the end of one.
 *
 * Owns:     nothing.
 * Thread:   the first.
 * Cost:     a list reads pages of the config API.
 * Not here: the calls themselves (cli_api).
 */
#pragma once

#include "gateway/cli/cli_call.h"

enum status cli_request_list(struct cli_call *call);
enum status cli_request_cancel(struct cli_call *call);
