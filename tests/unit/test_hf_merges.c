#include "engine/models/hf_merges.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "engine/models/vocab.h"

/* The model at index 0 of `text`; added tokens under its own key "added". */
static enum status write(const char *text, uint32_t size, bool is_pieces, struct gguf_keys *keys,
                         struct hf_merges *merges)
{
    const struct json_read_limits limits = {.depth = 16, .values = 1024};
    struct json_read json;
    assert_int_equal(json_read(&json, slice_of(text), &limits), STATUS_OK);
    const struct json_read_value *added = json_read_member(&json, 0, "added");
    const uint32_t at = added != NULL ? (uint32_t)(added - json.values) : 0;
    enum status status = hf_merges_open(merges, &json, 0, at, size);
    if (status == STATUS_OK)
        status = is_pieces ? hf_merges_write_pieces(merges, &json, 0, keys)
                           : hf_merges_write_bytes(merges, &json, 0, keys);
    json_read_free(&json);
    return status;
}

#define PIECES "\"byte_fallback\":true,\"unk_token\":\"u\","
#define VOCAB  "\"vocab\":{\"u\":0,\"<0x0A>\":1,\"a\":2,\"b\":3,\"ab\":4,\"aba\":5},"

static void test_what_is_refused(void **state)
{
    static const struct {
        const char *text;
        bool is_pieces;
        enum status status;
        const char *says;
    } cases[] = {
        {"{\"vocab\":[]}", false, STATUS_CORRUPT, "no object vocab"},
        {"{\"vocab\":{\"a\":\"0\"}}", false, STATUS_CORRUPT, "no id"},
        {"{\"vocab\":{\"a\":-1}}", false, STATUS_CORRUPT, "no id"},
        {"{\"vocab\":{\"a\":8}}", false, STATUS_CORRUPT, "says 8 tokens"},
        {"{\"vocab\":{\"a\":0,\"b\":0}}", false, STATUS_CORRUPT, "two tokens have the id 0"},
        {"{\"vocab\":{\"[PAD3]\":0}}", false, STATUS_CORRUPT, "[PAD3] is token 0"},
        {"{\"vocab\":{\"a\":0}}", false, STATUS_CORRUPT, "no list merges"},
        {"{\"vocab\":{\"a\":0},\"merges\":[\"aa\"]}", false, STATUS_CORRUPT, "not of two parts"},
        {"{\"vocab\":{\"a\":0},\"merges\":[[\"a\"]]}", false, STATUS_CORRUPT, "not of two parts"},
        {"{\"vocab\":{\"a\":0},\"merges\":[7]}", false, STATUS_CORRUPT, "not of two parts"},
        {"{\"vocab\":{\"a\":0},\"added\":{}}", false, STATUS_CORRUPT, "added_tokens is no list"},
        {"{\"vocab\":{\"a\":0},\"added\":[{\"id\":1}]}", false, STATUS_CORRUPT, "no content"},
        {"{\"vocab\":{\"a\":0},\"added\":[{\"id\":1,\"content\":\"a\"}]}", false, STATUS_CORRUPT,
         "same text"},
        {"{\"vocab\":{\"a\":0},\"added\":[{\"id\":1,\"content\":\"<m>\",\"lstrip\":true}]}", false,
         STATUS_UNSUPPORTED, "'<m>' has lstrip"},
        {"{" PIECES VOCAB "\"merges\":[\"a b\",\"ab a\",\"b a\"]}", true, STATUS_CORRUPT,
         "merge 2 names a token"},
        {"{" PIECES VOCAB "\"merges\":[\"ab a\"]}", true, STATUS_UNSUPPORTED,
         "'ab' are not all ways"},
        {"{" PIECES "\"vocab\":{\"u\":0,\"a\":1,\"aa\":2,\"aaa\":3},"
         "\"merges\":[\"aa a\",\"a a\",\"a aa\"]}",
         true, STATUS_UNSUPPORTED, "do not follow each other"},
        {"{" PIECES "\"vocab\":{\"u\":0,\"a\":1,\"ax\":2},\"merges\":[]}", true, STATUS_UNSUPPORTED,
         "a character that is no piece"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct gguf_keys keys;
        struct hf_merges merges;
        gguf_keys_init(&keys);
        const enum status status = write(cases[i].text, 8, cases[i].is_pieces, &keys, &merges);
        if (status != cases[i].status || strstr(status_note()->message, cases[i].says) == NULL)
            fail_msg("%s: %s: %s", cases[i].text, status_name(status), status_note()->message);
        hf_merges_close(&merges);
        gguf_keys_deinit(&keys);
    }
}

static void test_pieces_have_scores_by_their_merges(void **state)
{
    static const float want[] = {0, 0, 0, 0, -1, -2, 0, 0};
    static const int32_t kinds[] = {VOCAB_UNKNOWN, VOCAB_BYTE,   VOCAB_NORMAL,       VOCAB_NORMAL,
                                    VOCAB_NORMAL,  VOCAB_NORMAL, VOCAB_USER_DEFINED, VOCAB_UNUSED};
    struct gguf_keys keys;
    struct hf_merges merges;
    struct gguf *gguf;
    struct gguf_array array;
    struct slice text;
    uint32_t id;
    (void)state;
    gguf_keys_init(&keys);
    assert_int_equal(write("{" PIECES VOCAB "\"merges\":[\"a b\",[\"ab\",\"a\"],\"<m> a\"],"
                           "\"added\":[{\"id\":6,\"content\":\"<m>\",\"special\":false}]}",
                           8, true, &keys, &merges),
                     STATUS_CORRUPT); /* the last merge makes nothing */
    hf_merges_close(&merges);
    gguf_keys_deinit(&keys);
    gguf_keys_init(&keys);
    assert_int_equal(write("{" PIECES VOCAB "\"merges\":[\"a b\",[\"ab\",\"a\"]],"
                           "\"added\":[{\"id\":6,\"content\":\"<m>\",\"special\":false}]}",
                           8, true, &keys, &merges),
                     STATUS_OK);
    assert_true(hf_merges_find(&merges, SLICE("aba"), &id));
    assert_int_equal(id, 5);
    assert_false(hf_merges_find(&merges, SLICE("abab"), &id));
    assert_int_equal(gguf_keys_finish(&keys, &gguf), STATUS_OK);
    assert_int_equal(gguf_get_array(gguf, "tokenizer.ggml.scores", &array), STATUS_OK);
    for (uint32_t i = 0; i < 8; i++) {
        float score;
        assert_int_equal(gguf_array_next_f32(&array, &score), STATUS_OK);
        assert_true(score == want[i]);
    }
    assert_int_equal(gguf_get_array(gguf, "tokenizer.ggml.token_type", &array), STATUS_OK);
    for (uint32_t i = 0; i < 8; i++) {
        int32_t kind;
        assert_int_equal(gguf_array_next_i32(&array, &kind), STATUS_OK);
        assert_int_equal(kind, kinds[i]);
    }
    assert_int_equal(gguf_get_array(gguf, "tokenizer.ggml.tokens", &array), STATUS_OK);
    for (uint32_t i = 0; i < 8; i++)
        assert_int_equal(gguf_array_next_string(&array, &text), STATUS_OK);
    assert_true(slice_is(text, "[PAD7]"));
    gguf_close(gguf);
    hf_merges_close(&merges);
    gguf_keys_deinit(&keys);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_is_refused),
        cmocka_unit_test(test_pieces_have_scores_by_their_merges),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
