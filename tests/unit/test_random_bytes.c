#include "config/base/random_bytes.h"

#include "tests/unit/base_kit.h"

static void test_secure(void **state)
{
    (void)state;
    unsigned char a[64] = {0};
    unsigned char b[64] = {0};
    random_bytes(a, sizeof a);
    random_bytes(b, sizeof b);
    assert_memory_not_equal(a, b, sizeof a);
    unsigned char guarded[3] = {1, 2, 3};
    random_bytes(guarded + 1, 0);
    assert_int_equal(guarded[1], 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_secure),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
