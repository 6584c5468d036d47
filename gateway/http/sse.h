/* sse: writes and reads server-sent events (WHATWG HTML, 9.2); reads them in any pieces.
 *
 * Owns:     the reader's incomplete event, bounded.
 * Thread:   one at a time.
 * Cost:     O(bytes).
 * Not here: what an event means.
 */
#pragma once

#include "config/base/slice.h"

/* Appends "data: <data>\n\n", or with an event's name "event: <event>\ndata: <data>\n\n". `event`
 * may be NULL. */
void sse_append(struct buffer *out, const char *event, struct slice data);

struct sse_event {
    struct slice event; /* its name; empty when it has none. Valid during the callback */
    struct slice data;  /* lines joined by \n. Valid during the callback */
};

struct sse_reader {
    struct buffer line;
    struct buffer data;
    struct buffer event;
    bool is_after_cr;
};
void sse_reader_init(struct sse_reader *reader, size_t frame_bytes_max);
void sse_reader_deinit(struct sse_reader *reader);
size_t sse_reader_bytes(const struct sse_reader *reader); /* memory of its buffers */
/* Calls `on_event` for each complete event, in order. LIMIT when a line or an event has more than
 * frame_bytes_max bytes, or NO_MEMORY. A result of `on_event` other than OK stops the reading and
 * is returned. */
enum status sse_reader_feed(struct sse_reader *reader, struct slice bytes,
                            enum status (*on_event)(void *context, const struct sse_event *event),
                            void *context);
