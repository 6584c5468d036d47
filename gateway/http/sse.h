/* sse: server-sent events: writing frames, and reading them incrementally (WHATWG HTML, 9.2).
 *
 * Owns:     the reader's partial line, bounded.
 * Thread:   one at a time.
 * Cost:     O(bytes).
 * Not here: what a frame means.
 */
#pragma once

#include "config/base/slice.h"

/* "data: <json>\n\n", or with an event name "event: <name>\ndata: <json>\n\n". */
void sse_append(struct buffer *out, const char *event, struct slice data);

struct sse_event {
    struct slice event; /* "" = message */
    struct slice data;  /* lines joined by \n; valid during the callback */
};

struct sse_reader {
    struct buffer line;
    struct buffer data;
    struct buffer event;
    bool is_after_cr;
};
void sse_reader_init(struct sse_reader *reader, size_t frame_bytes_max);
void sse_reader_deinit(struct sse_reader *reader);
size_t sse_reader_bytes(const struct sse_reader *reader); /* memory that it holds */
/* Calls `on_event` for each whole frame in order. LIMIT when a frame is too long; what on_event
 * returns other than OK stops the reading and is returned. */
enum status sse_reader_feed(struct sse_reader *reader, struct slice bytes,
                            enum status (*on_event)(void *context, const struct sse_event *event),
                            void *context);
