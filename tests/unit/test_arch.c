#include "engine/models/arch.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static void test_rows_are_found_by_name(void **state)
{
    (void)state;
    const struct arch *gemma = arch_find(SLICE("gemma3"));
    assert_non_null(gemma);
    assert_string_equal(gemma->name, "gemma3");
    assert_int_equal(gemma->window_period, 6);
    assert_true(gemma->local_base == 10000);
    assert_ptr_not_equal(arch_find(SLICE("gemma")), gemma);
    assert_null(arch_find(SLICE("gemma4")));
    assert_null(arch_find(SLICE("")));
}

/* A row that contradicts itself would load tensors twice, or none. */
static void test_rows_make_sense(void **state)
{
    (void)state;
    uint32_t count = 0;
    for (const struct arch *arch; (arch = arch_at(count)) != NULL; count++) {
        const uint32_t features = arch->features;
        const struct slice name = slice_of(arch->name);
        const size_t classes = strlen(arch->classes);
        assert_ptr_equal(arch_find(name), arch);
        assert_true(classes > 0);
        assert_int_equal(arch->classes[classes - 1], ' ');
        assert_true((features & (ARCH_DENSE | ARCH_EXPERTS)) != 0);
        assert_true(((features & ARCH_RMS_NORM) != 0) != ((features & ARCH_LAYER_NORM) != 0));
        assert_true((features & (ARCH_PRE_NORMS | ARCH_POST_NORMS | ARCH_SUM_NORMS)) != 0);
        assert_false((features & ARCH_SUM_NORMS) && !(features & ARCH_LAYER_NORM));
        assert_int_equal((features & ARCH_SUM_NORMS) != 0, (features & ARCH_ENCODER) != 0);
        assert_int_not_equal(features & (ARCH_HEAD_NORMS | ARCH_ROW_NORMS),
                             ARCH_HEAD_NORMS | ARCH_ROW_NORMS);
        /* the feed-forward's input is normed as attention's is, under one name */
        const int feed_norms = ((features & ARCH_FEED_NORM) != 0) +
                               ((features & ARCH_FEED_NORM_PRE) != 0) +
                               ((features & ARCH_FEED_NORM_AS) != 0);
        assert_int_equal(feed_norms, (features & ARCH_PRE_NORMS) != 0);
        assert_false((features & ARCH_FEED_NORM_AS) && (features & ARCH_POST_NORMS));
        assert_int_not_equal((features & ARCH_GATE) != 0, (features & ARCH_NO_GATE) != 0);
        assert_int_equal(kernels_act_takes_two(arch->act), (features & ARCH_GATE) != 0);
        assert_false((features & ARCH_EXPERTS) && !(features & ARCH_GATE));
        assert_false((features & ARCH_FUSED_GATE) && !(features & ARCH_GATE));
        assert_false(arch->window_period > 0 && !(features & ARCH_WINDOW));
        assert_int_not_equal(arch->window_period, 1);
        assert_false(arch->window_period > 0 && arch->nope_period > 0);
        assert_false((features & ARCH_WINDOW_NEEDED) && arch->window > 0);
        assert_false((features & ARCH_LOCAL_ROPE) && arch->window_period == 0);
    }
    assert_int_equal(count, 14);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rows_are_found_by_name),
        cmocka_unit_test(test_rows_make_sense),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
