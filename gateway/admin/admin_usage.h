/* admin_usage: the usage of all tenants: /admin/v1/usage, /admin/v1/usage/requests, and the routes
 * of OpenAI's usage API.
 *
 *   call ─► ledger_usage (reader's thread: sums or rows, rendering) ─ loop_post ─► answer
 *
 * Owns:     the state of a query, which is freed with its call.
 * Thread:   the loop's; the reader's thread renders, and has the call meanwhile.
 * Cost:     one allocation of 10 KiB for a query, and its answer.
 * Not here: the form of queries (edge_usage_form) and answers (edge_usage_render), what a tenant
 *           sees (edge_usage).
 */
#pragma once

#include "gateway/admin/admin_call.h"

enum status admin_usage_all(struct admin_call *call);
enum status admin_usage_requests(struct admin_call *call);
enum status admin_usage_organization(struct admin_call *call);
enum status admin_usage_costs(struct admin_call *call);
