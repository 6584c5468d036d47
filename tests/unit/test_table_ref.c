#include "tests/unit/isa_table.h"

enum { NEEDS = 0 };

static void test_complete(void **state)
{
    (void)state;
    isa_table_check_complete(isa_table_find("ref", NEEDS), true);
}

static void test_every_weight_type(void **state)
{
    (void)state;
    isa_table_check_types(isa_table_find("ref", NEEDS), false);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_complete),
        cmocka_unit_test(test_every_weight_type),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
