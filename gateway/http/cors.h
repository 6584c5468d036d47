/* cors: lets pages of other origins use this listener from a browser (Fetch standard, CORS
 * protocol).
 *
 *   preflight  OPTIONS + Origin + Access-Control-Request-Method ─► 204, methods, headers, max-age
 *   answers    Access-Control-Allow-Origin, -Expose-Headers; Vary: Origin
 *
 * Owns:     the list of origins.
 * Thread:   made at start, then read-only.
 * Cost:     a request with an Origin is compared with at most LIMIT_CORS_ORIGINS origins.
 * Not here: authorization: an origin is no credential. Cookies and other credentials that browsers
 *           add by themselves are never allowed; a page sends a key like any other client.
 *
 * An origin that is not allowed gets the answer without these headers, and its browser hides the
 * answer from the page.
 */
#pragma once

#include <stdbool.h>

#include "gateway/http/http_header.h"

struct cors;

enum { CORS_HEADERS = 3 };

/* `origins` is "*", or origins with commas between them, as browsers write them: lower case, no
 * path, no default port ("https://app.example,http://localhost:3000"). With "" `*out` is NULL,
 * which the functions below accept. INVALID and LIMIT with param "cors_origins"; NO_MEMORY. */
enum status cors_create(struct cors **out, const char *origins);
void cors_destroy(struct cors *cors);

/* Writes at most CORS_HEADERS headers for the answer to a request with this Origin (empty = none),
 * and returns how many. */
size_t cors_headers(const struct cors *cors, struct slice origin, struct http_header *out);
/* Whether pages of this origin may read answers. `cors` may be NULL. */
bool cors_allows(const struct cors *cors, struct slice origin);
