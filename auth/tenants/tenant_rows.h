/* tenant_rows: the SQL of tenants, keys and audit; rows in, rows out.
 *
 * Owns:     nothing; works on the connection of a transaction that the caller has begun.
 * Thread:   the holder of the store's lock.
 * Cost:     one prepared statement a call.
 * Not here: the index in memory and the rules (tenant).
 */
#pragma once

#include "auth/credential/auth_crypto.h"
#include "auth/tenants/tenant_types.h"

struct sqlite3;

struct tenant_rows_key {
    struct tenant_key key;
    uint8_t hash[AUTH_CRYPTO_BYTES];
};

/* EXISTS when the name or id is taken. `metadata` is a JSON object. */
enum status tenant_rows_insert(struct sqlite3 *connection, const struct tenant *tenant,
                               struct slice metadata);
enum status tenant_rows_insert_key(struct sqlite3 *connection, const struct tenant_rows_key *row);
/* What may change of the row with this id; `metadata` with bytes NULL stay as they are. */
enum status tenant_rows_update(struct sqlite3 *connection, const struct tenant *tenant,
                               struct slice metadata);
/* All but last_used_at_s, which tenant_rows_update_used alone writes. */
enum status tenant_rows_update_key(struct sqlite3 *connection, const struct tenant_key *key);
enum status tenant_rows_update_used(struct sqlite3 *connection, const char *key_id,
                                    int64_t last_used_at_s);
/* `id` is given by the table. */
enum status tenant_rows_audit(struct sqlite3 *connection, const struct audit_row *row);

/* --- for every statement of the room on this file --- */

/* Text when `text` is given (terminated when `length` is 0), a blob when `bytes` is, else a number;
 * or null. */
struct tenant_rows_parameter {
    const char *text;
    const uint8_t *bytes;
    size_t length;
    int64_t number;
    bool is_null;
};
#define TENANT_ROWS_TEXT(value)   ((struct tenant_rows_parameter){.text = (value)})
#define TENANT_ROWS_NUMBER(value) ((struct tenant_rows_parameter){.number = (value)})
#define TENANT_ROWS_BYTES(value, size)                                                             \
    ((struct tenant_rows_parameter){.bytes = (value), .length = (size)})

struct sqlite3_stmt;
/* The caller finalizes it; the parameters live until then. */
enum status tenant_rows_prepare(struct sqlite3 *connection, const char *sql,
                                const struct tenant_rows_parameter *parameters, int count,
                                struct sqlite3_stmt **out);
/* Steps to the next row while `status` is OK: false behind the last one, or with what failed in
 * `status`. */
bool tenant_rows_next(struct sqlite3_stmt *statement, enum status *status);
/* A text of the row that it stands on, "" for null; one that `out` cannot hold as a string makes
 * `*fits` false. */
void tenant_rows_text(struct sqlite3_stmt *statement, int column, char *out, size_t capacity,
                      bool *fits);
/* A statement that changes rows and returns none. EXISTS for a unique value that is there. */
enum status tenant_rows_change(struct sqlite3 *connection, const char *sql,
                               const struct tenant_rows_parameter *parameters, int count);

/* --- reading --- */

/* Calls `take` for each row, oldest first, until it fails. CORRUPT for a row out of its bounds. */
enum status tenant_rows_load(struct sqlite3 *connection, void *context,
                             enum status (*take)(void *context, const struct tenant *tenant,
                                                 struct slice metadata));
enum status tenant_rows_load_keys(struct sqlite3 *connection, void *context,
                                  enum status (*take)(void *context,
                                                      const struct tenant_rows_key *row));
enum status tenant_rows_last_audit(struct sqlite3 *connection, int64_t *out);
/* Up to `capacity` audit rows with ids above `after`. */
enum status tenant_rows_load_audit(struct sqlite3 *connection, const struct audit_filter *filter,
                                   int64_t after, struct audit_row *out, size_t capacity,
                                   size_t *count);
