#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "config/base/flag_word.h"

static void test_words(void **state)
{
    (void)state;
    static const char *const flags[] = {"--",        "-h",  "-x",   "--x", "---", "-dry-run",
                                        "--dry-run", "-1a", "-1.x", "-.",  "-.5", "-1-",
                                        "--1",       "-=",  "- x",  "-\t"};
    static const char *const others[] = {
        "", "-", "x", "x-", "-1", "-0.5", "-12345678901234567890", "5", "-1.", "\xe2\x80\x93x"};
    for (size_t i = 0; i < sizeof flags / sizeof flags[0]; i++) {
        if (!flag_word_is(flags[i]))
            fail_msg("%s is a flag", flags[i]);
    }
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        if (flag_word_is(others[i]))
            fail_msg("%s is no flag", others[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_words),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
