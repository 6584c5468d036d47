/* edge_me: GET /v1/me: whose key this is, what it may do, its limits, what it used today.
 *
 *   {"object":"me","tenant":{"id","name"},"key":{"id","name","redacted","scopes","created_at",
 *    "expires_at","limits":{"object", … those that it has of its own}},
 *    "limits":{"request_timeout_s","body_bytes",
 *    "requests_per_minute":{"limit","remaining","reset_ms","mode"}, … those that the tenant has},
 *    "usage_today":{"start_time","num_model_requests","input_tokens","input_cached_tokens",
 *    "output_tokens"}}
 *
 * Owns:     nothing.
 * Thread:   the loop's; the usage is read and appended on the reader's.
 * Cost:     two look-ups and one question to ledger_usage.
 * Not here: usage of the tenant's other keys: that wants a scope (edge_usage).
 */
#pragma once

#include "gateway/edge/pages/edge_usage.h"

/* As edge_usage_start: not OK means that the caller answers. Any key that opens something may ask;
 * usage is the key's own, since midnight UTC. */
enum status edge_me_handle(struct edge *edge, struct http_request *request,
                           const struct edge_access *access, const struct principal *principal);
