/* router: finds the handler for a method and a path.
 *
 * Owns:     nothing; the table of routes is the caller's (made of a routes.def).
 * Thread:   the loop's thread; the table is read-only.
 * Cost:     O(routes × bytes of the path); allocates only path arguments, in the request.
 * Not here: what a route does.
 */
#pragma once

#include "gateway/http/request.h"

typedef void (*http_handler)(struct http_request *request, void *context);

/* A path is literal, with "{id}" for one segment: "/admin/v1/tenants/{id}/keys", and "{rest}" for
 * the rest of the path with its slashes: "/v1/models/{rest}". The parts that match these are
 * percent-decoded once; literal parts are compared without decoding. No two rows of a table may
 * match the same path, so their order means nothing (tests/tidy). */
struct route {
    const char *method;
    const char *path;
    http_handler handler;
};

/* Stands in each row of a routes.def, in one file: two rows with the same method and path do not
 * assemble, and the message names both. */
#define ROUTER_ROW_ONCE(method, path) __asm__(".equiv \".Lroute " method " " path "\", 1");

/* Finds the route, or answers the request and returns NULL: 404 for an unknown path or a part that
 * is no name (control characters, invalid UTF-8, a '/' in an {id}), 400 for a '%' without two hex
 * digits, 405 with an `allow` header. Sets the path arguments: valid UTF-8, with a NUL after them.
 * `index` (may be NULL) gets the row's index, for metrics. A HEAD finds the row of the GET; its
 * handler sees a GET, and the answer is sent without the body. */
const struct route *router_find(const struct route *routes, size_t count,
                                struct http_request *request, size_t *index);

/* The code of router_find's refusal: 400, 404 or 405; 0 when it finds a route. Answers nothing. */
int router_refusal(const struct route *routes, size_t count, struct http_request *request);
