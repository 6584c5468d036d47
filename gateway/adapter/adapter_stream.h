/* adapter_stream: reads the answer of a foreign server: server-sent events of OpenAI's API.
 *
 *   data: {"choices":[{"delta":{"content":" Paris"},"finish_reason":null}],"usage":null}
 *   data: {"choices":[{"delta":{},"finish_reason":"stop"}]}
 *   data: {"choices":[],"usage":{"prompt_tokens":12,"completion_tokens":3}}
 *   data: [DONE]
 *
 * Owns:     the reader's partial event; counts.
 * Thread:   one at a time.
 * Cost:     one parse of each event with jansson, some 3 µs.
 * Not here: the connection (http1_client), what becomes of the parts (adapter).
 *
 * An answer is whole when its finish has come; everything after [DONE] is ignored. Texts are whole
 * UTF-8 characters, because JSON's are.
 */
#pragma once

#include "engine/engine.h"
#include "gateway/adapter/adapter_kind.h"
#include "gateway/adapter/adapter_piece.h"
#include "gateway/http/sse.h"
#include "gateway/source/source.h"

struct adapter_part {
    enum source_channel channel;
    uint32_t call;
    struct slice text; /* valid during the callback; may be empty beside a piece */
    /* The token, where its id or log-probability came; else NULL: the text is of one token or of
     * several. Valid during the callback. */
    const struct adapter_piece *piece;
};

struct adapter_stream_callbacks {
    void (*part)(void *context, const struct adapter_part *part);
    /* A frame has been read, and all its parts were told: `stream->counts` are as it says. */
    void (*frame)(void *context);
};

struct adapter_stream {
    struct sse_reader reader;
    const struct adapter_kind *kind;
    const struct adapter_stream_callbacks *callbacks;
    void *context;
    struct adapter_counts counts; /* a count that was not told is -1 */
    uint32_t calls;               /* calls of tools that have begun */
    enum engine_finish finish;    /* NONE until it comes */
    bool is_done;                 /* [DONE] came */
};

void adapter_stream_init(struct adapter_stream *stream, const struct adapter_kind *kind,
                         const struct adapter_stream_callbacks *callbacks, void *context);
void adapter_stream_deinit(struct adapter_stream *stream);
/* PROTOCOL when an event is no JSON object or breaks the form above; UNAVAILABLE when it holds an
 * error; LIMIT when it is longer than LIMIT_UPSTREAM_EVENT_BYTES; NO_MEMORY. */
enum status adapter_stream_feed(struct adapter_stream *stream, struct slice bytes);
