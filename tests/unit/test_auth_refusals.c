/* auth_refusals: each has a method and a word, no two have both in common, and the words are fit
 * for labels. */
#include "auth/identity/auth_refusals.h"

#include "tests/unit/base_kit.h"

static void test_words(void **state)
{
    (void)state;
    for (int i = 0; i < AUTH_REFUSALS; i++) {
        const char *method = auth_refusals_method((enum auth_refusal)i);
        const char *word = auth_refusals_word((enum auth_refusal)i);
        assert_true(strspn(word, "abcdefghijklmnopqrstuvwxyz_") == strlen(word) && word[0] != '\0');
        for (int j = 0; j < i; j++)
            assert_true(strcmp(word, auth_refusals_word((enum auth_refusal)j)) != 0 ||
                        strcmp(method, auth_refusals_method((enum auth_refusal)j)) != 0);
    }
    assert_string_equal(auth_refusals_method(AUTH_REFUSAL_TOKEN_EXPIRED), "token");
    assert_string_equal(auth_refusals_word(AUTH_REFUSAL_TOKEN_EXPIRED), "exp");
    assert_string_equal(auth_refusals_method(AUTH_REFUSAL_APIKEY_WRONG), "apikey");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_words)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
