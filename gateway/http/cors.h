/* cors: pages of other origins may use this face from a browser (Fetch standard, "CORS protocol").
 *
 *   preflight  OPTIONS + Origin + Access-Control-Request-Method ─► 204, methods, headers, max-age
 *   answers    Access-Control-Allow-Origin, -Expose-Headers; Vary: Origin
 *
 * Owns:     the list of origins.
 * Thread:   made at start, then read-only.
 * Cost:     one compare with each origin (≤ LIMIT_CORS_ORIGINS) for a request that names one.
 * Not here: who may ask what: an origin is no right. Credentials that browsers add by themselves
 *           are never allowed; a page sends a key as any other client does.
 *
 * An origin that is not allowed is answered as if there were no list: the browser keeps the answer
 * from the page.
 */
#pragma once

#include <stdbool.h>

#include "gateway/http/http_header.h"

struct cors;

enum { CORS_HEADERS = 3 };

/* "*", or origins with commas: "https://app.example,http://localhost:3000", as browsers write them
 * (lower case, no path, no port when it is the scheme's own). "": *out is NULL, which the
 * functions below take. INVALID and LIMIT with param "cors_origins"; NO_MEMORY. */
enum status cors_create(struct cors **out, const char *origins);
void cors_destroy(struct cors *cors);

/* Writes the headers of an answer to a request with this Origin (empty: the request has none), at
 * most CORS_HEADERS; returns how many. */
size_t cors_headers(const struct cors *cors, struct slice origin, struct http_header *out);
/* Whether pages of this origin may read answers; `cors` may be NULL. */
bool cors_allows(const struct cors *cors, struct slice origin);
