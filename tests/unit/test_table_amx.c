#include "tests/unit/isa_table.h"

enum {
    NEEDS = CPU_FEATURE_AVX512 | CPU_FEATURE_AVX512_VNNI | CPU_FEATURE_FMA | CPU_FEATURE_F16C |
            CPU_FEATURE_AMX_INT8
};

static void test_complete(void **state)
{
    (void)state;
    isa_table_check_complete(isa_table_find("amx", NEEDS), false);
}

static void test_every_weight_type(void **state)
{
    (void)state;
    isa_table_check_types(isa_table_find("amx", NEEDS), true);
}

/* All but linear layers, and the ceiling of their products, is avx512's. */
static void test_the_rest_is_avx512(void **state)
{
    (void)state;
    const struct kernel_table *avx512 = registry_find("avx512");
    const struct kernel_table *amx = registry_find("amx");
    assert_int_equal(amx != NULL, avx512 != NULL);
    if (amx == NULL)
        return;
    struct kernel_table table = *avx512;
    table.name = amx->name;
    table.needs = amx->needs;
    table.input_bytes = amx->input_bytes; /* inline: each file has its own */
    table.linear = amx->linear;
    table.spin_int8 = amx->spin_int8;
    assert_memory_equal(&table, amx, sizeof table);
    assert_int_equal(amx->needs, avx512->needs | CPU_FEATURE_AMX_INT8);
    assert_true(amx->linear != avx512->linear);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_complete),
        cmocka_unit_test(test_every_weight_type),
        cmocka_unit_test(test_the_rest_is_avx512),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
