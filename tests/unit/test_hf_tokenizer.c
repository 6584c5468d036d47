#include "engine/models/hf_tokenizer.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "config/base/limits_files.h"
#include "config/base/mem.h"
#include "engine/models/hf_folder.h"
#include "engine/models/vocab.h"
#include "tests/kit/llama_file.h"
#include "tests/kit/tiny_folder.h"

enum { VOCAB = 320 };

/* Replaces `from` in a file of the directory. */
static void change(const struct hf_writer *folder, const char *name, const char *from,
                   const char *to)
{
    struct buffer text;
    struct buffer out;
    buffer_init(&out, 1 << 20);
    assert_int_equal(hf_folder_read(folder->descriptor, name, 1 << 20, &text), STATUS_OK);
    const char *at = strstr(text.bytes, from);
    if (at == NULL)
        fail_msg("%s is not in %s", from, name);
    buffer_append(&out, text.bytes, (size_t)(at - text.bytes));
    buffer_append_text(&out, to);
    buffer_append_text(&out, at + strlen(from));
    hf_writer_file(folder, name, buffer_slice(&out));
    buffer_deinit(&out);
    buffer_deinit(&text);
}

static void test_files_that_are_refused(void **state)
{
    static const struct {
        const char *file;
        const char *from;
        const char *to;
        enum status status;
        const char *says;
    } cases[] = {
        {"tokenizer.json", "{", "[", STATUS_CORRUPT, "tokenizer.json: the JSON text"},
        {"tokenizer.json", "\"BPE\"", "\"Unigram\"", STATUS_UNSUPPORTED, "type 'Unigram'"},
        {"tokenizer.json", "\"BPE\"", "\"WordPiece\"", STATUS_UNSUPPORTED, "subword_prefix"},
        {"tokenizer.json", "\"dropout\":null", "\"dropout\":0.1", STATUS_UNSUPPORTED, "dropout"},
        {"tokenizer.json", "_prefix\":\"\"", "_prefix\":\"##\"", STATUS_UNSUPPORTED,
         "continuing_subword_prefix"},
        {"tokenizer.json", "\"normalizer\":null", "\"normalizer\":{\"type\":\"Lowercase\"}",
         STATUS_UNSUPPORTED, "normalizer 'Lowercase'"},
        {"tokenizer.json", "\"normalizer\":null", "\"normalizer\":{\"type\":\"NFC\"}",
         STATUS_UNSUPPORTED, "pre_tokenizer with NFC 'Digits; ByteLevel words'"},
        {"tokenizer.json", "\"Digits\"", "\"Punct\\u0007uation\"", STATUS_UNSUPPORTED,
         "pre_tokenizer 'Punctuation; ByteLevel words'"},
        {"tokenizer.json", "\"byte_fallback\":false", "\"ignore_merges\":true", STATUS_UNSUPPORTED,
         "pre_tokenizer 'Digits"},
        {"tokenizer.json", "\"byte_fallback\":false", "\"byte_fallback\":true", STATUS_UNSUPPORTED,
         "normalizer ''"},
        {"tokenizer.json", "\"post_processor\":null",
         "\"post_processor\":{\"type\":\"BertProcessing\"}", STATUS_UNSUPPORTED, "BertProcessing"},
        {"tokenizer.json", "\"post_processor\":null",
         "\"post_processor\":{\"type\":\"TemplateProcessing\",\"single\":[{\"Sequence\":{}},"
         "{\"SpecialToken\":{\"id\":\"<|im_end|>\"}}]}",
         STATUS_UNSUPPORTED, "TemplateProcessing"},
        {"tokenizer.json", "\"post_processor\":null",
         "\"post_processor\":{\"type\":\"TemplateProcessing\",\"single\":["
         "{\"SpecialToken\":{\"id\":\"<|im_end|>\"}},{\"Sequence\":{}}]}",
         STATUS_UNSUPPORTED, "TemplateProcessing"}, /* not bos */
        /* Lists, which have as many values as the wanted words have bytes. */
        {"tokenizer.json", "\"BPE\"", "[1,2,3]", STATUS_UNSUPPORTED, "type ''"},
        {"tokenizer.json", "\"post_processor\":null",
         "\"post_processor\":{\"type\":[1,2,3,4,5,6,7,8,9]}", STATUS_UNSUPPORTED,
         "post_processor ''"},
        {"tokenizer_config.json", "<|im_start|>", "<|nothing|>", STATUS_CORRUPT, "bos_token"},
        {"tokenizer_config.json", "\"add_bos_token\":false", "\"add_eos_token\":true",
         STATUS_UNSUPPORTED, "add_eos_token"},
        {"tokenizer_config.json", "\"add_bos_token\":false", "\"chat_template\":7", STATUS_OK,
         ""}, /* the file chat_template.jinja comes first */
        {"generation_config.json", "258", "320", STATUS_CORRUPT, "eos_token_id"},
        {"generation_config.json", "258", "\"2\"", STATUS_CORRUPT, "eos_token_id"},
        {"generation_config.json", "{", "", STATUS_CORRUPT, "generation_config.json"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct hf_writer folder;
        struct gguf_keys keys;
        hf_writer_init(&folder);
        tiny_folder_text(&folder, VOCAB, 0);
        change(&folder, cases[i].file, cases[i].from, cases[i].to);
        gguf_keys_init(&keys);
        const enum status status = hf_tokenizer_read(folder.descriptor, NULL, VOCAB, &keys);
        if (status != cases[i].status ||
            (status != STATUS_OK && strstr(status_note()->message, cases[i].says) == NULL))
            fail_msg("%s: %s: %s", cases[i].to, status_name(status), status_note()->message);
        gguf_keys_deinit(&keys);
        hf_writer_deinit(&folder);
    }
}

/* A token of a megabyte would be hashed once for each of its characters. */
static void test_token_longer_than_any_is_refused(void **state)
{
    enum { LONG = 1 << 16 };
    static const char end[] = "\":319,";
    char added[LONG + 64] = "\"vocab\":{\"";
    struct hf_writer folder;
    struct gguf_keys keys;
    (void)state;
    const size_t begin = strlen(added);
    memset(added + begin, 'a', LONG);
    memcpy(added + begin + LONG, end, sizeof end);
    hf_writer_init(&folder);
    tiny_folder_text(&folder, VOCAB, 1);
    change(&folder, "tokenizer.json", "\"vocab\":{", added);
    gguf_keys_init(&keys);
    assert_int_equal(hf_tokenizer_read(folder.descriptor, NULL, VOCAB, &keys), STATUS_LIMIT);
    assert_non_null(strstr(status_note()->message, "token 319 has 65536 bytes"));
    gguf_keys_deinit(&keys);
    hf_writer_deinit(&folder);
}

/* The keys of the directory and of the GGUF file with the same tokenizer make the same vocabulary;
 * the rows that tokenizer.json does not have pad it. */
static void test_keys_are_those_of_the_gguf_file(void **state)
{
    enum { PADDING = 5 };
    struct hf_writer folder;
    struct gguf_writer writer;
    struct buffer file;
    struct gguf_keys keys;
    struct gguf *gguf[2];
    struct vocab *vocab[2];
    struct slice text[2];
    (void)state;
    hf_writer_init(&folder);
    tiny_folder_text(&folder, VOCAB, PADDING);
    gguf_keys_init(&keys);
    assert_int_equal(hf_tokenizer_read(folder.descriptor, NULL, VOCAB, &keys), STATUS_OK);
    assert_int_equal(gguf_keys_finish(&keys, &gguf[0]), STATUS_OK);
    gguf_writer_init(&writer);
    llama_file_write_tokenizer(&writer, VOCAB);
    gguf_writer_finish(&writer, &file);
    gguf_writer_deinit(&writer);
    assert_int_equal(gguf_parse(&gguf[1], file.bytes, file.length), STATUS_OK);
    static const char *const names[] = {"tokenizer.ggml.model", "tokenizer.ggml.pre",
                                        "tokenizer.chat_template"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        for (uint32_t f = 0; f < 2; f++)
            assert_int_equal(gguf_get_string(gguf[f], names[i], &text[f]), STATUS_OK);
        assert_true(slice_equals(text[0], text[1]));
    }
    for (uint32_t f = 0; f < 2; f++)
        assert_int_equal(vocab_create(&vocab[f], gguf[f]), STATUS_OK);
    assert_int_equal(vocab_size(vocab[0]), VOCAB);
    for (uint32_t id = 0; id < VOCAB - PADDING; id++) {
        assert_true(slice_equals(vocab_bytes(vocab[0], id), vocab_bytes(vocab[1], id)));
        assert_int_equal(vocab_kind(vocab[0], id), vocab_kind(vocab[1], id));
        assert_int_equal(vocab_is_end(vocab[0], id), vocab_is_end(vocab[1], id));
    }
    assert_int_equal(vocab_kind(vocab[0], VOCAB - 1), VOCAB_UNUSED);
    assert_int_equal(vocab_bos(vocab[0]), vocab_bos(vocab[1]));
    assert_int_equal(vocab_eos(vocab[0]), vocab_eos(vocab[1]));
    assert_int_equal(vocab_adds_bos(vocab[0]), vocab_adds_bos(vocab[1]));
    for (uint32_t f = 0; f < 2; f++) {
        vocab_destroy(vocab[f]);
        gguf_close(gguf[f]);
    }
    buffer_deinit(&file);
    gguf_keys_deinit(&keys);
    hf_writer_deinit(&folder);
}

/* Reads the directory and makes its vocabulary. */
static struct vocab *open_vocab(const struct hf_writer *folder, struct gguf_keys *keys,
                                struct gguf **gguf)
{
    struct vocab *vocab = NULL;
    gguf_keys_init(keys);
    if (hf_tokenizer_read(folder->descriptor, NULL, 0, keys) != STATUS_OK ||
        gguf_keys_finish(keys, gguf) != STATUS_OK || vocab_create(&vocab, *gguf) != STATUS_OK)
        fail_msg("%s", status_note()->message);
    return vocab;
}

static void test_bos_ends_and_templates(void **state)
{
    struct hf_writer folder;
    struct gguf_keys keys;
    struct gguf *gguf;
    struct slice text;
    (void)state;
    hf_writer_init(&folder);
    tiny_folder_text(&folder, VOCAB, 0);
    change(&folder, "tokenizer.json", "\"post_processor\":null",
           "\"post_processor\":{\"type\":\"Sequence\",\"processors\":[{\"type\":\"ByteLevel\"},"
           "{\"type\":\"TemplateProcessing\",\"single\":[{\"SpecialToken\":{\"id\":"
           "\"<|im_start|>\"}},{\"Sequence\":{\"id\":\"A\"}}]}]}");
    hf_writer_file(&folder, "generation_config.json", SLICE("{\"eos_token_id\":[258,65]}"));
    hf_writer_file(&folder, "tokenizer_config.json",
                   SLICE("{\"eos_token\":\"<|im_end|>\",\"chat_template\":["
                         "{\"name\":\"tool_use\",\"template\":\"T\"},"
                         "{\"name\":\"default\",\"template\":\"D\"}]}"));
    assert_int_equal(unlinkat(folder.descriptor, "chat_template.jinja", 0), 0);
    struct vocab *vocab = open_vocab(&folder, &keys, &gguf);
    assert_int_equal(vocab_size(vocab), VOCAB);
    assert_true(vocab_adds_bos(vocab));
    assert_int_equal(vocab_bos(vocab), 257);
    assert_true(vocab_is_end(vocab, 65));
    assert_true(vocab_is_end(vocab, 258));
    assert_false(vocab_is_end(vocab, 66));
    assert_int_equal(gguf_get_string(gguf, "tokenizer.chat_template", &text), STATUS_OK);
    assert_true(slice_is(text, "D"));
    vocab_destroy(vocab);
    gguf_close(gguf);
    gguf_keys_deinit(&keys);
    hf_writer_deinit(&folder);
}

static int fail_after(void *context, size_t bytes)
{
    int *left = context;
    (void)bytes;
    return (*left)-- > 0 ? 0 : 1;
}

static void test_no_memory_at_any_point_leaks_nothing(void **state)
{
    enum status status = STATUS_NO_MEMORY;
    struct hf_writer folder;
    int tries = 0;
    (void)state;
    hf_writer_init(&folder);
    tiny_folder_text(&folder, VOCAB, 3);
    for (; status == STATUS_NO_MEMORY; tries++) {
        struct gguf_keys keys;
        struct gguf *gguf = NULL;
        int left = tries;
        mem_hook_set(fail_after, &left);
        gguf_keys_init(&keys);
        status = hf_tokenizer_read(folder.descriptor, NULL, VOCAB, &keys);
        if (status == STATUS_OK)
            status = gguf_keys_finish(&keys, &gguf);
        mem_hook_set(NULL, NULL);
        gguf_close(gguf);
        gguf_keys_deinit(&keys);
    }
    assert_int_equal(status, STATUS_OK);
    assert_true(tries > 20);
    hf_writer_deinit(&folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_files_that_are_refused),
        cmocka_unit_test(test_token_longer_than_any_is_refused),
        cmocka_unit_test(test_keys_are_those_of_the_gguf_file),
        cmocka_unit_test(test_bos_ends_and_templates),
        cmocka_unit_test(test_no_memory_at_any_point_leaks_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
