/* cli_tenant: `banyan admin tenant …`.
 *
 * Owns:     nothing.
 * Thread:   the process's first.
 * Cost:     one call for each command; a name instead of an id costs the list of tenants.
 * Not here: keys (cli_key).
 */
#pragma once

#include "gateway/cli/cli_call.h"

enum status cli_tenant_list(struct cli_call *call);
enum status cli_tenant_show(struct cli_call *call);
enum status cli_tenant_create(struct cli_call *call);
enum status cli_tenant_change(struct cli_call *call);
enum status cli_tenant_suspend(struct cli_call *call);
enum status cli_tenant_resume(struct cli_call *call);
enum status cli_tenant_archive(struct cli_call *call);

/* Appends "/admin/v1/tenants/ID" for the tenant with this id ("tnt_…") or name. Archived tenants
 * have lost their names. NOT_FOUND. */
enum status cli_tenant_append_path(struct cli_call *call, const char *id_or_name,
                                   struct buffer *path);
