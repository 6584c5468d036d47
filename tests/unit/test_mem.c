#include "config/base/mem.h"

#include "tests/unit/base_kit.h"

static void test_alloc(void **state)
{
    (void)state;
    char *bytes = mem_alloc(100);
    assert_non_null(bytes);
    memset(bytes, 7, 100);
    bytes = mem_realloc(bytes, 1000);
    assert_non_null(bytes);
    assert_int_equal(bytes[99], 7);
    mem_free(bytes);
    void *nothing = mem_alloc(0);
    assert_non_null(nothing);
    mem_free(nothing);
    mem_free(NULL);
}

static void test_zalloc(void **state)
{
    (void)state;
    unsigned char *bytes = mem_zalloc(33, 3);
    assert_non_null(bytes);
    for (int i = 0; i < 99; i++)
        assert_int_equal(bytes[i], 0);
    mem_free(bytes);
    assert_null(mem_zalloc(SIZE_MAX / 2 + 1, 2));
    assert_null(mem_zalloc(SIZE_MAX, SIZE_MAX));
}

static void test_aligned(void **state)
{
    (void)state;
    for (size_t alignment = 1; alignment <= 4096; alignment *= 2) {
        void *memory = mem_alloc_aligned(alignment, 10);
        assert_non_null(memory);
        assert_int_equal((uintptr_t)memory % alignment, 0);
        mem_free(memory);
    }
    assert_null(mem_alloc_aligned(64, SIZE_MAX));
}

static void test_copies(void **state)
{
    (void)state;
    char *copy = mem_strndup("banyan", 3);
    assert_string_equal(copy, "ban");
    mem_free(copy);
    copy = mem_strdup("");
    assert_string_equal(copy, "");
    mem_free(copy);
    assert_null(mem_strndup("x", SIZE_MAX));
}

static int note_bytes(void *context, size_t bytes)
{
    *(size_t *)context = bytes;
    return 0;
}

static void test_hook(void **state)
{
    (void)state;
    int left = 3;
    mem_hook_set(kit_fail_at, &left);
    void *first = mem_alloc(1);
    void *second = mem_zalloc(1, 1);
    void *third = mem_strdup("x");
    void *fourth = mem_alloc_aligned(64, 1);
    assert_non_null(first);
    assert_non_null(second);
    assert_null(third);
    assert_non_null(fourth);
    left = 1;
    assert_null(mem_realloc(first, 10)); /* and `first` is still ours */
    left = 1;
    assert_null(mem_alloc_aligned(64, 1));
    size_t bytes = 0;
    mem_hook_set(note_bytes, &bytes);
    mem_free(mem_zalloc(3, 5));
    assert_int_equal(bytes, 15);
    mem_hook_set(NULL, NULL);
    mem_free(first);
    mem_free(second);
    mem_free(fourth);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_alloc),   cmocka_unit_test(test_zalloc),
        cmocka_unit_test(test_aligned), cmocka_unit_test(test_copies),
        cmocka_unit_test(test_hook),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
