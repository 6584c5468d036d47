/* router: method and path → handler.
 *
 * Owns:     a table of routes of one face (routes are rows of that face's routes.def).
 * Thread:   made at start, then read-only.
 * Cost:     linear over a face's routes (≤ 64), no allocation.
 * Not here: what a route does.
 */
#pragma once

#include "gateway/http/request.h"

typedef void (*http_handler)(struct http_request *request, void *context);

/* Paths are literal, with "{id}" for one segment: "/admin/v1/tenants/{id}/keys". */
struct route {
    const char *method;
    const char *path;
    http_handler handler;
};

/* Finds the route or answers 404 (unknown path) or 405 with `allow` itself and returns NULL. Fills
 * what http_path_argument gives. `index` (may be NULL) receives the row, for metrics. */
const struct route *router_find(const struct route *routes, size_t count,
                                struct http_request *request, size_t *index);

/* True when some method is served at this path: whether router_find's refusal is a 405 or a 404. */
bool router_knows(const struct route *routes, size_t count, struct slice path);
