/* admin_requests: generations under way: the edge's jobs with tenants' names and what the engine
 * says of each; and the end of one.
 *
 * Owns:     nothing.
 * Thread:   the loop's; the audit row of a cancel is written on the worker's.
 * Cost:     a list copies all jobs and asks the engine once.
 * Not here: ending a job (edge_job: the one way), what the engine knows (engine_http).
 */
#pragma once

#include "gateway/admin/admin_call.h"

enum status admin_requests_list(struct admin_call *call);
/* NOT_FOUND when the request has ended, or is no generation of this edge. */
enum status admin_requests_cancel(struct admin_call *call);
