/* backup: `banyan backup` copies the databases of a data directory while a server uses it.
 *
 * Owns:     the folder that it makes; when it fails it removes the folder.
 * Thread:   the process's first.
 * Cost:     reads and writes both databases whole.
 * Not here: how both copies come to be of one moment (store_backup).
 *
 *   banyan backup --data-dir D --to F [--with-secrets]
 *
 * F is a data directory. A server can start from it once it holds the secrets too. A backup without
 * --with-secrets gives nobody access: it holds keyed hashes of keys, and key sets that are sealed.
 */
#pragma once

#include "config/base/status.h"

/* `argv` holds the words after "backup". `data_dir` is BANYAN_DATA_DIR, or NULL when it is not set.
 * INVALID for wrong words, EXISTS when the folder exists, IO, STORAGE_FULL; else as store_backup().
 */
enum status backup_run(int argc, const char *const *argv, const char *data_dir);
