/* constraint: each kind of source, fuel and cancellation. */
#include <stdatomic.h>

#include "tests/unit/schema_kit.h"

static void a_regex_is_for_the_whole_answer(void **state)
{
    (void)state;
    struct token_trie *trie = kit_bytes();
    struct constraint_error error;
    struct grammar *grammar;
    assert_int_equal(kit_compile(CONSTRAINT_REGEX, "ab+", &kit_loose, &grammar, &error), STATUS_OK);
    assert_true(kit_accepts(grammar, trie, "abb"));
    assert_false(kit_accepts(grammar, trie, "xabb"));
    grammar_drop(grammar);
    assert_int_equal(kit_compile(CONSTRAINT_REGEX, "(", &kit_loose, &grammar, &error),
                     STATUS_INVALID);
    assert_null(grammar);
    assert_int_not_equal(error.message[0], '\0');
    token_trie_free(trie);
}

static void a_choice_and_a_lark_grammar(void **state)
{
    (void)state;
    static const struct {
        enum constraint_kind kind;
        const char *source;
        const char *accepted;
        const char *refused;
        const char *broken;
        const char *path; /* of the broken one */
    } cases[] = {
        {CONSTRAINT_CHOICE, "[\"yes\", \"no\"]", "no", "nos", "[1]", ""},
        {CONSTRAINT_LARK, "start: \"a\" b\nb: \"x\" | \"y\"\n", "ay", "a", "start: \"a\" c\n",
         "line 1"},
    };
    struct token_trie *trie = kit_bytes();
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct constraint_error error;
        struct grammar *grammar;
        assert_int_equal(kit_compile(cases[i].kind, cases[i].source, &kit_loose, &grammar, &error),
                         STATUS_OK);
        assert_true(kit_accepts(grammar, trie, cases[i].accepted));
        assert_false(kit_accepts(grammar, trie, cases[i].refused));
        grammar_drop(grammar);
        assert_int_equal(kit_compile(cases[i].kind, cases[i].broken, &kit_loose, &grammar, &error),
                         STATUS_INVALID);
        assert_int_not_equal(error.message[0], '\0');
        assert_string_equal(error.path, cases[i].path);
    }
    token_trie_free(trie);
}

static void fuel_and_cancellation_end_a_compilation(void **state)
{
    (void)state;
    const struct constraint_options options = {0};
    struct constraint_error error;
    struct grammar *grammar;
    struct grammar_fuel fuel;
    atomic_bool cancel = true;
    grammar_fuel_init(&fuel, 100, NULL);
    assert_int_equal(
        constraint_compile(CONSTRAINT_JSON_OBJECT, SLICE(""), &options, &fuel, &grammar, &error),
        STATUS_LIMIT);
    assert_null(grammar);
    grammar_fuel_init(&fuel, LIMIT_COMPILE_STEPS, &cancel);
    assert_int_equal(
        constraint_compile(CONSTRAINT_JSON_OBJECT, SLICE(""), &options, &fuel, &grammar, &error),
        STATUS_CANCELLED);
    assert_string_equal(error.message, "The compilation was cancelled.");
}

static void a_text_that_no_token_can_write_is_refused(void **state)
{
    (void)state;
    struct constraint_options options = {0};
    struct constraint_error error;
    struct grammar *grammar;
    options.missing_bytes['x' / 64] |= UINT64_C(1) << ('x' % 64);
    assert_int_equal(
        kit_compile(CONSTRAINT_JSON_SCHEMA, "{\"const\":\"x\"}", &options, &grammar, &error),
        STATUS_INVALID);
    assert_int_equal(
        kit_compile(CONSTRAINT_JSON_SCHEMA, "{\"const\":\"y\"}", &options, &grammar, &error),
        STATUS_OK);
    grammar_drop(grammar);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_regex_is_for_the_whole_answer),
        cmocka_unit_test(a_choice_and_a_lark_grammar),
        cmocka_unit_test(fuel_and_cancellation_end_a_compilation),
        cmocka_unit_test(a_text_that_no_token_can_write_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
