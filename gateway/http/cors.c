#include "gateway/http/cors.h"

#include <string.h>

#include "config/base/limits.h"
#include "config/base/mem.h"

struct cors {
    bool is_any;
    uint32_t count;
    struct slice origins[LIMIT_CORS_ORIGINS]; /* in text */
    char text[];
};

/* Headers that a page may read, besides those that every page may read. */
static const char EXPOSED[] =
    "x-request-id, retry-after, retry-after-ms, x-should-retry, openai-processing-ms, "
    "openai-version, x-ratelimit-limit-requests, x-ratelimit-remaining-requests, "
    "x-ratelimit-reset-requests, x-ratelimit-limit-tokens, x-ratelimit-remaining-tokens, "
    "x-ratelimit-reset-tokens, x-banyan-unconstrained";

/* --- the list --- */

static bool is_host_char(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') ||
           (c != '\0' && strchr("-._[]:+", c) != NULL);
}

/* Whether it is scheme://host or scheme://host:port. */
static bool is_origin(struct slice text)
{
    static const char mark[] = "://";
    const char *found = memmem(text.bytes, text.length, mark, sizeof mark - 1);
    if (found == NULL || found == text.bytes)
        return false;
    size_t scheme = (size_t)(found - text.bytes);
    for (size_t i = 0; i < text.length; i++) {
        bool is_mark = i >= scheme && i < scheme + sizeof mark - 1;
        if (!is_mark && !is_host_char(text.bytes[i]))
            return false;
    }
    struct slice host = {found + 3, text.length - scheme - 3};
    return host.length > 0 && memmem(host.bytes, host.length, "//", 2) == NULL;
}

/* Whether an origin has the default port of its scheme. Browsers leave it out, so such an origin
 * would never match. */
static bool has_usual_port(struct slice text)
{
    static const struct {
        struct slice scheme, port;
    } rows[] = {{SLICE("https://"), SLICE(":443")}, {SLICE("http://"), SLICE(":80")}};
    for (size_t i = 0; i < 2; i++) {
        struct slice port = rows[i].port;
        if (slice_starts_with(text, rows[i].scheme) && text.length > port.length &&
            memcmp(text.bytes + text.length - port.length, port.bytes, port.length) == 0)
            return true;
    }
    return false;
}

static enum status read_origin(struct cors *cors, struct slice origin)
{
    if (!is_origin(origin) || has_usual_port(origin))
        FAIL_PARAM(STATUS_INVALID, "cors_origins",
                   "cors_origins must be * or origins as browsers write them, with commas between "
                   "them: https://app.example or http://localhost:3000, in lower case, without a "
                   "path and without the scheme's default port");
    if (cors->count == LIMIT_CORS_ORIGINS)
        FAIL_PARAM(STATUS_LIMIT, "cors_origins", "cors_origins has more than %d origins",
                   LIMIT_CORS_ORIGINS);
    cors->origins[cors->count++] = origin;
    return STATUS_OK;
}

static enum status read_list(struct cors *cors)
{
    struct slice rest = slice_of(cors->text);
    for (;;) {
        const char *comma = memchr(rest.bytes, ',', rest.length);
        size_t length = comma != NULL ? (size_t)(comma - rest.bytes) : rest.length;
        struct slice origin = {rest.bytes, length};
        while (origin.length > 0 && origin.bytes[0] == ' ')
            origin.bytes++, origin.length--;
        while (origin.length > 0 && origin.bytes[origin.length - 1] == ' ')
            origin.length--;
        TRY(read_origin(cors, origin));
        if (comma == NULL)
            return STATUS_OK;
        rest = (struct slice){comma + 1, rest.length - length - 1};
    }
}

enum status cors_create(struct cors **out, const char *origins)
{
    *out = NULL;
    size_t length = strlen(origins);
    if (length == 0)
        return STATUS_OK;
    struct cors *cors = mem_zalloc(1, sizeof *cors + length + 1);
    if (cors == NULL)
        FAIL(STATUS_NO_MEMORY, "no memory for origins");
    memcpy(cors->text, origins, length);
    cors->is_any = strcmp(origins, "*") == 0;
    enum status status = cors->is_any ? STATUS_OK : read_list(cors);
    if (status != STATUS_OK)
        mem_free(cors);
    else
        *out = cors;
    return status;
}

void cors_destroy(struct cors *cors)
{
    mem_free(cors);
}

/* --- answers --- */

bool cors_allows(const struct cors *cors, struct slice origin)
{
    if (cors == NULL || origin.length == 0)
        return false;
    for (uint32_t i = 0; i < cors->count; i++)
        if (slice_equals(cors->origins[i], origin))
            return true;
    return cors->is_any;
}

size_t cors_headers(const struct cors *cors, struct slice origin, struct http_header *out)
{
    size_t count = 0;
    if (cors == NULL)
        return 0;
    if (!cors->is_any) /* caches must not give one origin the answer to another */
        out[count++] = (struct http_header){"vary", SLICE("origin")};
    if (!cors_allows(cors, origin))
        return count;
    out[count++] =
        (struct http_header){"access-control-allow-origin", cors->is_any ? SLICE("*") : origin};
    out[count++] = (struct http_header){"access-control-expose-headers", slice_of(EXPOSED)};
    return count;
}
