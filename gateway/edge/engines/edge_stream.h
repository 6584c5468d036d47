/* edge_stream: reads the engine's frames: takes the token count out of each, and gives the rest to
 * the client.
 *
 * Owns:     the reader's partial frame, the error that the engine sent, the head of the first
 *           frame.
 * Thread:   one at a time.
 * Cost:     O(bytes); the JSON of a frame is passed on without being parsed.
 * Not here: the connection (http1_client), answers in one piece (edge_assemble).
 *
 *   event: banyan.start                                                    never to the client
 *   data: {"n":3,"id":"chatcmpl-…","object":…,"model":…,"choices":[…]}     from the engine
 *   data: {"id":"chatcmpl-…","object":…,"model":…,"choices":[…]}           to the client
 *   event: banyan.paused, banyan.resumed                                   never to the client
 *   event: banyan.final                                                    never to the client
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "config/base/limits.h"
#include "config/base/service_class.h"
#include "gateway/http/sse.h"

enum { EDGE_STREAM_WORD_BYTES = 16 };

/* The kind of answer whose parts the frames are. */
enum edge_stream_form {
    EDGE_STREAM_CHAT,
    EDGE_STREAM_TEXT,
    EDGE_STREAM_GENERATION,
    EDGE_STREAM_EMBEDDINGS,
};

struct edge_stream_names {
    const char *id;    /* the prefix of an id, such as "chatcmpl" */
    const char *whole; /* "object" of an answer in one piece */
    const char *chunk; /* "object" of a frame */
};
const struct edge_stream_names *edge_stream_names(enum edge_stream_form form);

/* The engine's final record: what counts for a request, whatever the edge has seen. */
struct edge_final {
    uint64_t record_seq;
    uint32_t prompt_tokens;
    uint32_t cached_tokens;
    uint32_t completion_tokens;
    uint32_t reasoning_tokens; /* of these */
    char finish[EDGE_STREAM_WORD_BYTES];
    char model[LIMIT_NAME_BYTES]; /* the engine's name of the model that ran; "": not told yet */
    bool is_estimated;            /* the counts are what the edge has seen of the stream */
    bool is_limited;              /* a limit has stopped it: open choices end with "length" */
    int64_t queue_us;
    int64_t prefill_us;
    int64_t decode_us;
    /* The members from here on are shown to the client only with `is_explained`. They say which
     * domain of the cache cached_tokens came from, how many came from host memory, and what
     * happened to the request on its way. The stream's owner sets the first two. */
    bool is_explained;
    enum service_class service_class; /* shown as service_tier */
    uint32_t cached_published;
    uint32_t cached_group;
    uint32_t cached_own;
    uint32_t cached_host;
    uint32_t preemptions;
    uint32_t swapped_pages;
    uint32_t recomputed_tokens;
    uint32_t drafts_accepted;
    uint32_t drafts_rejected;
    int64_t swap_us;
    int64_t paused_us;
};

struct edge_stream_callbacks {
    /* A frame for the client: its JSON object without the opening brace. A failure ends the
     * reading. */
    enum status (*chunk)(void *context, struct slice rest);
    /* The engine has preempted the request (true) or resumed it (false). */
    void (*stand)(void *context, bool is_standing);
    /* The final record has come; `stream` holds it. */
    void (*final)(void *context);
};

struct edge_stream {
    struct sse_reader reader;
    const struct edge_stream_callbacks *callbacks;
    void *context;
    uint32_t tokens_seen; /* "n" of the last frame */
    bool has_final;
    /* Before the final record has come: what banyan.start says of it. */
    struct edge_final final;
    struct buffer error; /* {"message",…} of an error frame; empty: none */
    struct buffer first; /* the first frame before "choices" or "text", with the last comma */
};

/* `callbacks` must outlive the stream. */
void edge_stream_init(struct edge_stream *stream, const struct edge_stream_callbacks *callbacks,
                      void *context);
void edge_stream_deinit(struct edge_stream *stream);
/* Reads the next bytes. PROTOCOL when the engine breaks the rules above; LIMIT when a frame is
 * longer than LIMIT_ENGINE_FRAME_BYTES; otherwise what a callback returned. Frames after the final
 * record are ignored. */
enum status edge_stream_feed(struct edge_stream *stream, struct slice bytes);

/* Bytes of memory that the reader holds. */
size_t edge_stream_bytes(const struct edge_stream *stream);

/* Appends "data: {…}\n\n" of a frame, with "usage":null as its last member when asked. */
void edge_stream_append_chunk(struct buffer *out, struct slice rest, bool with_null_usage);
/* Appends {"prompt_tokens":…,…} of a final record, with "banyan":{…} when is_explained. */
void edge_stream_append_usage(struct buffer *out, const struct edge_final *final);
/* Appends the last frame, which carries the usage. It has the choices [], or for a generation an
 * empty text and the finish_reason. `fallback` replaces the first frame's members when no frame has
 * come. */
void edge_stream_append_usage_chunk(struct buffer *out, const struct edge_stream *stream,
                                    enum edge_stream_form form, struct slice fallback);
/* Appends "id", "created" and "model" for an answer of which no frame has come. Unless `tier` is
 * NULL, "object" and "service_tier" of a frame follow the id. */
void edge_stream_append_fallback(struct buffer *out, enum edge_stream_form form,
                                 const char *request_id, const char *model, const char *tier);
/* Changes the service_tier in `head`, which holds members of an answer, to that of the class. */
void edge_stream_set_tier(struct buffer *head, enum service_class service_class);
