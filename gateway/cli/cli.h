/* cli: `banyan admin`: what was typed → one command against the config API → text and an exit code.
 *
 * Owns:     the grammar: flags (cli_flags.def), commands (cli_commands.def), help, nearest names.
 * Thread:   the first.
 * Cost:     –
 * Not here: what commands do (cli_tenant, cli_key, cli_look), the way to the server (cli_api).
 *
 *   banyan admin [FLAGS] RESOURCE VERB [ARGUMENT] [FLAGS]        flags may stand anywhere
 */
#pragma once

#include "gateway/cli/cli_options.h"

enum cli_exit cli_run(int argc, const char *const *argv, const struct cli_options *options);
