/* admin_prompts: published prompts in the config API.
 *
 * Owns:     what a POST must remember while the engine computes.
 * Thread:   the worker's; a POST goes back to the loop in between.
 * Cost:     a change is one committed transaction; a POST waits for the engine to compute the
 *           prompt, and holds up no other call meanwhile.
 * Not here: rows and grants (tenant_prompt), the exchange with the engine (edge_prompts).
 *
 *   POST ─ worker: checks ─► loop: engine computes ─► worker: row, answer 201
 *                                  engine refuses  ─► its answer; nothing is kept
 *                                  no engine       ─► worker: row, answer 202 "publishing"
 */
#pragma once

#include "gateway/admin/admin_call.h"

enum status admin_prompts_create(struct admin_call *call);
/* A new prompt without asking the engine: it is computed when the import is done. */
enum status admin_prompts_import(struct admin_call *call);
/* Behind any change of prompts, on the loop: the engine hears of it. */
void admin_prompts_over(struct admin_call *call);
enum status admin_prompts_list(struct admin_call *call);
enum status
admin_prompts_get(struct admin_call *call); /* with messages or text; lists are without */
enum status admin_prompts_update(struct admin_call *call);
enum status admin_prompts_delete(struct admin_call *call);
