/* tenant_prompt: the prompts that admins publish, and the tenants and groups that may use them.
 *
 * Owns:     rows of the tables prompts and prompt_grants (config/store), their records in memory.
 * Thread:   any. A look-up never waits for a commit; a change waits (auth/tenants/tenant.h).
 * Cost:     a change is one committed transaction with its audit row, and computes every tenant's
 *           list of readable domains again; a look-up walks at most LIMIT_PROMPTS records.
 * Not here: the lists of domains (tenant_view), computing and pinning (edge_prompts, the engine).
 *
 * A prompt's content never changes. Its domain is HMAC(secret, "prompt:" id ":" version). A prompt
 * that is made valid again after it had expired gets another version, so that pages computed
 * earlier are not found.
 */
#pragma once

#include "auth/tenants/tenant_prompt_types.h"

bool tenant_prompt_is_expired(const struct tenant_prompt *prompt, int64_t now_s);

/* Checks a new prompt and puts its id and domain into `out`; stores nothing. INVALID or
 * OUT_OF_RANGE with param; NOT_FOUND for an unknown tenant, and for a group without tenants; EXISTS
 * for a name that is taken; CONFLICT for one prompt too many, for an archived tenant, and when a
 * tenant would see more than LIMIT_PROMPTS_VISIBLE prompts. */
enum status tenant_prompt_prepare(struct tenants *tenants,
                                  const struct tenant_prompt_fields *fields,
                                  struct tenant_prompt *out);
/* Stores the prompt that was prepared in `out`, after the same checks. */
enum status tenant_prompt_create(struct tenants *tenants, const struct tenant_change *change,
                                 const struct tenant_prompt_fields *fields,
                                 struct tenant_prompt *out);
/* Changes the given fields; a field that has its old value changes nothing. Once this returns,
 * tenants that lost their grant do not see the prompt; running requests go on. NOT_FOUND. */
enum status tenant_prompt_update(struct tenants *tenants, const struct tenant_change *change,
                                 struct slice id, const struct tenant_prompt_fields *fields,
                                 struct tenant_prompt *out);
/* Deletes a prompt: no tenant sees it any more, and its name is free. NOT_FOUND, also on a second
 * call. */
enum status tenant_prompt_delete(struct tenants *tenants, const struct tenant_change *change,
                                 struct slice id, struct tenant_prompt *out);

enum status tenant_prompt_get(struct tenants *tenants, struct slice id, struct tenant_prompt *out);
/* Lists up to `capacity` prompts after id `after` ("": from the start), oldest first. */
enum status tenant_prompt_list(struct tenants *tenants, struct slice after,
                               struct tenant_prompt *out, size_t capacity, size_t *count,
                               bool *has_more);
/* Fills in the prompt's grants, tenants before groups, and returns their number; 0 when there is no
 * prompt of this id. */
size_t tenant_prompt_grants(struct tenants *tenants, struct slice id,
                            struct tenant_prompt_grant out[LIMIT_PROMPT_GRANTS]);
/* Appends the prompt's content, a JSON object; nothing when there is no prompt of this id. */
void tenant_prompt_content(struct tenants *tenants, struct slice id, struct buffer *out);
