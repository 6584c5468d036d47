#include "engine/models/gguf_keys.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "config/base/mem.h"

static void write_all(struct gguf_keys *keys)
{
    static const bool bools[] = {true, false};
    static const int32_t numbers[] = {-1, 7};
    static const float reals[] = {0.5f, -2};
    gguf_keys_init(keys);
    gguf_keys_u32(keys, "a.u32", 4000000000u);
    gguf_keys_f32(keys, "a.f32", 1e-5f);
    gguf_keys_bool(keys, "a.bool", true);
    gguf_keys_string(keys, "a.string", SLICE("x\0y"));
    gguf_keys_strings(keys, "a.strings", 2);
    gguf_keys_add_string(keys, SLICE(""));
    gguf_keys_add_string(keys, SLICE("two"));
    gguf_keys_bools(keys, "a.bools", bools, 2);
    gguf_keys_i32s(keys, "a.i32s", numbers, 2);
    gguf_keys_f32s(keys, "a.f32s", reals, 2);
}

static void test_keys_are_read_back(void **state)
{
    struct gguf_keys keys;
    struct gguf *gguf;
    struct gguf_array array;
    struct slice text;
    uint32_t number;
    int32_t whole;
    float real;
    bool truth;
    (void)state;
    write_all(&keys);
    assert_int_equal(gguf_keys_finish(&keys, &gguf), STATUS_OK);
    assert_int_equal(gguf_key_count(gguf), 8);
    assert_int_equal(gguf_tensor_count(gguf), 0);
    assert_int_equal(gguf_get_u32(gguf, "a.u32", &number), STATUS_OK);
    assert_true(number == 4000000000u);
    assert_int_equal(gguf_get_f32(gguf, "a.f32", &real), STATUS_OK);
    assert_true(real == 1e-5f);
    assert_int_equal(gguf_get_bool(gguf, "a.bool", &truth), STATUS_OK);
    assert_true(truth);
    assert_int_equal(gguf_get_string(gguf, "a.string", &text), STATUS_OK);
    assert_true(slice_equals(text, SLICE("x\0y")));
    assert_int_equal(gguf_get_array(gguf, "a.strings", &array), STATUS_OK);
    assert_int_equal(gguf_array_next_string(&array, &text), STATUS_OK);
    assert_int_equal(text.length, 0);
    assert_int_equal(gguf_array_next_string(&array, &text), STATUS_OK);
    assert_true(slice_is(text, "two"));
    assert_int_equal(gguf_get_array(gguf, "a.bools", &array), STATUS_OK);
    assert_int_equal(gguf_array_next_u32(&array, &number), STATUS_OK);
    assert_int_equal(number, 1);
    assert_int_equal(gguf_get_array(gguf, "a.i32s", &array), STATUS_OK);
    assert_int_equal(gguf_array_next_i32(&array, &whole), STATUS_OK);
    assert_int_equal(whole, -1);
    assert_int_equal(gguf_get_array(gguf, "a.f32s", &array), STATUS_OK);
    assert_int_equal(gguf_array_next_f32(&array, &real), STATUS_OK);
    assert_true(real == 0.5f);
    gguf_close(gguf);
    gguf_keys_deinit(&keys);
}

static void test_a_key_twice_is_refused(void **state)
{
    struct gguf_keys keys;
    struct gguf *gguf;
    (void)state;
    gguf_keys_init(&keys);
    gguf_keys_u32(&keys, "a", 1);
    gguf_keys_u32(&keys, "a", 1);
    assert_int_equal(gguf_keys_finish(&keys, &gguf), STATUS_CORRUPT);
    gguf_keys_deinit(&keys);
}

static int fail_after(void *context, size_t bytes)
{
    int *left = context;
    (void)bytes;
    return (*left)-- > 0 ? 0 : 1;
}

static void test_no_memory_at_any_point_is_told(void **state)
{
    enum status status = STATUS_NO_MEMORY;
    int tries = 0;
    (void)state;
    for (; status == STATUS_NO_MEMORY; tries++) {
        struct gguf_keys keys;
        struct gguf *gguf;
        int left = tries;
        mem_hook_set(fail_after, &left);
        write_all(&keys);
        status = gguf_keys_finish(&keys, &gguf);
        mem_hook_set(NULL, NULL);
        gguf_close(gguf);
        gguf_keys_deinit(&keys);
    }
    assert_int_equal(status, STATUS_OK);
    assert_true(tries > 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_keys_are_read_back),
        cmocka_unit_test(test_a_key_twice_is_refused),
        cmocka_unit_test(test_no_memory_at_any_point_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
