/* tenant_rows: the SQL of tenants, keys and audit; rows in, rows out.
 *
 * Owns:     nothing; works on the connection of a transaction that the caller has begun.
 * Thread:   the holder of the store's lock.
 * Cost:     one prepared statement a call.
 * Not here: the index in memory and the rules (tenant).
 */
#pragma once

#include "auth/auth_crypto.h"
#include "auth/tenant.h"

struct tenant_rows_key {
    struct tenant_key key;
    uint8_t hash[AUTH_CRYPTO_BYTES];
};

/* EXISTS when the name or id is taken. */
enum status tenant_rows_insert(struct sqlite3 *connection, const struct tenant *tenant);
enum status tenant_rows_insert_key(struct sqlite3 *connection, const struct tenant_rows_key *row);
enum status tenant_rows_revoke_key(struct sqlite3 *connection, const char *key_id,
                                   int64_t revoked_at_s);
/* `id` is given by the table. */
enum status tenant_rows_audit(struct sqlite3 *connection, const struct audit_row *row);

/* Calls `take` for each row, oldest first, until it fails. CORRUPT for a row out of its bounds. */
enum status tenant_rows_load(struct sqlite3 *connection, void *context,
                             enum status (*take)(void *context, const struct tenant *tenant));
enum status tenant_rows_load_keys(struct sqlite3 *connection, void *context,
                                  enum status (*take)(void *context,
                                                      const struct tenant_rows_key *row));
/* Up to `capacity` audit rows with ids above `after`. */
enum status tenant_rows_load_audit(struct sqlite3 *connection, int64_t after, struct audit_row *out,
                                   size_t capacity, size_t *count);
