/* admin_usage: what all tenants used: /admin/v1/usage, its single requests, and OpenAI's shapes of
 * it.
 *
 *   call ─► ledger_usage (reader's thread: sums or rows, rendering) ─ loop_post ─► answer
 *
 * Owns:     a question on its way, freed with its call.
 * Thread:   the loop's; rendering on the reader's, which has the call meanwhile.
 * Cost:     one allocation a question (10 KiB), and its answer.
 * Not here: the question's form (edge_usage_form), the answer's (edge_usage_render), what one
 *           tenant sees (edge_usage).
 */
#pragma once

#include "gateway/admin/admin_call.h"

enum status admin_usage_all(struct admin_call *call);
enum status admin_usage_requests(struct admin_call *call);
enum status admin_usage_organization(struct admin_call *call);
enum status admin_usage_costs(struct admin_call *call);
