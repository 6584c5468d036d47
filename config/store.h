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
struct sqlite3; /* statements are prepared and stepped by the owner of the rows */

/* Opens or makes the file and migrates it to this version's schema; CONFLICT when the file is
 * from a newer version, CORRUPT when it is no database. */
enum status store_open(struct store **out, const char *path);
void store_close(struct store *store);

/* The steps of its schema, oldest first; the first n of them made an earlier version's files. */
const char *const *store_schema(int *count);

/* BEGIN IMMEDIATE … COMMIT under the store's lock; `commit` false rolls back. When either fails
 * nothing of the transaction is in the file and the lock is free. The thread that has begun may
 * begin again: what is within ends by itself, and is in the file when the outermost is. */
enum status store_begin(struct store *store, struct sqlite3 **connection);
enum status store_end(struct store *store, bool commit);

/* --- for every file that is an SQLite database of ours --- */

/* A connection for one thread at a time: file made with mode 0600 (its folder with 0700), WAL,
 * foreign keys on, waits STORE_BUSY_MS for a lock. `is_full`: a commit survives a power cut, not
 * only the process's death. Close it with sqlite3_close. */
enum { STORE_BUSY_MS = 2000 };
enum status store_connect(struct sqlite3 **out, const char *path, bool is_full);

/* Brings a file to step `count` of `steps` (SQL, numbered from 1) in one transaction and notes each
 * in the table schema_steps; CONFLICT when the file has had more steps than that. */
enum status store_migrate(struct sqlite3 *connection, const char *const *steps, int count);

/* Runs SQL without parameters or rows. */
enum status store_execute(struct sqlite3 *connection, const char *sql);

/* The status of a result code (SQLITE_FULL → STORAGE_FULL, …), with a note that says `what` failed
 * and how; SQLITE_OK, SQLITE_ROW and SQLITE_DONE → OK. */
enum status store_status(int code, const char *what);
