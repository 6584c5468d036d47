/* answer_step: what a reader of calls (answer_body_*) says of a byte or a mark.
 *
 * Owns:     nothing.
 * Thread:   any.
 * Cost:     –
 * Not here: the readers, and what follows from it (answer_split).
 */
#pragma once

enum answer_step {
    ANSWER_MORE,   /* it belongs to the call */
    ANSWER_DONE,   /* it was the last of the call, or of the list of calls */
    ANSWER_ENDED,  /* the call has ended before it */
    ANSWER_BROKEN, /* this is no call, and nothing of it was given out */
    ANSWER_RAW,    /* the name is given out, but the arguments are no JSON from here on */
};
