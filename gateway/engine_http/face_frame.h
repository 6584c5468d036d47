/* face_frame: tokens of one answer → the JSON of its SSE frames, as the OpenAI schema has them.
 *
 * Owns:     the parts of a frame that are gathered until it is written.
 * Thread:   the loop's.
 * Cost:     O(bytes of the frame).
 * Not here: when frames are sent (face_job), the last record (final_ring).
 *
 *   {"n":3,"id":"chatcmpl-…","object":"chat.completion.chunk","created":…,
 *    "service_tier":"default","model":"…",
 *    "choices":[{"index":0,"delta":{"content":" Paris"},"logprobs":null,"finish_reason":null}]}
 *
 * /v1/generate has "object":"generation" and, instead of choices, "text" and "finish_reason".
 * "n", the completion tokens so far, is always the first member: the edge cuts it out by bytes.
 */
#pragma once

#include "engine/engine.h"
#include "gateway/engine_http/face_request.h"

/* What all frames of one answer have in common. */
struct face_frame_head {
    enum face_kind kind;
    char id[LIMIT_REQUEST_ID_BYTES + 16]; /* "chatcmpl-…", "cmpl-…" or "gen-…" */
    const char *model;
    const char *tier; /* service_tier as it is served */
    int64_t created_s;
    bool want_logprobs;
    bool want_token_ids;
};

/* One choice of the answer: its place in the text, and what waits for the next frame. */
struct face_frame_choice {
    uint32_t index;
    uint64_t echo_characters; /* whole ones so far: the answer's text begins behind them */
    bool has_first_token;
    struct buffer text;
    struct buffer token_ids; /* "1,2,3" */
    struct buffer tokens;    /* chat: items of logprobs.content; text: logprobs.tokens */
    struct buffer logprobs;  /* text: logprobs.token_logprobs */
    struct buffer top;       /* text: logprobs.top_logprobs */
    struct buffer offsets;   /* text: logprobs.text_offset */
};

void face_frame_choice_init(struct face_frame_choice *choice, uint32_t index);
void face_frame_choice_deinit(struct face_frame_choice *choice);

/* Adds a PROMPT, TOKEN or CHOICE_END event to what waits. */
void face_frame_add(struct face_frame_choice *choice, const struct face_frame_head *head,
                    const struct engine_event *event, struct engine *engine);
/* True when the next frame would carry something. */
bool face_frame_is_due(const struct face_frame_choice *choice, const struct face_frame_head *head);

/* Bytes gathered for the next frame. */
size_t face_frame_bytes(const struct face_frame_choice *choice);

/* Writes the data of one frame and empties the choice. `n` = completion tokens so far; `finish` is
 * NONE but for the last frame of a choice. */
void face_frame_write(struct face_frame_choice *choice, const struct face_frame_head *head,
                      uint32_t n, enum engine_finish finish, struct buffer *out);
/* Chat's first frame of a choice: the role. */
void face_frame_write_role(const struct face_frame_choice *choice,
                           const struct face_frame_head *head, struct buffer *out);
/* {"n":…,"error":{…}} after the answer has begun. */
void face_frame_write_error(uint32_t n, const struct error_note *note, struct buffer *out);
