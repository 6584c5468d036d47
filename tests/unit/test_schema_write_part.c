/* schema_write_part: scalars of several alternatives are one lexeme. */
#include "tests/unit/schema_kit.h"

static void scalars_are_joined(void **state)
{
    (void)state;
    static const struct kit_case cases[] = {
        {"{\"anyOf\":[{\"type\":\"integer\",\"maximum\":3},{\"type\":\"number\",\"minimum\":5},{"
         "\"type\":\"string\",\"maxLength\":1},{\"enum\":[\"abc\",null,true]}]}",
         {"3", "5.5", "\"a\"", "\"abc\"", "null", "true"},
         {"4", "\"ab\"", "false"}},
    };
    KIT_TRY(cases);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(scalars_are_joined),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
