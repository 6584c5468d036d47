/* backup: `banyan backup`: a copy of a data directory's databases, while a server uses it.
 *
 * Owns:     the folder that it makes; it is there whole or not at all.
 * Thread:   the process's first.
 * Cost:     reads and writes all of both databases.
 * Not here: how they come to be of one moment (store_backup).
 *
 *   banyan backup --data-dir D --to F [--with-secrets]
 *
 * F is a data directory: a server starts from it once it holds the secrets too. Without them
 * (--with-secrets) it opens nothing: stored are keyed hashes, sealed key sets.
 */
#pragma once

#include "config/base/status.h"

/* `data_dir`: where the environment says it is; NULL: not said. INVALID: wrong words; the others as
 * store_backup. */
enum status backup_run(int argc, const char *const *argv, const char *data_dir);
