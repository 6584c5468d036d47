/* edge_head: writes the head of a request to the engine, and reads two headers of the client. Only
 * method and path of the client's head reach the engine.
 *
 * Owns:     nothing.
 * Thread:   any.
 * Cost:     one formatted block.
 * Not here: sending it (http1_client), the engine's reading of it (engine_http).
 */
#pragma once

#include <stdint.h>

#include "auth/auth.h"

/* What the engine is told with a request; texts are borrowed for the call. */
struct edge_head {
    struct slice method;
    struct slice path;
    struct slice request_id;
    const struct principal *principal;
    enum service_class service_class;
    uint32_t deadline_ms;
    const char *model; /* of a body that names none; "" = the engine's first */
};

enum { EDGE_HEAD_BYTES_MAX = 8192 };

/* Appends the request line and the headers, without the last line's end. INVALID when method or
 * path hold anything but visible ASCII, because an HTTP/2 path can hold bytes that would end a line
 * of HTTP/1. */
enum status edge_head_append(struct buffer *out, const struct edge_head *head);

/* Reads x-banyan-explain: 1, 0, or no header (`value.bytes` NULL). INVALID for anything else. */
enum status edge_head_explain(struct slice value, bool *out);

/* Reads x-request-timeout-ms, a whole number from 1. A larger value than `most_ms`, or no header
 * (`value.bytes` NULL), gives `most_ms`. INVALID for anything else. */
enum status edge_head_deadline(struct slice value, uint32_t most_ms, uint32_t *out);
