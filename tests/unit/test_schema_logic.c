/* schema_logic: types, references, allOf, anyOf, oneOf, not, if and dependencies. */
#include "tests/unit/schema_kit.h"

static void all_any_and_not(void **state)
{
    (void)state;
    static const struct kit_case cases[] = {
        {"{\"allOf\":[{\"minimum\":3},{\"maximum\":5},{\"type\":\"integer\"}]}",
         {"3", "5"},
         {"2", "6"}},
        {"{\"anyOf\":[{\"type\":\"string\"},{\"type\":\"integer\",\"minimum\":5}]}",
         {"\"x\"", "5"},
         {"4", "null"}},
        {"{\"not\":{\"type\":[\"object\",\"array\"]}}", {"1", "\"x\"", "null"}, {"{}", "[]"}},
        {"{\"not\":{\"anyOf\":[{\"type\":\"string\"},{\"minimum\":3}]},\"type\":[\"string\","
         "\"integer\"]}",
         {"2"},
         {"3", "\"x\""}},
        {"{\"not\":{\"allOf\":[{\"minimum\":2},{\"maximum\":4}]},\"type\":\"integer\"}",
         {"1", "5"},
         {"2", "3", "4"}},
        {"{\"not\":{\"not\":{\"type\":\"null\"}}}", {"null"}, {"1"}},
    };
    KIT_TRY(cases);
}

static void one_of_overlapping_schemas(void **state)
{
    (void)state;
    static const struct kit_case cases[] = {
        {"{\"oneOf\":[{\"type\":\"integer\"},{\"type\":\"number\",\"minimum\":3}]}",
         {"1", "3.5"},
         {"3", "4"}},
        {"{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"integer\"},\"b\":{\"type\":"
         "\"integer\"}},\"additionalProperties\":false,\"oneOf\":[{\"required\":[\"a\"]},{"
         "\"required\":[\"b\"]}]}",
         {"{\"a\":1}", "{\"b\":1}"},
         {"{}", "{\"a\":1,\"b\":2}"}},
        {"{\"oneOf\":[{\"properties\":{\"k\":{\"const\":\"a\"},\"x\":{\"type\":\"integer\"}},"
         "\"required\":[\"k\",\"x\"],\"additionalProperties\":false,\"type\":\"object\"},{"
         "\"properties\":{\"k\":{\"const\":\"b\"}},\"required\":[\"k\"],\"additionalProperties\":"
         "false,\"type\":\"object\"}]}",
         {"{\"k\":\"a\",\"x\":1}", "{\"k\":\"b\"}"},
         {"{\"k\":\"a\"}", "{\"k\":\"b\",\"x\":1}", "{\"k\":\"c\"}"}},
        {"{\"type\":\"string\",\"oneOf\":[{\"format\":\"date\"},{\"pattern\":\"^x\"}]}",
         {"\"2024-01-01\"", "\"xy\""},
         {"\"y\""}},
        {"{\"not\":{\"oneOf\":[{\"type\":\"integer\"},{\"minimum\":3}]},\"type\":[\"integer\","
         "\"string\"]}",
         {"3"},
         {"1", "\"x\""}},
    };
    KIT_TRY(cases);
}

static void if_and_dependencies(void **state)
{
    (void)state;
    static const struct kit_case cases[] = {
        {"{\"type\":\"object\",\"properties\":{\"k\":{\"enum\":[\"a\",\"b\"]},\"x\":{\"type\":"
         "\"integer\"}},\"required\":[\"k\"],\"additionalProperties\":false,\"if\":{\"properties\":"
         "{\"k\":{\"const\":\"a\"}}},\"then\":{\"required\":[\"x\"]},\"else\":{\"not\":{"
         "\"required\":[\"x\"]}}}",
         {"{\"k\":\"a\",\"x\":1}", "{\"k\":\"b\"}"},
         {"{\"k\":\"a\"}", "{\"k\":\"b\",\"x\":1}"}},
        {"{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"null\"},\"b\":{\"type\":\"null\"}}"
         ",\"additionalProperties\":false,\"dependencies\":{\"a\":[\"b\"]}}",
         {"{}", "{\"b\":null}", "{\"a\":null,\"b\":null}"},
         {"{\"a\":null}"}},
        {"{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"null\"},\"b\":{\"enum\":[1,null]}}"
         ",\"additionalProperties\":false,\"dependentSchemas\":{\"a\":{\"properties\":{\"b\":{"
         "\"const\":1}}}}}",
         {"{\"a\":null,\"b\":1}", "{\"b\":null}"},
         {"{\"a\":null,\"b\":null}"}},
        {"{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"null\"},\"b\":{\"type\":\"null\"}}"
         ",\"additionalProperties\":false,\"not\":{\"dependentRequired\":{\"a\":[\"b\"]}}}",
         {"{\"a\":null}"},
         {"{}", "{\"a\":null,\"b\":null}"}},
        {"{\"not\":{\"if\":{\"type\":\"integer\"},\"then\":{\"minimum\":3},\"else\":false},"
         "\"type\":[\"integer\",\"null\"]}",
         {"2", "null"},
         {"3"}},
    };
    KIT_TRY(cases);
}

static void what_is_wrong_is_named(void **state)
{
    (void)state;
    static const struct kit_refusal cases[] = {
        {"{\"type\":\"strin\"}", STATUS_INVALID, ".type", "type"},
        {"{\"anyOf\":[]}", STATUS_INVALID, ".anyOf", "anyOf"},
        {"{\"properties\":{\"a\":3}}", STATUS_INVALID, ".properties.a", "a"},
        {"{\"items\":{\"contains\":{}}}", STATUS_UNSUPPORTED, ".items.contains", "contains"},
        {"{\"allOf\":[{\"type\":\"string\"},{\"type\":\"null\"}]}", STATUS_INVALID, "", ""},
    };
    KIT_TRY_REFUSALS(cases);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_any_and_not),
        cmocka_unit_test(one_of_overlapping_schemas),
        cmocka_unit_test(if_and_dependencies),
        cmocka_unit_test(what_is_wrong_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
