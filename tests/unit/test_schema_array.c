/* schema_array: items by place, counts, and what they must not be. */
#include "tests/unit/schema_kit.h"

static void items_and_counts(void **state)
{
    (void)state;
    static const struct kit_case cases[] = {
        {"{\"type\":\"array\",\"items\":{\"type\":\"integer\"},\"minItems\":1,\"maxItems\":3}",
         {"[1]", "[1,2,3]", "[1, 2]", "[\n  1\n]"},
         {"[]", "[1,2,3,4]", "[\"x\"]", "[1,]", "[1 2]"}},
        {"{\"type\":\"array\",\"prefixItems\":[{\"type\":\"integer\"},{\"type\":\"null\"}],"
         "\"items\":false}",
         {"[]", "[1]", "[1,null]"},
         {"[null]", "[1,null,1]"}},
        {"{\"type\":\"array\",\"items\":[{\"type\":\"integer\"}],\"additionalItems\":{\"type\":"
         "\"null\"}}",
         {"[]", "[1]", "[1,null,null]"},
         {"[1,1]"}},
        {"{\"type\":\"array\",\"prefixItems\":[{\"type\":\"integer\"}],\"minItems\":2,\"items\":{"
         "\"type\":\"null\"},\"maxItems\":3}",
         {"[1,null]", "[1,null,null]"},
         {"[1]", "[1,null,null,null]"}},
        {"{\"type\":\"array\",\"maxItems\":0}", {"[]", "[ ]"}, {"[1]"}},
    };
    KIT_TRY(cases);
}

static void what_items_must_not_be(void **state)
{
    (void)state;
    static const struct kit_case cases[] = {
        {"{\"type\":\"array\",\"items\":{\"enum\":[1,2]},\"not\":{\"items\":{\"const\":1}}}",
         {"[2]", "[1,2]", "[2,1]", "[1,2,1]"},
         {"[]", "[1]", "[1,1]"}},
        {"{\"type\":\"array\",\"items\":{\"enum\":[1,2]},\"not\":{\"prefixItems\":[{\"const\":1},{"
         "\"const\":1}]}}",
         {"[2]", "[1,2]"},
         {"[]", "[1]", "[1,1]"}},
        {"{\"type\":\"array\",\"items\":{\"type\":\"null\"},\"not\":{\"minItems\":2}}",
         {"[]", "[null]"},
         {"[null,null]"}},
        {"{\"type\":\"array\",\"items\":{\"type\":\"null\"},\"not\":{\"maxItems\":1}}",
         {"[null,null]"},
         {"[]", "[null]"}},
    };
    KIT_TRY(cases);
}

static void what_is_wrong_is_named(void **state)
{
    (void)state;
    static const struct kit_refusal cases[] = {
        {"{\"type\":\"array\",\"minItems\":2,\"maxItems\":1}", STATUS_INVALID, "", ""},
        {"{\"type\":\"array\",\"items\":false,\"minItems\":1}", STATUS_INVALID, "", ""},
        {"{\"prefixItems\":{}}", STATUS_INVALID, ".prefixItems", "prefixItems"},
        {"{\"allOf\":[{}],\"unevaluatedItems\":false}", STATUS_UNSUPPORTED, ".unevaluatedItems",
         "unevaluatedItems"},
    };
    KIT_TRY_REFUSALS(cases);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(items_and_counts),
        cmocka_unit_test(what_items_must_not_be),
        cmocka_unit_test(what_is_wrong_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
