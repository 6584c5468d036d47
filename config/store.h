/* store: the SQLite file of what admins change: schema, migrations, transactions.
 *
 * Owns:     D/banyan.db and its one connection; synchronous=FULL, WAL.
 * Thread:   any; a transaction holds the store's lock from begin to end.
 * Cost:     a commit is an fsync (0.1 to 1 ms).
 * Not here: what rows mean (auth/tenant), usage (auth/ledger).
 */
#pragma once

#include "config/base/status.h"

struct store;
struct sqlite3; /* statements are prepared and stepped by the owner of the rows */

/* Opens or makes the file and migrates it to this version's schema; CONFLICT when the file is
 * from a newer version. */
enum status store_open(struct store **out, const char *path);
void store_close(struct store *store);

/* BEGIN IMMEDIATE … COMMIT under the store's lock; `commit` false rolls back. */
enum status store_begin(struct store *store, struct sqlite3 **connection);
enum status store_end(struct store *store, bool commit);
