/* tenant_prompt: prompts that the operator publishes, and which tenants and groups may use them.
 *
 * Owns:     rows of the tables prompts and prompt_grants (config/store), their records in memory.
 * Thread:   any; looking never waits for a commit, a change does (auth/tenants/tenant.h).
 * Cost:     a change is one committed transaction with its audit row, and computes every tenant's
 *           list of domains anew; looking walks at most LIMIT_PROMPTS records.
 * Not here: the lists of tenants (tenant_view), computing and pinning (edge_prompts, the engine).
 *
 * A prompt's content never changes. Its domain is HMAC(secret, "prompt:" id ":" version); one that
 * comes back after it had expired has another version, so what was computed before is not found.
 */
#pragma once

#include "auth/tenants/tenant_prompt_types.h"

bool tenant_prompt_is_expired(const struct tenant_prompt *prompt, int64_t now_s);

/* All checks of a new prompt, and its id and domain in `out`; nothing is stored. INVALID or
 * OUT_OF_RANGE with param, NOT_FOUND for an unknown tenant and for a group without tenants; EXISTS
 * for a name that is taken; CONFLICT for one prompt too many, an archived tenant, and when a tenant
 * would see more than LIMIT_PROMPTS_VISIBLE. */
enum status tenant_prompt_prepare(struct tenants *tenants,
                                  const struct tenant_prompt_fields *fields,
                                  struct tenant_prompt *out);
/* Stores what was prepared as `out`, with the same checks. */
enum status tenant_prompt_create(struct tenants *tenants, const struct tenant_change *change,
                                 const struct tenant_prompt_fields *fields,
                                 struct tenant_prompt *out);
/* NOT_FOUND. What is as it was changes nothing. From the moment this returns whoever lost a grant
 * does not see the prompt; requests that run go on. */
enum status tenant_prompt_update(struct tenants *tenants, const struct tenant_change *change,
                                 struct slice id, const struct tenant_prompt_fields *fields,
                                 struct tenant_prompt *out);
/* Unpublishes: nobody sees it any more, its name is free. NOT_FOUND, also the second time. */
enum status tenant_prompt_delete(struct tenants *tenants, const struct tenant_change *change,
                                 struct slice id, struct tenant_prompt *out);

enum status tenant_prompt_get(struct tenants *tenants, struct slice id, struct tenant_prompt *out);
/* Up to `capacity` prompts after id `after` ("" = from the start), oldest first. */
enum status tenant_prompt_list(struct tenants *tenants, struct slice after,
                               struct tenant_prompt *out, size_t capacity, size_t *count,
                               bool *has_more);
/* Up to LIMIT_PROMPT_GRANTS of them, tenants before groups; 0 for no prompt of this id. */
size_t tenant_prompt_grants(struct tenants *tenants, struct slice id,
                            struct tenant_prompt_grant out[LIMIT_PROMPT_GRANTS]);
/* Appends the JSON object; nothing for no prompt of this id. */
void tenant_prompt_content(struct tenants *tenants, struct slice id, struct buffer *out);
