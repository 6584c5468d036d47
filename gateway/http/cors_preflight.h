/* cors_preflight: answers a preflight, with which a browser asks before a request (WHATWG Fetch).
 *
 * Owns:     nothing.
 * Thread:   the loop's thread.
 * Cost:     one comparison with each origin.
 * Not here: which origins are allowed, the headers of other answers (cors).
 */
#pragma once

#include "gateway/http/request.h"

struct cors;

/* Answers a preflight of an allowed origin and returns true; else does nothing. It needs no key,
 * because browsers send none with a preflight. `methods` is like "GET, POST". */
bool cors_preflight(const struct cors *cors, struct http_request *request, const char *methods);
