#include "kernels/kernels_trial.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

static void test_each_word_sets_one_field(void **state)
{
    (void)state;
    static const char *const words[] = {"no-early", "no-graphs", "few-stages", "carveout"};
    struct kernels_trial all = {0};
    assert_false(kernels_trial_is_set(&all));
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        struct kernels_trial one = {0};
        assert_true(kernels_trial_set(&one, words[i]));
        assert_int_equal(one.no_early + one.no_graphs + one.few_stages + one.all_carveout, 1);
        assert_true(kernels_trial_is_set(&one));
        assert_true(kernels_trial_set(&all, words[i]));
    }
    assert_true(all.no_early && all.no_graphs && all.few_stages && all.all_carveout);
}

static void test_other_words_set_nothing(void **state)
{
    (void)state;
    struct kernels_trial trial = {0};
    assert_false(kernels_trial_set(&trial, ""));
    assert_false(kernels_trial_set(&trial, "no"));
    assert_false(kernels_trial_set(&trial, "no-early "));
    assert_false(kernels_trial_is_set(&trial));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_word_sets_one_field),
        cmocka_unit_test(test_other_words_set_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
