/* edge_head: the head of a request to the engine: nothing of the client's but method and path.
 *
 * Owns:     nothing.
 * Thread:   any.
 * Cost:     one formatted block.
 * Not here: sending it (http1_client), what the engine makes of it (engine_http).
 */
#pragma once

#include <stdint.h>

#include "auth/auth.h"

struct edge_head {
    struct slice method;
    struct slice path;
    struct slice request_id;
    const struct principal *principal;
    enum service_class service_class;
    uint32_t deadline_ms;
};

enum { EDGE_HEAD_BYTES_MAX = 8192 };

/* Request line and headers, without the last line's end. INVALID when the path holds anything but
 * visible ASCII: over HTTP/2 a path can hold what would end a line of HTTP/1. */
enum status edge_head_append(struct buffer *out, const struct edge_head *head);

/* x-banyan-explain: 1, 0 or no `value` (bytes NULL); INVALID for anything else. */
enum status edge_head_explain(struct slice value, bool *out);

/* x-request-timeout-ms: no `value` (bytes NULL) gives `most_ms`; INVALID unless a whole number ≥
 * 1; above the most it is the most. */
enum status edge_head_deadline(struct slice value, uint32_t most_ms, uint32_t *out);
