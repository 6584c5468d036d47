/* fuzz_tokenizer_spm: any bytes through SentencePiece's BPE, whole and divided by spans: the text
 * of the tokens is exactly the input, with a blank for each U+2581.
 *
 * Input: one byte that chooses the span and whether a blank is added, then the text. */
#include <stdint.h>
#include <stdlib.h>

#include "engine/text/tokenizer.h"
#include "tests/kit/piece_file.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length);

#define MARK "\xe2\x96\x81"

static struct tokenizer *tokenizers[2];
static struct vocab *vocabs[2];

static void open_files(void)
{
    static const struct piece_file_piece pieces[] = {
        {MARK, -9, 1},          {"a", -9, 1},  {"b", -9, 1},          {MARK "a", -1, 1},
        {"ab", -2, 1},          {"aa", -3, 5}, {MARK MARK, -4, 1},    {"\n\n", 0, 4},
        {MARK MARK MARK, 0, 4}, {"<x>", 0, 4}, {"<x>a", 0, 3},        {"\xc3\xa9", -5, 1},
        {">" MARK, -6, 1},      {">", -9, 1},  {"a" MARK "b", -7, 1},
    };
    for (int i = 0; i < 2; i++) {
        const struct piece_file file = {.pieces = pieces,
                                        .piece_count = sizeof pieces / sizeof pieces[0],
                                        .has_bytes = true,
                                        .adds_no_blank = i == 1};
        struct buffer out;
        struct gguf *gguf;
        piece_file_make(&file, &out);
        ASSERT(gguf_parse(&gguf, out.bytes, out.length) == STATUS_OK);
        ASSERT(vocab_create(&vocabs[i], gguf) == STATUS_OK);
        ASSERT(tokenizer_create(&tokenizers[i], vocabs[i], gguf) == STATUS_OK);
        gguf_close(gguf);
        buffer_deinit(&out);
    }
}

static bool is_mark(struct slice text, size_t at)
{
    return text.length - at >= 3 && memcmp(text.bytes + at, MARK, 3) == 0;
}

/* Takes the bytes of one token from the text. */
static size_t take(struct slice text, size_t at, struct slice token)
{
    for (size_t k = 0; k < token.length; k++) {
        ASSERT(at < text.length);
        bool is_blank = is_mark(text, at);
        ASSERT(token.bytes[k] == (is_blank ? ' ' : text.bytes[at]));
        at += is_blank ? 3 : 1;
    }
    return at;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length)
{
    if (tokenizers[0] == NULL)
        open_files();
    if (length == 0)
        return 0;
    int which = bytes[0] & 1;
    struct slice text = {(const char *)bytes + 1, length - 1};
    struct tokenizer_span span = {text.length * (bytes[0] >> 5) / 8, 0};
    span.length = (text.length - span.offset) * (1 + ((bytes[0] >> 1) & 15)) / 16;
    size_t most = tokenizer_most(tokenizers[which], text);
    uint32_t *ids = malloc((most + 1) * sizeof *ids);
    size_t count;
    size_t at = 0;
    uint32_t previous = VOCAB_NONE;
    ASSERT(ids != NULL);
    ASSERT(tokenizer_encode(tokenizers[which], text, &span, 1, ids, most, &count) == STATUS_OK);
    ASSERT(tokenizer_fewest(tokenizers[which], text) <= count);
    for (size_t i = 0; i < count; i++) {
        size_t begin = at;
        at = take(text, at, vocab_text(vocabs[which], previous, ids[i]));
        if (vocab_is_control(vocabs[which], ids[i])) {
            ASSERT(begin >= span.offset);
            ASSERT(at <= span.offset + span.length);
        }
        previous = ids[i];
    }
    ASSERT(at == text.length);
    free(ids);
    return 0;
}
