/* schema_value: enum and const of each type, and their contraries. */
#include "tests/unit/schema_kit.h"

static void an_enum_may_have_all_types(void **state)
{
    (void)state;
    static const struct kit_case cases[] = {
        {"{\"enum\":[\"a\",1,null,true,[1,{\"b\":2}]]}",
         {"\"a\"", "1", "null", "true", "[1, {\"b\": 2}]"},
         {"\"b\"", "2", "false", "[1]", "[1,{}]"}},
        {"{\"const\":{\"a\":[],\"b\":\"\\u0001\\\"\"}}",
         {"{\"a\":[],\"b\":\"\\u0001\\\"\"}"},
         {"{}", "{\"a\":[]}", "{\"a\":[],\"b\":\"\"}"}},
        {"{\"type\":\"string\",\"enum\":[\"x\",1]}", {"\"x\""}, {"1"}},
        {"{\"type\":\"integer\",\"enum\":[1.0,2]}", {"1", "2"}, {"3"}},
    };
    KIT_TRY(cases);
}

static void what_a_value_must_not_equal(void **state)
{
    (void)state;
    static const struct kit_case cases[] = {
        {"{\"not\":{\"enum\":[\"a\",1,null]},\"type\":[\"string\",\"integer\",\"null\"]}",
         {"\"b\"", "2"},
         {"\"a\"", "1", "null"}},
        {"{\"not\":{\"const\":1},\"type\":\"number\"}", {"2", "1.5"}, {"1", "1.0"}},
        {"{\"not\":{\"const\":{\"a\":1}},\"type\":\"object\",\"properties\":{\"a\":{\"type\":"
         "\"integer\"},\"b\":{\"type\":\"null\"}},\"additionalProperties\":false}",
         {"{}", "{\"a\":2}", "{\"a\":1,\"b\":null}"},
         {"{\"a\":1}"}},
        {"{\"not\":{\"const\":[1]},\"type\":\"array\",\"items\":{\"type\":\"integer\"}}",
         {"[]", "[2]", "[1,1]"},
         {"[1]"}},
    };
    KIT_TRY(cases);
}

static void what_is_wrong_is_named(void **state)
{
    (void)state;
    static const struct kit_refusal cases[] = {
        {"{\"enum\":[]}", STATUS_INVALID, "", ""},
        {"{\"enum\":1}", STATUS_INVALID, ".enum", "enum"},
        {"{\"type\":\"string\",\"enum\":[1,2]}", STATUS_INVALID, "", ""},
    };
    KIT_TRY_REFUSALS(cases);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_enum_may_have_all_types),
        cmocka_unit_test(what_a_value_must_not_equal),
        cmocka_unit_test(what_is_wrong_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
