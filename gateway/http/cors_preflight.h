/* cors_preflight: the answer to a browser that asks before it sends a request.
 *
 * Owns:     nothing.
 * Thread:   the loop's thread.
 * Cost:     one compare with each origin.
 * Not here: which origins are allowed, the headers of other answers (cors).
 */
#pragma once

#include "gateway/http/request.h"

struct cors;

/* Answers a preflight of an origin that is allowed, and returns true; else does nothing. No key is
 * asked for: browsers send none. `methods`: "GET, POST". */
bool cors_preflight(const struct cors *cors, struct http_request *request, const char *methods);
