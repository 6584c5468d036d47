/* schema_number: bounds, exclusive ones, multiples, and their contraries. */
#include "tests/unit/schema_kit.h"

static void integers_have_bounds(void **state)
{
    (void)state;
    static const struct kit_case cases[] = {
        {"{\"type\":\"integer\",\"minimum\":-3,\"maximum\":12}",
         {"-3", "-1", "0", "9", "10", "12"},
         {"-4", "13", "1.0", "1e1", "01", "-0"}},
        {"{\"type\":\"integer\",\"exclusiveMinimum\":9,\"exclusiveMaximum\":100}",
         {"10", "99"},
         {"9", "100"}},
        {"{\"type\":\"integer\",\"minimum\":5,\"exclusiveMinimum\":true}", {"6"}, {"5"}},
        {"{\"type\":\"integer\",\"minimum\":1.5}", {"2"}, {"1"}},
    };
    KIT_TRY(cases);
}

static void decimals_have_bounds(void **state)
{
    (void)state;
    static const struct kit_case cases[] = {
        {"{\"type\":\"number\",\"minimum\":0.25,\"maximum\":1.5}",
         {"0.25", "0.3", "1", "1.5", "1.50", "0.250"},
         {"0.24", "1.51", "2", "-1"}},
        {"{\"type\":\"number\",\"exclusiveMinimum\":0}",
         {"0.1", "1", "0.00000000000000001"},
         {"0", "0.0", "-1", "-0"}},
        {"{\"type\":\"number\",\"maximum\":-1.5}", {"-1.5", "-2", "-10.25"}, {"-1.4", "1", "0"}},
        {"{\"type\":\"number\"}", {"1", "-2.5e10", "0.5E-3"}, {"01", ".5", "1.", "--1"}},
        {"{\"type\":\"number\",\"not\":{\"minimum\":3}}", {"2.9", "-5"}, {"3", "3.1"}},
        {"{\"type\":\"number\",\"not\":{\"type\":\"integer\"}}", {"1.5"}, {"1", "1.0"}},
    };
    KIT_TRY(cases);
}

static void multiples(void **state)
{
    (void)state;
    static const struct kit_case cases[] = {
        {"{\"type\":\"integer\",\"multipleOf\":7}", {"0", "7", "-14", "700"}, {"1", "8"}},
        {"{\"type\":\"number\",\"multipleOf\":0.01}",
         {"1", "1.5", "0.25", "3.10", "2.000"},
         {"0.001", "1.255"}},
        {"{\"type\":\"number\",\"multipleOf\":0.25}",
         {"0.25", "0.5", "1.75", "3", "-2.5"},
         {"0.3", "1.1"}},
        {"{\"type\":\"integer\",\"not\":{\"multipleOf\":2}}", {"1", "3"}, {"2", "0"}},
        {"{\"type\":\"number\",\"not\":{\"multipleOf\":2}}",
         {"1", "-3"},
         {"0", "-0", "-0.0", "-2"}},
    };
    KIT_TRY(cases);
}

static void what_is_wrong_is_named(void **state)
{
    (void)state;
    static const struct kit_refusal cases[] = {
        {"{\"type\":\"integer\",\"minimum\":3,\"maximum\":2}", STATUS_INVALID, "", ""},
        {"{\"type\":\"integer\",\"minimum\":0.2,\"maximum\":0.8}", STATUS_INVALID, "", ""},
        {"{\"multipleOf\":0}", STATUS_INVALID, ".multipleOf", "multipleOf"},
        {"{\"minimum\":\"1\"}", STATUS_INVALID, ".minimum", "minimum"},
        {"{\"items\":{\"multipleOf\":0.123456789012}}", STATUS_UNSUPPORTED, ".items.multipleOf",
         "multipleOf"},
    };
    KIT_TRY_REFUSALS(cases);
}

/* A text that can no longer become such a number is refused at once. If it were not, an answer
 * would come to a place where nothing is allowed. */
static void dead_ends_are_seen(void **state)
{
    (void)state;
    static const struct {
        const char *schema;
        const char *text;
        size_t taken; /* bytes of the text that are allowed */
    } cases[] = {
        {"{\"type\":\"integer\",\"multipleOf\":5,\"minimum\":0,\"maximum\":100}", "-", 0},
        {"{\"type\":\"integer\",\"multipleOf\":5,\"minimum\":0,\"maximum\":100}", "101", 2},
        {"{\"type\":\"integer\",\"multipleOf\":15,\"maximum\":1000}", "1001", 2},
        {"{\"type\":\"integer\",\"multipleOf\":15,\"maximum\":1000}", "9999", 2},
        {"{\"multipleOf\":7,\"maximum\":12}", "15", 0},
        {"{\"multipleOf\":0.25,\"maximum\":2,\"exclusiveMinimum\":0}", "-", 0},
        {"{\"multipleOf\":0.25,\"maximum\":2,\"exclusiveMinimum\":0}", "2.01", 3},
        {"{\"multipleOf\":0.01,\"minimum\":0,\"maximum\":1000}", "1000.01", 6},
        {"{\"multipleOf\":0.01,\"minimum\":0,\"maximum\":1000}", "0.001", 4},
    };
    struct token_trie *trie = kit_bytes();
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct grammar *grammar;
        struct grammar_run *run;
        struct constraint_error error;
        size_t taken = 0;
        assert_int_equal(
            kit_compile(CONSTRAINT_JSON_SCHEMA, cases[i].schema, &kit_loose, &grammar, &error),
            STATUS_OK);
        assert_int_equal(grammar_run_new(grammar, trie, &run), STATUS_OK);
        while (cases[i].text[taken] != '\0' &&
               grammar_run_commit(run, (uint8_t)cases[i].text[taken]))
            taken++;
        if (taken != cases[i].taken)
            fail_msg("%s takes %zu bytes of %s", cases[i].schema, taken, cases[i].text);
        grammar_run_free(run);
        grammar_drop(grammar);
    }
    token_trie_free(trie);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(integers_have_bounds),
        cmocka_unit_test(decimals_have_bounds),
        cmocka_unit_test(multiples),
        cmocka_unit_test(dead_ends_are_seen),
        cmocka_unit_test(what_is_wrong_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
