/* store_backup: copies of SQLite files as they all were at one moment, while others write them.
 *
 *   lock the first against changes ─► a snapshot of each ─► unlock ─► copy the snapshots
 *
 * Owns:     the copies until it returns; files that it made and could not finish are removed.
 * Thread:   any; another process may have the files open.
 * Cost:     reading and writing all pages. A change of the first file waits for some milliseconds;
 *           writers of the others never do, but their logs cannot be begun anew meanwhile and grow.
 * Not here: which files there are, secrets (backup).
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "config/base/status.h"

enum { STORE_BACKUP_FILES = 4 };

struct store_backup_file {
    const char *from; /* must be there: nothing is made */
    const char *to;   /* must not; made with mode 0600 */
    int64_t bytes;    /* out: of the copy */
};

/* NOT_FOUND (no file there), EXISTS (a copy would take the place of something), BUSY when another
 * holds the first file's lock for STORE_BUSY_MS, CORRUPT, IO or STORAGE_FULL. The copies are on the
 * disk when it returns OK. */
enum status store_backup(struct store_backup_file *files, size_t count);
