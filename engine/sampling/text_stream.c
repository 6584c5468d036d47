#include "engine/sampling/text_stream.h"

#include "config/base/utf8.h"

static void init_stop(struct text_stream_stop *stop, struct slice bytes)
{
    stop->length = (uint32_t)bytes.length;
    stop->matched = 0;
    memcpy(stop->bytes, bytes.bytes, bytes.length);
    stop->border[0] = 0;
    uint16_t border = 0;
    for (uint32_t i = 1; i < stop->length; i++) {
        while (border > 0 && stop->bytes[i] != stop->bytes[border])
            border = stop->border[border - 1];
        if (stop->bytes[i] == stop->bytes[border])
            border++;
        stop->border[i] = border;
    }
}

enum status text_stream_init(struct text_stream *stream, const struct slice *stops,
                             uint32_t stop_count)
{
    if (stop_count > LIMIT_STOP_STRINGS)
        FAIL(STATUS_INVALID, "more than %d stop strings", LIMIT_STOP_STRINGS);
    stream->stop_count = stop_count;
    stream->is_stopped = false;
    stream->shows_stop = false;
    stream->passes_stops = false;
    stream->shown = 0;
    stream->length = 0;
    stream->offset = 0;
    stream->decode = (struct text_decode){0};
    for (uint32_t i = 0; i < stop_count; i++) {
        if (stops[i].length == 0 || stops[i].length > LIMIT_STOP_BYTES)
            FAIL(STATUS_INVALID, "a stop string has 1 to %d bytes", LIMIT_STOP_BYTES);
        /* A stop string of whole characters begins and ends where characters of the text do. */
        if (!utf8_is_valid(stops[i].bytes, stops[i].length))
            FAIL(STATUS_INVALID, "a stop string is not UTF-8");
        init_stop(&stream->stops[i], stops[i]);
    }
    return STATUS_OK;
}

/* Appends one byte; false when it completes a stop string, which is then removed. */
static bool push_byte(struct text_stream *stream, char byte)
{
    ASSERT(stream->length < TEXT_STREAM_BYTES);
    stream->text[stream->length++] = byte;
    uint32_t cut = 0;
    for (uint32_t i = 0; i < stream->stop_count; i++) {
        struct text_stream_stop *stop = &stream->stops[i];
        uint32_t matched = stop->matched;
        while (matched > 0 && stop->bytes[matched] != byte)
            matched = stop->border[matched - 1];
        if (stop->bytes[matched] == byte)
            matched++;
        const bool is_whole = matched == stop->length;
        stop->matched = is_whole && stream->passes_stops ? stop->border[matched - 1] : matched;
        if (is_whole && matched > cut && !stream->passes_stops)
            cut = matched;
    }
    if (!stream->shows_stop)
        stream->length -= cut;
    stream->is_stopped = cut > 0;
    return cut == 0;
}

/* Appends bytes up to the one that completes a stop string. */
static void push_text(struct text_stream *stream, const char *bytes, size_t length)
{
    for (size_t i = 0; i < length; i++) {
        if (!push_byte(stream, bytes[i]))
            return;
    }
}

static struct slice push_show(struct text_stream *stream)
{
    uint32_t held = 0;
    for (uint32_t i = 0; i < stream->stop_count && !stream->is_stopped; i++) {
        if (stream->stops[i].matched > held)
            held = stream->stops[i].matched;
    }
    ASSERT(held <= stream->length);
    stream->shown = stream->length - held;
    return (struct slice){stream->text, stream->shown};
}

/* Removes what the last call returned. */
static void push_forget_shown(struct text_stream *stream)
{
    stream->length -= stream->shown;
    memmove(stream->text, stream->text + stream->shown, stream->length);
    stream->shown = 0;
}

void text_stream_follow(struct text_stream *stream, struct slice last)
{
    text_decode_init(&stream->decode, last);
}

struct slice text_stream_push(struct text_stream *stream, struct slice bytes, bool is_hidden)
{
    char text[TEXT_DECODE_BYTES];
    push_forget_shown(stream);
    if (is_hidden)
        bytes.length = 0;
    stream->offset = text_decode_offset(&stream->decode, bytes);
    if (stream->is_stopped || bytes.length == 0)
        return (struct slice){stream->text, 0};
    push_text(stream, text, text_decode_push(&stream->decode, bytes, text));
    return push_show(stream);
}

struct slice text_stream_mark(struct text_stream *stream)
{
    stream->offset = text_decode_offset(&stream->decode, (struct slice){0});
    return text_stream_flush(stream);
}

struct slice text_stream_flush(struct text_stream *stream)
{
    char text[TEXT_DECODE_BYTES];
    push_forget_shown(stream);
    size_t length = text_decode_flush(&stream->decode, text);
    if (!stream->is_stopped)
        push_text(stream, text, length);
    for (uint32_t i = 0; i < stream->stop_count; i++)
        stream->stops[i].matched = 0;
    stream->shown = stream->length;
    return (struct slice){stream->text, stream->shown};
}
