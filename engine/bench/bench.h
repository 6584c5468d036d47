/* bench: `banyan bench`: the rates of kernels and model, and the machine's ceilings.
 *
 * Owns:     nothing after bench_run returns.
 * Thread:   one caller; it starts and stops its own compute threads.
 * Cost:     some seconds of all processors; memory for the model, the pages and 1 GiB to read.
 * Not here: requests, text and HTTP (prompts are random token ids); load over the network
 *           (tests/bench).
 */
#pragma once

#include <stdio.h>

#include "config/base/status.h"

/* Runs the subcommand. `arguments` are those after "banyan bench"; they are parsed here because the
 * options' room is not in builds without the gateway. Prints a table, one JSON object (--json) or
 * the help (--help) to `out`. INVALID, OUT_OF_RANGE or UNSUPPORTED name the option that is wrong;
 * other errors are those of opening the model. */
enum status bench_run(int count, char *const *arguments, FILE *out);
