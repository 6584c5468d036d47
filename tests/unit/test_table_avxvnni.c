#include "tests/unit/isa_table.h"

enum { NEEDS = CPU_FEATURE_AVX2 | CPU_FEATURE_AVX_VNNI | CPU_FEATURE_FMA | CPU_FEATURE_F16C };

static void test_complete(void **state)
{
    (void)state;
    isa_table_check_complete(isa_table_find("avxvnni", NEEDS), false);
}

static void test_every_weight_type(void **state)
{
    (void)state;
    isa_table_check_types(isa_table_find("avxvnni", NEEDS), true);
}

/* All but linear layers, and the ceiling of their products, is avx2's. */
static void test_the_rest_is_avx2(void **state)
{
    (void)state;
    const struct kernel_table *avx2 = registry_find("avx2");
    const struct kernel_table *avxvnni = registry_find("avxvnni");
    assert_int_equal(avxvnni != NULL, avx2 != NULL);
    if (avxvnni == NULL)
        return;
    struct kernel_table table = *avx2;
    table.name = avxvnni->name;
    table.needs = avxvnni->needs;
    table.input_bytes = avxvnni->input_bytes; /* inline: each file has its own */
    table.linear = avxvnni->linear;
    table.spin_int8 = avxvnni->spin_int8;
    assert_memory_equal(&table, avxvnni, sizeof table);
    assert_int_equal(avxvnni->needs, avx2->needs | CPU_FEATURE_AVX_VNNI);
    assert_true(avxvnni->linear != avx2->linear);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_complete),
        cmocka_unit_test(test_every_weight_type),
        cmocka_unit_test(test_the_rest_is_avx2),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
