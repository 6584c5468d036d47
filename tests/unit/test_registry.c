#include "kernels/registry.h"

#include "kernels/cpu/cpu_features.h"
#include "tests/unit/kernels_kit.h"

static void test_names_and_tables_agree(void **state)
{
    (void)state;
    const char *const *names = registry_names();
    uint32_t count = 0;
    for (; names[count] != NULL; count++)
        assert_string_equal(registry_find(names[count])->name, names[count]);
    assert_true(count >= 2);
    assert_null(registry_find("auto"));
    assert_null(registry_find(""));
}

static void test_choice(void **state)
{
    (void)state;
    const struct kernel_table *table;
    const struct kernel_table *same;
    assert_int_equal(registry_choose(&table, NULL), STATUS_OK);
    assert_int_equal(registry_choose(&same, "auto"), STATUS_OK);
    assert_ptr_equal(table, same);
    assert_string_not_equal(table->name, "ref");
    assert_int_equal(table->needs & ~cpu_features(), 0);
    assert_int_equal(registry_choose(&table, "ref"), STATUS_OK);
    assert_string_equal(table->name, "ref");
    assert_int_equal(registry_choose(&table, "amx9"), STATUS_UNSUPPORTED);
    assert_non_null(strstr(status_note()->message, "amx9"));
    assert_int_equal(registry_choose(&table, "cuda"), STATUS_UNSUPPORTED);
    assert_non_null(strstr(status_note()->message, "cannot run an engine yet"));
    assert_null(table);
}

/* Each table runs exactly where the machine has what it needs, and says what is missing. */
static void test_needs(void **state)
{
    (void)state;
    const struct kernel_table *table;
    for (const char *const *name = registry_names(); *name != NULL; name++) {
        uint32_t missing = registry_find(*name)->needs & ~cpu_features();
        enum status status = registry_choose(&table, *name);
        assert_int_equal(status, missing == 0 ? STATUS_OK : STATUS_UNSUPPORTED);
        assert_int_equal(kernels_can_run(*name), missing == 0);
        if (missing != 0)
            assert_non_null(strstr(status_note()->message, "lacks"));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names_and_tables_agree),
        cmocka_unit_test(test_choice),
        cmocka_unit_test(test_needs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
