/* store: the SQLite file of what admins change: schema, migrations, transactions.
 *
 * Owns:     D/banyan.db and its one connection; synchronous=FULL, WAL. Files have mode 0600.
 * Thread:   any; a transaction holds the store's lock from begin to end.
 * Cost:     a commit is an fsync (0.1 to 1 ms).
 * Not here: what rows mean (tenant), usage (auth/ledger, which opens its own file through
 *           store_connect).
 */
#pragma once

#include "config/base/status.h"

struct store;
struct sqlite3; /* the owner of the rows prepares and steps the statements */

/* Opens or creates the file and migrates it to this version's schema. CONFLICT when a newer version
 * wrote the file, CORRUPT when it is no database, IO, STORAGE_FULL, NO_MEMORY. */
enum status store_open(struct store **out, const char *path);
void store_close(struct store *store);

/* Returns the steps of the schema, oldest first, and their number. The first n of them are the
 * schema of some earlier version. */
const char *const *store_schema(int *count);

/* store_begin takes the store's lock and begins a transaction; store_end commits it, or rolls it
 * back when `commit` is false, and frees the lock. When either fails, nothing of the transaction is
 * in the file and the lock is free. A thread may begin again inside its own transaction: the inner
 * one is a savepoint, and its changes reach the file with the outermost commit. */
enum status store_begin(struct store *store, struct sqlite3 **connection);
enum status store_end(struct store *store, bool commit);

/* --- for every SQLite file of Banyan --- */

/* Opens a connection for one thread at a time. Creates the file with mode 0600 and its folder with
 * 0700, sets WAL and foreign keys, and waits up to STORE_BUSY_MS for a lock. With `is_full` a
 * commit survives a power cut; without it, only the death of the process. Close it with
 * sqlite3_close. */
enum { STORE_BUSY_MS = 2000 };
enum status store_connect(struct sqlite3 **out, const char *path, bool is_full);

/* Brings a file to step `count` of `steps` (SQL, numbered from 1) in one transaction, and records
 * each step in the table schema_steps. CONFLICT when the file has more steps than that. */
enum status store_migrate(struct sqlite3 *connection, const char *const *steps, int count);

/* Runs SQL without parameters or rows. */
enum status store_execute(struct sqlite3 *connection, const char *sql);

/* Returns the status of an SQLite result code (SQLITE_FULL → STORAGE_FULL, …); the note says what
 * failed and how. SQLITE_OK, SQLITE_ROW and SQLITE_DONE → OK. */
enum status store_status(int code, const char *what);
