/* The vocabulary of the real model and of made-up files; what is refused; failing memory. */
#include "engine/models/vocab.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "config/base/limits.h"
#include "config/base/mem.h"
#include "tests/kit/model_path.h"
#include "tests/kit/piece_file.h"
#include "tests/kit/text_file.h"

static void the_real_one_is_read(void **state)
{
    (void)state;
    char path[1024];
    struct gguf *gguf;
    struct vocab *vocab;
    model_path(path, sizeof path);
    assert_int_equal(gguf_open(&gguf, path), STATUS_OK);
    assert_int_equal(vocab_create(&vocab, gguf), STATUS_OK);
    gguf_close(gguf); /* nothing borrows from it */
    assert_int_equal(vocab_size(vocab), 49152);
    assert_true(slice_is(vocab_bytes(vocab, 2), "<|im_end|>"));
    assert_true(slice_is(vocab_bytes(vocab, 905), " world"));
    assert_true(slice_is(vocab_bytes(vocab, 198), "\n"));
    assert_true(vocab_is_control(vocab, 16));
    assert_false(vocab_is_control(vocab, 17));
    assert_int_equal(vocab_bos(vocab), 1);
    assert_int_equal(vocab_eos(vocab), 2);
    assert_false(vocab_adds_bos(vocab));
    assert_true(vocab_is_end(vocab, 0)); /* <|endoftext|>, by its name */
    assert_false(vocab_is_end(vocab, 1));
    assert_true(vocab_is_end(vocab, 2));
    vocab_destroy(vocab);
}

static void every_byte_has_its_character(void **state)
{
    (void)state;
    struct text_file file = {0};
    struct buffer bytes;
    struct gguf *gguf;
    struct vocab *vocab;
    text_file_make(&file, &bytes);
    assert_int_equal(gguf_parse(&gguf, bytes.bytes, bytes.length), STATUS_OK);
    assert_int_equal(vocab_create(&vocab, gguf), STATUS_OK);
    assert_int_equal(vocab_size(vocab), 256);
    for (uint32_t id = 0; id < 256; id++) {
        if (id == TEXT_FILE_MISSING_BYTE)
            continue;
        struct slice token = vocab_bytes(vocab, id);
        assert_int_equal(token.length, 1);
        assert_int_equal((unsigned char)token.bytes[0], id);
        assert_int_equal(vocab_kind(vocab, id), VOCAB_NORMAL);
    }
    assert_int_equal(vocab_bos(vocab), VOCAB_NONE);
    assert_int_equal(vocab_eos(vocab), VOCAB_NONE);
    vocab_destroy(vocab);
    gguf_close(gguf);
    buffer_deinit(&bytes);
}

static void the_alphabet_has_borders(void **state)
{
    (void)state;
    char out[4];
    size_t length;
    assert_true(vocab_decode(SLICE("\xc4\xa0"), out, 4, &length)); /* U+0120 */
    assert_int_equal(length, 1);
    assert_int_equal(out[0], ' ');
    assert_true(vocab_decode(SLICE("\xc5\x83"), out, 4, &length)); /* U+0143, the last */
    assert_int_equal((unsigned char)out[0], 0xad);
    assert_false(vocab_decode(SLICE("\xc5\x84"), out, 4, &length)); /* U+0144 */
    assert_false(vocab_decode(SLICE(" "), out, 4, &length));
    assert_false(vocab_decode(SLICE("\xc2\xad"), out, 4, &length)); /* U+00AD itself */
    assert_false(vocab_decode(SLICE("\xc4"), out, 4, &length));
    assert_true(vocab_decode(SLICE("abcd"), out, 4, &length));
    assert_false(vocab_decode(SLICE("abcde"), out, 4, &length));
}

/* --- files of which one thing is wrong --- */

typedef void (*change)(struct gguf_writer *writer);

static enum status create_from(const struct text_file *file, change change_keys,
                               struct vocab **vocab)
{
    struct gguf_writer writer;
    struct buffer bytes;
    struct gguf *gguf;
    gguf_writer_init(&writer);
    text_file_keys(&writer, file);
    if (change_keys != NULL)
        change_keys(&writer);
    gguf_writer_finish(&writer, &bytes);
    gguf_writer_deinit(&writer);
    assert_int_equal(gguf_parse(&gguf, bytes.bytes, bytes.length), STATUS_OK);
    *vocab = (struct vocab *)&writer; /* a value that a failure has to replace */
    enum status status = vocab_create(vocab, gguf);
    gguf_close(gguf);
    buffer_deinit(&bytes);
    return status;
}

static void expect_refused(const struct text_file *file, change change_keys, enum status want,
                           const char *message)
{
    struct vocab *vocab;
    assert_int_equal(create_from(file, change_keys, &vocab), want);
    assert_null(vocab);
    if (strstr(status_note()->message, message) == NULL)
        fail_msg("'%s' does not say '%s'", status_note()->message, message);
}

static void eos_is_the_size(struct gguf_writer *writer)
{
    gguf_writer_u32(writer, "tokenizer.ggml.eos_token_id", 256);
}

static void padding_is_the_size(struct gguf_writer *writer)
{
    gguf_writer_u32(writer, "tokenizer.ggml.padding_token_id", 256);
}

static void bos_is_missing(struct gguf_writer *writer)
{
    gguf_writer_bool(writer, "tokenizer.ggml.add_bos_token", 1);
}

static void one_kind_is_missing(struct gguf_writer *writer)
{
    static const int32_t kinds[255] = {0};
    gguf_writer_array(writer, "tokenizer.ggml.token_type", GGUF_WRITER_I32, 255, kinds,
                      sizeof kinds);
}

static void a_blank_is_added(struct gguf_writer *writer)
{
    gguf_writer_bool(writer, "tokenizer.ggml.add_space_prefix", 1);
}

static void bad_files_are_refused(void **state)
{
    (void)state;
    struct text_file fine = {0};
    struct text_file without_kinds = {.without_kinds = true};
    expect_refused(&(struct text_file){.model = "t5"}, NULL, STATUS_UNSUPPORTED,
                   "tokenizer model 't5' is not supported");
    expect_refused(&fine, a_blank_is_added, STATUS_UNSUPPORTED, "add_space_prefix");
    expect_refused(&fine, eos_is_the_size, STATUS_CORRUPT, "eos_token_id is 256");
    expect_refused(&fine, padding_is_the_size, STATUS_CORRUPT, "padding_token_id");
    expect_refused(&fine, bos_is_missing, STATUS_CORRUPT, "bos_token_id");
    expect_refused(&without_kinds, one_kind_is_missing, STATUS_CORRUPT, "255 entries");
    expect_refused(&(struct text_file){.extras = {{"q", 1}}}, NULL, STATUS_CORRUPT, "twice");
    expect_refused(&(struct text_file){.extras = {{"", 3}}}, NULL, STATUS_CORRUPT, "empty");
    expect_refused(&(struct text_file){.extras = {{"a b", 1}}}, NULL, STATUS_CORRUPT, "alphabet");
    expect_refused(&(struct text_file){.extras = {{"x1", 7}}}, NULL, STATUS_CORRUPT, "type 7");
    expect_refused(&(struct text_file){.extras = {{"x1", 0}}}, NULL, STATUS_CORRUPT, "type 0");
    expect_refused(&(struct text_file){.extras = {{"<0x0a>", 6}}}, NULL, STATUS_CORRUPT, "form");
}

static void no_tokens_at_all(void **state)
{
    (void)state;
    struct gguf_writer writer;
    struct buffer bytes;
    struct gguf *gguf;
    struct vocab *vocab;
    gguf_writer_init(&writer);
    gguf_writer_string(&writer, "tokenizer.ggml.model", "gpt2");
    gguf_writer_strings(&writer, "tokenizer.ggml.tokens", NULL, 0);
    gguf_writer_finish(&writer, &bytes);
    gguf_writer_deinit(&writer);
    assert_int_equal(gguf_parse(&gguf, bytes.bytes, bytes.length), STATUS_OK);
    assert_int_equal(vocab_create(&vocab, gguf), STATUS_CORRUPT);
    gguf_close(gguf);
    buffer_deinit(&bytes);
}

static void token_length_has_a_limit(void **state)
{
    (void)state;
    static char text[LIMIT_TOKEN_BYTES + 2];
    const char *texts[1] = {text};
    for (size_t length = LIMIT_TOKEN_BYTES; length <= LIMIT_TOKEN_BYTES + 1; length++) {
        for (int32_t kind = VOCAB_NORMAL; kind <= VOCAB_CONTROL; kind += 2) {
            struct gguf_writer writer;
            struct buffer bytes;
            struct gguf *gguf;
            struct vocab *vocab;
            memset(text, 'a', length);
            gguf_writer_init(&writer);
            gguf_writer_string(&writer, "tokenizer.ggml.model", "gpt2");
            gguf_writer_strings(&writer, "tokenizer.ggml.tokens", texts, 1);
            gguf_writer_array(&writer, "tokenizer.ggml.token_type", GGUF_WRITER_I32, 1, &kind,
                              sizeof kind);
            gguf_writer_finish(&writer, &bytes);
            gguf_writer_deinit(&writer);
            assert_int_equal(gguf_parse(&gguf, bytes.bytes, bytes.length), STATUS_OK);
            assert_int_equal(vocab_create(&vocab, gguf),
                             length <= LIMIT_TOKEN_BYTES ? STATUS_OK : STATUS_CORRUPT);
            vocab_destroy(vocab);
            gguf_close(gguf);
            buffer_deinit(&bytes);
        }
    }
}

static void specials(struct gguf_writer *writer)
{
    gguf_writer_u32(writer, "tokenizer.ggml.bos_token_id", 256);
    gguf_writer_u32(writer, "tokenizer.ggml.eos_token_id", 255);
    gguf_writer_u32(writer, "tokenizer.ggml.eot_token_id", 254);
    gguf_writer_u32(writer, "tokenizer.ggml.eom_token_id", 253);
    gguf_writer_bool(writer, "tokenizer.ggml.add_bos_token", 1);
}

static void ends_and_kinds_are_known(void **state)
{
    (void)state;
    struct text_file file = {
        .extras = {{"<s>", 3}, {"<|eot_id|>", 3}, {"</s>", 4}, {"<0x0A>", 6}, {"pad", 5}}};
    struct vocab *vocab;
    assert_int_equal(create_from(&file, specials, &vocab), STATUS_OK);
    assert_int_equal(vocab_bos(vocab), 256);
    assert_int_equal(vocab_eos(vocab), 255);
    assert_true(vocab_adds_bos(vocab));
    for (uint32_t id = 253; id <= 260; id++)
        assert_int_equal(vocab_is_end(vocab, id), id <= 255 || id == 257);
    assert_int_equal(vocab_kind(vocab, 258), VOCAB_USER_DEFINED);
    assert_int_equal(vocab_kind(vocab, 260), VOCAB_UNUSED);
    assert_true(slice_is(vocab_bytes(vocab, 259), "\n"));
    vocab_destroy(vocab);
}

/* --- pieces of SentencePiece --- */

static const struct piece_file_piece pieces[] = {
    {"\xe2\x96\x81", -1, VOCAB_NORMAL},
    {"\xe2\x96\x81"
     "a\xe2\x96\x81"
     "b",
     -2, VOCAB_NORMAL},
    {"\n", 0, VOCAB_USER_DEFINED},
    {"\xe2\x96\x81\xe2\x96\x81", 0, VOCAB_USER_DEFINED},
    {"\xc3\xa9", -3, VOCAB_NORMAL},
    {"unused", -4, VOCAB_UNUSED},
};
enum { PIECE_FIRST = 3 + 256, PIECE_COUNT = sizeof pieces / sizeof pieces[0] };

static enum status pieces_from(const struct piece_file *file, change change_keys,
                               struct vocab **vocab)
{
    struct gguf_writer writer;
    struct buffer bytes;
    struct gguf *gguf;
    gguf_writer_init(&writer);
    piece_file_keys(&writer, file);
    if (change_keys != NULL)
        change_keys(&writer);
    gguf_writer_finish(&writer, &bytes);
    gguf_writer_deinit(&writer);
    assert_int_equal(gguf_parse(&gguf, bytes.bytes, bytes.length), STATUS_OK);
    enum status status = vocab_create(vocab, gguf);
    gguf_close(gguf);
    buffer_deinit(&bytes);
    return status;
}

static void expect_text(const struct vocab *vocab, uint32_t previous, uint32_t id, const char *want)
{
    struct slice text = vocab_text(vocab, previous, id);
    assert_int_equal(text.length, strlen(want));
    assert_memory_equal(text.bytes, want, text.length);
}

static void pieces_have_blanks(void **state)
{
    (void)state;
    struct piece_file file = {.pieces = pieces, .piece_count = PIECE_COUNT, .has_bytes = true};
    struct vocab *vocab;
    assert_int_equal(pieces_from(&file, NULL, &vocab), STATUS_OK);
    assert_int_equal(vocab_model(vocab), VOCAB_MODEL_PIECES);
    assert_true(vocab_adds_bos(vocab)); /* as the library does when the file does not say */
    assert_true(vocab_adds_blank(vocab));
    assert_true(slice_is(vocab_bytes(vocab, PIECE_FIRST + 1), " a b"));
    assert_true(slice_is(vocab_bytes(vocab, PIECE_FIRST + 3), "  "));
    assert_true(slice_is(vocab_bytes(vocab, 3 + 10), "\n"));
    assert_int_equal(vocab_kind(vocab, PIECE_FIRST + 5), VOCAB_UNUSED);
    /* At the beginning and behind a special token the first blank is the tokenizer's. */
    expect_text(vocab, VOCAB_NONE, PIECE_FIRST, "");
    expect_text(vocab, VOCAB_NONE, PIECE_FIRST + 1, "a b");
    expect_text(vocab, 1, PIECE_FIRST + 1, "a b");
    expect_text(vocab, PIECE_FIRST + 2, PIECE_FIRST + 1, "a b");
    expect_text(vocab, PIECE_FIRST, PIECE_FIRST + 1, " a b");
    expect_text(vocab, 3 + 10, PIECE_FIRST + 1, " a b");
    expect_text(vocab, VOCAB_NONE, PIECE_FIRST + 3, "  "); /* not the tokenizer's */
    expect_text(vocab, VOCAB_NONE, 3 + ' ', " ");
    expect_text(vocab, VOCAB_NONE, PIECE_FIRST + 4, "\xc3\xa9");
    vocab_destroy(vocab);
    file.adds_no_blank = true;
    assert_int_equal(pieces_from(&file, NULL, &vocab), STATUS_OK);
    expect_text(vocab, VOCAB_NONE, PIECE_FIRST + 1, " a b");
    vocab_destroy(vocab);
}

static void bad_pieces_are_refused(void **state)
{
    (void)state;
    struct piece_file file = {.without_kinds = true};
    struct vocab *vocab;
    assert_int_not_equal(pieces_from(&file, NULL, &vocab), STATUS_OK);
    assert_non_null(strstr(status_note()->message, "token_type"));
    const struct piece_file_piece wrong = {"a\xc3", 0, VOCAB_NORMAL};
    file = (struct piece_file){.pieces = &wrong, .piece_count = 1};
    assert_int_equal(pieces_from(&file, NULL, &vocab), STATUS_CORRUPT);
    assert_non_null(strstr(status_note()->message, "token 3 is not UTF-8"));
    file = (struct piece_file){.without_kinds = true};
    assert_int_equal(pieces_from(&file, one_kind_is_missing, &vocab), STATUS_CORRUPT);
    assert_non_null(strstr(status_note()->message, "tokenizer.ggml.token_type has 255 entries"));
}

/* --- failing memory --- */

static int fail_at(void *context, size_t bytes)
{
    (void)bytes;
    int *left = context;
    return (*left)-- == 0;
}

static void every_failing_allocation_is_survived(void **state)
{
    (void)state;
    struct text_file file = {.extras = {{"<s>", 3}}};
    struct buffer bytes;
    struct gguf *gguf;
    struct vocab *vocab = NULL;
    int n = 0;
    text_file_make(&file, &bytes);
    assert_int_equal(gguf_parse(&gguf, bytes.bytes, bytes.length), STATUS_OK);
    for (;; n++) {
        int left = n;
        mem_hook_set(fail_at, &left);
        enum status status = vocab_create(&vocab, gguf);
        mem_hook_set(NULL, NULL);
        if (status == STATUS_OK)
            break;
        assert_int_equal(status, STATUS_NO_MEMORY);
        assert_null(vocab);
    }
    assert_true(n >= 5);
    vocab_destroy(vocab);
    gguf_close(gguf);
    buffer_deinit(&bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_real_one_is_read),
        cmocka_unit_test(every_byte_has_its_character),
        cmocka_unit_test(the_alphabet_has_borders),
        cmocka_unit_test(bad_files_are_refused),
        cmocka_unit_test(no_tokens_at_all),
        cmocka_unit_test(token_length_has_a_limit),
        cmocka_unit_test(ends_and_kinds_are_known),
        cmocka_unit_test(pieces_have_blanks),
        cmocka_unit_test(bad_pieces_are_refused),
        cmocka_unit_test(every_failing_allocation_is_survived),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
