/* admin_key: `banyan admin-key` makes a new admin key, for an operator who has access to the data
 * directory D. It is the way back when every key is lost, or when no key has a scope that is
 * needed.
 *
 * Owns:     the locks D/serve.lock and D/edge.lock while it works.
 * Thread:   the process's first.
 * Cost:     opens the configuration's database.
 * Not here: keys of a running server (gateway/cli), the key of the first start (auth_bootstrap).
 *
 * The command asks for no key: an operator who can read D/secrets and write D/banyan.db can act as
 * any admin already.
 */
#pragma once

#include "config/config.h"

/* Writes a key with all scopes to D/admin.key, records it in the audit log, and prints one line to
 * standard output. CONFLICT while a server uses the directory, NOT_FOUND when none ever did. */
enum status admin_key_run(const struct config *config, const struct config_sources *sources);
