/* fuzz_tokenizer: any bytes through the tokenizer, whole and divided by spans: the tokens stand for
 * exactly the input.
 *
 * Input: one byte that chooses the pre-split and the span, then the text. */
#include <stdint.h>
#include <stdlib.h>

#include "engine/text/tokenizer.h"
#include "tests/kit/text_file.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length);

static struct tokenizer *tokenizers[2];
static struct vocab *vocabs[2];

static void open_files(void)
{
    for (int i = 0; i < 2; i++) {
        struct text_file file = {
            .pre = i == 0 ? "gpt-2" : "smollm",
            .merges = {"a a", "aa aa", "\xc4\xa0 a", "\xc4\xa0 \xc4\xa0", "\xc3\x83 \xc2\xa9",
                       "\xc4\xa2 \xc4\xa2", "1 2", "' s"},
            .extras = {{"<|a|>", 3}, {"<|a|><|b|>", 3}, {"<u>", 4}, {"   ", 4}}};
        struct buffer out;
        struct gguf *gguf;
        text_file_make(&file, &out);
        ASSERT(gguf_parse(&gguf, out.bytes, out.length) == STATUS_OK);
        ASSERT(vocab_create(&vocabs[i], gguf) == STATUS_OK);
        ASSERT(tokenizer_create(&tokenizers[i], vocabs[i], gguf) == STATUS_OK);
        gguf_close(gguf);
        buffer_deinit(&out);
    }
}

/* Checks that the tokens' bytes are the text's, except for the byte that has no token. Control
 * tokens are inside the span only. */
static void check(const struct vocab *vocab, struct slice text, struct tokenizer_span span,
                  const uint32_t *ids, size_t count)
{
    size_t at = 0;
    for (size_t i = 0; i < count; i++) {
        struct slice token = vocab_bytes(vocab, ids[i]);
        size_t begin = at;
        for (size_t k = 0; k < token.length; k++, at++) {
            while (at < text.length && text.bytes[at] == TEXT_FILE_MISSING_BYTE)
                at++;
            ASSERT(at < text.length);
            ASSERT(text.bytes[at] == token.bytes[k]);
            begin = k == 0 ? at : begin;
        }
        if (vocab_is_control(vocab, ids[i])) {
            ASSERT(begin >= span.offset);
            ASSERT(at <= span.offset + span.length);
        }
    }
    while (at < text.length && text.bytes[at] == TEXT_FILE_MISSING_BYTE)
        at++;
    ASSERT(at == text.length);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length)
{
    if (tokenizers[0] == NULL)
        open_files();
    if (length == 0)
        return 0;
    int which = bytes[0] & 1;
    struct slice text = {(const char *)bytes + 1, length - 1};
    struct tokenizer_span span = {0, text.length};
    span.offset = text.length * (bytes[0] >> 5) / 8;
    span.length = (text.length - span.offset) * (1 + ((bytes[0] >> 1) & 15)) / 16;
    uint32_t *ids = malloc(length * sizeof *ids);
    size_t count;
    ASSERT(ids != NULL);
    ASSERT(tokenizer_encode(tokenizers[which], text, &span, 1, ids, length, &count) == STATUS_OK);
    check(vocabs[which], text, span, ids, count);
    free(ids);
    return 0;
}
