/* isa_table: no hole in a table, and the factors that the framework relies on.
 *
 * Owns:     nothing. A test of one table includes it.
 * Not here: what the operations do (isa_linear, isa_rows, isa_attention, isa_pack).
 */
#pragma once

#include "kernels/cpu/cpu_features.h"
#include "kernels/dispatch/registry.h"
#include "tests/unit/kernels_kit.h"

/* NULL in a build for another architecture, which lacks none that needs nothing. `needs` is what
 * the table's files are compiled with: it must be chosen nowhere else. */
static const struct kernel_table *isa_table_find(const char *isa, uint32_t needs)
{
    const struct kernel_table *table = registry_find(isa);
    assert_true(table != NULL || needs != 0);
    if (table != NULL)
        assert_int_equal(table->needs, needs);
    return table;
}

static void isa_table_check_complete(const struct kernel_table *table, bool has_f32_kv)
{
    if (table == NULL)
        return;
    assert_non_null(table->weight_bytes);
    assert_non_null(table->weight_pack);
    assert_non_null(table->weight_row);
    assert_non_null(table->input_wanted);
    assert_non_null(table->input_bytes);
    assert_non_null(table->input_units);
    assert_non_null(table->input_pack);
    assert_non_null(table->linear);
    assert_non_null(table->attention);
    assert_non_null(table->norm);
    assert_non_null(table->rope);
    assert_non_null(table->act);
    assert_non_null(table->softcap);
    assert_non_null(table->kv_write);
    assert_non_null(table->copy);
    assert_non_null(table->logits_stats);
    assert_non_null(table->row_exp);
    assert_non_null(table->row_above);
    assert_non_null(table->row_noise);
    assert_non_null(table->spin_int8);
    assert_non_null(table->spin_f32);
    assert_non_null(table->read);
    assert_int_equal(table->kv_types >> KV_TYPE_F32 & 1, has_f32_kv);
    for (int i = 0; i < KIT_KV_TYPES; i++)
        assert_true(table->kv_types >> kit_kv_types[i] & 1);
}

/* Every weight type has a path; inputs of coded ones are rounded, but in the table of floats. */
static void isa_table_check_types(const struct kernel_table *table, bool rounds_inputs)
{
    for (size_t i = 0; table != NULL && i < KIT_TYPES; i++) {
        const struct tensor_type_info *type = tensor_type_info(kit_types[i]);
        size_t file_bytes = (size_t)17 * (256 / type->block_elements) * type->block_bytes;
        assert_true(table->weight_bytes(type, 17, 256) >= file_bytes);
        bool is_wanted = table->input_wanted(type);
        assert_int_equal(is_wanted, rounds_inputs && type->take != NULL);
        assert_true(!is_wanted || table->input_bytes(3, 256) >= 3 * 256);
        assert_true(!is_wanted || table->input_units(3, 256) > 0);
    }
}
