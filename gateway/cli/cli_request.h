/* cli_request: `banyan admin request …`: lists running requests, and cancels one.
 *
 * Owns:     nothing.
 * Thread:   the process's first.
 * Cost:     a list reads pages of the config API.
 * Not here: the calls themselves (cli_api).
 */
#pragma once

#include "gateway/cli/cli_call.h"

enum status cli_request_list(struct cli_call *call);
enum status cli_request_cancel(struct cli_call *call);
