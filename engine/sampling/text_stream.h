/* text_stream: the bytes of one sequence's tokens → the text that may be shown now.
 *
 * Owns:     what it holds back: an unfinished UTF-8 sequence, the start of a stop string.
 * Thread:   one at a time (the engine thread); a stream shares nothing with another.
 * Cost:     O(bytes × stop strings) a push, however the stop strings repeat; no allocation at all.
 * Not here: bytes → UTF-8 (text_decode), ids → bytes (vocab), end tokens (the engine); needs no
 *           PCRE2.
 *
 *     token bytes ─► whole UTF-8 sequences ─► stop search ─► shown
 *                    (tail: ≤ 3 bytes)        (held: < longest stop string)
 *
 * What is shown does not depend on how the text is cut into tokens: the concatenation of all
 * slices is the whole text with bad bytes replaced, up to the first stop string.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "config/base/limits.h"
#include "config/base/slice.h"
#include "engine/sampling/text_decode.h"

/* What was held back, and the text of one token. */
enum { TEXT_STREAM_BYTES = LIMIT_STOP_BYTES + TEXT_DECODE_BYTES };

/* One stop string and where its search stands (Knuth, Morris and Pratt). */
struct text_stream_stop {
    uint32_t length;
    uint32_t matched;
    char bytes[LIMIT_STOP_BYTES];
    uint16_t border[LIMIT_STOP_BYTES]; /* longest proper border of bytes[0 … i] */
};

struct text_stream {
    uint32_t stop_count;
    bool is_stopped;
    uint32_t shown;  /* bytes at the start of `text` that the last call gave out */
    uint32_t length; /* bytes in `text` */
    uint64_t offset; /* of the last token */
    struct text_decode decode;
    char text[TEXT_STREAM_BYTES];
    struct text_stream_stop stops[LIMIT_STOP_STRINGS];
};

/* The stop strings are copied. INVALID for more than LIMIT_STOP_STRINGS of them, or one that is
 * empty, longer than LIMIT_STOP_BYTES or not UTF-8. */
enum status text_stream_init(struct text_stream *stream, const struct slice *stops,
                             uint32_t stop_count);

/* Before the first push: the text goes on behind another (the prompt, when it is echoed), which
 * ends with the bytes `last`. Its unfinished sequence becomes this text's first character. */
void text_stream_follow(struct text_stream *stream, struct slice last);

/* Takes the bytes of one token (≤ LIMIT_TOKEN_BYTES) and gives the text that may be shown now:
 * whole UTF-8 sequences as text_decode makes them, nothing that could still become part of a stop
 * string, valid until the next call on this stream. A hidden token gives no text and changes
 * nothing. When the first stop string is complete (of several that end at the same byte, the
 * longest), the slice is the text before it, text_stream_is_stopped is true, and the rest is
 * dropped. */
struct slice text_stream_push(struct text_stream *stream, struct slice bytes, bool is_hidden);

/* Where the text of the token pushed last begins: characters of this stream's text before it, those
 * of a stop string that was cut off included (text_decode_offset). */
static inline uint64_t text_stream_offset(const struct text_stream *stream)
{
    return stream->offset;
}

/* The text ended: gives everything held back, an unfinished sequence as U+FFFD. Called
 * once, at the end; a second call gives nothing. */
struct slice text_stream_flush(struct text_stream *stream);

/* A stop string has been seen. */
static inline bool text_stream_is_stopped(const struct text_stream *stream)
{
    return stream->is_stopped;
}
