#include "gateway/http/router.h"

#include "gateway/http/http_error.h"
#include "gateway/http/request_h2o.h"

/* Takes one segment, up to the next '/', off the front of *path. */
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

static bool match(const char *pattern, struct slice path,
                  struct slice arguments[REQUEST_PATH_ARGUMENTS])
{
    struct slice rest = slice_of(pattern);
    size_t count = 0;
    while (rest.length > 0) {
        if (path.length == 0)
            return false;
        if (slice_starts_with(rest, SLICE("{id}"))) {
            struct slice segment = match_segment(&path);
            if (segment.length == 0)
                return false;
            ASSERT(count < REQUEST_PATH_ARGUMENTS);
            arguments[count++] = segment;
            rest.bytes += sizeof("{id}") - 1;
            rest.length -= sizeof("{id}") - 1;
            continue;
        }
        if (*rest.bytes != *path.bytes)
            return false;
        rest.bytes++, rest.length--;
        path.bytes++, path.length--;
    }
    return path.length == 0;
}

const struct route *router_find(const struct route *routes, size_t count,
                                struct http_request *request, size_t *index)
{
    struct slice path = http_path(request);
    struct buffer allow;
    buffer_init(&allow, 256);
    const struct route *found = NULL;
    for (size_t i = 0; i < count && found == NULL; i++) {
        struct slice arguments[REQUEST_PATH_ARGUMENTS] = {{0}};
        if (!match(routes[i].path, path, arguments))
            continue;
        if (slice_is(http_method(request), routes[i].method)) {
            found = &routes[i];
            for (size_t a = 0; a < REQUEST_PATH_ARGUMENTS; a++)
                request_path_argument_set(request, a, arguments[a]);
            if (index != NULL)
                *index = i;
        } else {
            if (allow.length > 0)
                buffer_append_text(&allow, ", ");
            buffer_append_text(&allow, routes[i].method);
        }
    }
    if (found == NULL && allow.length > 0)
        http_error_respond_method(request, buffer_slice(&allow));
    else if (found == NULL)
        http_error_respond_path(request);
    buffer_deinit(&allow);
    return found;
}

bool router_knows(const struct route *routes, size_t count, struct slice path)
{
    struct slice arguments[REQUEST_PATH_ARGUMENTS];
    for (size_t i = 0; i < count; i++) {
        if (match(routes[i].path, path, arguments))
            return true;
    }
    return false;
}
