#include "config/base/slice.h"

#include "tests/unit/base_kit.h"

#include "config/base/rng.h"

static void test_compare(void **state)
{
    (void)state;
    assert_true(slice_is(SLICE("abc"), "abc"));
    assert_false(slice_is(SLICE("abc"), "ab"));
    assert_false(slice_is(SLICE("abc"), "abd"));
    assert_true(slice_is((struct slice){NULL, 0}, ""));
    assert_int_equal(slice_of(NULL).length, 0);
    assert_true(slice_starts_with(SLICE("abc"), SLICE("ab")));
    assert_true(slice_starts_with(SLICE("abc"), SLICE("")));
    assert_false(slice_starts_with(SLICE("ab"), SLICE("abc")));
    assert_int_equal(SLICE("a\0b").length, 3);
}

static void test_append(void **state)
{
    (void)state;
    struct buffer buffer;
    buffer_init(&buffer, 1000);
    buffer_append_text(&buffer, "one ");
    buffer_append_char(&buffer, '2');
    buffer_append_slice(&buffer, SLICE(" three"));
    buffer_printf(&buffer, " %d %s", 4, "five");
    buffer_append(&buffer, NULL, 0);
    assert_int_equal(buffer.status, STATUS_OK);
    assert_string_equal(buffer.bytes, "one 2 three 4 five");
    assert_int_equal(buffer.length, strlen(buffer.bytes));
    buffer_consume(&buffer, 4);
    assert_string_equal(buffer.bytes, "2 three 4 five");
    buffer_consume(&buffer, buffer.length);
    assert_string_equal(buffer.bytes, "");
    buffer_append_text(&buffer, "x");
    buffer_clear(&buffer);
    assert_string_equal(buffer.bytes, "");
    assert_int_equal(buffer_slice(&buffer).length, 0);
    buffer_deinit(&buffer);
    assert_null(buffer.bytes);
}

static void test_numbers(void **state)
{
    (void)state;
    struct buffer buffer;
    buffer_init(&buffer, 30);
    buffer_append_number(&buffer, 0);
    buffer_append_number(&buffer, 10);
    buffer_append_number(&buffer, UINT64_MAX);
    assert_string_equal(buffer.bytes, "01018446744073709551615");
    buffer_append_number(&buffer, 12345678);
    assert_int_equal(buffer.status, STATUS_LIMIT);
    assert_string_equal(buffer.bytes, "01018446744073709551615");
    buffer_deinit(&buffer);
}

static void test_limit(void **state)
{
    (void)state;
    struct buffer buffer;
    buffer_init(&buffer, 10);
    buffer_append_text(&buffer, "1234567890");
    assert_int_equal(buffer.status, STATUS_OK);
    buffer_append_char(&buffer, 'x');
    assert_int_equal(buffer.status, STATUS_LIMIT);
    assert_string_equal(buffer.bytes, "1234567890");
    buffer_append(&buffer, "", 0); /* and it stays refused */
    assert_int_equal(buffer.status, STATUS_LIMIT);
    buffer_clear(&buffer);
    buffer_printf(&buffer, "%s", "12345678901");
    assert_int_equal(buffer.status, STATUS_LIMIT);
    assert_int_equal(buffer.length, 0);
    buffer_clear(&buffer);
    buffer_printf(&buffer, "%s", "1234567890");
    assert_int_equal(buffer.status, STATUS_OK);
    buffer_deinit(&buffer);
}

static void test_no_memory(void **state)
{
    (void)state;
    struct buffer buffer;
    int left = 2;
    buffer_init(&buffer, 100000);
    mem_hook_set(kit_fail_at, &left);
    buffer_append_text(&buffer, "kept");
    for (int i = 0; i < 100; i++)
        buffer_append_text(&buffer, "0123456789");
    mem_hook_set(NULL, NULL);
    assert_int_equal(buffer.status, STATUS_NO_MEMORY);
    assert_memory_equal(buffer.bytes, "kept0123456789", 14);
    assert_true(buffer.length < 100);
    buffer_deinit(&buffer);
}

static void test_json_string(void **state)
{
    static const struct {
        struct slice text;
        const char *json;
    } cases[] = {
        {{"", 0}, "\"\""},
        {{"plain", 5}, "\"plain\""},
        {{"a\"b\\c", 5}, "\"a\\\"b\\\\c\""},
        {{"\n\r\t\x01\x7f", 5}, "\"\\n\\u000d\\u0009\\u0001\\u007f\""},
        {{"\0", 1}, "\"\\u0000\""},
        {{"\xc3\xa9\xe2\x82\xac\xf0\x9f\x8c\xb3", 9}, "\"\xc3\xa9\xe2\x82\xac\xf0\x9f\x8c\xb3\""},
        {{"\xff", 1}, "\"\xef\xbf\xbd\""},
        {{"a\xc3", 2}, "\"a\xef\xbf\xbd\""},                               /* cut short */
        {{"\xed\xa0\x80", 3}, "\"\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\""}, /* a surrogate */
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct buffer buffer;
        buffer_init(&buffer, 100);
        buffer_append_json_string(&buffer, cases[i].text);
        assert_string_equal(buffer.bytes, cases[i].json);
        buffer_deinit(&buffer);
    }
}

/* Random appends and consumes against a plain array. */
static void test_model(void **state)
{
    (void)state;
    struct rng rng = {.seed = 1};
    struct buffer buffer;
    static char model[100000];
    size_t length = 0;
    buffer_init(&buffer, sizeof model);
    for (int step = 0; step < 20000; step++) {
        if (rng_below(&rng, 4) != 0) {
            char piece[64];
            size_t count = rng_below(&rng, sizeof piece);
            for (size_t i = 0; i < count; i++)
                piece[i] = (char)rng_below(&rng, 256);
            if (length + count > sizeof model)
                continue;
            memcpy(model + length, piece, count);
            length += count;
            buffer_append(&buffer, piece, count);
        } else {
            size_t count = rng_below(&rng, length + 1);
            memmove(model, model + count, length - count);
            length -= count;
            buffer_consume(&buffer, count);
        }
        assert_int_equal(buffer.length, length);
        if (length > 0)
            assert_memory_equal(buffer.bytes, model, length);
        assert_true(buffer.bytes == NULL || buffer.bytes[length] == '\0');
    }
    assert_int_equal(buffer.status, STATUS_OK);
    buffer_deinit(&buffer);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_compare),   cmocka_unit_test(test_append),
        cmocka_unit_test(test_numbers),   cmocka_unit_test(test_limit),
        cmocka_unit_test(test_no_memory), cmocka_unit_test(test_json_string),
        cmocka_unit_test(test_model),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
