/* admin_prompts: /admin/v1/shared-prompts: published prompts.
 *
 * Owns:     the state of a POST while the engine computes.
 * Thread:   the worker's; a POST returns to the loop while the engine computes.
 * Cost:     a change is one committed transaction. A POST waits for the engine to compute the
 *           prompt; other calls run meanwhile.
 * Not here: rows and grants (tenant_prompt), the exchange with the engine (edge_prompts).
 *
 *   POST ─ worker: checks ─► loop: engine computes ─► worker: row, answer 201
 *                                  engine refuses  ─► the engine's refusal, no row
 *                                  no engine       ─► worker: row, answer 202 "publishing"
 */
#pragma once

#include "gateway/admin/admin_call.h"

enum status admin_prompts_create(struct admin_call *call);
/* Makes a new prompt without the engine, which computes it when the import is done. */
enum status admin_prompts_import(struct admin_call *call);
/* `over` of every call that changes prompts: on the loop, passes the changes to the engine. */
void admin_prompts_over(struct admin_call *call);
/* The rows have neither messages nor text. */
enum status admin_prompts_list(struct admin_call *call);
enum status admin_prompts_get(struct admin_call *call);
enum status admin_prompts_update(struct admin_call *call);
enum status admin_prompts_delete(struct admin_call *call);
