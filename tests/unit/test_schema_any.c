/* schema_any: values that are left open end at a depth. */
#include "tests/unit/schema_kit.h"

static void any_value(void **state)
{
    (void)state;
    static const struct kit_case cases[] = {
        {"{}",
         {"1", "\"x\"", "null", "{\"a\":[1,{\"b\":false}],\"\":-1.5e3}", "[]", "[[],{}]"},
         {"", "{\"a\"}", "[1,]", "nul", "\"\\x\""}},
        {"{\"type\":\"array\"}", {"[1,\"x\"]"}, {"{}"}},
        {"{\"type\":\"object\"}", {"{\"x\":[]}"}, {"[]"}},
    };
    KIT_TRY(cases);
}

static void depth_is_bounded(void **state)
{
    (void)state;
    struct token_trie *trie = kit_bytes();
    struct constraint_error error;
    struct grammar *grammar;
    assert_int_equal(kit_compile(CONSTRAINT_JSON_OBJECT, "", &kit_loose, &grammar, &error),
                     STATUS_OK);
    for (int depth = 31; depth <= 34; depth++) {
        struct buffer text;
        buffer_init(&text, 1024);
        for (int i = 0; i < depth; i++)
            buffer_append_text(&text, i == 0 ? "{\"a\":" : "[");
        buffer_append_text(&text, "1");
        for (int i = 0; i < depth; i++)
            buffer_append_text(&text, i == depth - 1 ? "}" : "]");
        assert_int_equal(kit_accepts(grammar, trie, text.bytes), depth <= 32);
        buffer_deinit(&text);
    }
    assert_false(kit_accepts(grammar, trie, "[]"));
    grammar_drop(grammar);
    token_trie_free(trie);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_value),
        cmocka_unit_test(depth_is_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
