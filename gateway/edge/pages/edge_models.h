/* edge_models: GET /v1/models and /v1/models/{id}, answered from the last health check.
 *
 *   {"object":"list","data":[{"id","object":"model","created","owned_by","max_model_len"}]}
 *
 * Owns:     nothing.
 * Thread:   the loop's thread.
 * Cost:     a look-up and a few hundred bytes. The engine is not asked, so no limits apply.
 * Not here: the health check (edge_probe), authentication (edge_forward).
 */
#pragma once

#include "auth/auth.h"
#include "config/base/slice.h"
#include "gateway/edge/state/edge_state.h"

/* Whether an engine has told the edge its model since the edge started. Before that, the caller
 * must wait for a health check. */
bool edge_models_is_known(const struct edge *edge);
/* Sets `is_allowed`: whether the principal's tenant may use a model of that name, served or not.
 * Fails as tenants_get does. */
enum status edge_models_check(const struct edge *edge, const struct principal *principal,
                              struct slice model, bool *is_allowed);
/* Appends the model that is called `id`; with `id.bytes` NULL, the list of all models that the
 * tenant may use. MODEL_NOT_FOUND for a model that is not served, and in the same words for one
 * that the tenant may not use. UNAVAILABLE when no model is known yet. */
enum status edge_models_append(const struct edge *edge, const struct principal *principal,
                               struct slice id, struct buffer *out);
