/* No hole in the table, and the factors that the framework relies on. */
#include "kernels/registry.h"

#include "kernels/cpu/cpu_features.h"
#include "tests/unit/kernels_kit.h"

static void test_complete(void **state)
{
    (void)state;
    const struct kernel_table *table = registry_find("avx2");
    if (table == NULL)
        return; /* a build for another architecture */
    /* What its files are compiled with: it must be chosen nowhere else. */
    assert_int_equal(table->needs, CPU_FEATURE_AVX2 | CPU_FEATURE_FMA | CPU_FEATURE_F16C);
    assert_non_null(table->weight_bytes);
    assert_non_null(table->weight_pack);
    assert_non_null(table->weight_row);
    assert_non_null(table->input_wanted);
    assert_non_null(table->input_bytes);
    assert_non_null(table->input_units);
    assert_non_null(table->input_pack);
    assert_non_null(table->linear);
    assert_non_null(table->attention);
    assert_non_null(table->rmsnorm);
    assert_non_null(table->rope);
    assert_non_null(table->silu_mul);
    assert_non_null(table->kv_write);
    assert_non_null(table->copy);
    assert_non_null(table->logits_stats);
    assert_non_null(table->spin_int8);
    assert_non_null(table->spin_f32);
    assert_non_null(table->read);
    assert_int_equal(table->has_f32_kv, false);
}

/* Every weight type has a path in every table. */
static void test_every_weight_type(void **state)
{
    (void)state;
    const struct kernel_table *table = registry_find("avx2");
    if (table == NULL)
        return; /* a build for another architecture */
    for (size_t i = 0; i < KIT_TYPES; i++) {
        const struct tensor_type_info *type = tensor_type_info(kit_types[i]);
        size_t file_bytes = (size_t)17 * (256 / type->block_elements) * type->block_bytes;
        assert_true(table->weight_bytes(type, 17, 256) >= file_bytes);
        bool is_wanted = table->input_wanted(type);
        assert_int_equal(is_wanted, type->take != NULL);
        assert_true(!is_wanted || table->input_bytes(3, 256) >= 3 * 256);
        assert_true(!is_wanted || table->input_units(3, 256) > 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_complete),
        cmocka_unit_test(test_every_weight_type),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
