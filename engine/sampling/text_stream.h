/* text_stream: from the bytes of a sequence's tokens to the text that may be shown now.
 *
 * Owns:     what it holds back: an unfinished UTF-8 character, the start of a stop string.
 * Thread:   one at a time (the engine thread); a stream shares nothing with another.
 * Cost:     O(bytes × stop strings) a push, whatever the stop strings; no allocation.
 * Not here: bytes → UTF-8 (text_decode), ids → bytes (vocab), end tokens (step_token); it does not
 *           need PCRE2.
 *
 *     token bytes ─► whole UTF-8 characters ─► stop search ─► shown
 *                    (held: ≤ 3 bytes)         (held: < longest stop string)
 *
 * What is shown does not depend on how the text is cut into tokens: all slices together are the
 * whole text, with invalid bytes replaced, up to the first stop string.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "config/base/limits.h"
#include "config/base/slice.h"
#include "engine/sampling/text_decode.h"

/* Room for what is held back and for the text of one token. */
enum { TEXT_STREAM_BYTES = LIMIT_STOP_BYTES + TEXT_DECODE_BYTES };

/* One stop string and the state of its search (Knuth, Morris and Pratt 1977). */
struct text_stream_stop {
    uint32_t length;
    uint32_t matched;
    char bytes[LIMIT_STOP_BYTES];
    uint16_t border[LIMIT_STOP_BYTES]; /* longest proper border of bytes[0 … i] */
};

struct text_stream {
    uint32_t stop_count;
    bool is_stopped;
    bool shows_stop; /* set after init: a stop string is not removed */
    /* Set between pushes: a stop string that is complete is passed over. One that began before, and
     * is complete later, counts. */
    bool passes_stops;
    uint32_t shown;  /* bytes at the start of `text` that the last call returned */
    uint32_t length; /* bytes in `text` */
    uint64_t offset; /* of the last token, in characters */
    struct text_decode decode;
    char text[TEXT_STREAM_BYTES];
    struct text_stream_stop stops[LIMIT_STOP_STRINGS];
};

/* Copies the stop strings. INVALID for more than LIMIT_STOP_STRINGS of them, or one that is empty,
 * longer than LIMIT_STOP_BYTES or not UTF-8. */
enum status text_stream_init(struct text_stream *stream, const struct slice *stops,
                             uint32_t stop_count);

/* Called before the first push: the text continues another one (the echoed prompt) that ends with
 * the bytes `last`. An unfinished character there becomes this text's first character. */
void text_stream_follow(struct text_stream *stream, struct slice last);

/* Takes the bytes of one token (≤ LIMIT_TOKEN_BYTES) and returns the text that may be shown now,
 * valid until the next call on this stream: whole characters as text_decode makes them, without
 * anything that could still become part of a stop string. A hidden token gives no text and
 * changes nothing. When the first stop string is complete (of several that end at the same byte,
 * the longest), the slice is the text before it, or with shows_stop the text with it;
 * text_stream_is_stopped is true, and what follows is dropped. */
struct slice text_stream_push(struct text_stream *stream, struct slice bytes, bool is_hidden);

/* Where the text of the token pushed last begins: the characters of this stream's text before it,
 * including those of a stop string that was removed (text_decode_offset). */
static inline uint64_t text_stream_offset(const struct text_stream *stream)
{
    return stream->offset;
}

/* Takes a token without text that stands between two texts: returns everything held back, an
 * unfinished character as U+FFFD. Stop strings begin anew behind it. */
struct slice text_stream_mark(struct text_stream *stream);

/* Ends the text: returns everything held back, an unfinished character as U+FFFD. Called once; a
 * second call returns nothing. */
struct slice text_stream_flush(struct text_stream *stream);

/* Whether a stop string has been seen. */
static inline bool text_stream_is_stopped(const struct text_stream *stream)
{
    return stream->is_stopped;
}
