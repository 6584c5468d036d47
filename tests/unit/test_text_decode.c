/* One text of a prompt and its answer, wherever the tokens are cut: the echo, the stream of the
 * answer and all tokens decoded at once agree, and so do the offsets of the tokens. */
#include "engine/sampling/text_decode.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "config/base/rng.h"
#include "config/base/utf8.h"
#include "engine/models/vocab.h"
#include "engine/sampling/text_stream.h"
#include "tests/kit/gguf_writer.h"
#include "tests/kit/model_path.h"
#include "tests/kit/piece_file.h"

enum {
    CASES = 50000, /* of each vocabulary */
    TOKENS = 24,
    BYTES = TOKENS * 64,
    MADE_TOKENS = 32,
};

static const char *const emoji = "\xf0\x9f\x98\x80";

static void expect(const char *bytes, size_t length, const char *want)
{
    assert_int_equal(length, strlen(want));
    assert_memory_equal(bytes, want, length);
}

static void a_character_goes_on_behind_the_prompt(void **state)
{
    (void)state;
    static struct text_stream stream;
    char text[TEXT_DECODE_BYTES];
    struct text_decode echo = {0};
    expect(text, text_decode_push(&echo, SLICE("Hi \xf0\x9f"), text), "Hi ");
    assert_int_equal(echo.characters, 3);
    assert_int_equal(text_stream_init(&stream, NULL, 0), STATUS_OK);
    text_stream_follow(&stream, SLICE(" \xf0\x9f"));
    struct slice got = text_stream_push(&stream, SLICE("\x98"), false);
    assert_int_equal(got.length, 0);
    got = text_stream_push(&stream, SLICE("<|im_end|>"), true); /* hidden, between the two */
    assert_int_equal(got.length, 0);
    got = text_stream_push(&stream, SLICE("\x80!"), false);
    expect(got.bytes, got.length, "\xf0\x9f\x98\x80!");
    assert_int_equal(text_stream_offset(&stream), 0);
    got = text_stream_push(&stream, SLICE("?"), false);
    assert_int_equal(text_stream_offset(&stream), 2);
}

static void what_does_not_go_on_begins_behind_the_replacement(void **state)
{
    (void)state;
    char text[TEXT_DECODE_BYTES];
    struct text_decode decode;
    text_decode_init(&decode, SLICE("\xe2\x82"));
    assert_int_equal(text_decode_offset(&decode, SLICE("\xac")), 0);
    assert_int_equal(text_decode_offset(&decode, SLICE("a")), 1);
    assert_int_equal(text_decode_offset(&decode, SLICE("\xe2")), 1);
    assert_int_equal(text_decode_offset(&decode, (struct slice){0}), 0);
    expect(text, text_decode_push(&decode, SLICE("a"), text),
           "\xef\xbf\xbd"
           "a");
    assert_int_equal(decode.characters, 2);
    text_decode_init(&decode, SLICE("\xf0\x9f"));
    expect(text, text_decode_flush(&decode, text), "\xef\xbf\xbd");
    assert_int_equal(text_decode_flush(&decode, text), 0);
    text_decode_init(&decode, SLICE("whole"));
    assert_int_equal(text_decode_flush(&decode, text), 0);
}

/* --- any tokens: against a slow walk over all bytes, which knows each byte's character --- */

struct truth {
    char bytes[BYTES];
    uint32_t character_of[BYTES + 1];
    size_t length;
    char text[3 * BYTES];
    size_t text_length;
    uint32_t text_at[BYTES + 1]; /* where each character begins in `text` */
    uint32_t characters;
};

static void truth_walk(struct truth *truth)
{
    truth->text_length = 0;
    truth->characters = 0;
    for (size_t at = 0; at < truth->length;) {
        size_t left = truth->length - at;
        size_t part = utf8_sequence_length(truth->bytes + at, left);
        const char *shown = part > 0 ? truth->bytes + at : "\xef\xbf\xbd";
        size_t shown_length = part > 0 ? part : 3;
        if (part == 0)
            part = 1;
        while (shown != truth->bytes + at && part < 3 && part < left &&
               utf8_incomplete_tail(truth->bytes + at, part + 1) == part + 1)
            part++;
        truth->text_at[truth->characters] = (uint32_t)truth->text_length;
        memcpy(truth->text + truth->text_length, shown, shown_length);
        truth->text_length += shown_length;
        for (size_t i = 0; i < part; i++)
            truth->character_of[at + i] = truth->characters;
        truth->characters++;
        at += part;
    }
    truth->text_at[truth->characters] = (uint32_t)truth->text_length;
    truth->character_of[truth->length] = truth->characters;
}

struct answer {
    char text[3 * BYTES];
    size_t length;
    uint64_t offsets[TOKENS];
};

static void answer_add(struct answer *answer, const char *text, size_t length)
{
    assert_true(utf8_is_valid(text, length));
    memcpy(answer->text + answer->length, text, length);
    answer->length += length;
}

static struct slice shown_bytes(const struct vocab *vocab, const uint32_t *ids, uint32_t at,
                                bool hides_control)
{
    return hides_control && vocab_is_control(vocab, ids[at])
               ? (struct slice){0}
               : vocab_text(vocab, at > 0 ? ids[at - 1] : VOCAB_NONE, ids[at]);
}

/* As the engine does it: an echo decoded from the prompt, a stream that follows it. */
static void answer_make(const struct vocab *vocab, const uint32_t *ids, uint32_t prompt,
                        uint32_t count, bool hides_control, struct answer *out)
{
    static struct text_stream stream;
    char text[TEXT_DECODE_BYTES];
    char last[BYTES];
    size_t last_length = 0;
    struct text_decode echo = {0};
    out->length = 0;
    for (uint32_t i = 0; i < prompt; i++) {
        struct slice bytes = shown_bytes(vocab, ids, i, hides_control);
        out->offsets[i] = text_decode_offset(&echo, bytes);
        answer_add(out, text, text_decode_push(&echo, bytes, text));
        if (bytes.length > 0)
            memcpy(last + last_length, bytes.bytes, bytes.length);
        last_length += bytes.length;
    }
    size_t kept = last_length < 3 ? last_length : 3;
    assert_int_equal(text_stream_init(&stream, NULL, 0), STATUS_OK);
    text_stream_follow(&stream, (struct slice){last + last_length - kept, kept});
    for (uint32_t i = prompt; i < count; i++) {
        struct slice bytes = shown_bytes(vocab, ids, i, hides_control);
        struct slice shown = text_stream_push(&stream, bytes, bytes.length == 0);
        out->offsets[i] = echo.characters + text_stream_offset(&stream);
        answer_add(out, shown.bytes, shown.length);
    }
    struct slice rest = text_stream_flush(&stream);
    answer_add(out, rest.bytes, rest.length);
}

static void check_case(const struct vocab *vocab, struct rng *rng, uint64_t cases)
{
    static struct truth truth;
    static struct answer answer;
    uint32_t ids[TOKENS];
    uint32_t count = 1 + (uint32_t)rng_below(rng, TOKENS);
    uint32_t prompt = (uint32_t)rng_below(rng, count + 1);
    bool hides_control = rng_below(rng, 2) == 0;
    size_t starts[TOKENS];
    truth.length = 0;
    for (uint32_t i = 0; i < count; i++) {
        /* The low ids are control tokens and single bytes: half of all. */
        uint64_t most = rng_below(rng, 2) == 0 ? 290 : vocab_size(vocab);
        ids[i] = (uint32_t)rng_below(rng, most < vocab_size(vocab) ? most : vocab_size(vocab));
        struct slice bytes = shown_bytes(vocab, ids, i, hides_control);
        assert_true(truth.length + bytes.length <= BYTES);
        starts[i] = truth.length;
        if (bytes.length > 0)
            memcpy(truth.bytes + truth.length, bytes.bytes, bytes.length);
        truth.length += bytes.length;
    }
    truth_walk(&truth);
    answer_make(vocab, ids, prompt, count, hides_control, &answer);
    if (answer.length != truth.text_length ||
        memcmp(answer.text, truth.text, truth.text_length) != 0)
        fail_msg("case %llu: echo + answer is another text", (unsigned long long)cases);
    for (uint32_t i = 0; i < count; i++) {
        struct slice bytes = shown_bytes(vocab, ids, i, hides_control);
        if (bytes.length == 0) {
            assert_true(answer.offsets[i] <= truth.characters);
            continue;
        }
        uint64_t offset = answer.offsets[i];
        if (offset != truth.character_of[starts[i]])
            fail_msg("case %llu: token %u at %llu, its bytes in character %u",
                     (unsigned long long)cases, i, (unsigned long long)offset,
                     truth.character_of[starts[i]]);
        if (!utf8_is_valid(bytes.bytes, bytes.length))
            continue;
        assert_true(truth.text_at[offset] + bytes.length <= truth.text_length);
        assert_memory_equal(truth.text + truth.text_at[offset], bytes.bytes, bytes.length);
    }
}

static void check_vocab(const struct vocab *vocab)
{
    for (uint64_t i = 0; i < CASES; i++) {
        struct rng rng = {.seed = i};
        check_case(vocab, &rng, i);
    }
}

static void any_ids_of_the_real_vocabulary(void **state)
{
    (void)state;
    char path[1024];
    struct gguf *gguf;
    struct vocab *vocab;
    model_path(path, sizeof path);
    assert_int_equal(gguf_open(&gguf, path), STATUS_OK);
    assert_int_equal(vocab_create(&vocab, gguf), STATUS_OK);
    check_vocab(vocab);
    vocab_destroy(vocab);
    gguf_close(gguf);
}

/* Byte tokens as sentencepiece writes them, control tokens, words, and words of whole emojis. */
static void any_ids_of_a_vocabulary_with_byte_tokens(void **state)
{
    (void)state;
    static char names[256 + MADE_TOKENS][32];
    static const char *texts[256 + MADE_TOKENS];
    static int32_t kinds[256 + MADE_TOKENS];
    for (int i = 0; i < 256 + MADE_TOKENS; i++) {
        texts[i] = names[i];
        kinds[i] = i < 256 ? VOCAB_BYTE : i % 2 == 0 ? VOCAB_CONTROL : VOCAB_USER_DEFINED;
        if (i < 256)
            snprintf(names[i], sizeof names[i], "<0x%02X>", (unsigned)i);
        else if (i % 2 == 0)
            snprintf(names[i], sizeof names[i], "<|mark %d|>", i);
        else
            snprintf(names[i], sizeof names[i], "%s%d", emoji, i);
    }
    struct gguf_writer writer;
    struct buffer bytes;
    struct gguf *gguf;
    struct vocab *vocab;
    gguf_writer_init(&writer);
    gguf_writer_string(&writer, "tokenizer.ggml.model", "gpt2");
    gguf_writer_strings(&writer, "tokenizer.ggml.tokens", texts, 256 + MADE_TOKENS);
    gguf_writer_array(&writer, "tokenizer.ggml.token_type", GGUF_WRITER_I32, 256 + MADE_TOKENS,
                      kinds, sizeof kinds);
    gguf_writer_finish(&writer, &bytes);
    assert_int_equal(gguf_parse(&gguf, bytes.bytes, bytes.length), STATUS_OK);
    assert_int_equal(vocab_create(&vocab, gguf), STATUS_OK);
    check_vocab(vocab);
    vocab_destroy(vocab);
    gguf_close(gguf);
    buffer_deinit(&bytes);
    gguf_writer_deinit(&writer);
}

/* Pieces of SentencePiece, with a blank put before each part of a text and without. */
static void any_ids_of_a_vocabulary_with_pieces(void **state)
{
    (void)state;
    static char names[MADE_TOKENS][32];
    static struct piece_file_piece pieces[MADE_TOKENS];
    for (int i = 0; i < MADE_TOKENS; i++) {
        const char *before = i % 3 == 0   ? "\xe2\x96\x81"
                             : i % 3 == 1 ? "\xe2\x96\x81\xe2\x96\x81"
                                          : emoji;
        if (i < 3)
            snprintf(names[i], sizeof names[i], "%s", before);
        else
            snprintf(names[i], sizeof names[i], "%s%d", before, i);
        pieces[i] = (struct piece_file_piece){names[i], (float)-i,
                                              i % 5 == 4 ? VOCAB_USER_DEFINED : VOCAB_NORMAL};
    }
    for (int adds_no_blank = 0; adds_no_blank <= 1; adds_no_blank++) {
        const struct piece_file file = {.pieces = pieces,
                                        .piece_count = MADE_TOKENS,
                                        .has_bytes = true,
                                        .adds_no_blank = adds_no_blank != 0};
        struct buffer bytes;
        struct gguf *gguf;
        struct vocab *vocab;
        piece_file_make(&file, &bytes);
        assert_int_equal(gguf_parse(&gguf, bytes.bytes, bytes.length), STATUS_OK);
        assert_int_equal(vocab_create(&vocab, gguf), STATUS_OK);
        check_vocab(vocab);
        vocab_destroy(vocab);
        gguf_close(gguf);
        buffer_deinit(&bytes);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_character_goes_on_behind_the_prompt),
        cmocka_unit_test(what_does_not_go_on_begins_behind_the_replacement),
        cmocka_unit_test(any_ids_of_the_real_vocabulary),
        cmocka_unit_test(any_ids_of_a_vocabulary_with_byte_tokens),
        cmocka_unit_test(any_ids_of_a_vocabulary_with_pieces),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
