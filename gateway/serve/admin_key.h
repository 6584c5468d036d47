/* admin_key: `banyan admin-key` makes a new admin key for whoever has the data directory. It is the
 * way back when every key is lost, or when no key has a scope that is needed.
 *
 * Owns:     the locks D/serve.lock and D/edge.lock while it works.
 * Thread:   the process's first.
 * Cost:     opens the configuration's database.
 * Not here: keys of a running server (gateway/cli), the first start's key (auth_bootstrap).
 *
 * Whoever can read D/secrets and write D/banyan.db can act as any admin already, so the command
 * asks for no key.
 */
#pragma once

#include "config/config.h"

/* Writes the key, of all scopes, to D/admin.key and says so on standard output. The audit has a
 * row. CONFLICT while a server uses the directory; NOT_FOUND when none ever did. */
enum status admin_key_run(const struct config *config, const struct config_sources *sources);
