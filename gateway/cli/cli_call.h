/* cli_call: one command of `banyan admin` with its words and flags.
 *
 * Owns:     nothing; lives on cli_run's stack.
 * Thread:   the process's first.
 * Cost:     –
 * Not here: how words are parsed (cli), what commands do (cli_tenant, cli_key).
 */
#pragma once

#include <stdint.h>

#include "gateway/cli/cli_api.h"
#include "gateway/cli/cli_options.h"

enum cli_flag {
#define CLI_FLAG(name, flag, value, help) CLI_FLAG_##name,
#include "gateway/cli/cli_flags.def"
#undef CLI_FLAG
    CLI_FLAG_COUNT
};

enum { CLI_METADATA_MAX = 16 };

struct cli_call;
typedef enum status (*cli_function)(struct cli_call *call);

struct cli_command {
    const char *resource;
    const char *verb;
    const char *argument; /* the help's word for it; "" = it takes none */
    uint64_t flags;       /* bits of enum cli_flag, without the flags of every command */
    cli_function run;
    const char *help;
};

struct cli_call {
    const struct cli_options *options;
    const struct cli_command *command;
    const char *argument;               /* NULL when the command takes none */
    const char *values[CLI_FLAG_COUNT]; /* NULL = not given; "" for a flag without a value */
    const char *metadata[CLI_METADATA_MAX];
    size_t metadata_count;
    struct cli_api *api;
};
