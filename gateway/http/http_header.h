/* http_header: a header of a request or an answer.
 *
 * Owns:     nothing: name and value are the caller's.
 * Thread:   any.
 * Cost:     –
 * Not here: requests and answers (request).
 */
#pragma once

#include "config/base/slice.h"

struct http_header {
    const char *name; /* lower case */
    struct slice value;
};
