/* edge_me: GET /v1/me, which tells a key its tenant, scopes and limits, and what it used today.
 *
 *   {"object":"me",
 *    "tenant":{"id","name","default_class","best_class","models"},
 *    "key":{"id","name","redacted","scopes","created_at","expires_at",
 *           "limits":{"object", … the key's own limits}},
 *    "limits":{"request_timeout_s","body_bytes", … the tenant's limits, for example
 *              "requests_per_minute":{"limit","remaining","reset_ms","mode"}},
 *    "usage_today":{"start_time","num_model_requests","input_tokens","input_cached_tokens",
 *                   "output_tokens"},
 *    "cache":{"prompt_tokens","cached_tokens"}}
 *
 * Owns:     nothing.
 * Thread:   the loop's; the reader's thread reads the usage and appends it.
 * Cost:     two look-ups and one query of ledger_usage.
 * Not here: usage of the tenant's other keys, which needs a scope (edge_usage).
 */
#pragma once

#include "gateway/edge/pages/edge_usage.h"

/* Any valid key may ask. The usage is the key's own, since midnight UTC. OK means that the request
 * will be answered; otherwise the caller answers it with the failure. The loop's thread. */
enum status edge_me_handle(struct edge *edge, struct http_request *request,
                           const struct edge_access *access, const struct principal *principal);
