#include "tests/unit/isa_table.h"

enum { NEEDS = CPU_FEATURE_AVX2 | CPU_FEATURE_FMA | CPU_FEATURE_F16C };

static void test_complete(void **state)
{
    (void)state;
    isa_table_check_complete(isa_table_find("avx2", NEEDS), false);
}

static void test_every_weight_type(void **state)
{
    (void)state;
    isa_table_check_types(isa_table_find("avx2", NEEDS), true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_complete),
        cmocka_unit_test(test_every_weight_type),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
