/* adapter_body: writes the request that a foreign server gets for one choice.
 *
 * Owns:     nothing.
 * Thread:   any.
 * Cost:     O(bytes of the request).
 * Not here: sending it (adapter), what kinds honour (adapter_kind).
 *
 * Each choice is a request of its own: servers count the usage of one choice in a frame, and some
 * refuse several.
 */
#pragma once

#include "engine/engine.h"
#include "gateway/adapter/adapter_kind.h"

/* UNSUPPORTED, with the field as param, when the request asks for a field that the kind does not
 * honour, or would share a cache with other tenants and `accepts_shared` is not set. */
enum status adapter_body_check(const struct adapter_kind *kind,
                               const struct engine_request *request, bool accepts_shared);
/* Appends the body for choice `choice` to `out`. The request must have passed the check. */
void adapter_body_write(const struct adapter_kind *kind, const struct engine_request *request,
                        uint32_t choice, const char *model, struct buffer *out);
/* Whether the request's constraint can be said as "response_format". */
bool adapter_body_is_format(const struct engine_request *request);
