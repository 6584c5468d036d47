/* answer_body_harmony: reads answers that are messages with channels.
 *
 *     <|channel|>analysis<|message|>reasoning<|end|>
 *     <|start|>assistant<|channel|>commentary to=functions.f json<|message|>{…}<|call|>
 *     <|start|>assistant<|channel|>final<|message|>content<|return|>
 *
 * Owns:     nothing; the state is the splitter's.
 * Thread:   one at a time.
 * Cost:     O(1) a byte.
 * Not here: finding the marks (answer_split), other bodies.
 *
 * The channel "analysis" is reasoning. A message to functions.f is a call of f, and its text the
 * arguments. Everything else is content.
 */
#pragma once

#include "engine/answer/answer_emit.h"
#include "engine/answer/answer_format.h"

struct answer_body_harmony {
    bool has_calls;             /* false: a message to a function is content */
    bool is_in_text;            /* of a message, else in its head */
    bool has_channel;           /* the head has one */
    uint32_t channel;           /* where it begins in what is held */
    enum answer_part_kind kind; /* of the text */
};

void answer_body_harmony_byte(struct answer_body_harmony *harmony, struct answer_emit *emit,
                              char byte);
void answer_body_harmony_mark(struct answer_body_harmony *harmony, struct answer_emit *emit,
                              enum answer_mark mark);
/* The answer has ended. A call whose mark at the end was an end token is whole. */
void answer_body_harmony_end(struct answer_body_harmony *harmony, struct answer_emit *emit);
