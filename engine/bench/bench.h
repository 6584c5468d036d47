/* bench: the rates of the engine's inside (kernels and model) and the machine's own ceilings.
 *
 * Owns:     nothing after bench_run returns.
 * Thread:   one caller; starts and stops compute threads of its own.
 * Cost:     some seconds of all processors; memory for the model, the pages and 1 GiB to read.
 * Not here: requests, text, HTTP: prompts are random token ids; load over the wire.
 */
#pragma once

#include <stdio.h>

#include "config/base/status.h"

/* The subcommand: `arguments` are those after "banyan bench", parsed here because the options'
 * room is not in builds without the gateway. Prints a table, one JSON object (--json) or the help
 * (--help) to `out`. INVALID, OUT_OF_RANGE or UNSUPPORTED name the option that is wrong; else what
 * opening the model says. */
enum status bench_run(int count, char *const *arguments, FILE *out);
