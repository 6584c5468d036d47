#include "kernels/cpu/amx/amx.h"

#include "tests/kit/tiles.h"
#include "tests/unit/kernels_kit.h"

/* As many operations as full tiles make. */
static void test_ceiling(void **state)
{
    (void)state;
    uint64_t sink = 3;
    if (!kernels_can_run("avx512"))
        return; /* the flags of tests/kit/tiles.c */
    uint64_t before = tiles_products();
    uint64_t operations = k_spin_int8_tiles(5, &sink);
    assert_int_equal(tiles_products() - before, 20);
    assert_int_equal(operations, (uint64_t)20 * 16 * 16 * 64 * 2);
    assert_int_equal(sink, 3 + 1 + 5 * 64 * 4 * 4);
    assert_false(tiles_are_held());
    if (kernels_can_run("amx"))
        assert_int_equal(k_spin_int8_amx(5, &sink), (uint64_t)20 * 16 * 16 * 64 * 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ceiling),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
