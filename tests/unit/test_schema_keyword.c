/* schema_keyword: notes, keywords that are not known, and keywords that are refused. */
#include "tests/unit/schema_kit.h"

static void unknown_keywords_have_no_effect(void **state)
{
    (void)state;
    static const struct kit_case cases[] = {
        {"{\"type\":\"null\",\"foo\":1,\"x-bar\":2,\"title\":\"t\",\"description\":1,\"default\":5,"
         "\"examples\":[1]}",
         {"null"},
         {"1"}},
    };
    KIT_TRY(cases);
}

static void notes_have_no_effect_with_strict(void **state)
{
    (void)state;
    static const struct kit_case cases[] = {
        {"{\"type\":\"null\",\"x-bar\":2,\"title\":\"t\",\"contentEncoding\":\"base64\"}",
         {"null"},
         {"1"}},
    };
    KIT_TRY_STRICT(cases);
}

static void strict_refuses_what_is_not_known(void **state)
{
    (void)state;
    static const struct kit_refusal cases[] = {
        {"{\"foo\":1}", STATUS_UNSUPPORTED, ".foo", "foo"},
        {"{\"format\":\"foo\"}", STATUS_UNSUPPORTED, ".format", "format"},
    };
    kit_try_refusals(&kit_strict, cases, 2);
}

static void some_are_refused(void **state)
{
    (void)state;
    static const struct kit_refusal cases[] = {
        {"{\"$dynamicRef\":\"#a\"}", STATUS_UNSUPPORTED, ".$dynamicRef", "$dynamicRef"},
        {"{\"contains\":{}}", STATUS_UNSUPPORTED, ".contains", "contains"},
    };
    KIT_TRY_REFUSALS(cases);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(unknown_keywords_have_no_effect),
        cmocka_unit_test(notes_have_no_effect_with_strict),
        cmocka_unit_test(strict_refuses_what_is_not_known),
        cmocka_unit_test(some_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
