/* schema_reach: schemas without an end, and members that no value matches. */
#include "tests/unit/schema_kit.h"

static void what_cannot_end_is_left_out(void **state)
{
    (void)state;
    static const struct kit_case cases[] = {
        {"{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"null\"},\"b\":{\"$ref\":\"#/$defs/"
         "n\"}},\"additionalProperties\":false,\"$defs\":{\"n\":{\"type\":\"object\","
         "\"properties\":{\"n\":{\"$ref\":\"#/$defs/n\"}},\"required\":[\"n\"]}}}",
         {"{}", "{\"a\":null}"},
         {"{\"b\":{}}"}},
        {"{\"type\":\"array\",\"items\":{\"$ref\":\"#/$defs/"
         "n\"},\"$defs\":{\"n\":{\"type\":\"array\",\"items\":{\"$ref\":\"#/$defs/"
         "n\"},\"minItems\":1}}}",
         {"[]"},
         {"[[]]"}},
    };
    KIT_TRY(cases);
}

static void an_endless_schema_is_refused(void **state)
{
    (void)state;
    static const struct kit_refusal cases[] = {
        {"{\"type\":\"object\",\"properties\":{\"n\":{\"$ref\":\"#\"}},\"required\":[\"n\"]}",
         STATUS_INVALID, "", ""},
    };
    KIT_TRY_REFUSALS(cases);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_cannot_end_is_left_out),
        cmocka_unit_test(an_endless_schema_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
