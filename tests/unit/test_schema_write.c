/* schema_write: alternatives of a value, each of which is written. */
#include "tests/unit/schema_kit.h"

static void alternatives_are_written(void **state)
{
    (void)state;
    static const struct kit_case cases[] = {
        {"{\"anyOf\":[{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"null\"}},\"required\":"
         "[\"a\"],\"additionalProperties\":false},{\"type\":\"array\",\"items\":{\"type\":\"null\"}"
         "},{\"type\":\"string\"},{\"const\":5}]}",
         {"{\"a\":null}", "[null]", "\"x\"", "5"},
         {"{}", "6", "[1]"}},
    };
    KIT_TRY(cases);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(alternatives_are_written),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
