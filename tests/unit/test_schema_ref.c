/* schema_ref: references by pointer, anchor and URI, recursion, and those that leave the text. */
#include "tests/unit/schema_kit.h"

static void references_are_found(void **state)
{
    (void)state;
    static const struct kit_case cases[] = {
        {"{\"$ref\":\"#/$defs/a~1b\",\"$defs\":{\"a/b\":{\"type\":\"integer\"}}}",
         {"1"},
         {"\"x\""}},
        {"{\"items\":{\"$ref\":\"#x\"},\"type\":\"array\",\"$defs\":{\"a\":{\"$anchor\":\"x\","
         "\"type\":\"null\"}}}",
         {"[null]"},
         {"[1]"}},
        {"{\"$id\":\"http://h/a/root.json\",\"items\":{\"$ref\":\"other.json#/$defs/"
         "q\"},\"type\":\"array\",\"$defs\":{\"o\":{\"$id\":\"http://h/a/"
         "other.json\",\"$defs\":{\"q\":{\"type\":\"null\"}}}}}",
         {"[null]"},
         {"[1]"}},
        {"{\"$id\":\"http://h/a/b/root.json\",\"$ref\":\"../x.json\",\"$defs\":{\"o\":{\"$id\":\"/"
         "a/x.json\",\"type\":\"null\"}}}",
         {"null"},
         {"1"}},
        {"{\"$ref\":\"#/%24defs/a%25b\",\"$defs\":{\"a%b\":{\"const\":1}}}", {"1"}, {"2"}},
        {"{\"type\":\"array\",\"prefixItems\":[{\"type\":\"null\"},{\"$ref\":\"#/prefixItems/"
         "0\"}],\"items\":false}",
         {"[null,null]"},
         {"[null,1]"}},
    };
    KIT_TRY(cases);
}

static void recursion_ends(void **state)
{
    (void)state;
    static const struct kit_case cases[] = {
        {"{\"type\":\"object\",\"properties\":{\"v\":{\"type\":\"integer\"},\"next\":{\"$ref\":\"#"
         "\"}},\"required\":[\"v\"],\"additionalProperties\":false}",
         {"{\"v\":1}", "{\"v\":1,\"next\":{\"v\":2,\"next\":{\"v\":3}}}"},
         {"{\"v\":1,\"next\":{}}"}},
        {"{\"$ref\":\"#\"}", {"1", "{}"}, {""}},
        {"{\"$defs\":{\"t\":{\"type\":\"array\",\"items\":{\"$ref\":\"#/$defs/t\"}}},\"$ref\":\"#/"
         "$defs/t\",\"maxItems\":1}",
         {"[]", "[[[],[]]]"},
         {"[[],[]]", "[1]"}},
    };
    KIT_TRY(cases);
}

static void what_is_wrong_is_named(void **state)
{
    (void)state;
    static const struct kit_refusal cases[] = {
        {"{\"$ref\":\"http://elsewhere/x.json\"}", STATUS_UNSUPPORTED, ".$ref", "$ref"},
        {"{\"items\":{\"$ref\":\"#/nowhere\"}}", STATUS_INVALID, ".items.$ref", "$ref"},
        {"{\"$ref\":3}", STATUS_INVALID, ".$ref", "$ref"},
    };
    KIT_TRY_REFUSALS(cases);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(references_are_found),
        cmocka_unit_test(recursion_ends),
        cmocka_unit_test(what_is_wrong_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
