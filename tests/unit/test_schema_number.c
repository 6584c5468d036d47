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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(integers_have_bounds),
        cmocka_unit_test(decimals_have_bounds),
        cmocka_unit_test(multiples),
        cmocka_unit_test(what_is_wrong_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
