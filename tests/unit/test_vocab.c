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

static void bad_files_are_refused(void **state)
{
    (void)state;
    struct text_file fine = {0};
    struct text_file without_kinds = {.without_kinds = true};
    expect_refused(&(struct text_file){.model = "llama"}, NULL, STATUS_UNSUPPORTED, "'llama'");
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
        cmocka_unit_test(every_failing_allocation_is_survived),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
