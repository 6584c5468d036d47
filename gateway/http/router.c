#include "gateway/http/router.h"

#include <string.h>

#include "config/base/hex.h"
#include "config/base/limits.h"
#include "config/base/utf8.h"
#include "gateway/http/http_error.h"
#include "gateway/http/request_h2o.h"

/* The part of a path that matches a row's "{id}" or "{rest}", not decoded. */
struct part {
    struct slice raw;
    bool is_rest;
};

/* Removes one segment, up to the next '/', from the front of *path and returns it. */
static struct slice match_segment(struct slice *path)
{
    size_t length = 0;
    while (length < path->length && path->bytes[length] != '/')
        length++;
    struct slice segment = {path->bytes, length};
    path->bytes += length;
    path->length -= length;
    return segment;
}

static bool match_skip(struct slice *text, struct slice prefix)
{
    if (!slice_starts_with(*text, prefix))
        return false;
    text->bytes += prefix.length;
    text->length -= prefix.length;
    return true;
}

static bool match(const char *pattern, struct slice path, struct part parts[REQUEST_PATH_ARGUMENTS])
{
    struct slice rest = slice_of(pattern);
    size_t count = 0;
    while (rest.length > 0) {
        if (path.length == 0)
            return false;
        bool is_rest = match_skip(&rest, SLICE("{rest}"));
        if (is_rest || match_skip(&rest, SLICE("{id}"))) {
            ASSERT(count < REQUEST_PATH_ARGUMENTS);
            struct part *part = &parts[count++];
            *part = (struct part){.raw = path, .is_rest = is_rest};
            if (is_rest)
                path.length = 0;
            else
                part->raw = match_segment(&path);
            if (part->raw.length == 0)
                return false;
            continue;
        }
        if (*rest.bytes != *path.bytes)
            return false;
        rest.bytes++, rest.length--;
        path.bytes++, path.length--;
    }
    return path.length == 0;
}

/* Percent-decodes once (RFC 3986, 2.1). Returns the length, or SIZE_MAX when two hex digits do not
 * follow a '%'. */
static size_t decode(struct slice text, char out[LIMIT_PATH_BYTES])
{
    size_t length = 0;
    for (size_t i = 0; i < text.length; i++) {
        char c = text.bytes[i];
        if (c == '%') {
            int high = i + 2 < text.length ? hex_digit(text.bytes[i + 1]) : -1;
            int low = high >= 0 ? hex_digit(text.bytes[i + 2]) : -1;
            if (low < 0)
                return SIZE_MAX;
            c = (char)(high << 4 | low);
            i += 2;
        }
        out[length++] = c;
    }
    return length;
}

/* A name is UTF-8 without control characters; `has_slashes`: it may have '/' ({rest}). */
static bool is_name(struct slice text, bool has_slashes)
{
    for (size_t i = 0; i < text.length; i++) {
        unsigned char c = (unsigned char)text.bytes[i];
        if (c < ' ' || c == 0x7f || (c == '/' && !has_slashes))
            return false;
    }
    return utf8_is_valid(text.bytes, text.length);
}

/* 0, or the code for parts of a path that are no names: 400 or 404. `is_kept`: the names become
 * the request's path arguments. */
static int name_parts(struct http_request *request, const struct part parts[REQUEST_PATH_ARGUMENTS],
                      bool is_kept)
{
    char name[LIMIT_PATH_BYTES];
    for (size_t i = 0; i < REQUEST_PATH_ARGUMENTS; i++) {
        struct slice raw = parts[i].raw;
        size_t length = raw.length <= sizeof name ? decode(raw, name) : SIZE_MAX;
        if (length == SIZE_MAX)
            return 400;
        if (!is_name((struct slice){name, length}, parts[i].is_rest))
            return 404;
        if (!is_kept || raw.bytes == NULL)
            continue;
        char *copy = http_alloc(request, length + 1);
        memcpy(copy, name, length);
        copy[length] = '\0';
        request_path_argument_set(request, i, (struct slice){copy, length});
    }
    return 0;
}

/* Every route with GET also has HEAD (RFC 9110, 9.1). */
static bool serves(const struct route *route, struct slice method)
{
    return slice_is(method, route->method) ||
           (slice_is(method, "HEAD") && strcmp(route->method, "GET") == 0);
}

static void allow_add(struct buffer *allow, const char *method)
{
    if (allow->length > 0)
        buffer_append_text(allow, ", ");
    buffer_append_text(allow, method);
    if (strcmp(method, "GET") == 0)
        buffer_append_text(allow, ", HEAD");
}

/* 0 and the row's index, or the code of the refusal; `allow` gets the methods for a 405. */
static int look(const struct route *routes, size_t count, struct http_request *request,
                size_t *index, bool is_kept, struct buffer *allow)
{
    int refusal = 404;
    for (size_t i = 0; i < count; i++) {
        struct part parts[REQUEST_PATH_ARGUMENTS] = {{{0}, false}};
        if (!match(routes[i].path, http_path(request), parts))
            continue;
        if (serves(&routes[i], http_method(request))) {
            *index = i;
            return name_parts(request, parts, is_kept);
        }
        refusal = 405;
        allow_add(allow, routes[i].method);
    }
    return refusal;
}

const struct route *router_find(const struct route *routes, size_t count,
                                struct http_request *request, size_t *index)
{
    size_t found = 0;
    struct buffer allow;
    buffer_init(&allow, 256);
    int refusal = look(routes, count, request, &found, true, &allow);
    if (refusal == 405)
        http_error_respond_method(request, buffer_slice(&allow));
    else if (refusal == 400)
        http_error_respond_refusal(request, 400,
                                   "A percent sign in the path is not followed by two "
                                   "hexadecimal digits; write it as %25.");
    else if (refusal != 0)
        http_error_respond_path(request);
    else if (index != NULL)
        *index = found;
    buffer_deinit(&allow);
    if (refusal != 0)
        return NULL;
    request_method_set(request, slice_of(routes[found].method));
    return &routes[found];
}

int router_refusal(const struct route *routes, size_t count, struct http_request *request)
{
    size_t found = 0;
    struct buffer allow;
    buffer_init(&allow, 256);
    int refusal = look(routes, count, request, &found, false, &allow);
    buffer_deinit(&allow);
    return refusal;
}
