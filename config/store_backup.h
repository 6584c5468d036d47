/* store_backup: copies of several SQLite files as they were at one moment, while others write them.
 *
 *     lock the first against changes ─► a snapshot of each ─► unlock ─► copy the snapshots
 *
 * Owns:     the copies until it returns; copies that it could not finish are removed.
 * Thread:   any; another process may have the files open.
 * Cost:     reading and writing all pages. A change of the first file waits some milliseconds.
 *           Writers of the other files never wait, but their WAL files cannot restart meanwhile and
 *           grow.
 * Not here: which files to copy, secrets (backup).
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "config/base/status.h"

enum { STORE_BACKUP_FILES = 4 };

struct store_backup_file {
    const char *from; /* must exist; it is never created */
    const char *to;   /* must not exist; created with mode 0600 */
    int64_t bytes;    /* out: bytes of the copy */
};

/* Copies the files. NOT_FOUND (a source is missing), EXISTS (a target exists), BUSY when another
 * connection holds the first file's write lock for STORE_BUSY_MS, CORRUPT, IO, STORAGE_FULL. The
 * copies are on the disk when it returns OK. */
enum status store_backup(struct store_backup_file *files, size_t count);
