/* cli_tenant: `banyan admin tenant …`.
 *
 * Owns:     nothing.
 * Thread:   the first.
 * Cost:     a name is looked for in the list of tenants, page by page; an id is not.
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

/* Appends "/admin/v1/tenants/ID" of an id ("tnt_…") or a name; archived tenants have lost their
 * names. NOT_FOUND. */
enum status cli_tenant_append_path(struct cli_call *call, const char *id_or_name,
                                   struct buffer *path);
