/* face_frame: writes the tokens of an answer as the JSON of SSE frames, in the OpenAI schema.
 *
 * Owns:     the parts of a frame until it is written.
 * Thread:   the loop's.
 * Cost:     O(bytes of the frame).
 * Not here: when frames are sent (face_job), the last record (final_ring).
 *
 *   {"n":3,"id":"chatcmpl-…","object":"chat.completion.chunk","created":…,
 *    "service_tier":"default","model":"…",
 *    "choices":[{"index":0,"delta":{"content":" Paris"},"logprobs":null,"finish_reason":null}]}
 *
 * A chat's delta also has "reasoning_content", and "tool_calls" with pieces of calls:
 *   {"index":0,"id":"call_…","type":"function","function":{"name":"f","arguments":""}}, then
 *   {"index":0,"function":{"arguments":"{\"a\""}} …
 * /v1/generate has "object":"generation", and "text" and "finish_reason" instead of choices.
 * "n", the completion tokens so far, is always the first member: the edge finds it by its bytes and
 * removes it.
 */
#pragma once

#include "engine/answer/answer_split.h"
#include "gateway/dialect/ask.h"
#include "gateway/source/source.h"

/* What all frames of one answer have in common. */
struct face_frame_head {
    enum ask_dialect dialect;
    char id[LIMIT_REQUEST_ID_BYTES + 16]; /* "chatcmpl-…", "cmpl-…" or "gen-…" */
    const char *model;
    const char *tier; /* service_tier that the request really has */
    int64_t created_s;
    bool want_logprobs;
    bool want_token_ids;
    const struct answer_model *answer; /* how the model writes; NULL: answers are not split */
    bool is_constrained;               /* reasoning comes first or not at all */
    bool has_calls;                    /* the answer may have calls of tools */
    struct answer_tools tools;         /* that it may call */
};

/* One choice of the answer, with the parts that wait for its next frame. */
struct face_frame_choice {
    uint32_t index;
    uint64_t echo_characters; /* characters of the echoed prompt, which stand before the answer */
    bool has_first_token;
    struct buffer text;
    struct buffer token_ids; /* "1,2,3" */
    struct buffer tokens;    /* chat: items of logprobs.content; completions: logprobs.tokens */
    struct buffer logprobs;  /* completions: logprobs.token_logprobs */
    struct buffer top;       /* completions: logprobs.top_logprobs */
    struct buffer offsets;   /* completions: logprobs.text_offset */
    /* Of an answer that is split; NULL for others. */
    const struct face_frame_head *head;
    struct answer_split *split;
    struct buffer reasoning;
    struct buffer calls;  /* items of delta.tool_calls; the last one is open while is_in_call */
    uint32_t parts_calls; /* calls that a source which splits its answers has begun */
    bool is_in_call;      /* the last item wants more arguments, and its two closing braces */
    uint32_t reasoning_tokens;
};

void face_frame_choice_init(struct face_frame_choice *choice, uint32_t index);
void face_frame_choice_deinit(struct face_frame_choice *choice);
/* Before the first token: the answer is split as `head`, which must outlive the choice, says. With
 * `is_in_reasoning` it begins inside of reasoning. NO_MEMORY. */
enum status face_frame_choice_split(struct face_frame_choice *choice,
                                    const struct face_frame_head *head, bool is_in_reasoning);

/* Adds a PROMPT, TOKEN or CHOICE_END event to the parts that wait. */
void face_frame_add(struct face_frame_choice *choice, const struct face_frame_head *head,
                    const struct source_event *event);
/* Whether the next frame would have any content. */
bool face_frame_is_due(const struct face_frame_choice *choice, const struct face_frame_head *head);

/* Bytes of the parts that wait. */
size_t face_frame_bytes(const struct face_frame_choice *choice);

/* Appends the data of one frame to `out` and clears the parts. `n` is the number of completion
 * tokens so far; `finish` is NONE except in the last frame of a choice. */
void face_frame_write(struct face_frame_choice *choice, const struct face_frame_head *head,
                      uint32_t n, enum engine_finish finish, struct buffer *out);
/* Appends the first frame of a chat's choice, which has the role. */
void face_frame_write_role(const struct face_frame_choice *choice,
                           const struct face_frame_head *head, struct buffer *out);
/* Appends {"n":…,"error":{…}}, for an error after the answer has begun. */
void face_frame_write_error(uint32_t n, const struct error_note *note, struct buffer *out);
