/* cli_options: what main gives to `banyan admin`, and the exit codes that it gives back.
 *
 * Owns:     nothing.
 * Thread:   the first.
 * Cost:     –
 * Not here: the grammar (cli), one command under way (cli_call).
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
