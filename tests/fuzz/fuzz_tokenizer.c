/* fuzz_tokenizer: any bytes through the tokenizer, whole and divided by spans: the tokens stand for
 * exactly the input.
 *
 * A pre-split that normalises text may change it; then only the spans are checked.
 *
 * Input: one byte that chooses the span, one that chooses the pre-split, then the text. */
#include <stdint.h>
#include <stdlib.h>

#include "engine/text/tokenizer.h"
#include "tests/kit/text_file.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length);

static const char *const names[] = {"gpt-2",  "smollm",       "llama-bpe",      "tekken",
                                    "gpt-4o", "deepseek-llm", "deepseek-coder", "deepseek-v3",
                                    "qwen2",  "qwen35"};
enum { NAMES = sizeof names / sizeof names[0], NORMALISED_FROM = 8 };

static struct tokenizer *tokenizers[NAMES];
static struct vocab *vocabs[NAMES];

static void open_files(void)
{
    for (int i = 0; i < NAMES; i++) {
        struct text_file file = {
            .pre = names[i],
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
    if (length < 2)
        return 0;
    int which = bytes[1] % NAMES;
    struct slice text = {(const char *)bytes + 2, length - 2};
    struct tokenizer_span span = {0, text.length};
    span.offset = text.length * (bytes[0] >> 5) / 8;
    span.length = (text.length - span.offset) * (1 + ((bytes[0] >> 1) & 15)) / 16;
    size_t most = tokenizer_most(tokenizers[which], text);
    uint32_t *ids = malloc((most + 1) * sizeof *ids);
    size_t count;
    ASSERT(ids != NULL);
    ASSERT(tokenizer_encode(tokenizers[which], text, &span, 1, ids, most, &count) == STATUS_OK);
    ASSERT(tokenizer_fewest(tokenizers[which], text) <= count);
    if (which < NORMALISED_FROM)
        check(vocabs[which], text, span, ids, count);
    free(ids);
    return 0;
}
