/* schema_members: schemas that speak of the same names, and which members are left out. */
#include "tests/unit/schema_kit.h"

static void schemas_are_merged_by_name(void **state)
{
    (void)state;
    static const struct kit_case cases[] = {
        {"{\"type\":\"object\",\"properties\":{\"a\":{\"minimum\":3}},\"allOf\":[{\"properties\":{"
         "\"a\":{\"type\":\"integer\"},\"b\":{\"type\":\"null\"}}},{\"additionalProperties\":{"
         "\"type\":[\"integer\",\"null\"]}}]}",
         {"{\"a\":3}", "{\"a\":3,\"b\":null,\"c\":1}"},
         {"{\"a\":2}", "{\"a\":null}", "{\"c\":\"x\"}"}},
        {"{\"type\":\"object\",\"allOf\":[{\"properties\":{\"a\":{}},\"additionalProperties\":"
         "false},{\"properties\":{\"b\":{}}}],\"required\":[\"a\"]}",
         {"{\"a\":1}"},
         {"{\"a\":1,\"b\":1}", "{\"b\":1}"}},
    };
    KIT_TRY(cases);
}

static void strict_closes_objects_with_properties(void **state)
{
    (void)state;
    static const struct kit_case cases[] = {
        {"{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"null\"}}}",
         {"{}", "{\"a\":null}"},
         {"{\"b\":1}"}},
        {"{\"type\":\"object\"}", {"{}", "{\"b\":1}"}, {"[]"}},
        {"{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"null\"}},\"additionalProperties\":"
         "{\"type\":\"null\"}}",
         {"{\"b\":null}"},
         {"{\"b\":1}"}},
    };
    KIT_TRY_STRICT(cases);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(schemas_are_merged_by_name),
        cmocka_unit_test(strict_closes_objects_with_properties),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
