/* schema_unique: which values may come once. */
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

static void others_are_refused(void **state)
{
    (void)state;
    static const struct kit_refusal cases[] = {
        {"{\"properties\":{\"a\":{\"type\":\"array\",\"uniqueItems\":true,\"items\":{\"type\":"
         "\"string\"}}}}",
         STATUS_UNSUPPORTED, ".properties.a.uniqueItems", "uniqueItems"},
        {"{\"type\":\"array\",\"uniqueItems\":true,\"items\":{\"enum\":[[1],2]}}",
         STATUS_UNSUPPORTED, ".uniqueItems", "uniqueItems"},
        {"{\"type\":\"array\",\"uniqueItems\":true,\"items\":{\"const\":1},\"minItems\":2}",
         STATUS_INVALID, "", ""},
    };
    KIT_TRY_REFUSALS(cases);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_come_once),
        cmocka_unit_test(others_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
