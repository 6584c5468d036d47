#include "config/base/utf8.h"

#include "config/base/status.h"

/* Returns the length that the first byte announces, or 0, and the range of the second byte (RFC
 * 3629, section 4). */
static size_t sequence_expect(unsigned char first, unsigned char *low, unsigned char *high)
{
    *low = 0x80;
    *high = 0xbf;
    if (first < 0x80)
        return 1;
    if (first >= 0xc2 && first <= 0xdf)
        return 2;
    if (first >= 0xe0 && first <= 0xef) {
        *low = first == 0xe0 ? 0xa0 : 0x80;
        *high = first == 0xed ? 0x9f : 0xbf;
        return 3;
    }
    if (first >= 0xf0 && first <= 0xf4) {
        *low = first == 0xf0 ? 0x90 : 0x80;
        *high = first == 0xf4 ? 0x8f : 0xbf;
        return 4;
    }
    return 0;
}

/* Returns how many of the sequence's bytes are present and valid in a text of `length` bytes.
 * `*expected` is the sequence's full length, 0 when the first byte is invalid. */
static size_t sequence_matched(const char *bytes, size_t length, size_t *expected)
{
    unsigned char low;
    unsigned char high;
    *expected = sequence_expect((unsigned char)bytes[0], &low, &high);
    if (*expected == 0)
        return 0;
    size_t matched = 1;
    while (matched < *expected && matched < length) {
        unsigned char c = (unsigned char)bytes[matched];
        if (c < low || c > high)
            break;
        low = 0x80;
        high = 0xbf;
        matched++;
    }
    return matched;
}

size_t utf8_sequence_length(const char *bytes, size_t length)
{
    size_t expected;
    if (length == 0)
        return 0;
    size_t matched = sequence_matched(bytes, length, &expected);
    return matched == expected ? expected : 0;
}

size_t utf8_incomplete_tail(const char *bytes, size_t length)
{
    size_t most = length < 3 ? length : 3;
    for (size_t tail = most; tail >= 1; tail--) {
        size_t expected;
        size_t matched = sequence_matched(bytes + length - tail, tail, &expected);
        if (matched == tail && matched < expected)
            return tail;
    }
    return 0;
}

bool utf8_is_valid(const char *bytes, size_t length)
{
    for (size_t i = 0; i < length;) {
        size_t run = utf8_sequence_length(bytes + i, length - i);
        if (run == 0)
            return false;
        i += run;
    }
    return true;
}

size_t utf8_encode(uint32_t code_point, char out[4])
{
    ASSERT(code_point <= 0x10ffff);
    ASSERT(code_point < 0xd800 || code_point > 0xdfff);
    if (code_point < 0x80) {
        out[0] = (char)code_point;
        return 1;
    }
    size_t length = code_point < 0x800 ? 2 : code_point < 0x10000 ? 3 : 4;
    for (size_t i = length - 1; i > 0; i--) {
        out[i] = (char)(0x80 | (code_point & 0x3f));
        code_point >>= 6;
    }
    static const unsigned char lead[5] = {0, 0, 0xc0, 0xe0, 0xf0};
    out[0] = (char)(lead[length] | code_point);
    return length;
}

uint32_t utf8_decode(const char *bytes, size_t sequence_length)
{
    ASSERT(sequence_length >= 1);
    ASSERT(sequence_length <= 4);
    static const unsigned char mask[5] = {0, 0x7f, 0x1f, 0x0f, 0x07};
    uint32_t code_point = (unsigned char)bytes[0] & mask[sequence_length];
    for (size_t i = 1; i < sequence_length; i++)
        code_point = (code_point << 6) | ((unsigned char)bytes[i] & 0x3f);
    return code_point;
}
