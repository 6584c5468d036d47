/* cli_options: what main passes to `banyan admin`, and the exit codes that it returns.
 *
 * Owns:     nothing.
 * Thread:   the process's first.
 * Cost:     –
 * Not here: the grammar (cli), the state of one command (cli_call).
 */
#pragma once

#include <stdio.h>

/* Exit codes, which the help lists too. */
enum cli_exit {
    CLI_DONE = 0,
    CLI_REFUSED = 1,   /* the server refused; its reason is on standard error */
    CLI_USAGE = 2,     /* nothing was sent: wrong words, or a file that cannot be used */
    CLI_UNREACHED = 3, /* no usable answer; a change may or may not have happened */
};

/* What main read from the environment (NULL = not set), and where output goes. */
struct cli_options {
    const char *data_dir;     /* BANYAN_DATA_DIR */
    const char *admin_listen; /* BANYAN_ADMIN_LISTEN */
    FILE *out;
    FILE *err;
    size_t columns; /* width of the terminal; 0 = no terminal, so nothing is cut */
};
