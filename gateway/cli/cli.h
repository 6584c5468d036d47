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

#include <stdio.h>

/* Exit codes; the help tells them too. */
enum cli_exit {
    CLI_DONE = 0,
    CLI_REFUSED = 1,   /* the server said no: its words are on standard error */
    CLI_USAGE = 2,     /* nothing was sent: wrong words, or a file that cannot be read */
    CLI_UNREACHED = 3, /* no answer that could be used; a change may or may not have happened */
};

/* What main read of the environment (NULL = not set), and where output goes. */
struct cli_options {
    const char *data_dir;     /* BANYAN_DATA_DIR */
    const char *admin_listen; /* BANYAN_ADMIN_LISTEN */
    FILE *out;
    FILE *err;
    size_t columns; /* of the terminal; 0 = no terminal, nothing is cut */
};

enum cli_exit cli_run(int argc, const char *const *argv, const struct cli_options *options);
