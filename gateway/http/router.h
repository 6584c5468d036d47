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

/* Paths are literal, with "{id}" for one segment: "/admin/v1/tenants/{id}/keys", and "{rest}" for
 * all that is left, with its slashes: "/v1/models/{rest}". What these stand for is percent-decoded,
 * once; the literal parts are compared as they came. */
/* Rows of one table match no path in common, so that their order means nothing (tests/tidy). */
struct route {
    const char *method;
    const char *path;
    http_handler handler;
};

/* Of each row of a routes.def, once in its file: a second row of this method and path does not
 * assemble, and the message names both. */
#define ROUTER_ROW_ONCE(method, path) __asm__(".equiv \".Lroute " method " " path "\", 1");

/* Finds the route, or answers and returns NULL: 404 for an unknown path and for what is no name
 * (control characters, bytes that are no UTF-8, in an {id} a '/'), 400 for a '%' that begins no
 * escape, 405 with `allow`. Fills what http_path_argument gives: valid UTF-8, a NUL behind it.
 * `index` (may be NULL) receives the row, for metrics. A HEAD finds the row of the GET, whose
 * handler sees a GET; its answer goes out without the body. */
const struct route *router_find(const struct route *routes, size_t count,
                                struct http_request *request, size_t *index);

/* The code that router_find would refuse with: 400, 404 or 405; 0: it finds a route. */
int router_refusal(const struct route *routes, size_t count, struct http_request *request);
