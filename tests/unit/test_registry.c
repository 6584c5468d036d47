#include "kernels/dispatch/registry.h"

#include "kernels/cpu/cpu_features.h"
#include "tests/unit/kernels_kit.h"

static void test_names_and_tables_agree(void **state)
{
    (void)state;
    const char *const *names = registry_names();
    uint32_t count = strcmp(names[0], "cuda") == 0; /* it has no table of the processor's */
    for (; names[count] != NULL; count++)
        assert_string_equal(registry_find(names[count])->name, names[count]);
    assert_true(count >= 2);
    assert_null(registry_find("auto"));
    assert_null(registry_find(""));
}

static void test_choice(void **state)
{
    (void)state;
    const struct kernels_ops *ops;
    const struct kernel_table *table;
    const struct kernel_table *same;
    assert_int_equal(registry_choose(&ops, &table, NULL), STATUS_OK);
    assert_int_equal(registry_choose(&ops, &same, "auto"), STATUS_OK);
    assert_ptr_equal(table, same);
    assert_string_not_equal(table->name, "ref");
    assert_int_equal(table->needs & ~cpu_features(), 0);
    assert_int_equal(registry_choose(&ops, &table, "ref"), STATUS_OK);
    assert_string_equal(table->name, "ref");
    assert_ptr_equal(ops, &cpu_ops);
    assert_int_equal(registry_choose(&ops, &table, "amx9"), STATUS_UNSUPPORTED);
    assert_non_null(strstr(status_note()->message, "amx9"));
    assert_null(table);
}

/* In the build or not, without a device no engine computes on one, and the processor is chosen. */
static void test_device(void **state)
{
    (void)state;
    const struct kernels_ops *ops;
    const struct kernel_table *table;
    if (kernels_can_run("cuda"))
        skip();
    assert_int_equal(registry_choose(&ops, &table, "cuda"), STATUS_UNSUPPORTED);
    assert_non_null(strstr(status_note()->message, "kernels for cuda"));
    assert_int_equal(registry_choose(&ops, &table, "auto"), STATUS_OK);
    assert_ptr_equal(ops, &cpu_ops);
}

/* Each table runs exactly where the machine has what it needs, and says what is missing. */
static void test_needs(void **state)
{
    (void)state;
    const struct kernels_ops *ops;
    const struct kernel_table *table;
    for (const char *const *name = registry_names(); *name != NULL; name++) {
        const struct kernel_table *wanted = registry_find(*name);
        if (wanted == NULL)
            continue; /* a device's */
        uint32_t missing = wanted->needs & ~cpu_features();
        enum status status = registry_choose(&ops, &table, *name);
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
        cmocka_unit_test(test_device),
        cmocka_unit_test(test_needs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
