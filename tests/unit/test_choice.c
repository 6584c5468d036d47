/* choice: each text and nothing else, and sources that are refused. */
#include "engine/schema/choice.h"

#include "config/base/limits_grammar.h"
#include "tests/unit/grammar_kit.h"

static enum status build(const char *source, struct grammar **out)
{
    struct kit_grammar kit;
    grammar_symbol start;
    kit_begin(&kit);
    *out = NULL;
    enum status status = choice_build(kit.builder, slice_of(source), &start);
    if (status != STATUS_OK) {
        grammar_builder_free(kit.builder);
        return status;
    }
    return kit_finish(&kit, start, out);
}

static bool matches(struct grammar *grammar, struct slice text)
{
    static const char *const texts[] = {"a"};
    struct token_trie *trie = kit_trie(texts, 1);
    struct grammar_run *run;
    assert_int_equal(grammar_run_new(grammar, trie, &run), STATUS_OK);
    bool result =
        (text.length == 0 || grammar_run_commit_bytes(run, text)) && grammar_run_accepts(run);
    grammar_run_free(run);
    token_trie_free(trie);
    return result;
}

static void test_one_of_the_texts_is_the_answer(void **state)
{
    (void)state;
    struct grammar *grammar;
    assert_int_equal(build("[\"yes\", \"no\", \"yes, but\", \"\\u00e9\\n\", \"no\"]", &grammar),
                     STATUS_OK);
    assert_true(matches(grammar, SLICE("yes")));
    assert_true(matches(grammar, SLICE("yes, but")));
    assert_true(matches(grammar, SLICE("no")));
    assert_true(matches(grammar, SLICE("\xc3\xa9\n")));
    assert_false(matches(grammar, SLICE("yes,")));
    assert_false(matches(grammar, SLICE("")));
    assert_false(matches(grammar, SLICE("noyes")));
    assert_false(matches(grammar, SLICE("\xc3\xa9")));
    grammar_drop(grammar);
    assert_int_equal(build("[\"\", \"a\"]", &grammar), STATUS_OK);
    assert_true(matches(grammar, SLICE("")));
    assert_true(matches(grammar, SLICE("a")));
    grammar_drop(grammar);
}

static void test_sources_that_are_no_choice(void **state)
{
    (void)state;
    static const char *const broken[] = {"",       "[]",          "{}",           "\"a\"",
                                         "[1]",    "[\"a\", []]", "[[\"a\"]]",    "[\"a\"",
                                         "[null]", "[\"a\",]",    "{\"a\":\"b\"}"};
    struct grammar *grammar;
    for (size_t i = 0; i < sizeof broken / sizeof *broken; i++) {
        assert_int_equal(build(broken[i], &grammar), STATUS_INVALID);
        assert_null(grammar);
    }
}

static void test_as_many_texts_as_allowed(void **state)
{
    (void)state;
    for (uint32_t count = LIMIT_CHOICE_TEXTS; count <= LIMIT_CHOICE_TEXTS + 1; count++) {
        struct buffer source;
        struct grammar *grammar;
        buffer_init(&source, 1 << 20);
        for (uint32_t i = 0; i < count; i++)
            buffer_printf(&source, "%s\"word %u\"", i == 0 ? "[" : ",", i * 7);
        buffer_append_text(&source, "]");
        enum status status = build(source.bytes, &grammar);
        buffer_deinit(&source);
        assert_int_equal(status, count <= LIMIT_CHOICE_TEXTS ? STATUS_OK : STATUS_LIMIT);
        if (status != STATUS_OK)
            continue;
        assert_true(matches(grammar, SLICE("word 7161")));
        assert_false(matches(grammar, SLICE("word 7162")));
        grammar_drop(grammar);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_of_the_texts_is_the_answer),
        cmocka_unit_test(test_sources_that_are_no_choice),
        cmocka_unit_test(test_as_many_texts_as_allowed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
