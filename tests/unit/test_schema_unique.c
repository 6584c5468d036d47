/* schema_unique: which values may come once. */
#include "config/base/limits_schema.h"
#include "tests/unit/schema_kit.h"

static void values_come_once(void **state)
{
    (void)state;
    static const struct kit_case cases[] = {
        {"{\"type\":\"array\",\"uniqueItems\":true,\"items\":{\"enum\":[\"a\",\"b\",1]}}",
         {"[]", "[\"b\",\"a\"]", "[1,\"a\",\"b\"]"},
         {"[\"a\",\"a\"]", "[\"c\"]", "[1,\"b\",1]"}},
        {"{\"type\":\"array\",\"uniqueItems\":true,\"items\":{\"type\":[\"boolean\",\"null\"]},"
         "\"minItems\":2}",
         {"[true,false]", "[null,true]", "[null,true,false]"},
         {"[true]", "[true,true]"}},
        {"{\"type\":\"array\",\"uniqueItems\":true,\"items\":{\"enum\":[\"a\",\"b\",\"c\"]},"
         "\"maxItems\":2}",
         {"[\"c\",\"a\"]"},
         {"[\"a\",\"b\",\"c\"]"}},
        {"{\"type\":\"array\",\"uniqueItems\":true,\"items\":{\"enum\":[1,1.0,2]}}",
         {"[1,2]"},
         {"[1,1]"}},
        {"{\"type\":\"array\",\"uniqueItems\":true,\"maxItems\":1}", {"[]", "[\"x\"]"}, {"[1,2]"}},
        {"{\"type\":\"array\",\"uniqueItems\":false,\"maxItems\":2,\"items\":{\"const\":1}}",
         {"[1,1]"},
         {"[1,1,1]"}},
    };
    KIT_TRY(cases);
}

static void strings_come_once(void **state)
{
    (void)state;
    static const struct kit_case cases[] = {
        {"{\"type\":\"array\",\"uniqueItems\":true,\"items\":{\"type\":\"string\"}}",
         {"[]", "[\"a\"]", "[\"a\", \"b\",\"ab\",\"\"]", "[\"\\u001f\",\"\\u001e\"]"},
         {"[\"a\",\"a\"]", "[\"a\",\"b\", \"a\"]", "[\"\",\"\"]", "[\"\\u001f\",\"\\u001F\"]",
          "[\"\\u001F\"]", "[1]"}},
        {"{\"type\":\"array\",\"uniqueItems\":true,\"minItems\":2,\"maxItems\":3,"
         "\"items\":{\"type\":\"string\",\"pattern\":\"^x[0-9]+$\"}}",
         {"[\"x1\",\"x2\"]", "[\"x1\",\"x11\",\"x111\"]"},
         {"[]", "[\"x1\"]", "[\"x1\",\"x2\",\"x3\",\"x4\"]", "[\"x1\",\"x1\"]", "[\"x1\",\"y\"]"}},
        /* Each list has its own items. */
        {"{\"type\":\"array\",\"items\":{\"type\":\"array\",\"uniqueItems\":true,\"items\":"
         "{\"type\":\"string\"}}}",
         {"[[\"a\",\"b\"],[\"a\",\"b\"],[\"b\",\"a\"]]"},
         {"[[\"a\"],[\"b\",\"b\"]]", "[[\"a\",\"b\"],[\"b\",\"a\",\"b\"]]"}},
        /* Two readings of one text: one of them may repeat. */
        {"{\"anyOf\":[{\"type\":\"array\",\"uniqueItems\":true,\"items\":{\"type\":\"string\"}},"
         "{\"type\":\"array\",\"maxItems\":2,\"items\":{\"type\":\"string\"}}]}",
         {"[\"a\",\"a\"]", "[\"a\",\"b\",\"c\"]"},
         {"[\"a\",\"b\",\"a\"]", "[\"a\",\"a\",\"b\"]"}},
        /* Items of other sorts are left out. */
        {"{\"type\":\"array\",\"uniqueItems\":true,\"items\":{\"type\":[\"string\",\"object\"]}}",
         {"[\"a\"]"},
         {"[{}]", "[\"a\",\"a\"]"}},
    };
    KIT_TRY(cases);
}

/* A list may have 512 strings, and the 513th is refused. */
static void long_lists_end(void **state)
{
    (void)state;
    struct token_trie *trie = kit_bytes();
    struct grammar *grammar;
    struct grammar_run *run;
    struct constraint_error error;
    assert_int_equal(kit_compile(CONSTRAINT_JSON_SCHEMA,
                                 "{\"type\":\"array\",\"uniqueItems\":true,\"items\":{\"type\":"
                                 "\"string\"}}",
                                 &kit_loose, &grammar, &error),
                     STATUS_OK);
    assert_int_equal(grammar_run_new(grammar, trie, &run), STATUS_OK);
    assert_true(grammar_run_commit(run, '['));
    for (uint32_t i = 0; i < LIMIT_SCHEMA_UNIQUE_TEXTS; i++) {
        char item[16];
        int length = snprintf(item, sizeof item, "%s\"%u\"", i == 0 ? "" : ",", i);
        for (int at = 0; at < length; at++)
            assert_true(grammar_run_commit(run, (uint8_t)item[at]));
    }
    assert_false(grammar_run_commit(run, ','));
    assert_true(grammar_run_commit(run, ']'));
    assert_true(grammar_run_accepts(run));
    grammar_run_free(run);
    grammar_drop(grammar);
    token_trie_free(trie);
}

/* Texts of lists that have ended are forgotten: all lists together have more than a run holds. */
static void many_lists_have_room(void **state)
{
    (void)state;
    static const char schema[] =
        "{\"type\":\"array\",\"items\":{\"type\":\"array\",\"uniqueItems\":true,\"items\":{"
        "\"type\":\"string\"}}}";
    enum { LISTS = 40, ITEMS = 100 };
    struct token_trie *trie = kit_bytes();
    struct grammar *grammar;
    struct grammar_run *run;
    struct constraint_error error;
    char item[16];
    _Static_assert(LISTS * ITEMS > LIMIT_GRAMMAR_TEXTS, "one stack does not hold all of them");
    assert_int_equal(kit_compile(CONSTRAINT_JSON_SCHEMA, schema, &kit_loose, &grammar, &error),
                     STATUS_OK);
    assert_int_equal(grammar_run_new(grammar, trie, &run), STATUS_OK);
    assert_true(grammar_run_commit_bytes(run, SLICE("[")));
    for (int list = 0; list < LISTS; list++) {
        assert_true(grammar_run_commit_bytes(run, list == 0 ? SLICE("[") : SLICE(",[")));
        for (int i = 0; i < ITEMS; i++) {
            snprintf(item, sizeof item, "%s\"%d\"", i == 0 ? "" : ",", i * 7);
            assert_true(grammar_run_commit_bytes(run, slice_of(item)));
            assert_true(i == 0 || !grammar_run_commit_bytes(run, SLICE(",\"0\"")));
            assert_true(i < 50 || !grammar_run_commit_bytes(run, SLICE(",\"343\"")));
        }
        assert_true(grammar_run_commit_bytes(run, SLICE("]")));
    }
    assert_true(grammar_run_commit_bytes(run, SLICE("]")));
    assert_true(grammar_run_accepts(run));
    grammar_run_free(run);
    grammar_drop(grammar);
    token_trie_free(trie);
}

static void others_are_refused(void **state)
{
    (void)state;
    static const struct kit_refusal cases[] = {
        {"{\"properties\":{\"a\":{\"type\":\"array\",\"uniqueItems\":true,\"items\":{\"type\":"
         "\"integer\"}}}}",
         STATUS_UNSUPPORTED, ".properties.a.uniqueItems", "uniqueItems"},
        {"{\"type\":\"array\",\"uniqueItems\":true,\"items\":{\"enum\":[[1],2]}}",
         STATUS_UNSUPPORTED, ".uniqueItems", "uniqueItems"},
        /* At five characters the string has to end, and it might be there already. */
        {"{\"type\":\"array\",\"uniqueItems\":true,\"items\":{\"type\":\"string\",\"maxLength\":5}"
         "}",
         STATUS_UNSUPPORTED, ".uniqueItems", "uniqueItems"},
        {"{\"type\":\"array\",\"uniqueItems\":true}", STATUS_UNSUPPORTED, ".uniqueItems",
         "uniqueItems"},
        {"{\"type\":\"array\",\"uniqueItems\":true,\"minItems\":513,\"items\":{\"type\":\"string\"}"
         "}",
         STATUS_INVALID, "", ""},
        {"{\"type\":\"array\",\"uniqueItems\":true,\"items\":{\"const\":1},\"minItems\":2}",
         STATUS_INVALID, "", ""},
    };
    KIT_TRY_REFUSALS(cases);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_come_once),   cmocka_unit_test(strings_come_once),
        cmocka_unit_test(long_lists_end),     cmocka_unit_test(many_lists_have_room),
        cmocka_unit_test(others_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
