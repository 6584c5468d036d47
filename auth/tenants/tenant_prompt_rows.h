/* tenant_prompt_rows: the SQL of published prompts and of their grants; rows in, rows out.
 *
 * Owns:     nothing; works on the connection of a transaction that the caller has begun.
 * Thread:   the holder of the store's lock.
 * Cost:     a statement a row.
 * Not here: records in memory and rules (tenant_prompt).
 */
#pragma once

#include "auth/tenants/tenant_prompt_types.h"
#include "auth/tenants/tenant_rows.h"

/* EXISTS when the name or id is taken. */
enum status tenant_prompt_rows_insert(struct sqlite3 *connection,
                                      const struct tenant_prompt *prompt, struct slice content);
/* Name, version, pin_until_s and revision of the row with this id. */
enum status tenant_prompt_rows_update(struct sqlite3 *connection,
                                      const struct tenant_prompt *prompt);
/* The prompt and its grants. */
enum status tenant_prompt_rows_delete(struct sqlite3 *connection, const char *id);
/* These grants in place of those there were. */
enum status tenant_prompt_rows_grant(struct sqlite3 *connection, const char *id,
                                     const struct tenant_prompt_grant *grants, size_t count);

/* `take` is called for each prompt, oldest first, until it fails; domain and counts are not set.
 * CORRUPT for a row out of its bounds. */
enum status tenant_prompt_rows_load(struct sqlite3 *connection, void *context,
                                    enum status (*take)(void *context,
                                                        const struct tenant_prompt *prompt,
                                                        struct slice content));
/* Tenants before groups, each in rising order; LIMIT beyond LIMIT_PROMPT_GRANTS. */
enum status tenant_prompt_rows_load_grants(struct sqlite3 *connection, const char *id,
                                           struct tenant_prompt_grant out[LIMIT_PROMPT_GRANTS],
                                           size_t *count);
