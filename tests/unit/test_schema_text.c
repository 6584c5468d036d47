/* schema_text: white space, escapes, and names in their one spelling. */
#include "tests/unit/schema_kit.h"

static void white_space_is_bounded(void **state)
{
    (void)state;
    static const struct kit_case cases[] = {
        {"{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"array\",\"items\":{\"type\":"
         "\"integer\"}}},\"additionalProperties\":false}",
         {"{\"a\":[1,2]}", "{ \"a\" : [ 1 , 2 ] }", "{\n\t\"a\": [\r\n  1\n]}"},
         {" {}", "{} ", "{  \"a\":[]}", "{\"a\":[1,\n\n2]}"}},
    };
    KIT_TRY(cases);
}

static void strings_have_one_spelling(void **state)
{
    (void)state;
    static const struct kit_case cases[] = {
        {"{\"type\":\"string\"}",
         {"\"\\u0001\\u001F\\u001f\"", "\"é€😀/\"", "\"\\b\\f\\n\\r\\t\\\"\\\\\""},
         {"\"\\u0041\"", "\"\\/\"", "\"\n\"", "\"\\u000a\"", "\"\\x\""}},
        {"{\"type\":\"object\",\"properties\":{\"a\\\"b\":{\"type\":\"null\"}},"
         "\"additionalProperties\":{\"type\":\"integer\"}}",
         {"{\"a\\\"b\":null}", "{\"c\":1}"},
         {"{\"a\\\"b\":1}"}},
    };
    KIT_TRY(cases);
}

static void white_space_can_be_forbidden(void **state)
{
    (void)state;
    static const struct constraint_options options = {.disable_any_whitespace = true};
    static const struct kit_case cases[] = {{"{\"type\":\"array\"}", {"[1,2]"}, {"[1, 2]", "[ ]"}}};
    kit_try(&options, cases, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(white_space_is_bounded),
        cmocka_unit_test(strings_have_one_spelling),
        cmocka_unit_test(white_space_can_be_forbidden),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
