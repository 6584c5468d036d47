/* cli_config: `banyan admin config …`: shows, validates and reloads the server's options; exports
 * and imports what admins configure as one file.
 *
 * Owns:     nothing.
 * Thread:   the process's first.
 * Cost:     –
 * Not here: tables (cli_print), calls (cli_api).
 */
#pragma once

#include "gateway/cli/cli_call.h"

enum status cli_config_show(struct cli_call *call);
enum status cli_config_validate(struct cli_call *call);
enum status cli_config_reload(struct cli_call *call);
enum status cli_config_export(struct cli_call *call);
enum status cli_config_import(struct cli_call *call);
