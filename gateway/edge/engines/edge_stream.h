/* edge_stream: reads the engine's frames: what a client may see of them, and the count.
 *
 * Owns:     the reader's partial frame, the error the engine sent, the head of the first frame.
 * Thread:   one at a time.
 * Cost:     O(bytes); a frame is passed on without being parsed.
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

/* What kind of object the frames are parts of. */
enum edge_stream_form { EDGE_STREAM_CHAT, EDGE_STREAM_TEXT, EDGE_STREAM_GENERATION };

struct edge_stream_names {
    const char *id;    /* what an id begins with: "chatcmpl" */
    const char *whole; /* "object" of an answer in one piece */
    const char *chunk; /* "object" of a frame */
};
const struct edge_stream_names *edge_stream_names(enum edge_stream_form form);

/* The engine's final record: the truth about a request. */
struct edge_final {
    uint64_t record_seq;
    uint32_t prompt_tokens;
    uint32_t cached_tokens;
    uint32_t completion_tokens;
    char finish[EDGE_STREAM_WORD_BYTES];
    char model[LIMIT_NAME_BYTES]; /* what the engine calls the model that ran; "" = not told yet */
    bool is_estimated;            /* made by the edge from what it has seen */
    bool is_limited; /* the edge stopped it: choices that had not ended end by "length" */
    int64_t queue_us;
    int64_t prefill_us;
    int64_t decode_us;
    /* Told only when `is_explained`, which the stream's owner sets: parts of cached_tokens by whose
     * they were; how many came from the host's tier; what became of the request on its way. */
    bool is_explained;
    enum service_class service_class; /* the owner's too: what `service_tier` says */
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
    /* A frame for the client: its JSON object without the opening brace. Not OK stops the reading.
     */
    enum status (*chunk)(void *context, struct slice rest);
    /* The answer stands still, because more urgent requests have its pages; or it goes on. */
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
    struct edge_final
        final;           /* before it: model, prompt, cached tokens, queue time of banyan.start */
    struct buffer error; /* {"message",…} of an error frame; empty = none */
    struct buffer first; /* the first frame before "choices" or "text", with the last comma */
};

void edge_stream_init(struct edge_stream *stream, const struct edge_stream_callbacks *callbacks,
                      void *context);
void edge_stream_deinit(struct edge_stream *stream);
/* PROTOCOL when the engine breaks the rules above, LIMIT when a frame is too long, else what a
 * callback returned. Bytes after the final record are ignored. */
enum status edge_stream_feed(struct edge_stream *stream, struct slice bytes);

/* Memory that the reader holds. */
size_t edge_stream_bytes(const struct edge_stream *stream);

/* "data: {…}\n\n" of a chunk, with "usage":null inserted at its end when asked. */
void edge_stream_append_chunk(struct buffer *out, struct slice rest, bool with_null_usage);
/* {"prompt_tokens":…,…} of a final record; with "banyan":{…} when it is to be explained. */
void edge_stream_append_usage(struct buffer *out, const struct edge_final *final);
/* The last frame, which carries the usage: choices [], or of a generation no more text and the
 * reason of its end. `fallback` stands for the first frame's members when no frame has come. */
void edge_stream_append_usage_chunk(struct buffer *out, const struct edge_stream *stream,
                                    enum edge_stream_form form, struct slice fallback);
/* "id", "created" and "model" of an answer of which no frame has come; before them, unless `tier`
 * is NULL, a frame's "object" and its tier. */
void edge_stream_append_fallback(struct buffer *out, enum edge_stream_form form,
                                 const char *request_id, const char *model, const char *tier);
/* `head` is members of an answer: they say the tier of that class from now on. */
void edge_stream_set_tier(struct buffer *head, enum service_class service_class);
