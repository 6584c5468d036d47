#include "engine/text/tokenizer_wordpiece.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "engine/models/gguf_keys.h"
#include "engine/text/tokenizer.h"

/* As GGUF files have them: a mark before what begins a word. */
#define W(text) "\xe2\x96\x81" text
static const char *const TOKENS[] = {
    "[PAD]",
    "[UNK]",
    "[CLS]",
    "[SEP]",
    W("un"),
    "aff",
    "able",
    W("affable"),
    W("a"),
    "b",
    W("ab"),
    W("!"),
    W("."),
    W("cafe"),
    W("\xe4\xb8\xad"),
    W("\xe6\x96\x87"),
    W("\xcf\x83"),
    "\xcf\x83",
    W("i"),
    W("e"),
    "e",
    W("[unused]"),
    W("'"),
    W("s"),
};
enum { COUNT = sizeof TOKENS / sizeof TOKENS[0], UNKNOWN = 1, CLS = 2, SEP = 3 };

struct made {
    struct gguf_keys keys;
    struct gguf *gguf;
    struct vocab *vocab;
    struct tokenizer *tokenizer;
};

/* `off` is the option that is false, or NULL. */
static void make(struct made *made, const char *off)
{
    static const char *const options[] = {"banyan.bert.clean", "banyan.bert.cjk",
                                          "banyan.bert.strip", "banyan.bert.lower"};
    int32_t kinds[COUNT];
    gguf_keys_init(&made->keys);
    gguf_keys_string(&made->keys, "tokenizer.ggml.model", SLICE("bert"));
    gguf_keys_strings(&made->keys, "tokenizer.ggml.tokens", COUNT);
    for (int i = 0; i < COUNT; i++) {
        gguf_keys_add_string(&made->keys, slice_of(TOKENS[i]));
        kinds[i] = i < 4 ? VOCAB_CONTROL : VOCAB_NORMAL;
    }
    gguf_keys_i32s(&made->keys, "tokenizer.ggml.token_type", kinds, COUNT);
    gguf_keys_u32(&made->keys, "tokenizer.ggml.unknown_token_id", UNKNOWN);
    gguf_keys_u32(&made->keys, "tokenizer.ggml.bos_token_id", CLS);
    gguf_keys_u32(&made->keys, "tokenizer.ggml.eos_token_id", SEP);
    gguf_keys_bool(&made->keys, "tokenizer.ggml.add_eos_token", true);
    for (size_t i = 0; i < 4; i++)
        if (off != NULL)
            gguf_keys_bool(&made->keys, options[i], strcmp(off, options[i]) != 0);
    assert_int_equal(gguf_keys_finish(&made->keys, &made->gguf), STATUS_OK);
    assert_int_equal(vocab_create(&made->vocab, made->gguf), STATUS_OK);
    assert_int_equal(tokenizer_create(&made->tokenizer, made->vocab, made->gguf), STATUS_OK);
}

static void unmake(struct made *made)
{
    tokenizer_destroy(made->tokenizer);
    vocab_destroy(made->vocab);
    gguf_close(made->gguf);
    gguf_keys_deinit(&made->keys);
}

/* The tokens of a text, as "un aff able". */
static void check(const struct made *made, const char *text, size_t length, const char *right)
{
    uint32_t ids[512];
    size_t count;
    char got[4096] = "";
    size_t at = 0;
    const struct slice all = {text, length};
    const struct tokenizer_span span = tokenizer_everywhere(all);
    assert_int_equal(tokenizer_encode(made->tokenizer, all, &span, 1, ids, 512, &count), STATUS_OK);
    for (size_t i = 0; i < count; i++) {
        const char *token = TOKENS[ids[i]];
        const bool begins = strncmp(token, W(""), 3) == 0;
        at += (size_t)snprintf(got + at, sizeof got - at, "%s%s", at > 0 ? " " : "",
                               begins ? token + 3 : token);
    }
    if (strcmp(got, right) != 0)
        fail_msg("'%s' gives '%s', not '%s'", text, got, right);
}

static const struct {
    const char *text;
    const char *right;
} CASES[] = {
    {"", ""},
    {" \t\r\n", ""},
    {"unaffable", "un aff able"}, /* the longest first, then what goes on */
    {"UNAFFABLE", "un aff able"},
    {"affable", "affable"},
    {"unaffablex", "[UNK]"}, /* the whole word */
    {"ab! a.b", "ab ! a . [UNK]"},
    {"a!!a", "a ! ! a"},
    {"Caf\xc3\xa9", "cafe"},  /* composed */
    {"Cafe\xcc\x81", "cafe"}, /* decomposed */
    {"a\xe4\xb8\xad\xe6\x96\x87"
     "a",
     "a \xe4\xb8\xad \xe6\x96\x87 a"},
    {"\xce\xa3\xce\xa3", "\xcf\x83 \xcf\x83"}, /* capital sigmas: no final one at the end */
    {"\xc4\xb0", "i"},                         /* capital i with a dot */
    {"a\xe2\x80\x8b"
     "b",
     "ab"}, /* a zero-width space is removed */
    {"a\xc2\xa0"
     "a",
     "a a"}, /* a no-break space */
    {"a\xef\xbf\xbd"
     "a\x07"
     "a",
     "[UNK]"},
    {"[CLS]a[SEP]", "[CLS] a [SEP]"},
    {"[unused]", "[UNK] [UNK] [UNK]"},
    {"\xff\xc3"
     "a",
     "a"}, /* no UTF-8 */
};

static void test_texts(void **state)
{
    (void)state;
    struct made made;
    make(&made, NULL);
    for (size_t i = 0; i < sizeof CASES / sizeof CASES[0]; i++) {
        check(&made, CASES[i].text, strlen(CASES[i].text), CASES[i].right);
    }
    check(&made, "a\0b", 3, "ab"); /* NUL is removed */
    assert_true(vocab_adds_bos(made.vocab) && vocab_adds_eos(made.vocab));
    unmake(&made);
}

static void test_options(void **state)
{
    (void)state;
    struct made made;
    make(&made, "banyan.bert.lower");
    check(&made, "A a", 3, "[UNK] a");
    unmake(&made);
    make(&made, "banyan.bert.strip");
    check(&made, "Caf\xc3\xa9", 5, "[UNK]");
    unmake(&made);
    make(&made, "banyan.bert.cjk");
    check(&made, "\xe4\xb8\xad\xe6\x96\x87", 6, "[UNK]");
    unmake(&made);
    make(&made, "banyan.bert.clean");
    check(&made,
          "a\x07"
          "b a\x0b"
          "a",
          7, "[UNK] a a");
    unmake(&made);
}

/* A word of 100 characters has pieces, and one of 101 is unknown; so is one of a megabyte. */
static void test_long_words(void **state)
{
    (void)state;
    struct made made;
    char *text = malloc(1 << 20);
    uint32_t ids[512];
    size_t count;
    make(&made, NULL);
    memset(text, 'e', 1 << 20);
    const size_t lengths[] = {100, 101, 1 << 20};
    for (size_t i = 0; i < 3; i++) {
        const struct slice all = {text, lengths[i]};
        assert_int_equal(tokenizer_encode(made.tokenizer, all, NULL, 0, ids, 512, &count),
                         STATUS_OK);
        assert_int_equal(count, i == 0 ? 100 : 1);
        assert_int_equal(ids[0] == UNKNOWN, i > 0);
    }
    assert_int_equal(
        tokenizer_encode(made.tokenizer, (struct slice){text, 100}, NULL, 0, ids, 99, &count),
        STATUS_LIMIT);
    free(text);
    unmake(&made);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_texts),
        cmocka_unit_test(test_options),
        cmocka_unit_test(test_long_words),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
