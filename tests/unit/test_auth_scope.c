#include "auth/credential/auth_scope.h"

#include "tests/unit/base_kit.h"

/* Words go in and out; every scope has one, and no word stands for two. */
static void test_scope_words(void **state)
{
    (void)state;
    struct buffer out;
    buffer_init(&out, 1024);
    auth_scopes_append(AUTH_SCOPES_ADMIN | AUTH_SCOPES_TENANT_ALL, &out);
    assert_string_equal(out.bytes, "[\"admin:read\",\"admin:write\",\"admin:keys\","
                                   "\"usage:read\",\"metrics:read\",\"inference\",\"priority\"]");
    buffer_clear(&out);
    auth_scopes_append(0, &out);
    assert_string_equal(out.bytes, "[]");
    buffer_deinit(&out);
    assert_int_equal(auth_scope_find(SLICE("admin:keys")), AUTH_SCOPE_ADMIN_KEYS);
    assert_int_equal(auth_scope_find(SLICE("inference")), AUTH_SCOPE_INFERENCE);
    assert_int_equal(auth_scope_find(SLICE("admin:key")), 0);
    assert_int_equal(auth_scope_find(SLICE("")), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_scope_words),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
