#include "config/base/arena.h"

#include "tests/unit/base_kit.h"

#include "config/base/rng.h"

static void test_limits(void **state)
{
    (void)state;
    struct arena arena;
    assert_int_equal(arena_init(&arena, 100), STATUS_OK);
    assert_non_null(arena_take(&arena, 100, 1));
    assert_null(arena_take(&arena, 1, 1));
    assert_non_null(arena_take(&arena, 0, 1));
    arena_reset(&arena);
    assert_int_equal(arena.used_bytes, 0);
    assert_int_equal(arena.peak_bytes, 100);
    assert_null(arena_take(&arena, 101, 1));
    assert_non_null(arena_take(&arena, 1, 1));
    assert_null(arena_take(&arena, 37, 64)); /* 64 + 37 > 100 */
    assert_non_null(arena_take(&arena, 36, 64));
    assert_null(arena_take(&arena, SIZE_MAX, 1));
    arena_deinit(&arena);
    assert_null(arena.base);
}

static void test_no_memory(void **state)
{
    (void)state;
    struct arena arena;
    int left = 1;
    mem_hook_set(kit_fail_at, &left);
    assert_int_equal(arena_init(&arena, 100), STATUS_NO_MEMORY);
    mem_hook_set(NULL, NULL);
    arena_deinit(&arena);
}

/* Pieces are aligned, inside, and apart: each is filled with its own byte and keeps it. */
static void test_pieces(void **state)
{
    (void)state;
    struct arena arena;
    struct rng rng = {.seed = 2};
    assert_int_equal(arena_init(&arena, 8192), STATUS_OK);
    for (int round = 0; round < 50; round++) {
        unsigned char *pieces[256];
        size_t sizes[256];
        int count = 0;
        for (; count < 256; count++) {
            size_t alignment = (size_t)1 << rng_below(&rng, 7);
            sizes[count] = rng_below(&rng, 200);
            pieces[count] = arena_take(&arena, sizes[count], alignment);
            if (pieces[count] == NULL)
                break;
            assert_int_equal((uintptr_t)pieces[count] % alignment, 0);
            memset(pieces[count], count, sizes[count]);
        }
        assert_true(count > 20);
        for (int i = 0; i < count; i++) {
            for (size_t j = 0; j < sizes[i]; j++)
                assert_int_equal(pieces[i][j], i);
        }
        arena_reset(&arena);
    }
    assert_true(arena.peak_bytes <= 8192);
    arena_deinit(&arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_limits),
        cmocka_unit_test(test_no_memory),
        cmocka_unit_test(test_pieces),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
