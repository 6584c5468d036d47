/* json_read: what becomes of each kind of value, strings with escapes, numbers of any size, names
 * that stand twice, what is refused and where; bounds; failing memory. */
#include "config/base/json_read.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#include "config/base/limits.h"
#include "config/base/mem.h"

static const struct json_read_limits wide = {.depth = 64, .values = 1 << 20};

static void accept(struct json_read *json, const char *text)
{
    if (json_read(json, slice_of(text), &wide) != STATUS_OK)
        fail_msg("%s: %s", text, status_note()->message);
}

static void refuse(struct slice text, enum status want, const char *message)
{
    struct json_read json;
    enum status status = json_read(&json, text, &wide);
    if (status != want || strstr(status_note()->message, message) == NULL)
        fail_msg("%.*s: %s '%s'", (int)text.length, text.bytes, status_name(status),
                 status_note()->message);
    assert_null(json.values);
}

static void values_stand_in_order(void **state)
{
    (void)state;
    struct json_read json;
    accept(&json, " {\"a\": [1, 2.5, {}], \"b\" :null,\"\":[true,false]} ");
    static const struct {
        enum json_read_kind kind;
        uint32_t next;
        uint32_t count;
    } want[] = {{JSON_READ_OBJECT, 12, 3}, {JSON_READ_STRING, 2, 1}, {JSON_READ_ARRAY, 6, 3},
                {JSON_READ_INTEGER, 4, 1}, {JSON_READ_FLOAT, 5, 3},  {JSON_READ_OBJECT, 6, 0},
                {JSON_READ_STRING, 7, 1},  {JSON_READ_NULL, 8, 0},   {JSON_READ_STRING, 9, 0},
                {JSON_READ_ARRAY, 12, 2},  {JSON_READ_TRUE, 11, 0},  {JSON_READ_FALSE, 12, 0}};
    assert_int_equal(json.count, 12);
    for (uint32_t i = 0; i < json.count; i++) {
        assert_int_equal(json.values[i].kind, want[i].kind);
        assert_int_equal(json.values[i].next, want[i].next);
        assert_int_equal(json.values[i].count, want[i].count);
    }
    assert_true(slice_is(json_read_text(&json.values[4]), "2.5"));
    /* What has no text has an empty one, however many values are in it. */
    static const uint32_t without[] = {0, 2, 5, 7, 9, 10, 11};
    for (size_t i = 0; i < sizeof without / sizeof without[0]; i++)
        assert_int_equal(json_read_text(&json.values[without[i]]).length, 0);
    assert_ptr_equal(json_read_member(&json, 0, "b"), &json.values[7]);
    assert_ptr_equal(json_read_member(&json, 0, ""), &json.values[9]);
    assert_null(json_read_member(&json, 0, "c"));
    assert_null(json_read_member(&json, 2, "a"));
    json_read_free(&json);
    accept(&json, "\"x\"");
    assert_int_equal(json.count, 1);
    json_read_free(&json);
}

static void strings_lose_their_escapes(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        struct slice want;
    } cases[] = {
        {"\"\"", {"", 0}},
        {"\"plain \xc3\xa4\"", {"plain \xc3\xa4", 8}},
        {"\"\\\"\\\\\\/\\b\\f\\n\\r\\t\"", {"\"\\/\b\f\n\r\t", 8}},
        {"\"a\\u00e4\\u20ac\\ud83d\\ude42z\"", {"a\xc3\xa4\xe2\x82\xac\xf0\x9f\x99\x82z", 11}},
        {"\"\\u0000x\"", {"\0x", 2}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct json_read json;
        accept(&json, cases[i].text);
        assert_true(slice_equals(json_read_text(&json.values[0]), cases[i].want));
        json_read_free(&json);
    }
    struct json_read json;
    accept(&json, "[\"\\n1\", \"2\", \"3\\t\"]"); /* several with escapes lie side by side */
    assert_true(slice_is(json_read_text(&json.values[1]), "\n1"));
    assert_true(slice_is(json_read_text(&json.values[2]), "2"));
    assert_true(slice_is(json_read_text(&json.values[3]), "3\t"));
    json_read_free(&json);
}

static void numbers_keep_their_text(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        bool is_integer;
        bool fits;
        int64_t integer;
        bool is_double;
        double number;
    } cases[] = {
        {"0", true, true, 0, true, 0},
        {"-0", true, true, 0, true, 0},
        {"9223372036854775807", true, true, INT64_MAX, true, 9223372036854775807.0},
        {"-9223372036854775808", true, true, INT64_MIN, true, -9223372036854775808.0},
        {"9223372036854775808", true, false, 0, true, 9223372036854775808.0},
        {"-9223372036854775809", true, false, 0, true, -9223372036854775808.0},
        {"123456789012345678901234567890", true, false, 0, true, 123456789012345678901234567890.0},
        {"1.0", false, false, 0, true, 1},
        {"-2.5e-3", false, false, 0, true, -0.0025},
        {"1E+2", false, false, 0, true, 100},
        {"1e400", false, false, 0, false, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct json_read json;
        int64_t integer = 77;
        double number = 77;
        accept(&json, cases[i].text);
        assert_true(slice_is(json_read_text(&json.values[0]), cases[i].text));
        assert_int_equal(json.values[0].kind,
                         cases[i].is_integer ? JSON_READ_INTEGER : JSON_READ_FLOAT);
        assert_int_equal(json_read_integer(&json.values[0], &integer), cases[i].fits);
        assert_int_equal(integer, cases[i].fits ? cases[i].integer : 77);
        assert_int_equal(json_read_number(&json.values[0], &number), cases[i].is_double);
        assert_true(number == (cases[i].is_double ? cases[i].number : 77));
        json_read_free(&json);
    }
    int64_t integer;
    double number;
    assert_false(json_read_integer(NULL, &integer));
    assert_false(json_read_number(NULL, &number));
}

static void other_texts_are_refused(void **state)
{
    (void)state;
    static const char *const broken[] = {
        "",      " ",         "{",         "[",           "]",    "[1,]",        "[,1]",
        "[1 2]", "{\"a\"}",   "{\"a\":}",  "{\"a\":1,}",  "{,}",  "{a:1}",       "{1:2}",
        "[1}",   "{\"a\":1]", "01",        "-",           "1.",   ".5",          "+1",
        "1e",    "1e+",       "0x1",       "nul",         "True", "NaN",         "1 2",
        "{} {}", "[1]]",      "\"\\x41\"", "\"\\u12g4\"", "'a'",  "[1,\"a\":2]",
    };
    for (size_t i = 0; i < sizeof broken / sizeof broken[0]; i++)
        refuse(slice_of(broken[i]), STATUS_INVALID, "is not valid");
    refuse(SLICE("\"abc"), STATUS_INVALID, "ends inside a string (byte 5)");
    refuse(SLICE("\"a\nb\""), STATUS_INVALID, "has a control character in a string (byte 3)");
    refuse(SLICE("\"a\0b\""), STATUS_INVALID, "has a control character in a string (byte 3)");
    refuse(SLICE("\"\xff\""), STATUS_INVALID, "is not valid UTF-8 (byte 2)");
    refuse(SLICE("\"\xed\xa0\x80\""), STATUS_INVALID, "is not valid UTF-8");
    refuse(SLICE("\"\\ud800\""), STATUS_INVALID, "half a surrogate pair");
    refuse(SLICE("\"\\ud800\\u0041\""), STATUS_INVALID, "half a surrogate pair");
    refuse(SLICE("\"\\udc00\""), STATUS_INVALID, "half a surrogate pair");
    refuse(SLICE("\xef\xbb\xbf{}"), STATUS_INVALID, "is not valid (byte 1)");
}

static void names_stand_once(void **state)
{
    (void)state;
    struct json_read json;
    refuse(SLICE("{\"a\":1,\"a\":2}"), STATUS_INVALID, "the same name twice");
    refuse(SLICE("[{\"b\":{\"a\":1,\"\\u0061\":2}}]"), STATUS_INVALID, "the same name twice");
    accept(&json, "[{\"a\":1},{\"a\":2,\"b\":{\"a\":3}}]");
    json_read_free(&json);
    struct buffer text; /* enough names for the table to grow */
    buffer_init(&text, 1 << 20);
    for (int twice = 0; twice < 2; twice++) {
        buffer_clear(&text);
        buffer_append_char(&text, '{');
        for (int i = 0; i < 5000; i++)
            buffer_printf(&text, "\"name%d\":%d,", i, i);
        buffer_append_text(&text, twice ? "\"name17\":0}" : "\"last\":0}");
        if (twice) {
            refuse(buffer_slice(&text), STATUS_INVALID, "the same name twice");
        } else {
            accept(&json, text.bytes);
            assert_int_equal(json.values[0].count, 5001);
            assert_true(slice_is(json_read_text(json_read_member(&json, 0, "name4999")), "4999"));
            json_read_free(&json);
        }
    }
    buffer_deinit(&text);
}

static void depth_and_count_are_bounded(void **state)
{
    (void)state;
    struct json_read json;
    const struct json_read_limits narrow = {.depth = 2, .values = 4};
    assert_int_equal(json_read(&json, SLICE("[[1,2]]"), &narrow), STATUS_OK);
    json_read_free(&json);
    assert_int_equal(json_read(&json, SLICE("[[1,2,3]]"), &narrow), STATUS_LIMIT);
    assert_string_equal(status_note()->message, "the JSON text has more than 4 values");
    assert_int_equal(json_read(&json, SLICE("[[[]]]"), &narrow), STATUS_LIMIT);
    assert_string_equal(status_note()->message, "the JSON text is nested deeper than 2 levels");
    struct buffer deep;
    buffer_init(&deep, 1 << 20);
    for (int i = 0; i < 10000; i++)
        buffer_append_text(&deep, "{\"a\":");
    assert_int_equal(json_read(&json, buffer_slice(&deep), &wide), STATUS_LIMIT);
    const struct json_read_limits deepest = {.depth = 10000, .values = 100000};
    buffer_append_char(&deep, '1');
    for (int i = 0; i < 10000; i++)
        buffer_append_char(&deep, '}');
    assert_int_equal(json_read(&json, buffer_slice(&deep), &deepest), STATUS_OK);
    assert_int_equal(json.count, 20001);
    json_read_free(&json);
    buffer_deinit(&deep);
}

static int fail_at(void *context, size_t bytes)
{
    (void)bytes;
    int *left = context;
    return (*left)-- == 0;
}

static void every_failing_allocation_is_survived(void **state)
{
    (void)state;
    int n = 0;
    for (;; n++) {
        struct json_read json;
        int left = n;
        mem_hook_set(fail_at, &left);
        enum status status = json_read(&json, SLICE("{\"a\\n\":1,\"b\":2}"), &wide);
        mem_hook_set(NULL, NULL);
        assert_int_equal(status, left >= 0 ? STATUS_OK : STATUS_NO_MEMORY);
        json_read_free(&json);
        if (left >= 0)
            break;
    }
    assert_int_equal(n, 3); /* values, strings, the table of names */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_stand_in_order),
        cmocka_unit_test(strings_lose_their_escapes),
        cmocka_unit_test(numbers_keep_their_text),
        cmocka_unit_test(other_texts_are_refused),
        cmocka_unit_test(names_stand_once),
        cmocka_unit_test(depth_and_count_are_bounded),
        cmocka_unit_test(every_failing_allocation_is_survived),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
