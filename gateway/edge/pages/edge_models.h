/* edge_models: GET /v1/models and /v1/models/{id}, from what the engine last said of itself.
 *
 *   {"object":"list","data":[{"id","object":"model","created","owned_by","max_model_len"}]}
 *
 * Owns:     nothing.
 * Thread:   the loop's thread.
 * Cost:     a look-up and a few hundred bytes; the engine is not asked, so nothing is limited.
 * Not here: looking at the engine (edge_probe), who is calling (edge_forward).
 */
#pragma once

#include "auth/auth.h"
#include "config/base/slice.h"
#include "gateway/edge/state/edge_state.h"

/* Whether the edge has heard of a model yet. Before that the caller must wait for the engine. */
bool edge_models_is_known(const struct edge *edge);
/* Whether the principal's tenant may have that model, which need not be served. */
enum status edge_models_check(const struct edge *edge, const struct principal *principal,
                              struct slice model, bool *is_allowed);
/* Appends the one that is called `id`, or, with bytes NULL, the list of all that the tenant may
 * use. MODEL_NOT_FOUND for one that is not served and for one that the tenant may not use alike. */
enum status edge_models_append(const struct edge *edge, const struct principal *principal,
                               struct slice id, struct buffer *out);
