/* cli_prompt: `banyan admin prompt …`: prompts that are published to tenants and groups.
 *
 * Owns:     nothing.
 * Thread:   the process's first.
 * Cost:     one call for each command; a name instead of an id costs the list of prompts; grant and
 *           revoke read the prompt first.
 * Not here: the calls themselves (cli_api), what a grant means (auth, tenant_prompt).
 */
#pragma once

#include "gateway/cli/cli_call.h"

enum status cli_prompt_list(struct cli_call *call);
enum status cli_prompt_show(struct cli_call *call);
enum status cli_prompt_create(struct cli_call *call);
enum status cli_prompt_change(struct cli_call *call);
enum status cli_prompt_grant(struct cli_call *call);
enum status cli_prompt_revoke(struct cli_call *call);
enum status cli_prompt_delete(struct cli_call *call);
