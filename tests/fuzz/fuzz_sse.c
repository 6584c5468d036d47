/* fuzz_sse: bytes → sse_reader_feed, whole and byte by byte: both must give the same frames. A
 * frame that sse_append writes must be read back unchanged. */
#include <stdint.h>
#include <stdlib.h>

#include "gateway/http/sse.h"

enum { FRAME_MAX = 1 << 20 };

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length);

static enum status collect(void *context, const struct sse_event *event)
{
    struct buffer *out = context;
    sse_append(out, "x", event->data);
    buffer_append_slice(out, event->event);
    return STATUS_OK;
}

static enum status collect_data(void *context, const struct sse_event *event)
{
    struct buffer *out = context;
    buffer_append_slice(out, event->data);
    buffer_append_char(out, '\0');
    return STATUS_OK;
}

/* Feeds `length` bytes in steps of `step`. */
static void feed(const char *bytes, size_t length, size_t step, struct buffer *out,
                 enum status (*on_event)(void *, const struct sse_event *))
{
    struct sse_reader reader;
    sse_reader_init(&reader, FRAME_MAX);
    for (size_t at = 0; at < length; at += step) {
        size_t part = length - at < step ? length - at : step;
        if (sse_reader_feed(&reader, (struct slice){bytes + at, part}, on_event, out) != STATUS_OK)
            abort();
    }
    sse_reader_deinit(&reader);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length)
{
    const char *text = (const char *)bytes;
    struct buffer whole, split, data, again;
    buffer_init(&whole, SIZE_MAX / 2);
    buffer_init(&split, SIZE_MAX / 2);
    buffer_init(&data, SIZE_MAX / 2);
    buffer_init(&again, SIZE_MAX / 2);
    if (length < FRAME_MAX) {
        feed(text, length, length + 1, &whole, collect);
        feed(text, length, 1, &split, collect);
        if (!slice_equals(buffer_slice(&whole), buffer_slice(&split)))
            abort();
    }
    /* one frame with the input as its data: \r and \r\n become \n */
    if (length < FRAME_MAX / 8) {
        struct buffer frame;
        buffer_init(&frame, SIZE_MAX / 2);
        sse_append(&frame, NULL, (struct slice){text, length});
        feed(frame.bytes, frame.length, 3, &data, collect_data);
        buffer_clear(&frame);
        if (data.length == 0)
            abort();
        sse_append(&frame, NULL, (struct slice){data.bytes, data.length - 1});
        feed(frame.bytes, frame.length, 7, &again, collect_data);
        if (!slice_equals(buffer_slice(&data), buffer_slice(&again)))
            abort();
        buffer_deinit(&frame);
    }
    buffer_deinit(&whole);
    buffer_deinit(&split);
    buffer_deinit(&data);
    buffer_deinit(&again);
    return 0;
}
