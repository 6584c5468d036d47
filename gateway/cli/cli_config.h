/* cli_config: the server's options: shown, a file of them checked, read again; and all that admins
 * change as a file.
 *
 * Owns:     nothing.
 * Thread:   the first.
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
