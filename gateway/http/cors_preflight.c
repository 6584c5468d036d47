#include "gateway/http/cors_preflight.h"

#include <string.h>

#include "gateway/http/cors.h"

enum { ASKED_BYTES = 1024 };

static const char MAX_AGE_S[] = "600"; /* after so long browsers see a change of the list */

/* Whether it is a list of header names, which may be sent back as it came. */
static bool is_names(struct slice text)
{
    for (size_t i = 0; i < text.length; i++) {
        char c = text.bytes[i];
        bool is_name = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       (c != '\0' && strchr("-_, ", c) != NULL);
        if (!is_name)
            return false;
    }
    return text.length > 0 && text.length <= ASKED_BYTES;
}

bool cors_preflight(const struct cors *cors, struct http_request *request, const char *methods)
{
    struct http_header headers[3];
    size_t count = 0;
    if (!cors_allows(cors, http_header_get(request, "origin")) ||
        !slice_is(http_method(request), "OPTIONS") ||
        http_header_get(request, "access-control-request-method").length == 0)
        return false;
    struct slice asked = http_header_get(request, "access-control-request-headers");
    headers[count++] = (struct http_header){"access-control-allow-methods", slice_of(methods)};
    headers[count++] = (struct http_header){"access-control-max-age", slice_of(MAX_AGE_S)};
    if (is_names(asked))
        headers[count++] = (struct http_header){"access-control-allow-headers", asked};
    http_respond(request, 204, headers, count, (struct slice){0});
    return true;
}
