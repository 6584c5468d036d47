/* cli: `banyan admin`: turns a command line into one command of the config API, text and exit code.
 *
 * Owns:     the grammar: flags (cli_flags.def), commands (cli_commands.def), help, suggestions.
 * Thread:   the process's first.
 * Cost:     –
 * Not here: what commands do (cli_tenant, cli_key, cli_look), calls to the server (cli_api).
 *
 *   banyan admin [FLAGS] RESOURCE VERB [ARGUMENT] [FLAGS]        flags may stand anywhere
 */
#pragma once

#include "gateway/cli/cli_options.h"

/* `argv` holds the words after "admin". */
enum cli_exit cli_run(int argc, const char *const *argv, const struct cli_options *options);
