/* schema_write_object: commas between optional members, and counts. */
#include "tests/unit/schema_kit.h"

static void commas_stand_between_members(void **state)
{
    (void)state;
    static const struct kit_case cases[] = {
        {"{\"type\":\"object\",\"properties\":{\"a\":{\"const\":1},\"b\":{\"const\":2},\"c\":{"
         "\"const\":3}},\"additionalProperties\":{\"const\":4}}",
         {"{}", "{\"a\":1,\"c\":3}", "{\"c\":3,\"d\":4,\"e\":4}", "{\"d\":4}",
          "{\"a\":1,\"b\":2,\"c\":3}"},
         {"{,\"a\":1}", "{\"a\":1 \"b\":2}", "{\"d\":4,\"a\":1}", "{\"a\":1,}"}},
        {"{\"type\":\"object\",\"properties\":{\"a\":{\"const\":1},\"b\":{\"const\":2},\"c\":{"
         "\"const\":3},\"d\":{\"const\":4}},\"required\":[\"b\",\"c\"],\"additionalProperties\":"
         "false}",
         {"{\"b\":2,\"c\":3}", "{\"a\":1,\"b\":2,\"c\":3,\"d\":4}"},
         {"{\"b\":2}", "{\"a\":1,\"c\":3}"}},
    };
    KIT_TRY(cases);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(commas_stand_between_members),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
