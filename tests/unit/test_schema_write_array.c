/* schema_write_array: counts, places and the marks between items. */
#include "tests/unit/schema_kit.h"

static void counts_are_kept(void **state)
{
    (void)state;
    static const struct kit_case cases[] = {
        {"{\"type\":\"array\",\"items\":{\"type\":\"null\"},\"minItems\":2,\"maxItems\":4}",
         {"[null,null]", "[null,null,null,null]"},
         {"[null]", "[null,null,null,null,null]"}},
        {"{\"type\":\"array\",\"prefixItems\":[{\"const\":1},{\"const\":2}],\"items\":{\"const\":3}"
         ",\"minItems\":1,\"maxItems\":3}",
         {"[1]", "[1,2]", "[1,2,3]"},
         {"[]", "[2]", "[1,3]", "[1,2,3,3]"}},
    };
    KIT_TRY(cases);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(counts_are_kept),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
