/* schema_branch: a list that is shared by branches is not changed by one of them. */
#include "tests/unit/schema_kit.h"

static void branches_share_their_lists(void **state)
{
    (void)state;
    static const struct kit_case cases[] = {
        {"{\"type\":\"object\",\"anyOf\":[{\"properties\":{\"a\":{\"const\":1}},\"required\":["
         "\"a\"]},{\"properties\":{\"a\":{\"const\":2}},\"required\":[\"a\"]}],\"oneOf\":[{"
         "\"properties\":{\"b\":{\"const\":1}},\"required\":[\"b\"]},{\"properties\":{\"b\":{"
         "\"const\":2}},\"required\":[\"b\"]}]}",
         {"{\"a\":1,\"b\":1}", "{\"a\":1,\"b\":2}", "{\"a\":2,\"b\":1}", "{\"a\":2,\"b\":2}"},
         {"{\"a\":1}", "{\"a\":3,\"b\":1}", "{\"b\":1}"}},
    };
    KIT_TRY(cases);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(branches_share_their_lists),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
