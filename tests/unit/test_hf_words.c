#include "engine/models/hf_words.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "engine/models/vocab.h"

#define NORMALIZER                                                                                 \
    "{\"type\":\"BertNormalizer\",\"clean_text\":true,\"handle_chinese_chars\":true,\"strip_"      \
    "accents\":null,\"lowercase\":true}"
#define PRE_TOKENIZER "{\"type\":\"BertPreTokenizer\"}"
#define TEMPLATE                                                                                   \
    "{\"type\":\"TemplateProcessing\",\"single\":[{\"SpecialToken\":{\"id\":\"[CLS]\"}},"          \
    "{\"Sequence\":{\"id\":\"A\"}},{\"SpecialToken\":{\"id\":\"[SEP]\"}}]}"
#define MODEL                                                                                      \
    "{\"type\":\"WordPiece\",\"unk_token\":\"[UNK]\",\"continuing_subword_prefix\":\"##\","        \
    "\"max_input_chars_per_word\":100,\"vocab\":{\"[UNK]\":0,\"[CLS]\":1,\"[SEP]\":2,\"un\":3,"    \
    "\"##able\":4,\"##\":5}}"

/* Reads a file with these parts; the caller closes `*out` if the status is OK. */
static enum status write(const char *normalizer, const char *pre_tokenizer, const char *processor,
                         const char *model, struct gguf_keys *keys, struct gguf **out)
{
    const struct json_read_limits limits = {.depth = 16, .values = 256};
    struct json_read json;
    struct hf_merges merges;
    char text[4096];
    snprintf(text, sizeof text,
             "{\"truncation\":{\"max_length\":128},\"normalizer\":%s,\"pre_tokenizer\":%s,"
             "\"post_processor\":%s,\"added_tokens\":[{\"id\":1,\"content\":\"[CLS]\","
             "\"special\":true},{\"id\":2,\"content\":\"[SEP]\",\"special\":true}],\"model\":%s}",
             normalizer, pre_tokenizer, processor, model);
    assert_int_equal(json_read(&json, slice_of(text), &limits), STATUS_OK);
    const uint32_t at = (uint32_t)(json_read_member(&json, 0, "model") - json.values);
    const uint32_t added = (uint32_t)(json_read_member(&json, 0, "added_tokens") - json.values);
    gguf_keys_init(keys);
    assert_true(hf_words_is(&json, at));
    enum status status = hf_merges_open(&merges, &json, at, added, 6);
    if (status == STATUS_OK)
        status = hf_words_write(&merges, &json, at, keys);
    hf_merges_close(&merges);
    json_read_free(&json);
    if (status == STATUS_OK)
        status = gguf_keys_finish(keys, out);
    if (status != STATUS_OK)
        gguf_keys_deinit(keys);
    return status;
}

static void test_keys(void **state)
{
    static const char *const names[] = {"[UNK]", "[CLS]", "[SEP]", " un", "able", " ##"};
    struct gguf_keys keys;
    struct gguf *gguf;
    struct vocab *vocab;
    bool yes;
    uint32_t id;
    (void)state;
    assert_int_equal(write(NORMALIZER, PRE_TOKENIZER, TEMPLATE, MODEL, &keys, &gguf), STATUS_OK);
    assert_int_equal(vocab_create(&vocab, gguf), STATUS_OK);
    assert_int_equal(vocab_model(vocab), VOCAB_MODEL_WORDS);
    for (uint32_t i = 0; i < 6; i++) {
        assert_true(slice_is(vocab_bytes(vocab, i), names[i]));
        assert_int_equal(vocab_is_control(vocab, i), i < 3);
    }
    assert_int_equal(vocab_bos(vocab), 1);
    assert_int_equal(vocab_eos(vocab), 2);
    assert_true(vocab_adds_bos(vocab) && vocab_adds_eos(vocab));
    /* What is shown of the ids: words with blanks between them. */
    assert_true(slice_is(vocab_text(vocab, 1, 3), "un"));
    assert_true(slice_is(vocab_text(vocab, 3, 4), "able"));
    assert_true(slice_is(vocab_text(vocab, 4, 3), " un"));
    assert_int_equal(gguf_get_u32(gguf, "tokenizer.ggml.unknown_token_id", &id), STATUS_OK);
    assert_int_equal(id, 0);
    assert_int_equal(gguf_get_bool(gguf, "banyan.bert.strip", &yes), STATUS_OK);
    assert_true(yes); /* null: as lowercase */
    vocab_destroy(vocab);
    gguf_close(gguf);
    gguf_keys_deinit(&keys);
    assert_int_equal(write("{\"type\":\"BertNormalizer\",\"lowercase\":false}", PRE_TOKENIZER,
                           "{\"type\":\"BertProcessing\",\"sep\":[\"[SEP]\",2],"
                           "\"cls\":[\"[CLS]\",1]}",
                           MODEL, &keys, &gguf),
                     STATUS_OK);
    assert_int_equal(gguf_get_bool(gguf, "banyan.bert.strip", &yes), STATUS_OK);
    assert_false(yes);
    assert_int_equal(gguf_get_bool(gguf, "banyan.bert.clean", &yes), STATUS_OK);
    assert_true(yes);
    gguf_close(gguf);
    gguf_keys_deinit(&keys);
}

static void test_what_is_refused(void **state)
{
    static const struct {
        const char *normalizer;
        const char *pre_tokenizer;
        const char *processor;
        const char *model;
        enum status status;
        const char *says;
    } cases[] = {
        {"null", PRE_TOKENIZER, TEMPLATE, MODEL, STATUS_UNSUPPORTED, "normalizer 'none'"},
        {"{\"type\":\"Lower\\u0007case\"}", PRE_TOKENIZER, TEMPLATE, MODEL, STATUS_UNSUPPORTED,
         "normalizer 'Lowercase'"},
        {"{\"type\":\"Sequence\",\"normalizers\":[{\"type\":\"NFD\"},{\"type\":\"StripAccents\"}]}",
         PRE_TOKENIZER, TEMPLATE, MODEL, STATUS_UNSUPPORTED, "'NFD; StripAccents'"},
        {"{\"type\":\"BertNormalizer\",\"lowercase\":1}", PRE_TOKENIZER, TEMPLATE, MODEL,
         STATUS_CORRUPT, "lowercase"},
        {NORMALIZER, "{\"type\":\"Whitespace\"}", TEMPLATE, MODEL, STATUS_UNSUPPORTED,
         "pre_tokenizer 'Whitespace'"},
        {NORMALIZER, "[]", TEMPLATE, MODEL, STATUS_UNSUPPORTED, "pre_tokenizer"},
        {NORMALIZER, PRE_TOKENIZER, "null", MODEL, STATUS_UNSUPPORTED, "post_processor"},
        {NORMALIZER, PRE_TOKENIZER, "{\"type\":\"RobertaProcessing\"}", MODEL, STATUS_UNSUPPORTED,
         "post_processor"},
        {NORMALIZER, PRE_TOKENIZER,
         "{\"type\":\"TemplateProcessing\",\"single\":[{\"Sequence\":{\"id\":\"A\"}}]}", MODEL,
         STATUS_UNSUPPORTED, "post_processor"},
        {NORMALIZER, PRE_TOKENIZER,
         "{\"type\":\"TemplateProcessing\",\"single\":[{\"SpecialToken\":{\"id\":\"[X]\"}},"
         "{\"Sequence\":{\"id\":\"A\"}},{\"SpecialToken\":{\"id\":\"[SEP]\"}}]}",
         MODEL, STATUS_CORRUPT, "there is not"},
        {NORMALIZER, PRE_TOKENIZER, "{\"type\":\"BertProcessing\",\"cls\":[\"[CLS]\",1]}", MODEL,
         STATUS_CORRUPT, "sep"},
        {NORMALIZER, PRE_TOKENIZER, TEMPLATE,
         "{\"type\":\"WordPiece\",\"unk_token\":\"[UNK]\",\"continuing_subword_prefix\":\"@@\","
         "\"vocab\":{\"[UNK]\":0,\"[CLS]\":1,\"[SEP]\":2}}",
         STATUS_UNSUPPORTED, "continuing_subword_prefix"},
        {NORMALIZER, PRE_TOKENIZER, TEMPLATE,
         "{\"type\":\"WordPiece\",\"unk_token\":\"[UNK]\",\"continuing_subword_prefix\":\"##\","
         "\"max_input_chars_per_word\":200,\"vocab\":{\"[UNK]\":0,\"[CLS]\":1,\"[SEP]\":2}}",
         STATUS_UNSUPPORTED, "max_input_chars_per_word"},
        {NORMALIZER, PRE_TOKENIZER, TEMPLATE,
         "{\"type\":\"WordPiece\",\"unk_token\":\"[X]\",\"continuing_subword_prefix\":\"##\","
         "\"vocab\":{\"[UNK]\":0,\"[CLS]\":1,\"[SEP]\":2}}",
         STATUS_CORRUPT, "unk_token"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct gguf_keys keys;
        struct gguf *gguf;
        const enum status status = write(cases[i].normalizer, cases[i].pre_tokenizer,
                                         cases[i].processor, cases[i].model, &keys, &gguf);
        if (status != cases[i].status || strstr(status_note()->message, cases[i].says) == NULL)
            fail_msg("case %zu: %s: %s", i, status_name(status), status_note()->message);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_keys),
        cmocka_unit_test(test_what_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
