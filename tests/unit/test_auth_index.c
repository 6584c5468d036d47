#include "auth/credential/auth_index.h"

#include "tests/unit/base_kit.h"

#include "config/base/rng.h"

enum { IDS = 3000 };
static char ids[IDS][16];

/* Random puts and gets against an array of what is in. */
static void test_model(void **state)
{
    (void)state;
    struct auth_index index = {0};
    struct rng rng = {.seed = 5};
    bool is_in[IDS] = {false};
    size_t count = 0;
    for (int i = 0; i < IDS; i++)
        snprintf(ids[i], sizeof ids[i], "id_%d", i);
    assert_null(auth_index_get(&index, SLICE("id_0")));
    for (int step = 0; step < 20000; step++) {
        size_t at = rng_below(&rng, IDS);
        void *wanted = is_in[at] ? ids[at] : NULL;
        assert_ptr_equal(auth_index_get(&index, slice_of(ids[at])), wanted);
        if (is_in[at] || rng_below(&rng, 4) != 0)
            continue;
        assert_int_equal(auth_index_reserve(&index, count + 1 + rng_below(&rng, 3)), STATUS_OK);
        auth_index_put(&index, slice_of(ids[at]), ids[at]);
        is_in[at] = true;
        count++;
        assert_int_equal(index.count, count);
        assert_true(index.capacity >= 2 * count);
    }
    assert_true(count > 2000);
    for (size_t i = 0; i < IDS; i++)
        assert_ptr_equal(auth_index_get(&index, slice_of(ids[i])), is_in[i] ? ids[i] : NULL);
    assert_null(auth_index_get(&index, SLICE("")));
    assert_null(auth_index_get(&index, SLICE("id_")));
    auth_index_deinit(&index);
    assert_int_equal(index.capacity, 0);
}

static void test_no_memory_changes_nothing(void **state)
{
    (void)state;
    struct auth_index index = {0};
    int left = 1;
    mem_hook_set(kit_fail_at, &left);
    assert_int_equal(auth_index_reserve(&index, 1), STATUS_NO_MEMORY);
    mem_hook_set(NULL, NULL);
    assert_int_equal(auth_index_reserve(&index, 8), STATUS_OK);
    auth_index_put(&index, SLICE("a"), ids[0]);
    left = 1;
    mem_hook_set(kit_fail_at, &left);
    assert_int_equal(auth_index_reserve(&index, 9), STATUS_NO_MEMORY);
    mem_hook_set(NULL, NULL);
    assert_int_equal(index.capacity, 16);
    assert_ptr_equal(auth_index_get(&index, SLICE("a")), ids[0]);
    auth_index_deinit(&index);
}

/* A larger copy knows what the table knows, holds nothing when there is room, and is exchanged
 * whole; ids may hold any byte. */
static void test_larger_copy(void **state)
{
    (void)state;
    static const char bytes[] = "\0\1\2\3\4\5\6\7";
    struct auth_index index = {0};
    struct auth_index larger;
    assert_int_equal(auth_index_reserve(&index, 8), STATUS_OK);
    for (int i = 0; i < 8; i++)
        auth_index_put(&index, (struct slice){&bytes[i], 1}, ids[i]);
    assert_int_equal(auth_index_copy_larger(&index, 8, &larger), STATUS_OK);
    assert_int_equal(larger.capacity, 0);
    auth_index_exchange(&index, &larger); /* nothing to exchange */
    assert_int_equal(index.capacity, 16);
    assert_int_equal(auth_index_copy_larger(&index, 9, &larger), STATUS_OK);
    assert_int_equal(larger.capacity, 32);
    assert_int_equal(index.capacity, 16);
    auth_index_exchange(&index, &larger);
    assert_int_equal(larger.capacity, 16);
    auth_index_deinit(&larger);
    for (int i = 0; i < 8; i++)
        assert_ptr_equal(auth_index_get(&index, (struct slice){&bytes[i], 1}), ids[i]);
    assert_null(auth_index_get(&index, SLICE("\0\1")));
    auth_index_deinit(&index);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_model),
        cmocka_unit_test(test_no_memory_changes_nothing),
        cmocka_unit_test(test_larger_copy),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
