#include "gateway/http/sse.h"

void sse_append(struct buffer *out, const char *event, struct slice data)
{
    if (event != NULL && event[0] != '\0') {
        buffer_append_text(out, "event: ");
        buffer_append_text(out, event);
        buffer_append_char(out, '\n');
    }
    /* A line break in the data would end the field: each line gets a field of its own. */
    size_t at = 0;
    for (;;) {
        size_t length = 0;
        while (at + length < data.length && data.bytes[at + length] != '\n' &&
               data.bytes[at + length] != '\r')
            length++;
        buffer_append_text(out, "data: ");
        if (length > 0)
            buffer_append(out, data.bytes + at, length);
        buffer_append_char(out, '\n');
        at += length;
        if (at >= data.length)
            break;
        bool is_pair = data.bytes[at] == '\r' && at + 1 < data.length && data.bytes[at + 1] == '\n';
        at += is_pair ? 2 : 1;
    }
    buffer_append_char(out, '\n');
}

void sse_reader_init(struct sse_reader *reader, size_t frame_bytes_max)
{
    buffer_init(&reader->line, frame_bytes_max);
    buffer_init(&reader->data, frame_bytes_max);
    buffer_init(&reader->event, frame_bytes_max);
    reader->is_after_cr = false;
}

size_t sse_reader_bytes(const struct sse_reader *reader)
{
    return reader->line.capacity + reader->data.capacity + reader->event.capacity;
}

void sse_reader_deinit(struct sse_reader *reader)
{
    buffer_deinit(&reader->line);
    buffer_deinit(&reader->data);
    buffer_deinit(&reader->event);
}

static enum status feed_dispatch(struct sse_reader *reader,
                                 enum status (*on_event)(void *, const struct sse_event *),
                                 void *context)
{
    enum status status = STATUS_OK;
    if (reader->data.length > 0) { /* an event without data is dropped (WHATWG HTML, 9.2.6) */
        struct sse_event event = {buffer_slice(&reader->event), buffer_slice(&reader->data)};
        event.data.length--; /* the line break after the last line */
        status = on_event(context, &event);
    }
    buffer_clear(&reader->data);
    buffer_clear(&reader->event);
    return status;
}

/* One whole line without its end. */
static enum status feed_line(struct sse_reader *reader, struct slice line,
                             enum status (*on_event)(void *, const struct sse_event *),
                             void *context)
{
    if (line.length == 0)
        return feed_dispatch(reader, on_event, context);
    const char *colon = memchr(line.bytes, ':', line.length);
    struct slice name = line;
    struct slice value = {0};
    if (colon != NULL) {
        name.length = (size_t)(colon - line.bytes);
        value = (struct slice){colon + 1, line.length - name.length - 1};
        if (value.length > 0 && value.bytes[0] == ' ')
            value.bytes++, value.length--;
    }
    if (slice_is(name, "data")) {
        buffer_append_slice(&reader->data, value);
        buffer_append_char(&reader->data, '\n');
    } else if (slice_is(name, "event")) {
        buffer_clear(&reader->event);
        buffer_append_slice(&reader->event, value);
    } /* comments, `id`, `retry` and unknown fields are ignored */
    if (reader->data.status != STATUS_OK)
        FAIL(reader->data.status, "a frame of the stream is too long");
    if (reader->event.status != STATUS_OK)
        FAIL(reader->event.status, "a frame of the stream is too long");
    return STATUS_OK;
}

/* The first `c` from `at` on, or the end. */
static size_t feed_find(struct slice bytes, size_t at, char c)
{
    const char *found = at < bytes.length ? memchr(bytes.bytes + at, c, bytes.length - at) : NULL;
    return found != NULL ? (size_t)(found - bytes.bytes) : bytes.length;
}

enum status sse_reader_feed(struct sse_reader *reader, struct slice bytes,
                            enum status (*on_event)(void *context, const struct sse_event *event),
                            void *context)
{
    size_t at = 0;
    size_t lf = feed_find(bytes, 0, '\n');
    size_t cr = feed_find(bytes, 0, '\r');
    while (at < bytes.length) {
        if (reader->is_after_cr) {
            reader->is_after_cr = false;
            if (bytes.bytes[at] == '\n' && ++at == bytes.length)
                break;
        }
        /* Each byte is searched once for LF and once for CR, however they are mixed. */
        lf = lf < at ? feed_find(bytes, at, '\n') : lf;
        cr = cr < at ? feed_find(bytes, at, '\r') : cr;
        size_t end = lf < cr ? lf : cr;
        struct slice part = {bytes.bytes + at, end - at};
        if (end == bytes.length || reader->line.length > 0) {
            buffer_append_slice(&reader->line, part);
            if (reader->line.status != STATUS_OK)
                FAIL(reader->line.status, "a line of the stream is too long");
            part = buffer_slice(&reader->line);
        }
        if (end == bytes.length)
            break;
        reader->is_after_cr = bytes.bytes[end] == '\r';
        TRY(feed_line(reader, part, on_event, context));
        buffer_clear(&reader->line);
        at = end + 1;
    }
    return STATUS_OK;
}
