/* tenant_rows: the SQL of tenants, keys and audit; rows in, rows out.
 *
 * Owns:     nothing; works on the connection of a transaction that the caller has begun.
 * Thread:   the holder of the store's lock.
 * Cost:     one prepared statement a call.
 * Not here: the directory in memory (tenant_directory), the rules of changes (tenant_edit,
 *           tenant_key_edit).
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
/* Writes what may change in the row with this id. Metadata stay if `metadata` has bytes NULL. */
enum status tenant_rows_update(struct sqlite3 *connection, const struct tenant *tenant,
                               struct slice metadata);
/* Writes all that may change except last_used_at_s, which only tenant_rows_update_used writes. */
enum status tenant_rows_update_key(struct sqlite3 *connection, const struct tenant_key *key);
enum status tenant_rows_update_used(struct sqlite3 *connection, const char *key_id,
                                    int64_t last_used_at_s);
/* Inserts an audit row. The table assigns its id. */
enum status tenant_rows_audit(struct sqlite3 *connection, const struct audit_row *row);

/* --- for all *_rows files on this database --- */

/* A parameter is null if `is_null`, a text if `text` is given, a blob if `bytes` is given, and a
 * number otherwise. A text with `length` 0 ends with NUL. */
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
/* Prepares a statement. The caller finalizes it, and keeps the parameters until then. */
enum status tenant_rows_prepare(struct sqlite3 *connection, const char *sql,
                                const struct tenant_rows_parameter *parameters, int count,
                                struct sqlite3_stmt **out);
/* Calls `read` for each row of a query, in the query's order, until it fails. `read` takes columns
 * from the statement and does not step it. */
enum status tenant_rows_each(struct sqlite3 *connection, const char *sql,
                             const struct tenant_rows_parameter *parameters, int count,
                             enum status (*read)(void *context, struct sqlite3_stmt *statement),
                             void *context);
/* Copies a text of the present row, "" for null. Sets `*fits` to false when the text is too long
 * for `out` or contains NUL. */
void tenant_rows_text(struct sqlite3_stmt *statement, int column, char *out, size_t capacity,
                      bool *fits);
/* Runs a statement that changes rows and returns none. EXISTS for a unique value that another row
 * has. */
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
/* Loads up to `capacity` audit rows with ids above `after`. */
enum status tenant_rows_load_audit(struct sqlite3 *connection, const struct audit_filter *filter,
                                   int64_t after, struct audit_row *out, size_t capacity,
                                   size_t *count);
