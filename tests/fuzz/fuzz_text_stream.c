/* fuzz_text_stream: any bytes in any tokens: the shown text is valid UTF-8 and does not depend on
 * the division into tokens.
 *
 * Input: length of a stop string (low five bits of one byte), the stop string, a byte of seed for
 * the division, then the text. */
#include <stdint.h>
#include <stdlib.h>

#include "config/base/rng.h"
#include "config/base/utf8.h"
#include "engine/sampling/text_stream.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length);

static struct text_stream stream;

/* Shows `text` in tokens of up to `token_max` bytes. */
static void show(struct slice stop, struct slice text, uint64_t seed, uint64_t token_max,
                 struct buffer *out)
{
    struct rng rng = {.seed = seed};
    ASSERT(text_stream_init(&stream, &stop, 1) == STATUS_OK);
    for (size_t at = 0; at < text.length;) {
        size_t cut = 1 + rng_below(&rng, token_max);
        cut = cut > text.length - at ? text.length - at : cut;
        struct slice shown = text_stream_push(&stream, (struct slice){text.bytes + at, cut}, false);
        ASSERT(utf8_is_valid(shown.bytes, shown.length));
        buffer_append_slice(out, shown);
        at += cut;
    }
    buffer_append_slice(out, text_stream_flush(&stream));
    ASSERT(out->status == STATUS_OK);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length)
{
    struct slice stop = {(const char *)bytes + 1, 0};
    if (length == 0)
        return 0;
    stop.length = bytes[0] & 31;
    if (length < stop.length + 2)
        return 0;
    if (text_stream_init(&stream, &stop, 1) != STATUS_OK)
        return 0;
    struct slice text = {stop.bytes + stop.length + 1, length - stop.length - 2};
    struct buffer whole;
    struct buffer cut;
    buffer_init(&whole, 4 * length + 64);
    buffer_init(&cut, 4 * length + 64);
    show(stop, text, 0, LIMIT_TOKEN_BYTES, &whole);
    bool is_stopped = text_stream_is_stopped(&stream);
    show(stop, text, bytes[stop.length + 1], 4, &cut);
    ASSERT(slice_equals(buffer_slice(&whole), buffer_slice(&cut)));
    ASSERT(is_stopped == text_stream_is_stopped(&stream));
    buffer_deinit(&whole);
    buffer_deinit(&cut);
    return 0;
}
