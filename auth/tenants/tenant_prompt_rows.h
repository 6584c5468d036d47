/* tenant_prompt_rows: the SQL of published prompts and of their grants; rows in, rows out.
 *
 * Owns:     nothing; works on the connection of a transaction that the caller has begun.
 * Thread:   the holder of the store's lock.
 * Cost:     one SQL statement for each row that is written, and one for each load.
 * Not here: records in memory and rules (tenant_prompt).
 */
#pragma once

#include "auth/tenants/tenant_prompt_types.h"
#include "auth/tenants/tenant_rows.h"

/* EXISTS when the name or id is taken. */
enum status tenant_prompt_rows_insert(struct sqlite3 *connection,
                                      const struct tenant_prompt *prompt, struct slice content);
/* Writes name, version, pin_until_s and revision of the row with this id. */
enum status tenant_prompt_rows_update(struct sqlite3 *connection,
                                      const struct tenant_prompt *prompt);
/* Deletes the prompt and its grants. */
enum status tenant_prompt_rows_delete(struct sqlite3 *connection, const char *id);
/* Writes these grants in place of the old ones. */
enum status tenant_prompt_rows_grant(struct sqlite3 *connection, const char *id,
                                     const struct tenant_prompt_grant *grants, size_t count);

/* Calls `take` for each prompt, oldest first, until `take` fails. Domain and counts are not set.
 * CORRUPT for a row out of its bounds. */
enum status tenant_prompt_rows_load(struct sqlite3 *connection, void *context,
                                    enum status (*take)(void *context,
                                                        const struct tenant_prompt *prompt,
                                                        struct slice content));
/* Reads a prompt's grants: tenants before groups, each in rising order. LIMIT when there are more
 * than LIMIT_PROMPT_GRANTS. */
enum status tenant_prompt_rows_load_grants(struct sqlite3 *connection, const char *id,
                                           struct tenant_prompt_grant out[LIMIT_PROMPT_GRANTS],
                                           size_t *count);
