#include "gateway/adapter/adapter_stream.h"

#include "config/base/limits_upstream.h"

void adapter_stream_init(struct adapter_stream *stream, const struct adapter_kind *kind,
                         const struct adapter_stream_callbacks *callbacks, void *context)
{
    *stream = (struct adapter_stream){
        .kind = kind,
        .callbacks = callbacks,
        .context = context,
        .counts = {.prompt = -1, .cached = -1, .completion = -1, .reasoning = -1}};
    sse_reader_init(&stream->reader, LIMIT_UPSTREAM_EVENT_BYTES);
}

void adapter_stream_deinit(struct adapter_stream *stream)
{
    sse_reader_deinit(&stream->reader);
}

/* One choice of a frame while it is read: its texts, and the tokens that they consist of. */
struct reading {
    struct adapter_stream *stream;
    struct adapter_pieces pieces;
    struct adapter_piece piece;
};

/* Tells a text with the next token. A text of several tokens is told with the first of them, and
 * tell_rest tells the others, without text. */
static enum status tell(struct reading *reading, enum source_channel channel, uint32_t call,
                        const json_t *text)
{
    struct adapter_stream *stream = reading->stream;
    struct adapter_part part = {
        channel, call, {json_string_value(text), json_string_length(text)}, NULL};
    if (!json_is_string(text) || part.text.length == 0)
        return STATUS_OK;
    if (reading->pieces.at < reading->pieces.count) {
        TRY(adapter_pieces_next(&reading->pieces, &reading->piece));
        part.piece = &reading->piece;
    }
    stream->callbacks->part(stream->context, &part);
    return STATUS_OK;
}

static enum status tell_rest(struct reading *reading)
{
    struct adapter_stream *stream = reading->stream;
    while (reading->pieces.at < reading->pieces.count) {
        const struct adapter_part part = {SOURCE_CONTENT, 0, {"", 0}, &reading->piece};
        TRY(adapter_pieces_next(&reading->pieces, &reading->piece));
        stream->callbacks->part(stream->context, &part);
    }
    return STATUS_OK;
}

/* Pieces of calls: {"index":0,"id":…,"function":{"name":"f","arguments":"{…"}}. A call begins with
 * its name. */
static enum status read_calls(struct reading *reading, const json_t *calls)
{
    struct adapter_stream *stream = reading->stream;
    size_t at;
    const json_t *piece;
    /* Earlier servers wrote one call without its array. It is better refused than lost. */
    if (calls != NULL && !json_is_null(calls) && !json_is_array(calls))
        FAIL(STATUS_PROTOCOL, "the engine's calls are no list");
    json_array_foreach(calls, at, piece)
    {
        const json_t *index = json_object_get(piece, "index");
        const json_t *function = json_object_get(piece, "function");
        const json_t *name = json_object_get(function, "name");
        json_int_t call = json_is_integer(index) ? json_integer_value(index) : (json_int_t)at;
        if (call < 0 || call > (json_int_t)stream->calls)
            FAIL(STATUS_PROTOCOL, "the engine's calls are not in order");
        if (call == (json_int_t)stream->calls) {
            if (!json_is_string(name) || json_string_length(name) == 0)
                FAIL(STATUS_PROTOCOL, "a call of the engine has no name");
            stream->calls++;
            TRY(tell(reading, SOURCE_CALL_NAME, (uint32_t)call, name));
        }
        TRY(tell(reading, SOURCE_CALL_ARGUMENTS, (uint32_t)call,
                 json_object_get(function, "arguments")));
    }
    return STATUS_OK;
}

static enum engine_finish finish_of(const json_t *word)
{
    const struct slice text = {json_string_value(word), json_string_length(word)};
    if (!json_is_string(word) || text.length == 0) /* some write "" for none */
        return ENGINE_FINISH_NONE;
    if (slice_is(text, "length"))
        return ENGINE_FINISH_LENGTH;
    if (slice_is(text, "abort") || slice_is(text, "error"))
        return ENGINE_FINISH_ERROR;
    return ENGINE_FINISH_STOP; /* "stop", "tool_calls", "content_filter" and their like */
}

static enum status read_choice(struct adapter_stream *stream, const json_t *choice)
{
    struct reading reading; /* its piece has room for many bytes, and is filled when it is needed */
    const json_t *delta = json_object_get(choice, "delta");
    const json_t *reasoning = json_object_get(delta, "reasoning_content");
    enum engine_finish finish = finish_of(json_object_get(choice, "finish_reason"));
    if (!json_is_object(choice))
        FAIL(STATUS_PROTOCOL, "a choice of the engine is no object");
    if (json_string_length(reasoning) == 0)
        reasoning = json_object_get(delta, "reasoning");
    reading.stream = stream;
    TRY(adapter_pieces_find(&reading.pieces, choice));
    TRY(tell(&reading, SOURCE_REASONING, 0, reasoning));
    TRY(tell(&reading, SOURCE_CONTENT, 0, json_object_get(delta, "content")));
    TRY(tell(&reading, SOURCE_CONTENT, 0, json_object_get(choice, "text")));
    TRY(read_calls(&reading, json_object_get(delta, "tool_calls")));
    if (finish != ENGINE_FINISH_NONE)
        stream->finish = finish;
    return tell_rest(&reading);
}

static enum status read_frame(struct adapter_stream *stream, const json_t *frame)
{
    const json_t *choices = json_object_get(frame, "choices");
    const json_t *error = json_object_get(frame, "error");
    if (!json_is_object(frame))
        FAIL(STATUS_PROTOCOL, "an event of the engine is no object");
    if (error != NULL && !json_is_null(error))
        FAIL(STATUS_UNAVAILABLE, "the engine could not finish the answer");
    stream->kind->counts(frame, &stream->counts);
    if (json_array_size(choices) > 1)
        FAIL(STATUS_PROTOCOL, "the engine answers with choices that nobody asked for");
    if (json_array_size(choices) == 1)
        TRY(read_choice(stream, json_array_get(choices, 0)));
    stream->callbacks->frame(stream->context);
    return STATUS_OK;
}

static enum status on_event(void *context, const struct sse_event *event)
{
    struct adapter_stream *stream = context;
    if (stream->is_done)
        return STATUS_OK;
    if (slice_is(event->data, "[DONE]")) {
        stream->is_done = true;
        return STATUS_OK;
    }
    json_t *frame = json_loadb(event->data.bytes, event->data.length,
                               JSON_ALLOW_NUL | JSON_REJECT_DUPLICATES, NULL);
    if (frame == NULL)
        FAIL(STATUS_PROTOCOL, "an event of the engine is no JSON");
    enum status status = read_frame(stream, frame);
    json_decref(frame);
    return status;
}

enum status adapter_stream_feed(struct adapter_stream *stream, struct slice bytes)
{
    return sse_reader_feed(&stream->reader, bytes, on_event, stream);
}
