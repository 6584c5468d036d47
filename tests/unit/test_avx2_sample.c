#include "kernels/cpu/avx2/avx2.h"

#include "tests/unit/isa_sample.h"

static void test_same(void **state)
{
    (void)state;
    isa_sample_check("avx2");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_same),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
