/* Tokens by their bytes, over made-up vocabularies. */
#include "engine/text/tokenizer_index.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#include "config/base/mem.h"
#include "tests/kit/piece_file.h"

static const struct piece_file_piece pieces[] = {
    {"ab", 1, VOCAB_NORMAL},           {"un", 1, VOCAB_UNUSED}, {"ud", 1, VOCAB_USER_DEFINED},
    {"\xe2\x96\x81", 1, VOCAB_NORMAL}, {" ", 1, VOCAB_NORMAL},
};

static struct vocab *vocab_open(void)
{
    const struct piece_file file = {
        .pieces = pieces, .piece_count = sizeof pieces / sizeof pieces[0], .has_bytes = true};
    struct buffer bytes;
    struct gguf *gguf;
    struct vocab *vocab;
    piece_file_make(&file, &bytes);
    assert_int_equal(gguf_parse(&gguf, bytes.bytes, bytes.length), STATUS_OK);
    assert_int_equal(vocab_create(&vocab, gguf), STATUS_OK);
    gguf_close(gguf);
    buffer_deinit(&bytes);
    return vocab;
}

static void kinds_are_chosen(void **state)
{
    (void)state;
    struct vocab *vocab = vocab_open();
    const uint32_t first = vocab_size(vocab) - (uint32_t)(sizeof pieces / sizeof pieces[0]);
    for (int takes_unused = 0; takes_unused <= 1; takes_unused++) {
        struct tokenizer_index index = {0};
        assert_int_equal(tokenizer_index_init(&index, vocab, takes_unused != 0), STATUS_OK);
        assert_int_equal(tokenizer_index_find(&index, SLICE("ab")), first);
        assert_int_equal(tokenizer_index_find(&index, SLICE("un")),
                         takes_unused != 0 ? first + 1 : VOCAB_NONE);
        assert_int_equal(tokenizer_index_find(&index, SLICE("ud")), VOCAB_NONE);
        assert_int_equal(tokenizer_index_find(&index, SLICE("<s>")), VOCAB_NONE);
        assert_int_equal(tokenizer_index_find(&index, SLICE("a")), VOCAB_NONE);
        assert_int_equal(tokenizer_index_find(&index, SLICE("")), VOCAB_NONE);
        /* Both are a blank: the first counts. */
        assert_int_equal(tokenizer_index_find(&index, SLICE(" ")), first + 3);
        tokenizer_index_deinit(&index);
    }
    vocab_destroy(vocab);
}

static int fail_all(void *context, size_t bytes)
{
    (void)context, (void)bytes;
    return 1;
}

static void no_memory_is_said(void **state)
{
    (void)state;
    struct vocab *vocab = vocab_open();
    struct tokenizer_index index = {0};
    mem_hook_set(fail_all, NULL);
    enum status status = tokenizer_index_init(&index, vocab, true);
    mem_hook_set(NULL, NULL);
    assert_int_equal(status, STATUS_NO_MEMORY);
    tokenizer_index_deinit(&index);
    vocab_destroy(vocab);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(kinds_are_chosen),
        cmocka_unit_test(no_memory_is_said),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
