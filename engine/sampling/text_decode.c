#include "engine/sampling/text_decode.h"

#include <string.h>

#include "config/base/utf8.h"

static const char REPLACEMENT[3] = {'\xef', '\xbf', '\xbd'}; /* U+FFFD */

void text_decode_init(struct text_decode *decode, struct slice last)
{
    *decode = (struct text_decode){0};
    size_t tail = utf8_incomplete_tail(last.bytes, last.length);
    decode->tail_length = (uint32_t)tail;
    if (tail > 0)
        memcpy(decode->tail, last.bytes + last.length - tail, tail);
}

uint64_t text_decode_offset(const struct text_decode *decode, struct slice bytes)
{
    if (decode->tail_length == 0 || bytes.length == 0)
        return decode->characters;
    char joined[TEXT_DECODE_TAIL_BYTES];
    size_t length = decode->tail_length;
    memcpy(joined, decode->tail, length);
    joined[length++] = bytes.bytes[0];
    bool goes_on = utf8_sequence_length(joined, length) == length ||
                   (length < 4 && utf8_incomplete_tail(joined, length) == length);
    return decode->characters + (goes_on ? 0 : 1);
}

/* Bytes of the longest start of a UTF-8 sequence at `bytes`, at least 1: one
 * U+FFFD replaces them. */
static size_t push_maximal_part(const char *bytes, size_t length)
{
    for (size_t part = length < 3 ? length : 3; part > 1; part--) {
        if (utf8_incomplete_tail(bytes, part) == part)
            return part;
    }
    return 1;
}

size_t text_decode_push(struct text_decode *decode, struct slice bytes, char out[TEXT_DECODE_BYTES])
{
    ASSERT(bytes.length <= LIMIT_TOKEN_BYTES);
    if (bytes.length == 0)
        return 0;
    char joined[LIMIT_TOKEN_BYTES + TEXT_DECODE_TAIL_BYTES];
    size_t length = decode->tail_length + bytes.length;
    memcpy(joined, decode->tail, decode->tail_length);
    memcpy(joined + decode->tail_length, bytes.bytes, bytes.length);
    decode->tail_length = 0;
    size_t written = 0;
    for (size_t at = 0; at < length;) {
        size_t left = length - at;
        size_t whole = utf8_sequence_length(joined + at, left);
        if (whole == 0 && left < 4 && utf8_incomplete_tail(joined + at, left) == left) {
            memcpy(decode->tail, joined + at, left);
            decode->tail_length = (uint32_t)left;
            break;
        }
        memcpy(out + written, whole > 0 ? joined + at : REPLACEMENT,
               whole > 0 ? whole : sizeof(REPLACEMENT));
        written += whole > 0 ? whole : sizeof(REPLACEMENT);
        at += whole > 0 ? whole : push_maximal_part(joined + at, left);
        decode->characters++;
    }
    return written;
}

size_t text_decode_flush(struct text_decode *decode, char out[TEXT_DECODE_BYTES])
{
    if (decode->tail_length == 0)
        return 0;
    decode->tail_length = 0;
    decode->characters++;
    memcpy(out, REPLACEMENT, sizeof(REPLACEMENT));
    return sizeof(REPLACEMENT);
}
